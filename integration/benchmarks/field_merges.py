"""Merges by all peers: each on links to the same files, in a process of its own, with a read after it that is checked.

In: a plan, with the files of the table and the rows of each merge. Out: what each merge and each read took. What has
to be read afterwards comes from tables of DuckDB, to which the same merges are applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Bench
from benchmarks.peers import Field, Measured, Worker, check
from benchmarks.peers_work import connect_duckdb

SAID_OF_ALL = (
    "Each merge is a process of its own (Spark: one session for all), which has made a small merge before; then the"
    " same process reads all columns and sums them. Peak memory is that of the process with all that it started, its"
    " libraries included."
)
Found = dict[tuple[str, str], Measured]
"""By the merge and the peer."""


@dataclass(frozen=True)
class Step:
    """One merge: its title, the file of its rows, and its kind (see `peers_work.Peer.merge`)."""

    what: str
    rows: Path
    kind: str = "upsert"


@dataclass(frozen=True)
class Plan:
    """The merges into a table of ``files``: one after the other if ``is_chain``, else each into a new one.

    ``small`` and ``small_step`` are for what each process does first, which does not count. ``query`` reads the whole
    table ``t``, with its ``columns``.
    """

    files: Sequence[Path]
    keys: Sequence[str]
    steps: Sequence[Step]
    small: Path
    small_step: Step
    query: str
    columns: Sequence[str]
    is_chain: bool
    limit_s: float


def merged(bench: Bench, field: Field, plan: Plan) -> tuple[Found, Found]:
    """What each merge took, and each read after it. Raises if a peer has other rows."""
    right = _answers(bench, plan)
    merges: Found = {}
    reads: Found = {}
    for name in field.names:
        place = bench.folder(f"place-{name}")
        in_one_process = bench.quick or name.startswith("spark")
        every = range(len(plan.steps))
        for numbers in [list(every)] if in_one_process else [[number] for number in every]:
            with field.worker(name, place) as worker:
                _warm_up(field, worker, plan, f"warm{numbers[0]}")
                for number in numbers:
                    step = plan.steps[number]
                    table = "t" if plan.is_chain else f"t{number}"
                    if number == 0 or not plan.is_chain:
                        field.adopt(worker, table, plan.files)
                    done, read = _one(field, worker, plan, step, table, right[number])
                    merges[step.what, name], reads[step.what, name] = done, read
                    if done.failure and plan.is_chain:
                        break
            if plan.is_chain and any(found.failure for (_, peer), found in merges.items() if peer == name):
                break
        bench.folder(place.name)
    order = {step.what: at for at, step in enumerate(plan.steps)}
    return dict(sorted(merges.items(), key=lambda item: order[item[0][0]])), reads


def _one(
    field: Field, worker: Worker, plan: Plan, step: Step, table: str, right: Sequence[Any]
) -> tuple[Measured, Measured]:
    keys = list(plan.keys)
    done = worker.do("merge", limit_s=plan.limit_s, table=table, rows=str(step.rows), keys=keys, kind=step.kind)
    field.record(worker.name, step.what, done)
    if done.failure:
        return done, done
    read = worker.do("query", table=table, query=plan.query, columns=list(plan.columns))
    field.record(worker.name, f"read after {step.what}", read)
    if read.failure:
        raise RuntimeError(f"{field.names[worker.name]} cannot read what it wrote: {read.failure}")
    check(f"{field.names[worker.name]}, after {step.what},", read.answer, right)
    return done, read


def _warm_up(field: Field, worker: Worker, plan: Plan, table: str) -> None:
    field.adopt(worker, table, [plan.small])
    done = worker.do("merge", table=table, rows=str(plan.small_step.rows), keys=list(plan.keys), kind="upsert")
    if not done.failure:
        done = worker.do("query", table=table, query=plan.query, columns=list(plan.columns))
    if done.failure:
        raise RuntimeError(f"{field.names[worker.name]} cannot merge a few rows: {done.failure}")


def _answers(bench: Bench, plan: Plan) -> list[list[Any]]:
    """What the query has to answer after each step."""
    right = []
    with connect_duckdb((), bench.folder("answers.duckdb")) as connection:
        names = ", ".join(f"'{each}'" for each in plan.files)
        connection.execute(f"CREATE TABLE t AS FROM read_parquet([{names}])")
        for step in plan.steps:
            connection.execute("BEGIN")
            on = " AND ".join(f"t.{key} = s.{key}" for key in plan.keys)
            connection.execute(f"CREATE TEMP TABLE s AS FROM read_parquet('{step.rows}')")
            if step.kind != "insert":
                connection.execute(f"CREATE TEMP TABLE known AS SELECT s.* FROM s SEMI JOIN t ON {on}")
            if step.kind != "update":
                connection.execute(f"INSERT INTO t SELECT s.* FROM s ANTI JOIN t ON {on}")
            if step.kind != "insert":
                connection.execute(f"DELETE FROM t USING known s WHERE {on}")
                connection.execute("INSERT INTO t FROM known")
                connection.execute("DROP TABLE known")
            connection.execute("DROP TABLE s")
            (row,) = connection.execute(plan.query).fetchall()
            right.append(list(row))
            connection.execute("COMMIT" if plan.is_chain else "ROLLBACK")
    return right
