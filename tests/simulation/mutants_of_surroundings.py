"""Bugs of a writer that forgets what is around it: other engines, long lives, clocks that stop, observers that fail.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `SURROUNDINGS` is a part of ``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.core import ambient
from txlog.core.operations import _batch_write as batch_write
from txlog.core.store._base import ObjectMeta
from txlog.core.util import logger
from txlog.core.versions import _commit_context as commit_context
from txlog.core.versions._commit_context import CommitContext
from txlog.core.versions._commit_loop import CommitRun
from txlog.core.versions.decisions.checkpoint import v2
from txlog.core.versions.files import _delta_log as delta_log
from txlog.core.versions.files._file_loader import FileLoader
from txlog.core.writing import UnsentFiles
from txlog.errors import NotFoundError, StorageError
from txlog.loading import adopted_files as taken_over_files
from txlog.testing.faults import FaultyFileStore

__all__ = ["SURROUNDINGS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


# --- other engines ----------------------------------------------------------------------------------------------


def takes_others_commits_below_the_newest_for_synced(patch: pytest.MonkeyPatch) -> None:
    """Two foreign commits lie on top, and neither is on disk: the lower one is a hole after a power cut."""
    patch.setattr(commit_context, "unsynced_versions", lambda commits, version, *_, **__: [version])


def syncs_the_newest_commit_alone_before_it_seals(patch: pytest.MonkeyPatch) -> None:
    """Two foreign commits lie below what a sink seals; its writer then takes both for synced."""

    def make_durable(self: Any, version: int, *_: Any, **__: Any) -> None:
        if version > self.durable_version:
            self.log.versions.make_durable(version)
            self.durable_version = version

    patch.setattr(CommitContext, "make_version_durable", make_durable)


def syncs_the_newest_commit_alone_before_a_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """A power cut leaves that one, no checkpoint of it, and a hole below it."""
    patch.setattr(delta_log, "unsynced_versions", lambda commits, version, *_, **__: [version])


# --- files that something else wrote ----------------------------------------------------------------------------


def takes_over_a_file_without_syncing_what_is_in_it(patch: pytest.MonkeyPatch) -> None:
    """The name of the file survives a power cut, its bytes do not."""
    real = FaultyFileStore.make_durable
    patch.setattr(FaultyFileStore, "make_durable", lambda self, paths, with_contents=False: real(self, paths))


def takes_over_what_no_reader_takes(patch: pytest.MonkeyPatch) -> None:
    """An action with a field of the wrong type is acknowledged, and no version from there on can be read."""

    def unchecked(store: Any, state: Any, file: Any, is_looked_at: bool) -> Any:
        return file, ObjectMeta(file.path, file.size, 0)

    patch.setattr(taken_over_files, "_checked", unchecked)


# --- observers --------------------------------------------------------------------------------------------------


def tells_what_a_log_handler_raised_as_the_answer_to_a_write(patch: pytest.MonkeyPatch) -> None:
    """The commit has landed, and its caller gets an error that it was refused."""
    patch.setattr(type(logger), "log", lambda self, level, msg, *args, **named: self.logger.log(level, msg, *args))


def deletes_the_files_of_a_commit_for_what_was_raised_after_it(patch: pytest.MonkeyPatch) -> None:
    """An InvalidInputError of a log handler is taken for a refusal: nothing sent, so no commit can name the files."""
    tells_what_a_log_handler_raised_as_the_answer_to_a_write(patch)
    patch.setattr(UnsentFiles, "mark_sent", lambda self: None)


# --- long lives and clocks that stop ----------------------------------------------------------------------------


def keeps_to_the_checkpoint_that_it_was_opened_on(patch: pytest.MonkeyPatch) -> None:
    """Others wrote a newer one and cleaned up: a handle that lives long can never read again."""
    real = FileLoader._fold_tail

    def fold(self: Any, segment: Any) -> Any:
        try:
            return real(self, segment)
        except NotFoundError as error:
            raise StorageError(f"no other checkpoint is looked for: {error}") from error

    patch.setattr(FileLoader, "_fold_tail", fold)


def does_not_count_the_time_of_a_suspension(patch: pytest.MonkeyPatch) -> None:
    """What a handle saw of the log is as old as its machine was awake."""
    patch.setattr(ambient, "age_s", lambda since: ambient.monotonic_s() - since.monotonic_s)


def trusts_a_look_for_a_minute_whatever_the_retention(patch: pytest.MonkeyPatch) -> None:
    """What was absent a minute ago is taken for never taken, where the log keeps versions for seconds."""
    patch.setattr(delta_log.DeltaLog, "state_is_fresh", lambda self: self.state_age_s() <= 60)
    patch.setattr(commit_context, "trusted_s", lambda properties, most_s: most_s)


def takes_the_time_of_a_late_answer_for_that_of_its_question(patch: pytest.MonkeyPatch) -> None:
    """A look was asked before the rows were written; what was the newest version then is taken for the newest now."""
    real = batch_write._Look.confirm

    def confirm(self: Any) -> None:
        real(self)
        log = self._open_table.log
        log.confirmed_at = ambient.instant()
        if log._seen_same is not None:
            log._seen_same = log._seen_same[0], ambient.instant()

    patch.setattr(batch_write._Look, "confirm", confirm)


def does_not_look_below_its_commit_on_an_object_store(patch: pytest.MonkeyPatch) -> None:
    """A put that found its name free is a commit, however long it took and whatever became of the log meanwhile."""
    real = CommitRun._require_predecessor

    def require(self: Any) -> None:
        if self.versions.capabilities.has_cheap_calls:
            real(self)

    patch.setattr(CommitRun, "_require_predecessor", require)


# --- what a checkpoint holds ------------------------------------------------------------------------------------


def drops_metadata_domains_from_v2_checkpoints(patch: pytest.MonkeyPatch) -> None:
    """With them goes the highest row id given, and the next writer gives it again."""
    real = v2.retained_small_actions

    def without_domains(*arguments: Any, **named: Any) -> Any:
        return [action for action in real(*arguments, **named) if action.KEY != "domainMetadata"]

    patch.setattr(v2, "retained_small_actions", without_domains)


SURROUNDINGS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (takes_others_commits_below_the_newest_for_synced, "others-sync-nothing"),
        (syncs_the_newest_commit_alone_before_it_seals, "sink-beside-others-that-sync-nothing"),
        (syncs_the_newest_commit_alone_before_a_checkpoint, "checkpointer-beside-others-that-sync-nothing"),
        (takes_over_a_file_without_syncing_what_is_in_it, "two-appenders-power-cut"),
        (takes_over_what_no_reader_takes, "files-that-no-reader-takes"),
        (tells_what_a_log_handler_raised_as_the_answer_to_a_write, "observers-fail"),
        (deletes_the_files_of_a_commit_for_what_was_raised_after_it, "observers-fail"),
        (keeps_to_the_checkpoint_that_it_was_opened_on, "long-lived-reader"),
        (does_not_count_the_time_of_a_suspension, "suspended-before-its-put"),
        (trusts_a_look_for_a_minute_whatever_the_retention, "short-retention"),
        (takes_the_time_of_a_late_answer_for_that_of_its_question, "append-beside-a-look-of-a-short-log"),
        (does_not_look_below_its_commit_on_an_object_store, "suspended-before-its-put"),
        (drops_metadata_domains_from_v2_checkpoints, "rows-are-numbered-on-a-checkpoint"),
    )
}
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""
