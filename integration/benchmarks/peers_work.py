"""One table format in a process of its own: `python -m benchmarks.peers_work PEER PLACE [DSN]`.

It takes a command a line as JSON, with the name of a method of `Peer` and its arguments, and prints a line of JSON with
the time the call took and its answer, or the error. `PEERS` has the formats; all tables are in the folder ``PLACE``.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

DUCKDB_EXTENSIONS = ("ducklake", "sqlite_scanner", "postgres_scanner")
VECTORS = {"delta.enableDeletionVectors": "true"}
COMPACTS_BY_ITSELF = {"delta.autoOptimize.autoCompact": "true"}


class Peer(Protocol):
    """What each format does. ``table`` is a name; rows are in Parquet files, and ``query`` reads a table ``t``."""

    def adopt(self, table: str, files: list[str]) -> None:
        """Make a table of these files, which it may keep and delete."""

    def append(self, table: str, rows: str) -> None:
        """Add the rows of a file."""

    def merge(self, table: str, rows: str, keys: list[str], kind: str) -> None:
        """``kind``: an "upsert", only its "insert" of absent keys, or only its "update" of known ones."""

    def delete(self, table: str, condition: str) -> None:
        """Delete the rows of a condition that all the formats understand."""

    def query(self, table: str, query: str, columns: list[str]) -> list[Any]:
        """The one row of an answer; ``columns`` are those that the query reads."""

    def maintain(self, table: str) -> None:
        """The upkeep that its users run."""

    def append_rows(self, table: str, rows: pa.Table) -> None:
        """Add a few rows through an open handle."""


def stream_of(path: str) -> pa.RecordBatchReader:
    return ds.dataset(path).scanner().to_reader()


class Txlog:
    """Tables of txlog; ``properties`` are those of new tables."""

    def __init__(self, place: Path, properties: dict[str, str]) -> None:
        self._place, self._properties = place, properties
        self._open: dict[str, Any] = {}

    def _table(self, table: str) -> Any:
        import txlog

        if table not in self._open:
            self._open[table] = txlog.Table.open(self._place / table)
        return self._open[table]

    def adopt(self, table: str, files: list[str]) -> None:
        _delta_of(self._place / table, files, self._properties)

    def append(self, table: str, rows: str) -> None:
        self._table(table).append(stream_of(rows))

    def append_rows(self, table: str, rows: pa.Table) -> None:
        self._table(table).append(rows)

    def merge(self, table: str, rows: str, keys: list[str], kind: str) -> None:
        matched, absent = ("ignore" if kind == "insert" else "update"), ("ignore" if kind == "update" else "insert")
        self._table(table).upsert(stream_of(rows), keys, when_matched=matched, when_not_matched=absent)

    def delete(self, table: str, condition: str) -> None:
        self._table(table).delete(condition)

    def query(self, table: str, query: str, columns: list[str]) -> list[Any]:
        return _by_duckdb(self._table(table).snapshot().to_dataset(), query)

    def maintain(self, table: str) -> None:
        done = self._table(table).maintain()
        assert not done.failures, done


class Deltalake:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._open: dict[str, Any] = {}

    def _table(self, table: str) -> Any:
        from deltalake import DeltaTable

        if table not in self._open:
            self._open[table] = DeltaTable(self._place / table)
        return self._open[table]

    def adopt(self, table: str, files: list[str]) -> None:
        _delta_of(self._place / table, files, {})

    def append(self, table: str, rows: str) -> None:
        self._write(table, stream_of(rows))

    def append_rows(self, table: str, rows: pa.Table) -> None:
        self._write(table, rows)

    def _write(self, table: str, rows: Any) -> None:
        from deltalake import write_deltalake

        write_deltalake(self._table(table), rows, mode="append")

    def merge(self, table: str, rows: str, keys: list[str], kind: str) -> None:
        on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        merge = self._table(table).merge(stream_of(rows), on, source_alias="s", target_alias="t")
        if kind != "insert":
            merge = merge.when_matched_update_all()
        if kind != "update":
            merge = merge.when_not_matched_insert_all()
        merge.execute()

    def delete(self, table: str, condition: str) -> None:
        self._table(table).delete(condition)

    def query(self, table: str, query: str, columns: list[str]) -> list[Any]:
        handle = self._table(table)
        handle.update_incremental()
        return _by_duckdb(handle.to_pyarrow_dataset(), query)

    def maintain(self, table: str) -> None:
        self._table(table).optimize.compact()


class SparkDelta:
    """Spark's own Delta in a session of its own."""

    def __init__(self, place: Path, properties: dict[str, str]) -> None:
        self._place, self._properties = place, properties
        self._sessions: list[SparkSession] = []

    @property
    def _spark(self) -> SparkSession:
        if not self._sessions:
            from benchmarks.spark import start

            self._sessions.append(start(self._place))
        return self._sessions[0]

    def adopt(self, table: str, files: list[str]) -> None:
        _delta_of(self._place / table, files, self._properties)

    def append(self, table: str, rows: str) -> None:
        self._spark.read.parquet(rows).write.format("delta").mode("append").save(str(self._place / table))

    def append_rows(self, table: str, rows: pa.Table) -> None:
        frame = self._spark.createDataFrame(rows)
        frame.write.format("delta").mode("append").save(str(self._place / table))

    def merge(self, table: str, rows: str, keys: list[str], kind: str) -> None:
        self._spark.read.parquet(rows).createOrReplaceTempView("source")
        on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        clauses = {"update": "WHEN MATCHED THEN UPDATE SET *", "insert": "WHEN NOT MATCHED THEN INSERT *"}
        taken = clauses.values() if kind == "upsert" else [clauses[kind]]
        self._sql(f"MERGE INTO {self._name(table)} t USING source s ON {on} {' '.join(taken)}")

    def delete(self, table: str, condition: str) -> None:
        self._sql(f"DELETE FROM {self._name(table)} WHERE {condition}")

    def query(self, table: str, query: str, columns: list[str]) -> list[Any]:
        self._spark.read.format("delta").load(str(self._place / table)).createOrReplaceTempView("t")
        return list(self._sql(query)[0])

    def maintain(self, table: str) -> None:
        self._sql(f"OPTIMIZE {self._name(table)}")

    def _name(self, table: str) -> str:
        return f"delta.`{self._place / table}`"

    def _sql(self, text: str) -> list[Any]:
        return list(self._spark.sql(text).collect())


