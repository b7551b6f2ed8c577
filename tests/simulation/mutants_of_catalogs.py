"""Bugs in how the commits of a managed table are staged, accepted, read back and published.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `CATALOG_MUTANTS` is a part of
``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from txlog.core import ambient
from txlog.core.format.log_names import STAGED
from txlog.core.store._base import PutOutcome
from txlog.core.store._versions import FolderVersions
from txlog.core.versions._commit_loop import CommitRun, _Seen
from txlog.errors import AccessError, ForkedTableError, NotFoundError, TableNotFoundError, TxlogError
from txlog.unity.catalog_log import CatalogLog
from txlog.unity.credentials import VendedCredentials
from txlog.unity.publications import Publications

__all__ = ["CATALOG_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def publishes_before_the_catalog_has_accepted(patch: pytest.MonkeyPatch) -> None:
    """The loser of a race has published its commit as the version that another one became."""
    real = CatalogLog._propose

    def propose(self: Any, attempt: Any) -> Any:
        self._folder.put_if_absent(FolderVersions.name_of(attempt.version), attempt.body)
        return real(self, attempt)

    patch.setattr(CatalogLog, "_propose", propose)


def reports_what_it_has_not_published(patch: pytest.MonkeyPatch) -> None:
    """The catalog forgets the only record of a commit."""
    patch.setattr(CatalogLog, "publish", lambda self, version: None)
    patch.setattr(CatalogLog, "make_durable", lambda self, version: None)
    patch.setattr(CatalogLog, "_reportable", lambda self, known: max(known.commits, default=None))


def acknowledges_what_is_accepted_and_not_published(patch: pytest.MonkeyPatch) -> None:
    """A catalog that forgets the commit then accepts another one as the same version."""
    patch.setattr(CatalogLog, "_acknowledged", lambda self, version, before: PutOutcome.WRITTEN)


def takes_a_published_file_for_its_own(patch: pytest.MonkeyPatch) -> None:
    """Whatever is published under the name of a version is taken for the commit that the catalog has accepted."""
    real = Publications.publish

    def publish(self: Any, record: Any) -> None:
        try:
            real(self, record)
        except ForkedTableError:
            self._compared[record.version] = record.file_name

    patch.setattr(Publications, "publish", publish)


def publishes_over_another_commit(patch: pytest.MonkeyPatch) -> None:
    """What the catalog says now replaces what was published before."""
    real = Publications.publish

    def publish(self: Any, record: Any) -> None:
        try:
            real(self, record)
        except ForkedTableError:
            body = self._folder.read(f"{STAGED}/{record.file_name}")
            self._folder.put(FolderVersions.name_of(record.version), body)

    patch.setattr(Publications, "publish", publish)


def repairs_by_what_the_catalog_says(patch: pytest.MonkeyPatch) -> None:
    """What the catalog has forgotten is not offered to it, since its word alone makes a version."""
    patch.setattr(CatalogLog, "_forks", lambda self: [])


def leaves_a_gap_after_version_0(patch: pytest.MonkeyPatch) -> None:
    """The server takes the first commit at any version."""
    real = CatalogLog._staged

    def staged(self: Any, attempt: Any, known: Any) -> Any:
        record = real(self, attempt, known)
        return msgspec.structs.replace(record, version=record.version + (attempt.version == 1))

    patch.setattr(CatalogLog, "_staged", staged)


def trusts_a_refusal(patch: pytest.MonkeyPatch) -> None:
    """A commit is lost since the catalog said 409, and is made again, although it is a repeat of this very commit."""
    _loses_its_own(patch, lambda run, version: True)


def takes_a_published_commit_of_its_own_for_a_loss(patch: pytest.MonkeyPatch) -> None:
    """Whose commit a version is, is asked of the records alone, which the catalog drops once they are published."""
    _loses_its_own(patch, lambda run, version: run.versions._known.commits.get(version) is None)


def _loses_its_own(patch: pytest.MonkeyPatch, is_lost: Callable[[Any, int], bool]) -> None:
    real = CommitRun._read_back

    def read_back(self: Any, attempt: Any) -> Any:
        seen = real(self, attempt)
        if seen is not _Seen.MINE or not is_lost(self, attempt.version):
            return seen
        self.winner = self.log.commits.parsed(attempt.body, attempt.version)
        self.proposal = msgspec.structs.replace(self.proposal, txn_id=ambient.uuid4())
        return _Seen.FOREIGN

    patch.setattr(CommitRun, "_read_back", read_back)


def takes_a_staged_file_without_the_catalogs_word(patch: pytest.MonkeyPatch) -> None:
    """What somebody staged as the next version is read as if it were that version."""
    real = CatalogLog.read

    def read(self: Any, version: int) -> bytes:
        try:
            return real(self, version)
        except NotFoundError:
            for meta in self._folder.list_from(f"{STAGED}/{version:020}"):
                if meta.name.startswith(f"{STAGED}/{version:020}."):
                    return bytes(self._folder.read(meta.name))
            raise

    patch.setattr(CatalogLog, "read", read)


def reads_above_the_ceiling(patch: pytest.MonkeyPatch) -> None:
    """A published file is a version, even one that the catalog does not name."""
    real_read, real_tail = CatalogLog.read, CatalogLog.tail

    def read(self: Any, version: int) -> bytes:
        try:
            return real_read(self, version)
        except NotFoundError:
            return bytes(self._published_files.read(version))

    def tail(self: Any, after: int, listed: Any = None) -> Any:
        return {**self._published_files.tail(after), **real_tail(self, after, listed)}

    patch.setattr(CatalogLog, "read", read)
    patch.setattr(CatalogLog, "tail", tail)


def removes_what_is_not_published(patch: pytest.MonkeyPatch) -> None:
    """A staged file is removed once its version is decided, though it is the only copy of the winner."""

    def forget(self: Any) -> None:
        for key, name in list(self._sent.items()):
            if key[0] in self._known.commits:
                del self._sent[key]
                self._folder.delete(f"{STAGED}/{name}")

    patch.setattr(CatalogLog, "_forget_losers", forget)


def takes_a_lock_clash_for_a_repeat(patch: pytest.MonkeyPatch) -> None:
    """The catalog says 409 since another commit is in progress, and this one counts as accepted."""
    _accepted_if(patch, lambda refused: refused.kind == "UpdateRequirementConflictException")


def takes_a_dropped_table_for_a_commit_that_is_done(patch: pytest.MonkeyPatch) -> None:
    """The catalog says 404 to a commit, and it counts as accepted."""
    _accepted_if(patch, lambda refused: refused.status == 404)


def _accepted_if(patch: pytest.MonkeyPatch, is_meant: Callable[[Any], bool]) -> None:
    real = CatalogLog._after_refusal

    def after_refusal(self: Any, refused: Any, version: int) -> PutOutcome:
        return PutOutcome.WRITTEN if is_meant(refused) else real(self, refused, version)

    patch.setattr(CatalogLog, "_after_refusal", after_refusal)


def goes_over_to_a_table_of_the_same_name(patch: pytest.MonkeyPatch) -> None:
    """Whatever table the name has now is the one that was opened."""
    real = CatalogLog._learn

    def learn(self: Any, answer: Any) -> Any:
        self._table_id = answer.metadata.table_uuid
        return real(self, answer)

    patch.setattr(CatalogLog, "_learn", learn)


def takes_a_renamed_table_for_a_commit_that_did_not_land(patch: pytest.MonkeyPatch) -> None:
    """After a lost answer, a table that cannot be found says that nothing landed."""
    _fails_if_it_cannot_look(patch, TableNotFoundError)


def takes_an_expired_token_for_a_commit_that_did_not_land(patch: pytest.MonkeyPatch) -> None:
    """After a lost answer, a catalog that refuses to tell says that nothing landed."""
    _fails_if_it_cannot_look(patch, AccessError)


def _fails_if_it_cannot_look(patch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    real = CatalogLog._propose

    def propose(self: Any, attempt: Any) -> PutOutcome:
        outcome = real(self, attempt)
        if outcome is PutOutcome.UNKNOWN:
            try:
                self._refreshed()
            except TxlogError as error:
                if isinstance(error, kind):
                    raise
        return outcome

    patch.setattr(CatalogLog, "_propose", propose)


def keeps_credentials_that_a_store_has_refused(patch: pytest.MonkeyPatch) -> None:
    """Credentials that ended before their time are used on, until the time is over."""
    patch.setattr(VendedCredentials, "renew", lambda self: None)


CATALOG_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (publishes_before_the_catalog_has_accepted, "a-catalog-decides-between-appenders"),
        (reports_what_it_has_not_published, "a-catalog-that-refuses-repeats"),
        (acknowledges_what_is_accepted_and_not_published, "a-catalog-that-loses-a-commit"),
        (takes_a_published_file_for_its_own, "a-catalog-that-loses-a-commit"),
        (publishes_over_another_commit, "a-catalog-that-loses-a-commit"),
        (repairs_by_what_the_catalog_says, "a-catalog-that-loses-a-commit"),
        (leaves_a_gap_after_version_0, "a-catalog-decides-between-appenders"),
        (trusts_a_refusal, "a-catalog-that-refuses-repeats"),
        (takes_a_published_commit_of_its_own_for_a_loss, "a-catalog-that-refuses-repeats"),
        (takes_a_staged_file_without_the_catalogs_word, "a-catalog-decides-between-appenders"),
        (reads_above_the_ceiling, "a-catalog-and-a-stray-file"),
        (removes_what_is_not_published, "a-catalog-decides-between-appenders"),
        (takes_a_lock_clash_for_a_repeat, "a-catalog-whose-locks-clash"),
        (takes_an_expired_token_for_a_commit_that_did_not_land, "a-catalog-whose-tokens-expire"),
        (keeps_credentials_that_a_store_has_refused, "a-catalog-that-renews-credentials"),
        (takes_a_dropped_table_for_a_commit_that_is_done, "a-catalog-that-drops-the-table"),
        (takes_a_renamed_table_for_a_commit_that_did_not_land, "a-catalog-that-renames-the-table"),
        (goes_over_to_a_table_of_the_same_name, "a-catalog-that-makes-the-table-again"),
    )
}
