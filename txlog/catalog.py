"""`Catalog`: tables by name. It connects a `TableCatalog` with `Table`, and decides nothing.

In: names. Out: open tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from txlog.core.catalogs import TableCatalog, TablePlace, made_at_name, open_catalog, resolved
from txlog.core.util import UTC, Hinted, explains_calls, explains_names
from txlog.errors import InvalidInputError, NotFoundError, TableNotFoundError
from txlog.hooks import CommitHooks
from txlog.result import WriteResult
from txlog.table import Table, WriteMode, write

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from txlog.core.store import RetryPolicy
    from txlog.core.workers import GivenWorkers

__all__ = ["Catalog"]


@explains_calls
@explains_names
class Catalog(metaclass=Hinted):
    """A catalog of tables: it knows where the table of a name is. Thread-safe; pickles without secrets.

        catalog = txlog.Catalog("./warehouse")
        catalog.create("sales.orders", "id bigint, day date", partition_by="day")
        catalog.table("sales.orders").append(rows)

    Names do not differ by case. In a folder of tables, ``schema.table`` is the table in ``<folder>/schema/table``, and
    a name without a schema is in the schema ``default``.

    Args:
        uri: The catalog's address: a folder of tables, as a path or a URI of an object store.
        token: What identifies the user to the catalog's server. A folder needs none.
        storage_options: The options of the store of the tables, as for `Table.open`.
        credential_provider: A provider of ``obstore.auth`` for that store.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | TableCatalog,
        *,
        token: str | Callable[[], str | None] | None = None,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
    ) -> None:
        self.names: TableCatalog
        if isinstance(uri, str | os.PathLike):
            self.names = open_catalog(uri, token, storage_options, credential_provider)
        elif hasattr(uri, "resolve"):
            self.names = uri
        else:
            raise InvalidInputError(f"expected the address of a catalog, got {type(uri).__name__}")

    @property
    def uri(self) -> str:
        """The catalog's address, without credentials."""
        return self.names.uri

    def table(
        self,
        name: str,
        *,
        retry: RetryPolicy | None = None,
        hooks: CommitHooks | None = None,
        key_cache_size: int | None = None,
        workers: GivenWorkers | None = None,
        time_zone: str | ZoneInfo = UTC,
    ) -> Table:
        """Open a table by its name.

        Args:
            name: The table's name, such as ``sales.orders``.
            retry: As for `Table.open`, like all that follow.
            hooks: As for `Table.open`.
            key_cache_size: As for `Table.open`.
            workers: As for `Table.open`.
            time_zone: As for `Table.open`.

        Returns:
            The table, open.

        Raises:
            TableNotFoundError: The catalog has no table of this name.
            TxlogError: What `Table.open` raises.
        """
        place = self.names.resolve(name)
        given: Any = {"retry": retry, "hooks": hooks, "key_cache_size": key_cache_size}
        return Table.open(place, workers=workers, time_zone=time_zone, **given)

    def create(
        self,
        name: str,
        schema: object,
        partition_by: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        exist_ok: bool = False,
        **options: Any,
    ) -> Table:
        """Create an empty table under a name.

        Args:
            name: The new table's name. Its schema is made if there is none.
            schema: As for `Table.create`, like all that follow.
            partition_by: As for `Table.create`.
            properties: As for `Table.create`.
            exist_ok: As for `Table.create`.
            **options: ``cluster_by``, ``column_mapping``, ``user_metadata``, ``retry``, ``hooks``,
                ``key_cache_size`` and ``time_zone`` of `Table.create`.

        Returns:
            The table, open.

        Raises:
            TableExistsError: The name is taken.
            TxlogError: What `Table.create` raises.
        """

        def create_at(place: TablePlace) -> Table:
            return Table.create(place, schema, partition_by, properties, exist_ok=exist_ok, **options)

        return made_at_name(self.names, name, create_at, may_exist=exist_ok)

    def write(self, name: str, data: object, mode: WriteMode = "append", **options: Any) -> WriteResult:
        """Write rows to the table of a name. If there is none, this creates it with the first rows, as one version.

        Args:
            name: The table's name.
            data: The rows: anything `Table.append` takes.
            mode: As for `txlog.write`.
            **options: The other arguments of `txlog.write`.

        Returns:
            What was written, in which version.

        Raises:
            TxlogError: What `txlog.write` raises.
        """

        def write_at(place: TablePlace) -> WriteResult:
            return write(place, data, mode, **options)

        return made_at_name(self.names, name, write_at, may_exist=True, repeats=False)

    def exists(self, name: str) -> bool:
        """Whether there is a table of this name.

        Args:
            name: The table's name.

        Returns:
            Whether the catalog knows it, even if the table of a registered name is gone.

        Raises:
            InvalidInputError: This cannot be a name.
            StorageError: The catalog does not answer.
        """
        try:
            return resolved(self.names, name) is not None
        except NotFoundError:
            return True

    def tables(self, schema: str | None = None) -> list[str]:
        """The names of the tables.

        Args:
            schema: Only the tables of this schema.

        Returns:
            Full names, sorted.

        Raises:
            StorageError: The catalog does not answer.
        """
        return self.names.tables(schema)

    def location(self, name: str) -> str:
        """Where a table is.

        Args:
            name: The table's name.

        Returns:
            The URI of the folder that contains ``_delta_log``.

        Raises:
            TableNotFoundError: The catalog has no table of this name.
        """
        return self.names.resolve(name).uri

    def register(self, name: str, uri: str | os.PathLike[str]) -> None:
        """Give a name to a table that exists elsewhere. Dropping the name then leaves the table as it is.

        Args:
            name: The new name.
            uri: The table's location. The catalog opens it with its own storage options, now and later.

        Raises:
            TableExistsError: The name is taken.
            TableNotFoundError: There is no table at the location.
            UnsupportedFeatureError: This catalog cannot name a table that it did not make.
        """
        self.names.register(name, os.fspath(uri))

    def rename(self, name: str, to: str) -> None:
        """Give a table another name. In a folder, its files move, so let nobody write to it meanwhile. Shallow clones
        of it then look for them where they were.

        Args:
            name: The table's name.
            to: Its new name.

        Raises:
            TableNotFoundError: The catalog has no table of this name.
            TableExistsError: The new name is taken.
            UnsupportedFeatureError: This catalog cannot rename.
        """
        self.names.rename(name, to)

    def drop(self, name: str, *, missing_ok: bool = False) -> None:
        """Remove a table: its name and all its files, or the name alone if the table was registered.

        Let nobody write to it meanwhile: on an object store, an open handle would go on with a log that has no
        beginning. Shallow clones of the table cannot be read after.

        Args:
            name: The table's name.
            missing_ok: Do nothing if there is no such table.

        Raises:
            TableNotFoundError: The catalog has no table of this name.
            StorageError: Not all files could be removed.
        """
        try:
            self.names.drop(name)
        except TableNotFoundError:
            if not missing_ok:
                raise

    def __repr__(self) -> str:
        return f"Catalog({self.uri})"
