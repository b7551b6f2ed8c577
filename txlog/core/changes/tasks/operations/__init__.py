"""What deletes, updates, upserts and merges do to rows: each a `RowOperation`, bound to a table's definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.changes.tasks.operations._delete import DeleteRows, DeleteSpec
    from txlog.core.changes.tasks.operations._keyed_change import KeyedChange
    from txlog.core.changes.tasks.operations._known_keys import KnownKeys, cached_keys, keys_of_file, known_keys
    from txlog.core.changes.tasks.operations._merge import MergeRows
    from txlog.core.changes.tasks.operations._merge_clauses import MergeClause, MergeOptions
    from txlog.core.changes.tasks.operations._merge_source import ComputedKey, merge_join, read_merge_source
    from txlog.core.changes.tasks.operations._sorted_keys import ColumnValues, SortedKeys, sort_order
    from txlog.core.changes.tasks.operations._update import UpdateSpec
    from txlog.core.changes.tasks.operations._upsert import (
        MissingColumns,
        UpsertOptions,
        WhenMatched,
        WhenNotMatched,
        for_source,
        keeping_numbers,
        read_upsert,
        read_upsert_source,
        source_columns,
        source_computed,
    )
    from txlog.core.changes.tasks.operations._upsert_in_place import UpsertInPlace
    from txlog.core.changes.tasks.operations._upsert_source import (
        MEMORY_MAX_BYTES,
        OnDuplicate,
        UpsertSource,
        joined_sequence,
        refuse_null_keys,
        require_columns,
        stored_rows,
    )
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _delete: DeleteRows DeleteSpec
        _keyed_change: KeyedChange
        _known_keys: KnownKeys cached_keys keys_of_file known_keys
        _merge: MergeRows
        _merge_clauses: MergeClause MergeOptions
        _merge_source: ComputedKey merge_join read_merge_source
        _sorted_keys: ColumnValues SortedKeys sort_order
        _update: UpdateSpec
        _upsert: MissingColumns UpsertOptions WhenMatched WhenNotMatched for_source keeping_numbers read_upsert
            read_upsert_source source_columns source_computed
        _upsert_in_place: UpsertInPlace
        _upsert_source: MEMORY_MAX_BYTES OnDuplicate UpsertSource joined_sequence refuse_null_keys
            require_columns stored_rows
        """,
    )

__all__ = [
    "MEMORY_MAX_BYTES",
    "ColumnValues",
    "ComputedKey",
    "DeleteRows",
    "DeleteSpec",
    "KeyedChange",
    "KnownKeys",
    "MergeClause",
    "MergeOptions",
    "MergeRows",
    "MissingColumns",
    "OnDuplicate",
    "SortedKeys",
    "UpdateSpec",
    "UpsertInPlace",
    "UpsertOptions",
    "UpsertSource",
    "WhenMatched",
    "WhenNotMatched",
    "cached_keys",
    "for_source",
    "joined_sequence",
    "keeping_numbers",
    "keys_of_file",
    "known_keys",
    "merge_join",
    "read_merge_source",
    "read_upsert",
    "read_upsert_source",
    "refuse_null_keys",
    "require_columns",
    "sort_order",
    "source_columns",
    "source_computed",
    "stored_rows",
]
