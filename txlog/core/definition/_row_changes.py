"""Rows that are changes, as commits see them: what merges them with a table's rows, which a package offers.

In: an upsert with a merge engine, a checkpoint of changes, or a definition that says how rows are merged. Out: what
the package that is found as ``txlog.row_changes`` makes of it. Without it, all three are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from txlog.core.format.properties import (
    CHANGELOG_PRODUCER,
    ROW_DEDUPLICATE,
    TOMBSTONE_RETENTION,
    merge_options,
    options_of_engines,
)
from txlog.core.format.schema import Struct
from txlog.core.points import Point
from txlog.core.versions import OpenTable, Steps
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import WriteJob
from txlog.core.writing.committable import Committable
from txlog.result import WriteResult

if TYPE_CHECKING:
    from txlog.core.changes.tasks.operations import (
        KeyedChange,
        UpsertOptions,  # loads pandas: an append has no use for it
    )

_CHANGELOG = "changelog"
_PROPERTIES = (CHANGELOG_PRODUCER, ROW_DEDUPLICATE, TOMBSTONE_RETENTION)


class BoundEngine(Protocol):
    """A merge engine for the columns of one table, of which only its maker knows more than the name."""

    @property
    def name(self) -> str:
        """Its name, as in the property ``txlog.merge-engine``."""


class MergesRowChanges(Protocol):
    """What merges row changes with a table's rows: a module or an object with these functions."""

    def engine_of(self, state: TableState, upsert: UpsertOptions) -> Any | None:
        """The `BoundEngine` that an upsert merges with: the table's, or the one that it asks for; None if it is a plain
        one.

        Raises:
            InvalidInputError: The options do not fit the table's columns, or differ from its properties.
            UnsupportedFeatureError: No installed package has the engine.
        """

    def bound(
        self, open_table: OpenTable, state: TableState, data: Any, upsert: UpsertOptions, engine: Any
    ) -> KeyedChange:
        """Read a changelog and bind its merge by ``engine``, which `engine_of` returned, to a version.

        Raises:
            InvalidInputError: The rows cannot be read as changes, or the options contradict the engine.
            SchemaMismatchError: The columns do not fit the table.
        """

    def require_engine(self, open_table: OpenTable, keys: Sequence[str], given: str | Mapping[str, Any]) -> None:
        """Check that a table merges rows as a sink was told. Raises ``InvalidInputError`` if it does not."""

    def check_staged(self, open_table: OpenTable, job: WriteJob, committables: Sequence[Committable]) -> None:
        """Refuse changes of a checkpoint that no commit could apply, before they are sealed.

        Raises:
            InvalidInputError: Two tasks changed one row, and nothing says who was last, or files are not what tasks
                wrote.
            NotFoundError: A file of the tasks is missing.
        """

    def staged_steps(
        self, open_table: OpenTable, state: TableState, job: WriteJob, committables: Sequence[Committable]
    ) -> Steps[WriteResult]:
        """One commit for a checkpoint of changes, as a generator: it yields what `OpenTable.commit` takes, and goes on
        with the result or the error. ``state`` has the definition that the files were written for.

        Raises what `check_staged` and `OpenTable.plan_steps` raise.
        """

    def replaces(self, row_kind: str, row_kinds: Mapping[Any, str] | None) -> Callable[[Mapping[str, Any]], bool]:
        """Which rows, as objects of JSON, do not delete: those need more than their key. The arguments are those of an
        upsert.

        Raises:
            InvalidInputError: ``row_kinds`` maps to something else.
        """

    def check_definition(self, configuration: Mapping[str, str], schema: Struct) -> None:
        """Check that a table's properties about merges and their changes fit its columns and each other.

        Raises:
            InvalidInputError: They do not.
            UnsupportedFeatureError: No installed package has the engine, or it does not go with another feature.
        """


ROW_CHANGES: Final[Point[MergesRowChanges]] = Point("txlog.row_changes", "the merging of row changes")


def row_changes(needed_for: str) -> MergesRowChanges:
    """Raises ``UnsupportedFeatureError`` if no installed package merges row changes; ``needed_for`` says what for."""
    return ROW_CHANGES.load(_CHANGELOG, needed_for)


def is_merged(state: TableState, upsert: UpsertOptions) -> bool:
    """Whether an upsert is not a plain one: the table or the call defines how rows are merged, or rows have kinds."""
    asks = upsert.merge_engine is not None or upsert.row_kind is not None
    return asks or bool(merge_options(state.metadata.configuration))


def check_definition(configuration: Mapping[str, str], schema: Struct) -> None:
    """Check the properties of a table about merges, if it has any. Raises what `MergesRowChanges.check_definition` and
    `row_changes` raise."""
    says = merge_options(configuration) or any(key in configuration for key in _PROPERTIES)
    if says or options_of_engines(configuration):
        row_changes("a table that says how row changes are merged").check_definition(configuration, schema)
