"""Pure: may this file, row group or partition hold a matching row?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.predicates.skipping._bounds_columns import (
        BoundsColumns,
        ColumnBounds,
        ColumnLeaf,
        bounds_of_parsed,
        bounds_of_text,
        leaves_of,
        parsed_statistics,
    )
    from txlog.core.predicates.skipping._key_pruning import KeyPruner, KeyRanges, key_range
    from txlog.core.predicates.skipping._many_files import FilePruner, prune_files
    from txlog.core.predicates.skipping._one_file import ColumnFacts, Pruner
    from txlog.core.predicates.skipping._partition_predicate import PartitionPredicate
    from txlog.core.predicates.skipping._proof import every_row_matches, without_nan_doubts
    from txlog.core.predicates.skipping._row_groups import RowGroupPruner
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _bounds_columns: BoundsColumns ColumnBounds ColumnLeaf bounds_of_parsed bounds_of_text leaves_of
            parsed_statistics
        _key_pruning: KeyPruner KeyRanges key_range
        _many_files: FilePruner prune_files
        _one_file: ColumnFacts Pruner
        _partition_predicate: PartitionPredicate
        _proof: every_row_matches without_nan_doubts
        _row_groups: RowGroupPruner
        """,
    )

__all__ = [
    "BoundsColumns",
    "ColumnBounds",
    "ColumnFacts",
    "ColumnLeaf",
    "FilePruner",
    "KeyPruner",
    "KeyRanges",
    "PartitionPredicate",
    "Pruner",
    "RowGroupPruner",
    "bounds_of_parsed",
    "bounds_of_text",
    "every_row_matches",
    "key_range",
    "leaves_of",
    "parsed_statistics",
    "prune_files",
    "without_nan_doubts",
]
