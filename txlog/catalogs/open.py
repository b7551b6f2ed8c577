"""Opens a catalog by its address: the scheme says which kind it is. And finds the catalog of a table ``uc://a.b.c``.

In: an address, and what the catalog or its tables need. Out: a `TableCatalog`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from txlog.catalogs.base import TableCatalog, TablePlace
from txlog.errors import InvalidInputError, TableExistsError, TableNotFoundError
from txlog.store.table_store import TableStore
from txlog.util.extras import how_to_install
from txlog.util.wording import argument

__all__ = ["CATALOG", "made_at_name", "named_table", "open_catalog", "open_place", "place_at", "resolved"]

Made = TypeVar("Made")

CATALOG = "TXLOG_CATALOG"
"""The environment variable with the address of the server of ``uc://`` names."""

_SCHEME = "uc://"


def open_catalog(
    uri: str | os.PathLike[str],
    token: str | Callable[[], str | None] | None = None,
    storage_options: Mapping[str, str] | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> TableCatalog:
    """The catalog at ``uri``. Makes no request. Raises InvalidInputError for an address that cannot be used."""
    if isinstance(uri, str) and uri.startswith(("http://", "https://")):
        from txlog.catalogs.unity.catalog import UnityCatalog
        from txlog.catalogs.unity.client import FileToken

        options: dict[str, Any] = dict(storage_options or {})
        file, given = options.pop("catalog_token_file", None), options.pop("catalog_token", None)
        allows = str(options.pop("catalog_allows_maintenance", "")).lower() == "true"
        found = token or given or (FileToken(file) if file else None)
        return UnityCatalog(uri, found, options or None, credential_provider, allows_maintenance=allows)
    if token is not None:
        raise InvalidInputError(
            f"this catalog needs no token: pass what the store needs as {argument('storage_options')}"
        )
    if isinstance(uri, str) and uri.lower().startswith("glue:"):
        try:
            from txlog.catalogs.glue import GlueCatalog
        except ImportError:
            raise InvalidInputError(
                f"Glue is reached by boto3, which is not installed: {how_to_install('glue')}"
            ) from None
        return GlueCatalog(uri, storage_options, credential_provider)
    from txlog.catalogs.folder import FolderCatalog

    return FolderCatalog(uri, storage_options, credential_provider)


def named_table(
    uri: object, storage_options: Mapping[str, str] | None, credential_provider: Callable[[], object] | None
) -> tuple[TableCatalog, str] | None:
    """The catalog and the name of a table ``uc://catalog.schema.table``; None for any other location.

    The catalog's address is the storage option ``catalog``, or the environment variable. Raises InvalidInputError.
    """
    if not isinstance(uri, str) or not uri.startswith(_SCHEME):
        return None
    options = dict(storage_options or {})
    server = options.pop("catalog", None) or os.environ.get(CATALOG)
    if not server:
        raise InvalidInputError(
            f"{uri} is a name in a Unity Catalog: pass its address as the storage option catalog, or set {CATALOG}"
        )
    return open_catalog(server, None, options or None, credential_provider), uri.removeprefix(_SCHEME)


def place_at(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> TablePlace:
    """The place of a table: of a location, or of a name ``uc://catalog.schema.table``, which its catalog is asked for.

    Raises InvalidInputError, and for a name what `TableCatalog.resolve` raises.
    """
    if isinstance(uri, TablePlace):
        return uri
    named = named_table(uri, storage_options, credential_provider)
    if named is not None:
        return named[0].resolve(named[1])
    return TablePlace(uri, "", storage_options, credential_provider)  # type: ignore[arg-type]  # it is checked when opened


def open_place(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> TableStore:
    """The stores of the table at a location or of a name. Raises what `place_at` and ``open_store`` raise."""
    return place_at(uri, storage_options, credential_provider).store()


def resolved(catalog: TableCatalog, name: str) -> TablePlace | None:
    """Where the table of a name is; None if there is none. Raises what `TableCatalog.resolve` raises otherwise."""
    try:
        return catalog.resolve(name)
    except TableNotFoundError:
        return None


def made_at_name(
    catalog: TableCatalog, name: str, make: Callable[[TablePlace], Made], *, may_exist: bool, repeats: bool = True
) -> Made:
    """What ``make`` makes of the place of a name: a new one, or, if it ``may_exist``, the one that the name has.

    ``repeats``: ``make`` may be called a second time, if another writer was faster. Raises TableExistsError, and what
    ``make`` raises.
    """
    place = resolved(catalog, name) if may_exist else None
    if place is not None:
        return make(place)
    begun: list[TablePlace] = []

    def begin(place: TablePlace) -> Made:
        begun.append(place)
        return make(place)

    try:
        return catalog.create(name, begin)
    except TableExistsError:
        if not may_exist or (begun and not repeats):
            raise
    return make(catalog.resolve(name))
