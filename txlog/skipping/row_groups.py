"""Which row groups of a Parquet file may hold a row that a predicate keeps, by the statistics in its footer.

In: a bound predicate and footers. Out: row group numbers. A footer's bounds are turned into the form that the log
keeps of a whole file and judged by the same rules, so that there is one place that decides what can be skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from txlog.arrow.parquet_footer import check_footer
from txlog.expressions.predicates import Predicate, paths_of, type_of
from txlog.protocol.column_mapping import physical_path
from txlog.protocol.schema import Struct
from txlog.protocol.statistics import StatisticsPolicy, row_group_statistics
from txlog.skipping.one_file import Pruner

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["RowGroupPruner"]


class RowGroupPruner:
    """One predicate for the files of one table. Every doubt keeps a row group."""

    def __init__(self, predicate: Predicate, schema: Struct, partition_columns: tuple[str, ...]) -> None:
        self._pruner = Pruner(predicate, schema, partition_columns)
        paths = [path for path in paths_of(predicate) if path[0] not in partition_columns]
        self._policy = StatisticsPolicy(tuple((physical_path(schema, path), type_of(path, schema)) for path in paths))

    def matching(
        self, metadata: pq.FileMetaData, footer: bytes, partition_values: Mapping[str, str | None]
    ) -> list[int]:
        """The row groups to read, ascending. A file of one was judged by the log's statistics already.

        Raises ``pa.ArrowInvalid`` where ``footer``, of which ``metadata`` was made, is damaged.
        """
        if metadata.num_row_groups < 2 or not self._policy.leaves:
            return list(range(metadata.num_row_groups))
        check_footer(footer, metadata)
        texts = row_group_statistics(self._policy, metadata)
        return [group for group, text in enumerate(texts) if self._pruner.may_match(partition_values, text)]
