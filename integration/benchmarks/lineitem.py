"""TPC-H's lineitem, by DuckDB's generator, in files by ranges of orders, and the rows of changes to it.

In: a scale factor; 1 has six million rows. Out: Parquet files written by pyarrow, and a query that reads all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.measure import Bench
from benchmarks.peers_work import connect_duckdb

if TYPE_CHECKING:
    import duckdb

KEYS = ("l_orderkey", "l_linenumber")
COLUMNS = (
    *("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_tax"),
    *("l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate", "l_receiptdate"),
    *("l_shipinstruct", "l_shipmode", "l_comment"),
)
ALL_COLUMNS = (
    "SELECT count(*), sum(l_orderkey), sum(l_partkey), sum(l_suppkey), sum(l_linenumber), sum(l_quantity),"
    " sum(CAST((l_orderkey + l_linenumber) % 1009 AS DOUBLE) * CAST(l_extendedprice AS DOUBLE)), sum(l_discount),"
    " sum(l_tax), max(l_shipdate), min(l_commitdate), max(l_receiptdate), sum(length(l_comment)),"
    " sum(length(l_shipinstruct)), sum(length(l_shipmode)), max(l_returnflag), max(l_linestatus) FROM t"
)
"""Reads every column; one sum is of what only right pairs of keys and prices give."""


class Lineitem:
    """The generated rows, and files of them in a folder."""

    def __init__(self, bench: Bench, scale_factor: float) -> None:
        self.folder = bench.folder("lineitem")
        self.folder.mkdir()
        self._connection: duckdb.DuckDBPyConnection = connect_duckdb(("tpch",), self.folder / "made.duckdb")
        self._connection.execute(f"CALL dbgen(sf={scale_factor})")
        asked = "SELECT count(*), max(l_orderkey) FROM lineitem"
        ((self.rows, self.last_order),) = self._connection.execute(asked).fetchall()

    def files(self, count: int) -> Sequence[Path]:
        """All rows, in files of a range of orders each."""
        step = self.last_order // count + 1
        return [
            self.saved(f"part-{at:03}", f"FROM lineitem WHERE l_orderkey // {step} = {at} ORDER BY l_orderkey")
            for at in range(count)
        ]

    def saved(self, name: str, query: str) -> Path:
        """A file of the rows of a query. Its decimals are integers, as all programs here write them."""
        path = self.folder / f"{name}.parquet"
        reader = self._connection.execute(query).fetch_record_batch(100_000)
        with pq.ParquetWriter(path, reader.schema, store_decimal_as_integer=True) as writer:
            for batch in reader:
                writer.write_batch(batch, row_group_size=1 << 20)
        return path

    def changed(self, name: str, share: int, *, shift: str = "0", seed: int = 0) -> Path:
        """A row in ``share``, by chance, with another price and quantity; ``shift`` is added to its order."""
        return self.saved(
            name,
            f"SELECT * REPLACE (l_orderkey + {shift} AS l_orderkey,"
            " CAST(l_quantity + 1 AS DECIMAL(15, 2)) AS l_quantity,"
            " CAST(l_extendedprice * 2 AS DECIMAL(15, 2)) AS l_extendedprice) FROM lineitem"
            f" WHERE hash(l_orderkey, l_linenumber, {seed}) % {share} = 0",
        )
