"""`DefinedTable`: a table as one version defines it, whoever holds the definition.

In: nothing. Out: the protocol that ``core/versions/decisions/state.TableState`` in the driver and
``core/changes/tasks/_task_table.TaskTable`` in a task both implement, so code that only needs the definition runs in
either place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol, TypeVar

from txlog.core.format import actions

if TYPE_CHECKING:
    from txlog.core.format.properties import TableProperties
    from txlog.core.format.schema import Struct

Derived = TypeVar("Derived")


class DefinedTable(Protocol):
    """The version, and what its ``protocol`` and ``metaData`` actions say."""

    @property
    def version(self) -> int: ...

    @property
    def protocol(self) -> actions.Protocol: ...

    @property
    def metadata(self) -> actions.Metadata: ...

    @property
    def schema(self) -> Struct:
        """Raises ``CorruptLogError`` or ``UnsupportedFeatureError`` if ``schemaString`` cannot be parsed."""

    @property
    def properties(self) -> TableProperties: ...

    @property
    def partition_columns(self) -> tuple[str, ...]: ...

    def derived(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """A value that depends only on protocol and metadata, by ``key``."""

    @property
    def time_zone(self) -> str:
        """Not of the table, but of who works on it: the zone of times without one, in conditions, values and the
        table's stored expressions."""
