"""What a catalog of tables is to txlog: it turns a name into a place.

In: names. Out: `TablePlace`, with all that is needed to open the table. Each kind of catalog is a `TableCatalog` in a
file of its own, and ``open`` finds it by the scheme of the catalog's address: packages offer a `CatalogScheme` for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from txlog.core.store import TableStore, VersionLog, open_store
from txlog.core.wording import NamedLocation

Made = TypeVar("Made")
Token = str | Callable[[], str | None]
"""What identifies the user to a catalog's server, or a function that returns it."""


class TablePlace(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Where a table is, and how to open it. It is accepted wherever a location is.

    ``name`` is the full name in the catalog. ``credential_provider`` is called again when its credentials expire.
    ``owner`` makes what decides the table's versions; None: commits go by path. ``properties`` are those that version 0
    of a table must have in this catalog. ``address`` is what any process can pass to `Table.open` as location and
    options, without secrets, if ``uri`` is not enough; ``known_as`` is then the name that errors and log lines give
    people.
    """

    uri: str
    name: str
    storage_options: Mapping[str, str] | None = None
    credential_provider: Callable[[], object] | None = None
    owner: Callable[[TableStore], VersionLog] | None = None
    properties: Mapping[str, str] = {}
    address: tuple[str, Mapping[str, str]] | None = None
    known_as: str | None = None

    def __fspath__(self) -> str:
        return self.uri

    def __repr__(self) -> str:
        """Without the options, which may hold secrets."""
        return f"TablePlace({self.name} at {self.uri})"

    def store(self) -> TableStore:
        """The table's stores, with the owner of its versions. Makes no request."""
        store = open_store(self.uri, self.storage_options, self.credential_provider)
        if self.known_as is not None:
            store = msgspec.structs.replace(store, uri=NamedLocation(store.uri, self.known_as))
        owner = None if self.owner is None else self.owner(store)
        if self.address is None and owner is None:
            return store
        return msgspec.structs.replace(store, owner=owner, address=self.address, new_properties=self.properties)


class TableCatalog(Protocol):
    """One catalog. Thread-safe. Names are checked here, so every method raises InvalidInputError for a wrong one.

    ``uri`` is safe to show. All methods raise StorageError if the catalog does not answer.
    """

    @property
    def uri(self) -> str: ...

    def resolve(self, name: str) -> TablePlace:
        """Where a table is. Raises TableNotFoundError."""

    def tables(self, schema: str | None = None) -> list[str]:
        """The full names of all tables, or of those in a schema, sorted."""

    def create(self, name: str, make: Callable[[TablePlace], Made]) -> Made:
        """Have ``make`` write version 0 at a place for the new table, and give that place the name.

        Atomic: others see the whole table or none. Raises TableExistsError, and whatever ``make`` raises.
        """

    def register(self, name: str, uri: str) -> None:
        """Give an existing table a name; a drop then removes the name alone.

        Raises TableNotFoundError if this catalog finds no table there, TableExistsError if the name is taken, and
        UnsupportedFeatureError if this catalog cannot.
        """

    def require_registrable(self, name: str) -> None:
        """Raises UnsupportedFeatureError if this catalog cannot name tables that it did not make, and InvalidInputError
        for a name that `register` does not take: asked before a table is made at a location."""

    def drop(self, name: str) -> None:
        """Remove the name, and the files of a table that `create` made. Raises TableNotFoundError."""

    def rename(self, name: str, to: str) -> None:
        """Give a table another name. Raises TableNotFoundError, TableExistsError, UnsupportedFeatureError."""


@runtime_checkable
class ChecksItself(Protocol):
    """A catalog that decides commits, and knows whether it can forget some. `probe_store` asks it."""

    def durability(self) -> tuple[list[str], list[str]]:
        """Problems, each by which commits can be lost, and notes on what to look for. Makes no request."""


class OpensCatalog(Protocol):
    def __call__(
        self,
        uri: str,
        token: Token | None,
        storage_options: Mapping[str, str] | None,
        credential_provider: Callable[[], object] | None,
    ) -> TableCatalog:
        """The catalog at an address. Makes no request.

        Args:
            uri: The address, as the user wrote it.
            token: What identifies the user to the catalog. Raise InvalidInputError if the catalog takes none.
            storage_options: The options of the store of the tables. The catalog may have options of its own among them.
            credential_provider: A provider of ``obstore.auth`` for that store.

        Raises InvalidInputError for an address that cannot be used.
        """


class FindsTable(Protocol):
    def __call__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None,
        credential_provider: Callable[[], object] | None,
    ) -> tuple[TableCatalog, str] | None:
        """The catalog of a table that is given by name, as ``uc://main.sales.orders``, and the table's name in it.

        The arguments are as for `OpensCatalog`. Makes no request, except for a location with an ``@``; None then says
        that it is the location of a table, or of none. Raises InvalidInputError if it cannot tell which catalog is
        meant.
        """


class CatalogScheme(msgspec.Struct, frozen=True):
    """What addresses with one URL scheme mean: an entry of the group ``txlog.catalogs`` that has the scheme's name, in
    lower case. The entry ``@`` says what locations such as ``/data/orders@backfill`` mean.

    ``opens``: they are catalogs, as for `txlog.Catalog` and ``--catalog``. ``finds``: they are tables by name, wherever
    a table's location is taken. At least one is given. Its catalogs and their places can be pickled.
    """

    opens: OpensCatalog | None = None
    finds: FindsTable | None = None
