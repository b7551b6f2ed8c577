"""What a table is: its creation, and changes of its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.definition._change_columns import (
        ColumnAlteration,
        altered_column,
        described_table,
        dropped_columns,
        renamed_column,
    )
    from txlog.core.definition._change_definition import (
        added_columns,
        change_definition,
        properties_set,
        set_properties,
        unset_properties,
    )
    from txlog.core.definition._checked_definition import (
        DefinitionChange,
        MakeChange,
        commit_definition_change,
        require_met,
    )
    from txlog.core.definition._cluster_by import cluster_by
    from txlog.core.definition._constraints import add_constraint, drop_constraint
    from txlog.core.definition._create_table import create_table, probe_new_location
    from txlog.core.definition._row_changes import BoundEngine, MergesRowChanges, is_merged, row_changes
    from txlog.core.definition._row_tracking import give_row_ids, take_row_ids
    from txlog.core.definition._sync_identity import IdentitySync
    from txlog.core.definition._table_definition import (
        Definition,
        cloned,
        commit_definition,
        define,
        definition_builder,
        is_wider,
        new_table,
        random_name,
        require_definition,
        with_columns,
        with_properties,
        with_schema,
        without_properties,
    )
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _change_columns: ColumnAlteration altered_column described_table dropped_columns renamed_column
        _change_definition: added_columns change_definition properties_set set_properties unset_properties
        _checked_definition: DefinitionChange MakeChange commit_definition_change require_met
        _cluster_by: cluster_by
        _constraints: add_constraint drop_constraint
        _create_table: create_table probe_new_location
        _row_changes: BoundEngine MergesRowChanges is_merged row_changes
        _row_tracking: give_row_ids take_row_ids
        _sync_identity: IdentitySync
        _table_definition: Definition cloned commit_definition define definition_builder is_wider new_table
            random_name require_definition with_columns with_properties with_schema without_properties
        """,
    )

__all__ = [
    "BoundEngine",
    "ColumnAlteration",
    "Definition",
    "DefinitionChange",
    "IdentitySync",
    "MakeChange",
    "MergesRowChanges",
    "add_constraint",
    "added_columns",
    "altered_column",
    "change_definition",
    "cloned",
    "cluster_by",
    "commit_definition",
    "commit_definition_change",
    "create_table",
    "define",
    "definition_builder",
    "described_table",
    "drop_constraint",
    "dropped_columns",
    "give_row_ids",
    "is_merged",
    "is_wider",
    "new_table",
    "probe_new_location",
    "properties_set",
    "random_name",
    "renamed_column",
    "require_definition",
    "require_met",
    "row_changes",
    "set_properties",
    "take_row_ids",
    "unset_properties",
    "with_columns",
    "with_properties",
    "with_schema",
    "without_properties",
]
