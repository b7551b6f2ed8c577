"""What a package that extends txlog imports beside the public names of `txlog`.

In: nothing. Out: for each point where a package can plug in, the protocol or the struct that its entry must be. A
package declares its entries as entry points, one group for each point, under the name that switches the entry on.
``docs/extend.md`` lists the groups. txlog's own extensions are declared in the same way.

Names load on first use, so an extension that is asked for one thing imports only what that needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.background import Background
    from txlog.core.catalogs import (
        CatalogScheme,
        ChecksItself,
        FindsTable,
        OpensCatalog,
        TableCatalog,
        TablePlace,
        require_no_token,
    )
    from txlog.core.changes.tasks import ReadTask
    from txlog.core.definition import BoundEngine, MergesRowChanges
    from txlog.core.format.properties import PropertyRule
    from txlog.core.format.type_support import TypeSupport
    from txlog.core.maintenance import FolderKeeper, TombstoneUpkeep
    from txlog.core.operations import RowCheck
    from txlog.core.points import Point
    from txlog.core.predicates import PackageFunction
    from txlog.core.row_rules import computed_names
    from txlog.core.versions import (
        FollowsCommits,
        GivesNumbers,
        MakesFollower,
        OpenTable,
        builder_of,
        open_table_of,
        state_of,
    )
    from txlog.core.versions.decisions.state import TableState
    from txlog.core.wording import Word, in_python, spelled
    from txlog.core.writing import BadRow, Changelog, ChangeWriter, SinkModeOf
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        background: Background
        catalogs._open: require_no_token
        catalogs._table_catalog: CatalogScheme ChecksItself FindsTable OpensCatalog TableCatalog TablePlace
        changes.tasks: ReadTask
        definition._row_changes: BoundEngine MergesRowChanges
        format.properties: PropertyRule
        format.type_support: TypeSupport
        maintenance._package_folders: FolderKeeper
        maintenance._tombstone_files: TombstoneUpkeep
        operations: RowCheck
        points: Point
        predicates: PackageFunction
        row_rules: computed_names
        versions._identity_ranges: GivesNumbers
        versions._internals: builder_of open_table_of state_of
        versions._open_table: OpenTable
        versions.decisions.state: TableState
        versions.upkeep._post_commit: FollowsCommits MakesFollower
        wording: Word in_python spelled
        writing: BadRow ChangeWriter Changelog SinkModeOf
        """,
        of="txlog.core",
    )

__all__ = [
    "Background",
    "BadRow",
    "BoundEngine",
    "CatalogScheme",
    "ChangeWriter",
    "Changelog",
    "ChecksItself",
    "FindsTable",
    "FolderKeeper",
    "FollowsCommits",
    "GivesNumbers",
    "MakesFollower",
    "MergesRowChanges",
    "OpenTable",
    "OpensCatalog",
    "PackageFunction",
    "Point",
    "PropertyRule",
    "ReadTask",
    "RowCheck",
    "SinkModeOf",
    "TableCatalog",
    "TablePlace",
    "TableState",
    "TombstoneUpkeep",
    "TypeSupport",
    "Word",
    "builder_of",
    "computed_names",
    "in_python",
    "open_table_of",
    "require_no_token",
    "spelled",
    "state_of",
]
