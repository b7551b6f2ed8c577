"""`TaskTable`: a table at one version as a task needs it. It opens the table's data files, and cannot reach its log;
only the `Numbers` that it brings do that.

In: a location, storage options, and the definition at a version. Out: a `DefinedTable`, and `TaskFiles`. In the process
that made it, a task uses the files that are open there; in another process it opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from txlog.core.format import actions
from txlog.core.format.defined_table import DefinedTable, Derived
from txlog.core.format.features import table_schema
from txlog.core.format.properties import TableProperties, with_parquet_settings
from txlog.core.store import FileStore, TableFiles, open_store
from txlog.core.util import UTC, cached_property, repr_without

if TYPE_CHECKING:
    from typing_extensions import Self

    from txlog.core.format.schema import Struct
    from txlog.core.row_rules import Numbers


class TaskFiles(msgspec.Struct, frozen=True):
    """The data files of a table: ``store.TableFiles``, without the log."""

    uri: str
    files: FileStore
    has_cheap_calls: bool


class TaskStore(msgspec.Struct, frozen=True, dict=True):
    """Where a table's data files are, as plain data that can be pickled.

    ``storage_options`` may hold secrets, so the repr leaves them out. A credential provider crosses to another process
    if it can be pickled.
    """

    uri: str
    storage_options: Mapping[str, str]
    credential_provider: Callable[[], object] | None

    __repr__ = repr_without("storage_options", "credential_provider")

    @classmethod
    def at(
        cls,
        store: TableFiles,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
    ) -> TaskStore:
        """The place of these files. ``store`` was opened with the other arguments."""
        return TaskStore(store.uri, dict(storage_options or {}), credential_provider)._opened(store)

    def _opened(self, store: TableFiles) -> Self:
        """The same, with the files that are open in this process."""
        self.__dict__["files"] = TaskFiles(store.uri, store.files, store.has_cheap_calls)
        return self

    @cached_property
    def files(self) -> TaskFiles:
        """The data files. Raises what `open_store` raises."""
        store = open_store(self.uri, self.storage_options, self.credential_provider)
        return TaskFiles(store.uri, store.files, store.has_cheap_calls)


class TaskTable(TaskStore, frozen=True, dict=True):
    """A `DefinedTable` with the place of its files, as plain data that can be pickled."""

    version: int
    protocol: actions.Protocol
    metadata: actions.Metadata
    numbers: Numbers | None = None
    """The numbers for new rows of its identity columns; None if it has none."""
    time_zone: str = UTC

    __repr__ = repr_without("storage_options", "credential_provider", "protocol", "metadata", "numbers")

    @classmethod
    def of(
        cls,
        store: TableFiles,
        table: DefinedTable,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
        numbers: Numbers | None = None,
    ) -> TaskTable:
        """The table with this version and definition. ``store`` was opened with the other arguments."""
        place = store.uri, dict(storage_options or {}), credential_provider
        return cls(*place, table.version, table.protocol, table.metadata, numbers, table.time_zone)._opened(store)

    def with_parquet(self, settings: Mapping[str, str]) -> TaskTable:
        """The same table, whose tasks write files with these settings, which no commit has."""
        if not settings:
            return self
        configuration = with_parquet_settings(self.metadata.configuration, settings)
        return replace(self, metadata=replace(self.metadata, configuration=configuration))._opened(self.files)

    @cached_property
    def schema(self) -> Struct:
        """Raises ``CorruptLogError`` or ``UnsupportedFeatureError`` if ``schemaString`` cannot be parsed."""
        return table_schema(self.protocol, self.metadata)

    @cached_property
    def properties(self) -> TableProperties:
        return TableProperties.of(self.metadata.configuration)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    def derived(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """A task derives each value once."""
        return derive()
