"""What addresses mean to a Unity Catalog: its server is at ``http://`` or ``https://``, its tables are ``uc://`` names.

In: an address, and what the catalog or its tables need. Out: a `TableCatalog`. pyproject.toml declares the two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from txlog.errors import InvalidInputError
from txlog.extend.catalogs import CatalogScheme, TableCatalog, Token, open_catalog
from txlog.unity.catalog import UnityCatalog
from txlog.unity.client import FileToken

CATALOG = "TXLOG_CATALOG"
"""The environment variable with the address of the server of ``uc://`` names."""

_NAMED = "uc://"


def _server(
    uri: str,
    token: Token | None,
    storage_options: Mapping[str, str] | None,
    credential_provider: Callable[[], object] | None,
) -> UnityCatalog:
    options: dict[str, Any] = dict(storage_options or {})
    file, given = options.pop("catalog_token_file", None), options.pop("catalog_token", None)
    allows = str(options.pop("catalog_allows_maintenance", "")).lower() == "true"
    found = token or given or (FileToken(file) if file else None)
    return UnityCatalog(uri, found, options or None, credential_provider, allows_maintenance=allows)


def _of_name(
    uri: str, storage_options: Mapping[str, str] | None, credential_provider: Callable[[], object] | None
) -> tuple[TableCatalog, str]:
    """The server's address is the storage option ``catalog``, or the environment variable."""
    options = dict(storage_options or {})
    server = options.pop("catalog", None) or os.environ.get(CATALOG)
    if not server:
        raise InvalidInputError(
            f"{uri} is a name in a Unity Catalog: pass its address as the storage option catalog, or set {CATALOG}"
        )
    return open_catalog(server, None, options or None, credential_provider), uri[len(_NAMED) :]


SERVERS = CatalogScheme(opens=_server)
NAMES = CatalogScheme(finds=_of_name)
