"""A changelog into an empty table, in a separate process: `python -m benchmarks.changes_work CONTESTANT ...`.

    throughput: CONTESTANT TARGET ROWS CHECKPOINTS
    memory:     "memory" TABLE ROWS KIND               one checkpoint with one kind of keys into a copy of a table

Three rows in ten are a later version of an earlier row. The time covers writing and committing, not making the rows.
Prints a JSON object. It imports only the requested contestant: pypaimon's environment lacks the others.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UPDATED = 0.3
BATCH_ROWS = 1 << 17
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), False), ("user_id", pa.int64()), ("price", pa.float64()), ("note", pa.string())]
)
_SCATTER = 2_654_435_761

Write = Callable[[pa.Table], object]
"""Makes one checkpoint of these rows, which have the row kinds of Flink in the column ``op``."""


def changelog(rows: int) -> pa.Table:
    """Keys and kinds of all rows: inserts of new keys in no order, and updates of earlier keys."""
    random = np.random.default_rng(16)
    is_update = random.random(rows) < UPDATED
    is_update[0] = False
    inserted = np.cumsum(~is_update)
    numbers = np.where(is_update, (random.random(rows) * inserted).astype(np.int64), inserted - 1)
    ids = numbers * _SCATTER % (1 << 40)
    return pa.table({"op": pa.array(["+I", "+U"]).take(pa.array(is_update.astype(np.int8))), "id": ids})


def with_values(keys: pa.Table, first: int) -> pa.Table:
    """The rows of the part of the changelog that begins at row ``first``."""
    numbers = np.arange(first, first + len(keys))
    notes = pc.binary_join_element_wise(
        "note", pa.array(numbers * 7919).cast(pa.string()), " of ", pa.array(numbers).cast(pa.string()), ""
    )
    columns = [keys["id"], pa.array(numbers % 1_000_003), pa.array(numbers / 7), notes]
    return pa.table(columns, schema=SCHEMA).append_column("op", keys["op"])


def _last_of_key(rows: pa.Table) -> pa.Table:
    _, last = np.unique(rows["id"].to_numpy()[::-1], return_index=True)
    return rows.take(pa.array(np.sort(len(rows) - 1 - last)))


# --- the contestants ------------------------------------------------------------------------------------------------


def _by_txlog(target: str) -> tuple[Write, Callable[[], pa.Table]]:
    import txlog

    table = txlog.Table.create(target, SCHEMA, properties={"delta.enableDeletionVectors": "true"})
    sink = txlog.Sink(table, "benchmark", mode="upsert", keys=["id"], row_kind="op")
    numbers = iter(range(1 << 31))

    def write(rows: pa.Table) -> None:
        number = next(numbers)
        with sink.task(number) as task:
            for batch in rows.to_batches(BATCH_ROWS):
                task.write(batch)
        sink.prepare(number, [task.committable])
        sink.commit(number)

    return write, lambda: table.snapshot().to_arrow()


def _by_pyiceberg(target: str) -> tuple[Write, Callable[[], pa.Table]]:
    """It refuses repeated keys in a call: it gets each key's last row, which is found outside the measured time."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    Path(target).mkdir()
    catalog = InMemoryCatalog("bench", warehouse=f"file://{target}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA)
    return lambda rows: table.upsert(rows.drop_columns(["op"]), join_cols=["id"]), lambda: table.scan().to_arrow()


def _by_pypaimon(target: str) -> tuple[Write, Callable[[], pa.Table]]:
    """A table with a primary key: writers sort and append, and readers merge."""
    from pypaimon import CatalogFactory, Schema

    catalog = CatalogFactory.create({"warehouse": target})
    catalog.create_database("db", False)
    schema = Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    catalog.create_table("db.t", schema, False)
    table = catalog.get_table("db.t")

    def write(rows: pa.Table) -> None:
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows.drop_columns(["op"]))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def read() -> pa.Table:
        builder = table.new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    return write, read


CONTESTANTS = {"txlog": _by_txlog, "PyIceberg": _by_pyiceberg, "pypaimon": _by_pypaimon}


