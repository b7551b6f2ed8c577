"""What a package that extends txlog imports beside the public names of `txlog`.

In: nothing. Out: for each point where a package can plug in, the protocol or the struct that its entry must be. A
package declares its entries as entry points, one group for each point, under the name that switches the entry on.
``docs/extend.md`` lists the groups. txlog's own extensions are declared in the same way.

Names load on first use, so an extension that is asked for one thing imports only what that needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlog.core.catalogs import (
        CatalogScheme,
        ChecksItself,
        FindsTable,
        OpensCatalog,
        TableCatalog,
        TablePlace,
        require_no_token,
    )
    from txlog.core.definition import Engine, RowChanges
    from txlog.core.format.properties import PropertyRule
    from txlog.core.maintenance import TombstoneUpkeep
    from txlog.core.util.background import Background
    from txlog.core.util.points import Point
    from txlog.core.versions import FollowsCommits, MakesFollower, OpenTable, open_table_of
    from txlog.core.versions.decisions.state import TableState
    from txlog.core.writing.row_changes import Changelog, ChangeWriter, SinkModeOf

_HOME = {
    "Background": "txlog.core.util.background",
    "CatalogScheme": "txlog.core.catalogs._table_catalog",
    "ChangeWriter": "txlog.core.writing.row_changes",
    "Changelog": "txlog.core.writing.row_changes",
    "ChecksItself": "txlog.core.catalogs._table_catalog",
    "Engine": "txlog.core.definition._row_changes",
    "FindsTable": "txlog.core.catalogs._table_catalog",
    "FollowsCommits": "txlog.core.versions.upkeep._post_commit",
    "MakesFollower": "txlog.core.versions.upkeep._post_commit",
    **dict.fromkeys(("OpenTable", "open_table_of"), "txlog.core.versions._open_table"),
    "OpensCatalog": "txlog.core.catalogs._table_catalog",
    "Point": "txlog.core.util.points",
    "PropertyRule": "txlog.core.format.properties",
    "RowChanges": "txlog.core.definition._row_changes",
    "SinkModeOf": "txlog.core.writing.row_changes",
    "TableCatalog": "txlog.core.catalogs._table_catalog",
    "TablePlace": "txlog.core.catalogs._table_catalog",
    "TableState": "txlog.core.versions.decisions.state",
    "TombstoneUpkeep": "txlog.core.maintenance._tombstone_files",
    "require_no_token": "txlog.core.catalogs._open",
}

__all__ = [
    "Background",
    "CatalogScheme",
    "ChangeWriter",
    "Changelog",
    "ChecksItself",
    "Engine",
    "FindsTable",
    "FollowsCommits",
    "MakesFollower",
    "OpenTable",
    "OpensCatalog",
    "Point",
    "PropertyRule",
    "RowChanges",
    "SinkModeOf",
    "TableCatalog",
    "TablePlace",
    "TableState",
    "TombstoneUpkeep",
    "open_table_of",
    "require_no_token",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'txlog.extend' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
