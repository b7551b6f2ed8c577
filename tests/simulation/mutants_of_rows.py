"""Bugs in row changes that rerun after a lost race, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. `ROW_MUTANTS` names the scenario that finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from txlog.core.changes.plan._file_choice import FileChoice
from txlog.core.changes.tasks import RowWork
from txlog.core.changes.tasks._rewrite import FileRewriter
from txlog.core.changes.tasks.operations import KnownKeys, MergeRows
from txlog.core.changes.tasks.operations import _merge_source as merge_source
from txlog.core.changes.tasks.operations._upsert import UpsertRows
from txlog.core.format.statistics_read import num_records
from txlog.core.row_rules import KeyIndex
from txlog.core.versions import _commit_loop as alone
from txlog.core.versions._commit_loop import CommitRun, _Seen
from txlog.core.versions.decisions import conflicts
from txlog.core.versions.decisions.conflicts import Rebase, Reexecute, decide
from txlog.testing.faults import FaultyFileStore

Mutant = Callable[[pytest.MonkeyPatch], None]


def choose(patch: pytest.MonkeyPatch, chosen: Callable[[FileChoice, list[Any]], list[Any]]) -> None:
    """Of the files to look into, take only those that are chosen, and exclude the others."""
    new = FileChoice.new

    def fewer(self: FileChoice, *given: Any) -> list[Any]:
        found = new(self, *given)
        left = chosen(self, found)
        self.excluded.update({add.live_key for add in found} - {add.live_key for add in left})
        return left

    patch.setattr(FileChoice, "new", fewer)


def does_not_execute_again(patch: pytest.MonkeyPatch) -> None:
    """A race that is lost to a change of files is taken for one lost to a change of nothing."""

    def rebased(proposal: Any, winners: Any) -> Any:
        decision = decide(proposal, winners)
        return Rebase(decision.version) if isinstance(decision, Reexecute) else decision

    patch.setattr(conflicts, "decide", rebased)


def looks_into_no_file_after_its_first_execution(patch: pytest.MonkeyPatch) -> None:
    """A row with the key that was appended meanwhile is not found."""
    has_looked: set[int] = set()

    def once(self: FileChoice, adds: Any) -> list[Any]:
        found = adds if id(self) not in has_looked else []
        has_looked.add(id(self))
        return found

    choose(patch, once)


def remembers_what_is_dead_by_the_path_alone(patch: pytest.MonkeyPatch) -> None:
    """The vector that it saw first stands for the one that is live: rows that others deleted come back."""
    dead_rows = RowWork._dead_rows

    def by_path(self: Any, add: Any, *rest: Any) -> Any:
        known = self.__dict__.setdefault("dead_by_path", {})
        if add.path not in known:
            known[add.path] = dead_rows(self, add, *rest)
        return known[add.path]

    patch.setattr(RowWork, "_dead_rows", by_path)


def skips_files_that_another_engine_moved_rows_into(patch: pytest.MonkeyPatch) -> None:
    """A file that says of itself that it changes no data is not looked into."""
    choose(patch, lambda self, adds: [add for add in adds if add.data_change])


def keeps_the_new_versions_of_rows_that_others_deleted(patch: pytest.MonkeyPatch) -> None:
    images = FileRewriter._images
    patch.setattr(FileRewriter, "_images", lambda self, touched: self._written.images or images(self, touched))


def removes_a_vector_that_is_no_longer_live(patch: pytest.MonkeyPatch) -> None:
    """The ``remove`` names the file with the vector that the first execution saw."""
    touched_of = RowWork._touched

    def first_seen(self: Any, add: Any, vectors: Any) -> Any:
        touched = touched_of(self, add, vectors)
        seen = self.__dict__.setdefault("vector_seen", {}).setdefault(add.path, add.deletion_vector)
        return replace(touched, add=replace(add, deletion_vector=seen))

    patch.setattr(RowWork, "_touched", first_seen)


def executes_again_before_its_put_is_settled(patch: pytest.MonkeyPatch) -> None:
    """After a lost answer it takes the next version, with other files: its first put may have landed."""
    take = CommitRun._take

    def unsettled(self: Any, sent: Any) -> Any:
        if self.plan is None:
            return take(self, sent)
        self.attempts += 1
        self._begin_put()
        outcome = self.versions.put(sent)
        return _Seen.MINE if outcome is alone.PutOutcome.WRITTEN else _Seen.FOREIGN

    def rebased(proposal: Any, winners: Any) -> Any:
        return decide(replace(proposal, txn_id="another") if proposal.is_reexecutable else proposal, winners)

    patch.setattr(CommitRun, "_take", unsettled)
    patch.setattr(conflicts, "decide", rebased)


def names_vectors_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    real = FaultyFileStore.make_durable

    def without_vectors(self: Any, paths: Any, *, with_contents: bool = False) -> None:
        real(self, [path for path in paths if not path.endswith(".bin")], with_contents=with_contents)

    patch.setattr(FaultyFileStore, "make_durable", without_vectors)


def skips_files_without_statistics(patch: pytest.MonkeyPatch) -> None:
    """Absent statistics are taken for a proof that no row matches."""
    choose(patch, lambda self, adds: [add for add in adds if num_records(add.stats) is not None])


def counts_only_the_rows_that_it_matched(patch: pytest.MonkeyPatch) -> None:
    """The cardinality of a vector leaves out the rows that were dead before."""
    marked = FileRewriter._marked

    def miscounted(self: Any, touched: Any) -> Any:
        changed = marked(self, touched)
        matched = {each.add.key: len(each.replaced) for each in touched}
        return replace(
            changed,
            marked=[
                (add, replace(vector, cardinality=matched[add.key]), stats) for add, vector, stats in changed.marked
            ],
        )

    patch.setattr(FileRewriter, "_marked", miscounted)


def keeps_both_rows_of_one_key(patch: pytest.MonkeyPatch) -> None:
    """Two rows of the source with one key are both written."""
    patch.setattr(KeyIndex, "first_repeated", lambda self: None)
    patch.setattr(KnownKeys, "keep_written", lambda *given: None)


def forgets_which_keys_are_there_now(patch: pytest.MonkeyPatch) -> None:
    """An insert of absent keys goes by what its first execution found."""
    inserted = UpsertRows.inserted

    def at_first(self: Any, touched: Any) -> Any:
        return self.__dict__.setdefault("inserted_at_first", inserted(self, touched))

    patch.setattr(UpsertRows, "inserted", at_first)


def forgets_which_source_rows_join_now(patch: pytest.MonkeyPatch) -> None:
    """A merge inserts the source rows that joined nothing in its first execution."""
    inserted = MergeRows.inserted

    def at_first(self: Any, touched: Any) -> Any:
        return self.__dict__.setdefault("inserted_at_first", inserted(self, touched))

    patch.setattr(MergeRows, "inserted", at_first)


def lists_files_whose_keys_it_knew_first(patch: pytest.MonkeyPatch) -> None:
    """The names of files are in another order than the files."""
    new = FileChoice.new

    def unsorted(self: FileChoice, live: Any, looked: Any) -> list[Any]:
        found = new(self, live, looked)
        if self._first is not None and self._first[0] is live:
            looked_into = {add.live_key for add in found}
            known = [row for row in self._first[1] if live.keys[row] not in looked_into]
            self._first = live, [*known, *(row for row in self._first[1] if row not in known)]
        return found

    patch.setattr(FileChoice, "new", unsorted)


def joins_source_rows_that_a_term_leaves_out(patch: pytest.MonkeyPatch) -> None:
    """A term of the source alone does not limit which of its rows join."""
    split = merge_source.split_join
    patch.setattr(merge_source, "split_join", lambda condition: replace(split(condition), source=None))


ROW_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (does_not_execute_again, "two-upserters-of-one-key"),
        (looks_into_no_file_after_its_first_execution, "upserter-and-appenders-of-its-key"),
        (remembers_what_is_dead_by_the_path_alone, "deleter-and-updater"),
        (skips_files_that_another_engine_moved_rows_into, "upserter-and-compactor"),
        (keeps_the_new_versions_of_rows_that_others_deleted, "deleter-and-updater"),
        (removes_a_vector_that_is_no_longer_live, "updater-upserter-and-deleter"),
        (executes_again_before_its_put_is_settled, "two-upserters-of-one-key"),
        (names_vectors_before_they_are_durable, "upserter-power-cut"),
        (skips_files_without_statistics, "upserter-and-appenders-of-its-key"),
        (counts_only_the_rows_that_it_matched, "updater-upserter-and-deleter"),
        (keeps_both_rows_of_one_key, "upserter-restarts"),
        (forgets_which_keys_are_there_now, "inserter-beside-other-engines"),
        (forgets_which_source_rows_join_now, "range-merger-and-appender"),
        (lists_files_whose_keys_it_knew_first, "upserter-in-turn-and-deleter"),
        (joins_source_rows_that_a_term_leaves_out, "merger-and-appender-of-its-keys"),
    )
}
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""
