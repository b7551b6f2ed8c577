"""Bugs of compactions, vacuums and restores that meet each other, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `UPKEEP_MUTANTS` is part of ``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from txlog.core.format.path_set import PathSet
from txlog.core.maintenance import _compaction as compaction
from txlog.core.maintenance import _named_versions as named_versions
from txlog.core.maintenance import _restore as restore
from txlog.core.maintenance import _vacuum as vacuum
from txlog.core.maintenance._needed_files import NeededFiles
from txlog.core.maintenance._vacuum import _Vacuum
from txlog.core.maintenance.rewriting._rewrite_bin import RewrittenFile
from txlog.core.sink._staging import Staging
from txlog.core.versions.decisions import conflicts
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.writing.committable import Committable

__all__ = ["UPKEEP_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def deletes_by_what_it_knew_when_it_began(patch: pytest.MonkeyPatch) -> None:
    """A vacuum does not look at what was committed before each batch."""
    patch.setattr(NeededFiles, "refresh", lambda self: PathSet("memory://table"))


def begins_to_delete_before_it_says_so(patch: pytest.MonkeyPatch) -> None:
    """A vacuum without VACUUM START: a restore cannot know that it is under way."""
    patch.setattr(_Vacuum, "_begin", lambda self, doomed: lambda: None)


def restores_beside_a_vacuum_under_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restore, "endangered_by_vacuum", lambda *_: None)


def takes_a_vacuum_that_begins_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """A restore does not look again when a vacuum began after its look."""
    patch.setattr(conflicts, "_vacuums", lambda proposal, winner: iter(()))


def keeps_only_the_versions_named_before_it(patch: pytest.MonkeyPatch) -> None:
    """A vacuum looks for names when it begins, and not before each batch."""
    refresh = NeededFiles.refresh

    def without_names(self: Any) -> Any:
        self._take_named = lambda versions, paths: None
        return refresh(self)

    patch.setattr(NeededFiles, "refresh", without_names)


def names_beside_a_vacuum_under_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(named_versions, "endangered_by_vacuum", lambda *_: None)


def names_what_is_gone_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """A tag does not look for its files once the name exists."""
    patch.setattr(named_versions, "endangered_by_vacuum", lambda *_: None)
    patch.setattr(named_versions, "_check_whole", lambda *_: None)


def restores_without_reading_the_table(patch: pytest.MonkeyPatch) -> None:
    """What others append meanwhile stays, and the table is none that ever was."""
    patch.setattr(ProposalBuilder, "read_table", lambda self: None)


def compacts_by_the_vectors_that_it_read(patch: pytest.MonkeyPatch) -> None:
    """Rows that others delete while their file is rewritten come back."""

    def as_read(source: RewrittenFile, live: Any, reader: Any) -> Any:
        return np.empty(0, np.uint64)

    patch.setattr(compaction, "rows_to_mark", as_read)


def follows_no_winner_of_a_lost_race(patch: pytest.MonkeyPatch) -> None:
    """A compaction takes its files for what they were when it was planned."""
    patch.setattr(compaction.Compaction, "_changed_by", lambda self, commits, before: dict(before))


def marks_the_row_after_the_one_that_died(patch: pytest.MonkeyPatch) -> None:
    numbers = RewrittenFile.numbers

    def one_off(self: RewrittenFile, positions: Any) -> Any:
        found = numbers(self, positions)
        return (found + 1) % max(1, self.first + self.num_live)

    patch.setattr(RewrittenFile, "numbers", one_off)


def keeps_one_of_the_files_that_it_rewrote(patch: pytest.MonkeyPatch) -> None:
    """The rows of that file are in the table twice."""
    remove = ProposalBuilder.remove

    def all_but_one(self: Any, *files: Any) -> None:
        remove(self, *(files[1:] if len(files) > 1 else files))

    patch.setattr(ProposalBuilder, "remove", all_but_one)


# --- sealed work that waits for its commit ------------------------------------------------------------------------


def deletes_what_sinks_have_sealed(patch: pytest.MonkeyPatch) -> None:
    """No commit names it yet, and it is as old as the application has been dead."""
    patch.setattr(Staging, "named_paths", lambda self: set())


def deletes_the_keys_of_what_is_sealed(patch: pytest.MonkeyPatch) -> None:
    """The rows are there, and it is unknown which rows they replace."""

    def of_files(self: Any) -> set[str]:
        return {file.path for file in self.files}

    patch.setattr(Committable, "named_paths", of_files)


def deletes_files_that_are_about_to_be_committed(patch: pytest.MonkeyPatch) -> None:
    """A vacuum that does not ask for the age of a file that no commit names."""

    def of_any_age(self: Any, candidates: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        return (pa.Table.from_batches([batch]) for batch in candidates)

    patch.setattr(_Vacuum, "_old", of_any_age)


def takes_the_hours_of_its_retention_for_seconds(patch: pytest.MonkeyPatch) -> None:
    """What was removed an hour ago goes, although versions of the same day need it."""
    retention_ms = vacuum._retention_ms
    patch.setattr(vacuum, "_retention_ms", lambda properties, options: retention_ms(properties, options) // 3_600)


def deletes_the_vectors_of_live_files(patch: pytest.MonkeyPatch) -> None:
    """A vacuum knows data files alone as needed: those with deleted rows can no longer be read."""
    patch.setattr(PathSet, "add_vectors", lambda self, vectors: None)
    patch.setattr(PathSet, "add_vector", lambda self, vector: None)


def restores_how_far_applications_were(patch: pytest.MonkeyPatch) -> None:
    """What a restore took back of an application is committed again, by the process that recovers it."""
    commit = restore._Restore._commit

    def with_applications(self: Any, *arguments: Any) -> Any:
        table, proposed = self._open_table, self._open_table.proposed
        applications, then = self._state.transactions, self._target.transactions
        older = [replace(found, version=0) for app_id, found in applications.items() if app_id not in then]

        def proposed_with_them(*given: Any) -> Any:
            made = proposed(*given)
            return replace(made, actions=(*made.actions, *older))

        table.proposed = proposed_with_them
        try:
            return commit(self, *arguments)
        finally:
            del table.proposed

    patch.setattr(restore._Restore, "_commit", with_applications)


UPKEEP_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (deletes_by_what_it_knew_when_it_began, "restorer-and-vacuum"),
        (begins_to_delete_before_it_says_so, "restorer-and-vacuum"),
        (restores_beside_a_vacuum_under_way, "restorer-and-vacuum"),
        (takes_a_vacuum_that_begins_for_nothing, "restorer-and-vacuum"),
        (keeps_only_the_versions_named_before_it, "tagger-and-vacuum"),
        (names_beside_a_vacuum_under_way, "tagger-and-vacuum"),
        (names_what_is_gone_meanwhile, "tagger-and-vacuum-object-store"),
        (restores_without_reading_the_table, "restorer-and-appender"),
        (compacts_by_the_vectors_that_it_read, "deleter-and-optimizer"),
        (follows_no_winner_of_a_lost_race, "deleter-and-optimizer"),
        (marks_the_row_after_the_one_that_died, "deleter-and-optimizer"),
        (keeps_one_of_the_files_that_it_rewrote, "deleter-and-optimizer"),
        (deletes_what_sinks_have_sealed, "recovery-and-vacuum"),
        (deletes_the_keys_of_what_is_sealed, "recovery-and-vacuum"),
        (deletes_files_that_are_about_to_be_committed, "a-vacuum-beside-the-line"),
        (takes_the_hours_of_its_retention_for_seconds, "optimizer-and-vacuum-of-the-same-day"),
        (deletes_the_vectors_of_live_files, "vacuum-of-old-vectors"),
        (restores_how_far_applications_were, "recovery-and-restorer"),
    )
}
"""Each bug, and the scenario of ``explorer.actors.SCENARIOS`` whose exploration must find it."""
