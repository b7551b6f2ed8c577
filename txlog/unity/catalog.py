"""Unity Catalog as a `TableCatalog`: names of its tables, which it manages, or which are elsewhere.

In: names with three parts. Out: places with short-lived credentials. The catalog decides the commits of a table that is
catalog-managed; any other one is committed to by path, even if the catalog calls it MANAGED. Unity Catalog,
"api/delta.yaml", "ManagedTablesSpec.md".
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from txlog.core.format.features import CATALOG_MANAGED
from txlog.errors import (
    InvalidInputError,
    StorageError,
    TableExistsError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.extend.catalogs import TablePlace, TableStore, ambient, name_parts, sendable
from txlog.unity.catalog_log import CatalogLog
from txlog.unity.client import FullTableName, Refused, TokenSource, Unanswered, UnityClient
from txlog.unity.credentials import VendedCredentials, is_vended
from txlog.unity.durability import durability
from txlog.unity.messages import LoadedTable, StagedTable

Made = TypeVar("Made")

_STAGED = "#"
"""Between the name of a table that is being made and what the catalog has said about it."""


class _Staged(msgspec.Struct, frozen=True):
    """A place that the catalog gave for a new table. It is no secret."""

    table_id: str
    location: str
    properties: dict[str, str]

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()

    @classmethod
    def of(cls, text: str) -> _Staged:
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(text), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise InvalidInputError("the name of a table ends where this one has a #") from None


class UnityCatalog:
    """The tables of the server at ``server``. Pickles without the token, and without secrets of the store."""

    def __init__(
        self,
        server: str,
        token: str | TokenSource | None = None,
        storage_options: Mapping[str, str] | None = None,
        credential_provider: Callable[[], object] | None = None,
        *,
        allows_maintenance: bool = False,
    ) -> None:
        """``allows_maintenance``: the catalog lets its clients vacuum, optimize and clean up managed tables. With a
        ``credential_provider`` of its own, no credentials are asked for."""
        self._client = UnityClient(server, token)
        self._options, self._provider = storage_options, credential_provider
        self._allows_maintenance = allows_maintenance

    def __getstate__(self) -> dict[str, Any]:
        options, provider = sendable(self._options, self._provider)
        return {**vars(self), "_options": options, "_provider": provider}

    @property
    def uri(self) -> str:
        return self._client.server

    def resolve(self, name: str) -> TablePlace:
        """Also what `create` gives a table for an address, which only another process of that creation knows."""
        name, _, staged = name.partition(_STAGED)
        wanted, asked = _named(name), ambient.instant()
        if staged:
            return self._new(wanted, _Staged.of(staged))
        loaded = self._client.get(wanted.path, LoadedTable)
        location, table_id = loaded.metadata.location, loaded.metadata.table_uuid
        place = self._place(wanted, location, VendedCredentials(self._client, wanted, table_id, location))
        place = msgspec.structs.replace(place, address=self._address(name))
        if not loaded.metadata.is_catalog_managed:
            if loaded.commits or loaded.latest_table_version:
                raise UnsupportedFeatureError(
                    f"the catalog at {self.uri} has accepted commits of this table, but does not say that it decides"
                    " them (catalogManaged), so others may have committed through the table's files. Ask the catalog's"
                    " administrator which of the commits the table has",
                    table=place.known_as,
                    features=(CATALOG_MANAGED,),
                )
            return place
        owner = partial(self._log, name=wanted, table_id=table_id, loaded=(loaded, asked))
        return msgspec.structs.replace(place, owner=owner)

    def create(self, name: str, make: Callable[[TablePlace], Made]) -> Made:
        wanted = _named(name)
        try:  # a staging table is no table: another one may be asked for
            asked = {"name": wanted.table}
            staged = self._client.repeat("POST", f"{wanted.schema_path}/staging-tables", StagedTable, asked)
        except Refused as error:
            if error.kind == "AlreadyExistsException":
                raise TableExistsError(f"there is already a table {wanted} in this catalog", table=self.uri) from None
            raise self._client.translated(error) from None
        protocol = staged.required_protocol
        needed = dict.fromkeys((*protocol.reader_features, *protocol.writer_features))
        properties = dict(staged.required_properties)
        properties |= {f"delta.feature.{feature}": "supported" for feature in needed}
        return make(self._new(wanted, _Staged(staged.table_id, staged.location, properties)))

    def _new(self, name: FullTableName, staged: _Staged) -> TablePlace:
        credentials = VendedCredentials(self._client, name, staged.table_id, staged.location, True)
        owner = partial(self._log, name=name, table_id=staged.table_id, staged_at=staged.location)
        return msgspec.structs.replace(
            self._place(name, staged.location, credentials),
            owner=owner,
            properties=staged.properties,
            address=self._address(f"{name}{_STAGED}{staged}"),
        )

    def _address(self, name: str) -> tuple[str, dict[str, str]]:
        """A token itself is left out: other processes have one of their own."""
        own = {"catalog": self.uri, **(self._options or {})}
        if (file := self._client.token_file) is not None:
            own["catalog_token_file"] = file
        if self._allows_maintenance:
            own["catalog_allows_maintenance"] = "true"
        return f"uc://{name}", own

    def tables(self, schema: str | None = None) -> list[str]:
        if schema is not None:
            return self._in_schema(*name_parts(schema, 2, is_schema=True))
        found: list[str] = []
        for catalog in self._client.names("catalogs"):
            for own in self._client.names("schemas", catalog_name=catalog.name):
                found += self._in_schema(catalog.name, own.name)
        return sorted(found)

    def _in_schema(self, catalog: str, schema: str) -> list[str]:
        found = self._client.tables(catalog, schema)
        return sorted(f"{catalog}.{schema}.{each.name}" for each in found if each.data_source_format in ("", "DELTA"))

    def durability(self) -> tuple[list[str], list[str]]:
        return durability(self.uri)

    def register(self, name: str, uri: str) -> None:
        self.require_registrable(name)

    def require_registrable(self, name: str) -> None:
        raise UnsupportedFeatureError(
            "an external table is registered by the administrator of a Unity Catalog, with a location that the catalog"
            " knows; txlog creates managed tables",
            table=self.uri,
        )

    def drop(self, name: str) -> None:
        self._change("DELETE", _named(name).path)

    def rename(self, name: str, to: str) -> None:
        old, new = _named(name), _named(to)
        if (old.catalog, old.schema) != (new.catalog, new.schema):
            raise UnsupportedFeatureError("a Unity Catalog renames within a schema only", table=self.uri)
        self._change("POST", f"{old.path}/rename", {"new-name": new.table})

    def _change(self, method: str, path: str, body: object = None) -> None:
        try:
            self._client.send(method, path, body=body)
        except Refused as error:
            if error.kind == "AlreadyExistsException":
                raise TableExistsError(error.message, table=self.uri) from None
            raise self._client.translated(error) from None
        except Unanswered as error:
            raise StorageError(
                f"the catalog at {self.uri} did not answer ({error}): look whether the change was made"
            ) from None

    def _place(self, name: FullTableName, location: str, credentials: VendedCredentials) -> TablePlace:
        provider = self._provider
        if provider is None and is_vended(location):
            provider = credentials
        return TablePlace(location, str(name), self._options, provider, known_as=f"uc://{name}")

    def _log(
        self,
        store: TableStore,
        *,
        name: FullTableName,
        table_id: str,
        staged_at: str | None = None,
        loaded: tuple[LoadedTable, ambient.Instant] | None = None,
    ) -> CatalogLog:
        maintains = not self._allows_maintenance
        try:
            return CatalogLog(
                self._client, name, table_id, store.log, maintains=maintains, staged_at=staged_at, loaded=loaded
            )
        except TxlogError as error:
            error.table = str(name)
            raise


def _named(name: str) -> FullTableName:
    return FullTableName(*name_parts(name, 3))
