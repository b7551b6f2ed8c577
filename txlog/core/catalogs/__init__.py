"""Names of tables: catalogs that say where a table is, and who decides its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.catalogs._folder import delete_table_files
    from txlog.core.catalogs._names import name_parts, name_text
    from txlog.core.catalogs._open import (
        made_at_name,
        named_table,
        open_catalog,
        open_place,
        place_at,
        require_no_token,
        resolved,
    )
    from txlog.core.catalogs._probe import probe_store
    from txlog.core.catalogs._table_catalog import (
        CatalogScheme,
        ChecksItself,
        FindsTable,
        OpensCatalog,
        TableCatalog,
        TablePlace,
        Token,
    )
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _folder: delete_table_files
        _names: name_parts name_text
        _open: made_at_name named_table open_catalog open_place place_at require_no_token resolved
        _probe: probe_store
        _table_catalog: CatalogScheme ChecksItself FindsTable OpensCatalog TableCatalog TablePlace Token
        """,
    )

__all__ = [
    "CatalogScheme",
    "ChecksItself",
    "FindsTable",
    "OpensCatalog",
    "TableCatalog",
    "TablePlace",
    "Token",
    "delete_table_files",
    "made_at_name",
    "name_parts",
    "name_text",
    "named_table",
    "open_catalog",
    "open_place",
    "place_at",
    "probe_store",
    "require_no_token",
    "resolved",
]