class PyIceberg:
    """Iceberg tables in a catalog in SQLite."""

    def __init__(self, place: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self._catalog = SqlCatalog("one", uri=f"sqlite:///{place / 'iceberg.sqlite'}", warehouse=f"file://{place}")
        self._open: dict[str, Any] = {}

    def _table(self, table: str) -> Any:
        if table not in self._open:
            self._open[table] = self._catalog.load_table(f"lake.{table}")
        return self._open[table]

    def adopt(self, table: str, files: list[str]) -> None:
        self._catalog.create_namespace_if_not_exists("lake")
        made = self._catalog.create_table(f"lake.{table}", pq.read_schema(files[0]))
        made.add_files(files)

    def append(self, table: str, rows: str) -> None:
        self._table(table).append(pq.read_table(rows))

    def append_rows(self, table: str, rows: pa.Table) -> None:
        self._table(table).append(rows)

    def merge(self, table: str, rows: str, keys: list[str], kind: str) -> None:
        self._table(table).upsert(
            pq.read_table(rows),
            join_cols=keys,
            when_matched_update_all=kind != "insert",
            when_not_matched_insert_all=kind != "update",
        )

    def delete(self, table: str, condition: str) -> None:
        self._table(table).delete(condition)

    def query(self, table: str, query: str, columns: list[str]) -> list[Any]:
        scan = self._table(table).refresh().scan(selected_fields=tuple(columns))
        return _by_duckdb(scan.to_arrow_batch_reader(), query)

    def maintain(self, table: str) -> None:
        raise NotImplementedError("PyIceberg compacts no files")


class DuckLake:
    """DuckLake tables of DuckDB. ``dsn`` names a database of PostgreSQL for the catalog, else it is in SQLite."""

    def __init__(self, place: Path, *, dsn: str = "", inlines: bool = True) -> None:
        self._connection = connect_duckdb(DUCKDB_EXTENSIONS)
        catalog = f"postgres:{dsn}" if dsn else f"sqlite:{place / 'ducklake.sqlite'}"
        inlining = "" if inlines else ", DATA_INLINING_ROW_LIMIT 0"
        self._execute(f"ATTACH 'ducklake:{catalog}' AS lake (DATA_PATH '{place / 'files'}'{inlining})")
        self._execute("USE lake")

    def _execute(self, text: str) -> list[Any]:
        return list(self._connection.execute(text).fetchall())

    def adopt(self, table: str, files: list[str]) -> None:
        self._execute(f"CREATE TABLE {table} AS FROM read_parquet('{files[0]}') LIMIT 0")
        for each in files:
            self._execute(f"CALL ducklake_add_data_files('lake', '{table}', '{each}')")

    def append(self, table: str, rows: str) -> None:
        self._execute(f"INSERT INTO {table} FROM read_parquet('{rows}')")

    def append_rows(self, table: str, rows: pa.Table) -> None:
        self._connection.register("given_rows", rows)
        self._execute(f"INSERT INTO {table} FROM given_rows")

    def merge(self, table: str, rows: str, keys: list[str], kind: str) -> None:
        on = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        clauses = {"update": "WHEN MATCHED THEN UPDATE", "insert": "WHEN NOT MATCHED THEN INSERT"}
        taken = clauses.values() if kind == "upsert" else [clauses[kind]]
        self._execute(f"MERGE INTO {table} t USING (FROM read_parquet('{rows}')) s ON {on} {' '.join(taken)}")

    def delete(self, table: str, condition: str) -> None:
        self._execute(f"DELETE FROM {table} WHERE {condition}")

    def query(self, table: str, query: str, columns: list[str]) -> list[Any]:
        return list(self._execute(f"WITH t AS (FROM {table}) {query}")[0])

    def maintain(self, table: str) -> None:
        self._execute("CHECKPOINT")


def connect_duckdb(extensions: Sequence[str], path: str | Path = ":memory:") -> duckdb.DuckDBPyConnection:
    """A connection to a database, with extensions that are installed as packages."""
    import duckdb
    import duckdb_extensions

    connection = duckdb.connect(path)
    for name in extensions:
        duckdb_extensions.import_extension(name)
        connection.execute(f"LOAD {name}")
    return connection


@functools.cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """A connection for all queries, as DuckLake has one."""
    return connect_duckdb(())


def _by_duckdb(t: Any, query: str) -> list[Any]:
    """What DuckDB says of an Arrow dataset or stream."""
    with _duckdb().cursor() as connection:
        connection.register("t", t)
        (row,) = connection.execute(query).fetchall()
        return list(row)


def _delta_of(path: Path, files: list[str], properties: dict[str, str]) -> None:
    """A Delta table of these files, the same for all who write Delta."""
    import txlog

    table = txlog.Table.create(path, pq.read_schema(files[0]), properties=properties)
    names = []
    for each in files:
        names.append(Path(each).name)
        os.link(each, path / names[-1])
    table.add_files(names)


def append_batches(peer: Peer, table: str, rows_each: int, batches: int, within_s: float) -> int:
    """Append batches of a few rows, one after the other, for at most this long; returns how many."""
    end_s = time.monotonic() + within_s
    for number, rows in enumerate(batches_of(rows_each, batches)):
        if time.monotonic() > end_s:
            return number
        peer.append_rows(table, rows)
    return batches


def batches_of(rows_each: int, batches: int) -> Iterator[pa.Table]:
    """What sensors say: a running number, the sensor, and a value."""
    for number in range(batches):
        ids = range(number * rows_each, (number + 1) * rows_each)
        sensors, values = [each % 100 for each in ids], [each % 1000 / 8 for each in ids]
        yield pa.table({"id": pa.array(ids, pa.int64()), "sensor": pa.array(sensors, pa.int64()), "value": values})


def _peer(name: str, place: Path, dsn: str) -> Peer:
    made: dict[str, Callable[[], Peer]] = {
        "txlog-vectors": lambda: Txlog(place, VECTORS),
        "txlog-copies": lambda: Txlog(place, {}),
        "txlog-auto": lambda: Txlog(place, COMPACTS_BY_ITSELF),
        "deltalake": lambda: Deltalake(place),
        "spark-vectors": lambda: SparkDelta(place, VECTORS),
        "spark-copies": lambda: SparkDelta(place, {}),
        "pyiceberg": lambda: PyIceberg(place),
        "ducklake-sqlite": lambda: DuckLake(place),
        "ducklake-sqlite-files": lambda: DuckLake(place, inlines=False),
        "ducklake-postgres": lambda: DuckLake(place, dsn=dsn),
        "ducklake-postgres-files": lambda: DuckLake(place, dsn=dsn, inlines=False),
    }
    return made[name]()


def _serve(peer: Peer) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        command = json.loads(line)
        what, arguments = command.pop("do"), command
        cpu_s, begin_s = time.process_time(), time.perf_counter()
        try:
            if what == "append_batches":
                answer: Any = append_batches(peer, **arguments)
            else:
                answer = getattr(peer, what)(**arguments)
            said = {"answer": answer}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        took = {"wall_s": time.perf_counter() - begin_s, "own_cpu_s": time.process_time() - cpu_s}
        print(json.dumps({**took, **said}, default=str), file=answers, flush=True)


if __name__ == "__main__":
    _serve(_peer(sys.argv[1], Path(sys.argv[2]), (sys.argv[3:] or [""])[0]))
