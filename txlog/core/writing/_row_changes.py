"""Rows that are changes, as the tasks of a write see them: a sink's mode says how they are read and written.

In: a mode and its arguments. Out: None for plain rows, or the `Changelog` that a package offers for the mode as
``txlog.sink_modes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from txlog.core.format.schema import Struct
from txlog.core.points import Point
from txlog.core.store import FileStore
from txlog.core.wording import argument
from txlog.core.writing._write_plan import TaskIdentity, WritePlan
from txlog.core.writing.committable import Committable
from txlog.errors import InvalidInputError

KeepKeys: TypeAlias = Callable[[str, pa.RecordBatch], None]
"""Called with a data file's path and the key columns of its rows, in their order."""

_PLAIN_MODES = ("append", "overwrite")


class ChangeWriter(Protocol):
    """Writes the changes of one attempt of one task. Called by one thread."""

    def write(self, data: Any) -> None:
        """Add rows of the changelog: anything that ``Table.append`` accepts. An error aborts the task.

        Raises:
            InvalidInputError: A row cannot be read as a change, or cannot be stored.
            SchemaMismatchError: The columns do not fit the table.
            StorageError: There is no space for the rows.
        """

    def delete(self, data: Any) -> None:
        """Add rows to delete, of which only the keys matter. Raises what `write` raises."""

    def close(self) -> Committable:
        """Write all changes and seal the files; the same result when called again. Raises what `write` raises."""

    def abort(self) -> None:
        """Drop the task. Never raises."""


class Changelog(Protocol):
    """How the rows of a write are read as changes. It pickles, and goes to tasks with their write plan."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row; paths with dots name struct fields."""

    def arguments(self) -> dict[str, Any]:
        """The arguments that make it again: ``keys``, ``row_kind``, ``row_kinds`` and ``sequence_by``."""

    def writer(
        self, files: FileStore, plan: WritePlan, task: TaskIdentity, keep_keys: KeepKeys | None = None
    ) -> ChangeWriter:
        """The writer of a task.

        Args:
            files: The table's files.
            plan: How data files are written.
            task: The task.
            keep_keys: Takes the keys of new rows, if their order in the file is certain.

        Raises:
            InvalidInputError: The table does not have the columns.
        """

    def task_of_rows(self, data: Any, schema: Struct, num_tasks: int) -> pa.Array:
        """The task of each row, from 0, as ``int64``: all changes of a key go to one.

        Raises:
            InvalidInputError: Rows lack a key.
        """


class SinkModeOf(Protocol):
    """What a package offers for one mode of a sink."""

    def __call__(
        self,
        keys: str | Sequence[str] | None,
        mode: str,
        row_kind: str | None,
        row_kinds: Mapping[Any, str] | None,
        sequence_by: str | None,
    ) -> Changelog:
        """How rows are read in this mode. Raises InvalidInputError for arguments that do not fit it."""


SINK_MODES: Final[Point[SinkModeOf]] = Point("txlog.sink_modes", "the sink mode")


def changelog_of(
    mode: str,
    keys: str | Sequence[str] | None = None,
    row_kind: str | None = None,
    row_kinds: Mapping[Any, str] | None = None,
    sequence_by: str | None = None,
) -> Changelog | None:
    """How to read the rows of a sink in this mode, if they are changes; None if they are plain rows.

    Raises ``InvalidInputError`` for arguments that do not fit the mode, and ``UnsupportedFeatureError`` if no installed
    package offers it.
    """
    if mode not in _PLAIN_MODES:
        return SINK_MODES.load(mode, "writing row changes")(keys, mode, row_kind, row_kinds, sequence_by)
    given = {"keys": keys, "row_kind": row_kind, "row_kinds": row_kinds, "sequence_by": sequence_by}
    for name, value in given.items():
        if value is not None:
            raise InvalidInputError(
                f'{argument(name)} is for row changes: pass mode="upsert" or "retract", not "{mode}"'
            )
    return None
