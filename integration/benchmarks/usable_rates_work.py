"""One writer at a pace: `python -m benchmarks.usable_rates_work PLACE WRITER PERIOD_S SECONDS OVERWRITES`.

``PLACE`` is a `Place` as JSON. It opens the table, makes a transaction that does not count, says so, waits for a line,
and then begins one transaction every period: an append of a row to some partition, or an overwrite of a partition by
one. It reports each as JSON: the row's number, the partition, whether it was an overwrite, when it was due and when it
ended, and whether it was acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

PARTITIONS = 16
PATIENCE_S = 10.0
"""A transaction that ends later than this after it was due has not succeeded."""
BEGINNINGS = 20
"""How often a writer tries its first append before the measurement: it is not measured."""
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


class Place(NamedTuple):
    """A table on an S3 server, and how a peer reaches it. ``catalog`` is for those that have one."""

    peer: str
    uri: str
    options: dict[str, str]
    catalog: str


class Writer(Protocol):
    """One handle of a table."""

    def append(self, rows: pa.Table) -> object: ...

    def overwrite(self, rows: pa.Table, part: str) -> object:
        """Replace the rows of a partition."""

    def ids(self) -> list[int]:
        """What a reader finds."""


class _Txlog:
    def __init__(self, place: Place) -> None:
        import txlog

        self._table = txlog.Table.open(place.uri, storage_options=place.options)

    def append(self, rows: pa.Table) -> object:
        return self._table.append(rows)

    def overwrite(self, rows: pa.Table, part: str) -> object:
        return self._table.overwrite_partitions(rows, on_conflict="rerun")

    def ids(self) -> list[int]:
        found: list[int] = self._table.snapshot().to_arrow(columns=["id"]).column("id").to_pylist()
        return found


class _Deltalake:
    def __init__(self, place: Place) -> None:
        from deltalake import DeltaTable

        self._table = DeltaTable(place.uri, storage_options={**place.options, "aws_conditional_put": "etag"})

    def append(self, rows: pa.Table) -> object:
        return self._write(rows, mode="append")

    def overwrite(self, rows: pa.Table, part: str) -> object:
        self._table.update_incremental()
        return self._write(rows, mode="overwrite", predicate=f"part = '{part}'")

    def _write(self, rows: pa.Table, **how: Any) -> object:
        from deltalake import write_deltalake

        return write_deltalake(self._table, rows, **how)

    def ids(self) -> list[int]:
        self._table.update_incremental()
        found: list[int] = self._table.to_pyarrow_table(columns=["id"]).column("id").to_pylist()
        return found


class _PyIceberg:
    def __init__(self, place: Place) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        names = {"endpoint_url": "s3.endpoint", "access_key_id": "s3.access-key-id"}
        names |= {"secret_access_key": "s3.secret-access-key", "region": "s3.region"}
        options = {names[key.removeprefix("aws_")]: value for key, value in place.options.items() if _known(key, names)}
        catalog = SqlCatalog("one", uri=f"sqlite:///{place.catalog}", warehouse=place.uri, **options)
        catalog.create_namespace_if_not_exists("lake")
        name = "lake." + place.uri.rpartition("/")[2].replace("-", "_")
        if not catalog.table_exists(name):
            _new_iceberg_table(catalog, name)
        self._table = catalog.load_table(name)

    def append(self, rows: pa.Table) -> object:
        return self._table.refresh().append(rows)

    def overwrite(self, rows: pa.Table, part: str) -> object:
        return self._table.refresh().dynamic_partition_overwrite(rows)

    def ids(self) -> list[int]:
        found: list[int] = self._table.refresh().scan(selected_fields=("id",)).to_arrow().column("id").to_pylist()
        return found


def _known(key: str, names: dict[str, str]) -> bool:
    return key.removeprefix("aws_") in names


def _new_iceberg_table(catalog: Any, name: str) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField, StringType

    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    catalog.create_table(name, schema, partition_spec=spec)


class _DuckLake:
    def __init__(self, place: Place) -> None:
        from benchmarks.peers_work import DUCKDB_EXTENSIONS, connect_duckdb

        self._connection = connect_duckdb((*DUCKDB_EXTENSIONS, "httpfs"))
        options = {key.removeprefix("aws_"): value for key, value in place.options.items()}
        self._execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{options['access_key_id']}', SECRET '{options['secret_access_key']}',"
            f" REGION '{options['region']}', ENDPOINT '{options['endpoint_url'].removeprefix('http://')}',"
            " URL_STYLE 'path', USE_SSL false)"
        )
        self._execute(f"ATTACH 'ducklake:{place.catalog}' AS lake (DATA_PATH '{place.uri}/')")
        self._execute("CREATE TABLE IF NOT EXISTS lake.t (id BIGINT, part VARCHAR)")

    def _execute(self, text: str) -> list[Any]:
        return list(self._connection.execute(text).fetchall())

    def append(self, rows: pa.Table) -> object:
        self._connection.register("given_rows", rows)
        return self._execute("INSERT INTO lake.t FROM given_rows")

    def overwrite(self, rows: pa.Table, part: str) -> object:
        self._execute("BEGIN")
        try:
            self._execute(f"DELETE FROM lake.t WHERE part = '{part}'")
            self.append(rows)
            return self._execute("COMMIT")
        except Exception:
            self._connection.rollback()
            raise

    def ids(self) -> list[int]:
        return [number for (number,) in self._execute("SELECT id FROM lake.t")]


WRITERS: dict[str, type[Any]] = {
    "txlog": _Txlog,
    "txlog-group": _Txlog,
    "deltalake": _Deltalake,
    "pyiceberg": _PyIceberg,
    "ducklake-sqlite": _DuckLake,
    "ducklake-postgres": _DuckLake,
}


def open_writer(place: Place) -> Writer:
    writer: Writer = WRITERS[place.peer](place)
    return writer


def row(number: int, part: int) -> pa.Table:
    return pa.table({"id": [number], "part": [f"p{part:02}"]}, SCHEMA)


def _work(place: Place, number: int, period_s: float, seconds: float, overwrites: float) -> None:
    chance = random.Random(number)
    first = (number + 1) * 1_000_000
    done: list[dict[str, Any]] = []
    writer = _after_a_first_append(place, first, number % PARTITIONS, chance)
    print("ready", flush=True)
    sys.stdin.readline()
    cpu_from_s = time.process_time()
    start_s = time.time() + chance.random() * period_s
    count = round(seconds / period_s)
    ends_s = start_s + seconds + PATIENCE_S
    threading.Thread(target=_report_at, args=(ends_s, done, count, cpu_from_s), daemon=True).start()
    for at in range(count):
        due_s = start_s + at * period_s
        time.sleep(max(0.0, due_s - time.time()))
        part, is_overwrite = chance.randrange(PARTITIONS), chance.random() < overwrites
        one = {"id": first + at, "part": part, "overwrite": is_overwrite, "due_s": due_s, "end_s": None, "error": ""}
        done.append(one)
        if time.time() > due_s + PATIENCE_S:
            one |= {"end_s": due_s, "error": "not begun in time"}
            continue
        rows = row(first + at, part)
        try:
            if is_overwrite:
                writer.overwrite(rows, f"p{part:02}")
            else:
                writer.append(rows)
        except Exception as error:
            one["error"] = f"{type(error).__name__}: {error}"[:200]
        one["end_s"] = time.time()
    _report(done, count, cpu_from_s)


def _after_a_first_append(place: Place, first: int, part: int, chance: random.Random) -> Writer:
    """A writer which has appended a row below its `first`; all begin at once here, which some catalogs do not take."""
    for begun in range(1, BEGINNINGS):
        try:
            writer = open_writer(place)
            writer.append(row(first - begun, part))
        except Exception:
            time.sleep(3 * chance.random())
        else:
            return writer
    writer = open_writer(place)
    writer.append(row(first - BEGINNINGS, part))
    return writer


def _report_at(end_s: float, done: list[dict[str, Any]], count: int, cpu_from_s: float) -> None:
    time.sleep(max(0.0, end_s - time.time()))
    _report(done, count, cpu_from_s)


def _report(done: list[dict[str, Any]], count: int, cpu_from_s: float) -> None:
    """Print the report, and end the process, whatever it is in."""
    print(json.dumps({"done": done, "due": count, "cpu_s": time.process_time() - cpu_from_s}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    _work(Place(*json.loads(sys.argv[1])), int(sys.argv[2]), *map(float, sys.argv[3:6]))
