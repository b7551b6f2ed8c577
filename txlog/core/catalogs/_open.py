"""Opens a catalog by its address: the scheme says which kind it is. And finds the catalog of a table that is given by
name, as ``uc://a.b.c``.

In: an address, and what the catalog or its tables need. Out: a `TableCatalog`: a folder of tables, or the kind that an
installed package offers for the scheme.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from txlog.core.catalogs._table_catalog import CatalogScheme, TableCatalog, TablePlace, Token
from txlog.core.points import Point
from txlog.core.store import TableStore, foreign_scheme, is_of_store
from txlog.core.util import pattern
from txlog.core.wording import argument
from txlog.errors import InvalidInputError, TableExistsError, TableNotFoundError

Made = TypeVar("Made")

CATALOGS: Point[CatalogScheme] = Point("txlog.catalogs", "a catalog of the scheme")

_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]+):")


def open_catalog(
    uri: str | os.PathLike[str],
    token: Token | None = None,
    storage_options: Mapping[str, str] | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> TableCatalog:
    """The catalog at ``uri``. Makes no request.

    Raises InvalidInputError for an address that cannot be used, and UnsupportedFeatureError if no package offers its
    scheme, or the package cannot be loaded.
    """
    if isinstance(uri, str) and (found := _SCHEME.match(uri)) is not None and not is_of_store(found[1]):
        is_path = not uri.startswith("//", found.end()) and found.end() < len(uri)
        kind = (CATALOGS.get if is_path else CATALOGS.load)(found[1].lower())
        if kind is not None and kind.opens is not None:
            return kind.opens(uri, token, storage_options, credential_provider)
    require_no_token(token)
    from txlog.core.catalogs._folder import FolderCatalog

    return FolderCatalog(uri, storage_options, credential_provider)


def require_no_token(token: Token | None) -> None:
    """Raises InvalidInputError if the user gave a token to a catalog that takes none."""
    if token is not None:
        raise InvalidInputError(
            f"this catalog needs no token: pass what the store needs as {argument('storage_options')}"
        )


def named_table(
    uri: object, storage_options: Mapping[str, str] | None, credential_provider: Callable[[], object] | None
) -> tuple[TableCatalog, str] | None:
    """The catalog and the name of a table that is given by name, as ``uc://catalog.schema.table``; None for a location.

    Raises InvalidInputError.
    """
    scheme = foreign_scheme(uri)
    kind = None if scheme is None else CATALOGS.get(scheme)
    if kind is None or kind.finds is None:
        return None
    return kind.finds(str(uri), storage_options, credential_provider)


def place_at(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    credential_provider: Callable[[], object] | None = None,
) -> TablePlace:
    """The place of a table: of a location, or of a name such as ``uc://a.b.c``, which its catalog is asked for.

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
