"""`txlog mirror` of a PostgreSQL server: how many rows a second a snapshot and a feed have, and how much memory.

The command runs as a process of its own, to the state that the database has then, so each line has the process's start,
some seconds of Python too. Rows are compared with the database's. The same changes come as events of Debezium from a
file beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from postgres import MIRRORED, NO_SERVER, postgres

import txlog
from benchmarks.measure import Bench, markdown_table, surroundings

TITLE = "Mirrors of a database"

_TABLE = """
create table orders(
    id bigint primary key, customer int, placed timestamptz, amount numeric(12, 2), state text, note text
)
"""
_ROWS = """
insert into orders select i, i %% 1000, timestamptz '2026-01-01' + i * interval '1 second', i %% 10000 / 100.0, 'new',
    md5(i::text) from generate_series(%s::bigint, %s::bigint) i
"""
_ROWS_EACH = 100
"""How many rows a transaction of the feed changes."""


class Ran(NamedTuple):
    """A process that ended: seconds, and the most memory that it had, in MB."""

    seconds: float
    peak_mb: float


def run(bench: Bench) -> str:
    rows, changes = bench.scale((1_000_000, 300_000), (2_000, 1_000))
    lines = []
    with postgres(MIRRORED) as server:
        if server is None:
            raise RuntimeError(NO_SERVER)
        address = server.new_database("shop")
        with psycopg.connect(address, autocommit=True) as database:
            database.execute(_TABLE)
            database.execute(_ROWS, (1, rows))
            for vectors in (False, True):
                target = bench.folder(f"mirror-{vectors}")
                name = "deletion vectors" if vectors else "copies"
                given = ["--property", "delta.enableDeletionVectors=true"] if vectors else []
                command = (
                    address,
                    target,
                    "--tables",
                    "orders",
                    "--name",
                    f"vectors_{vectors}".lower(),
                    "--once",
                    *given,
                )
                if not vectors:
                    lines.append(_line(bench, "a snapshot", rows, _mirror(*command)))
                else:
                    _mirror(*command)
                _change(database, rows, changes)
                lines.append(
                    _line(bench, f"changes in transactions of {_ROWS_EACH} rows, {name}", changes, _mirror(*command))
                )
                _require_equal(database, target)
    events = bench.folder("events.jsonl")
    _write_events(events, changes)
    done = _mirror(events, bench.folder("events"), "--keys", "id")
    lines.append(_line(bench, "events of Debezium with their schemas, from a file", changes, done))
    header = ["", "rows", "s", "rows/s", "memory, MB"]
    return (
        f"{markdown_table(header, lines)}\n\nThe database's table has six columns and {rows:,} rows. Half of the"
        " changes are updates of rows all over it, and half are inserts. Seconds are of the whole command with"
        " `--once`, whose start takes some two of them. PostgreSQL runs on the same cores, without syncs."
    )


def _line(bench: Bench, what: str, rows: int, ran: Ran) -> list[str]:
    bench.record(what=what, rows=rows, **ran._asdict())
    bench.say(f"{what}: {rows / ran.seconds:,.0f} rows/s, {ran.peak_mb:.0f} MB")
    return [what, f"{rows:,}", f"{ran.seconds:.1f}", f"{rows / ran.seconds:,.0f}", f"{ran.peak_mb:.0f}"]


def _mirror(*arguments: object) -> Ran:
    """The command in a process of its own."""
    began_s = time.perf_counter()
    command = [sys.executable, "-m", "txlog", "mirror", *map(str, arguments), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=surroundings())
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return Ran(time.perf_counter() - began_s, usage.ru_maxrss / 1024)


def _change(database: psycopg.Connection[Any], rows: int, changes: int) -> None:
    """Transactions that update rows all over the table, and insert as many."""
    ((last,),) = database.execute("select max(id) from orders").fetchall()
    half = _ROWS_EACH // 2
    step = rows // half
    for number in range(changes // _ROWS_EACH):
        first = last + 1 + number * half
        with database.transaction():
            database.execute(
                "update orders set state = %s where id = any(%s)",
                (f"s{number}", [1 + (number + place * step) % rows for place in range(half)]),
            )
            database.execute(_ROWS, (first, first + half - 1))


def _require_equal(database: psycopg.Connection[Any], target: Path) -> None:
    table = txlog.Catalog(target).table("public.orders")
    ((count, total),) = database.execute("select count(*), sum(hashtext(state)::bigint) from orders").fetchall()
    states = table.to_arrow(columns=["state"])["state"].value_counts().to_pylist()
    hashes = database.execute(
        "select v, hashtext(v)::bigint from unnest(%s::text[]) v", ([s["values"] for s in states],)
    )
    of_state = dict(hashes.fetchall())
    found = sum(each["counts"] for each in states), sum(each["counts"] * of_state[each["values"]] for each in states)
    if found != (count, total):
        raise AssertionError(f"the mirror has {found}, and the database {count, total}")


def _write_events(path: Path, count: int) -> None:
    names = {"id": "int64", "customer": "int32", "state": "string", "note": "string"}
    row = {
        "type": "struct",
        "optional": True,
        "fields": [{"field": name, "type": kind} for name, kind in names.items()],
    }
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    source = {"db": "shop", "schema": "public", "table": "orders"}
    with path.open("w") as lines:
        for number in range(count):
            key = number if number % 2 else number // 4
            after = {"id": key, "customer": key % 1000, "state": f"s{number}", "note": "x" * 32}
            payload = {
                "before": None,
                "after": after,
                "source": source,
                "op": "u" if number % 2 else "c",
                "ts_ms": number,
            }
            lines.write(json.dumps({"schema": schema, "payload": payload}) + "\n")
