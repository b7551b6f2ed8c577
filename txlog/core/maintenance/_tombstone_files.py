"""What rewrites of a table ask about its tombstone files: which they are, and what takes care of them.

In: live files of a version. Out: those that a rewrite of live rows may take. The others are joined, dropped and written
again by what a package offers as ``txlog.tombstones``, under the property by which a table keeps them. Without such a
package, whatever would lose tombstones is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.actions import AddFile
from txlog.core.format.arrow.arrays import are_among
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.properties import TOMBSTONE_RETENTION
from txlog.core.format.tombstones import is_tombstones, retention_ms
from txlog.core.points import Point
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import TxlogError

FindFiles: TypeAlias = "Callable[[TableState, pa.Table], Collection[str]]"
"""Called with live files of a version; returns the paths of some of them."""


class TombstoneUpkeep(Protocol):
    """What takes care of a table's tombstone files: a module or an object with these functions."""

    def tidy(self, open_table: OpenTable, state: TableState, outdated: FindFiles | None) -> None:
        """Join tombstone files of the newest version, and drop those that the table no longer keeps, in commits that
        change nothing for readers.

        Args:
            open_table: The table.
            state: Its newest version, whose properties say that it keeps tombstones.
            outdated: Finds files to write again in any case; None: none.

        Raises:
            TxlogError: What `OpenTable.commit` raises. A lost race is no error: the files stay as they are.
        """

    def written_again(
        self,
        open_table: OpenTable,
        state: TableState,
        adds: Sequence[AddFile],
        unsent: UnsentFiles,
        written_as: DefinedTable | None = None,
    ) -> list[AddFile]:
        """New tombstone files with all the rows of ``adds``, files of ``state``.

        Args:
            open_table: The table.
            state: The version that has the files.
            adds: Tombstone files of one partition.
            unsent: Owns what is written.
            written_as: The definition of the new files, if it is another one with the same columns.

        Raises:
            StorageError: The store failed.
        """


TOMBSTONES: Final[Point[TombstoneUpkeep]] = Point("txlog.tombstones", "the upkeep of tombstones for")


def tombstone_upkeep(open_table: OpenTable, state: TableState) -> TombstoneUpkeep | None:
    """What takes care of the table's tombstones; None if it keeps none.

    Raises ``UnsupportedFeatureError`` if no installed package does: whoever rewrites files asks before the first.
    """
    with TxlogError.located(open_table.uri, state.version):
        if TOMBSTONE_RETENTION not in state.metadata.configuration:
            return None
        return TOMBSTONES.load(TOMBSTONE_RETENTION, "rewriting files of a table that keeps the keys of deleted rows")


def tidy_tombstones(open_table: OpenTable, outdated: FindFiles | None = None) -> None:
    """Have the table's tombstone files joined, or dropped in time. Raises what `tombstone_upkeep` and
    `TombstoneUpkeep.tidy` raise."""
    state = open_table.log.newest_state()
    upkeep = tombstone_upkeep(open_table, state)
    if upkeep is not None:
        with TxlogError.located(open_table.uri, state.version):
            upkeep.tidy(open_table, state, outdated)


def tombstones_of(state: TableState, files: pa.Table) -> pa.Table:
    """The tombstone files among live files: none, if the table keeps no tombstones."""
    tags = files.column("tags")
    if retention_ms(state.metadata.configuration) is None or tags.null_count == len(tags):
        return files.slice(0, 0)
    tagged = files.filter(tags.is_valid())
    return tagged.filter(pa.array([is_tombstones(add) for add in add_files_of(tagged)], pa.bool_()))


def without_tombstones(state: TableState, files: pa.Table) -> pa.Table:
    """The live files that a rewrite of live rows may take: all, if the table keeps no tombstones."""
    kept = tombstones_of(state, files).column("path")
    return files.filter(pc.invert(are_among(files.column("path"), kept))) if len(kept) else files