def throughput(contestant: str, target: str, rows: int, checkpoints: int) -> dict[str, float]:
    """Write all, read all, and check that the last version of each row is there once."""
    keys = changelog(rows)
    write, read = CONTESTANTS[contestant](target)
    write_s = cpu_s = 0.0
    per_checkpoint = rows // checkpoints
    for number in range(checkpoints):
        first = number * per_checkpoint
        part = with_values(keys.slice(first, per_checkpoint), first)
        if contestant == "PyIceberg":
            part = _last_of_key(part)
        cpu_begin_s, begin_s = time.process_time(), time.perf_counter()
        write(part)
        write_s += time.perf_counter() - begin_s
        cpu_s += time.process_time() - cpu_begin_s
    begin_s = time.perf_counter()
    found = read()
    read_s = time.perf_counter() - begin_s
    _check(found, keys)
    return {"write_s": write_s, "cpu_s": cpu_s, "read_s": read_s, "table_rows": len(found)}


def _check(found: pa.Table, keys: pa.Table) -> None:
    """``price`` is the place of a row in the changelog, divided by 7."""
    ids = keys["id"].to_numpy()
    wanted, places = np.unique(ids[::-1], return_index=True)
    order = np.argsort(found["id"].to_numpy())
    is_same = np.array_equal(found["id"].to_numpy()[order], wanted) and np.array_equal(
        found["price"].to_numpy()[order], (len(ids) - 1 - places) / 7
    )
    if not is_same:
        raise RuntimeError(f"{len(found)} rows, which are not the last ones of {len(wanted)} keys")


# --- memory ---------------------------------------------------------------------------------------------------------


def memory(table_path: str, rows: int, kind: str) -> dict[str, float]:
    """One checkpoint of ``rows`` keys by two tasks, half of them from table rows: the whole process's peak while a task
    writes, and while the checkpoint is sealed and committed. It holds no rows itself."""
    import txlog
    from benchmarks.bulk import _forget_peak, _status_mb

    table = txlog.Table.open(table_path)
    sink = txlog.Sink(table, "memory", mode="upsert", keys=["id"])
    committables, peak_mb = [], 0.0
    for task_id in range(2):
        _forget_peak()
        with sink.task(1, task_id) as task:
            for batch in _new_rows(rows, kind, task_id):
                task.write(batch)
        committables.append(task.committable)
        peak_mb = max(peak_mb, _status_mb("VmHWM"))
    pa.default_memory_pool().release_unused()
    base_mb = _forget_peak()
    begin_s = time.perf_counter()
    sink.prepare(1, committables)
    result = sink.commit(1)
    commit_s = time.perf_counter() - begin_s
    found = {"task_mb": peak_mb, "before_mb": base_mb, "commit_mb": _status_mb("VmHWM"), "commit_s": commit_s}
    if result.metrics.rows != rows:
        raise RuntimeError(f"{result.metrics.rows} rows were written, not {rows}")
    return found


def memory_table(path: str, rows: int, kind: str) -> None:
    """A table of ``rows`` rows for `memory`."""
    import txlog

    batches = _rows_of(np.arange(0, 2 * rows, 2), kind)
    table = txlog.Table.create(path, batches[0].schema, properties={"delta.enableDeletionVectors": "true"})
    for part in np.array_split(np.arange(len(batches)), 4):
        if len(part):
            table.append(pa.Table.from_batches([batches[at] for at in part]))


def _new_rows(rows: int, kind: str, task_id: int) -> Iterator[pa.RecordBatch]:
    """One of two tasks: every second number, in no order."""
    for first in range(0, rows // 2, BATCH_ROWS):
        numbers = np.arange(first, min(first + BATCH_ROWS, rows // 2)) * 2 + task_id
        yield from _rows_of(np.random.default_rng(first).permutation(numbers), kind)


def _rows_of(numbers: Any, kind: str) -> list[pa.RecordBatch]:
    found = []
    for first in range(0, len(numbers), BATCH_ROWS):
        part = numbers[first : first + BATCH_ROWS]
        ids = pa.array(part * 1_000_003)
        if kind == "strings":
            ids = pc.utf8_lpad(ids.cast(pa.string()), 36, padding="0")
        found.append(pa.record_batch({"id": ids, "price": part / 7}))
    return found


def main(arguments: list[str]) -> dict[str, float]:
    if arguments[0] == "memory":
        return memory(arguments[1], int(arguments[2]), arguments[3])
    return throughput(arguments[0], arguments[1], int(arguments[2]), int(arguments[3]))


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        done = main(sys.argv[1:])
    print(json.dumps(done))
