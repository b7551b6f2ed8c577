"""How a table ages: LST-Bench's WP1 and WP3 (Camacho-Rodriguez et al., SIGMOD 2024), by TPC-H's refreshes of lineitem.

A round adds new orders (TPC-H's RF1), deletes old ones (RF2), and corrects some by an upsert; then queries read the
table. LST-Bench's measure is the degradation: by how much the last rounds are slower than the first ones. A round is
short, so each query counts with the median of three runs, and the medians of three rounds are compared. Each program
has two tables, one with its upkeep after each round. At the end a second process queries the table while the first one
changes it, which is WP3.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import bars
from benchmarks.lineitem import ALL_COLUMNS, COLUMNS, KEYS, Lineitem
from benchmarks.measure import Bench, markdown_table
from benchmarks.peers import PEERS, Field, Measured, Worker, check, field_of
from benchmarks.peers_work import connect_duckdb

TITLE = "Longevity: rounds of changes and queries"

QUERIES = {
    "Q1": "SELECT count(*), sum(l_quantity), sum(l_extendedprice), sum(l_discount) FROM"
    " (SELECT l_returnflag, l_linestatus, sum(l_quantity) AS l_quantity, sum(l_extendedprice) AS l_extendedprice,"
    " sum(l_discount) AS l_discount FROM t WHERE l_shipdate <= DATE '1998-09-02'"
    " GROUP BY l_returnflag, l_linestatus) g",
    "Q6": "SELECT sum(l_extendedprice * l_discount) FROM t WHERE l_shipdate >= DATE '1994-01-01'"
    " AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "all": ALL_COLUMNS,
}
_ONE_IN = 1000
"""TPC-H refreshes a thousandth of its orders."""
_LIMIT_S = 300.0
_RUNS = 3
_ROUNDS_COMPARED = 3


@dataclass(frozen=True)
class Round:
    """What one round changes, and what the queries have to answer after it."""

    added: Path
    deleted: str
    corrected: Path
    answers: dict[str, Sequence[Any]]


def run(bench: Bench) -> str:
    scale_factor, files, rounds = bench.scale((0.2, 10, 10), (0.002, 2, 2))
    made = Lineitem(bench, scale_factor)
    base = made.files(files)
    small = made.saved("small", "FROM lineitem ORDER BY l_orderkey LIMIT 1000")
    plan = _rounds(bench, made, base, rounds)
    lines = []
    ages: dict[tuple[str, str], Measured] = {}
    with field_of(bench, PEERS) as field:
        for name in field.names:
            place = bench.folder(f"place-{name}")
            for keeps in (False, True):
                if line := _aged(field, name, place, (small, base), plan, keeps, ages):
                    lines.append(line)
            bench.folder(place.name)
    header = [
        *(
            "program",
            "changes of the first rounds, s / CPU s",
            "of the last rounds",
            "queries of the first rounds, s / CPU s",
        ),
        *(
            "of the last rounds",
            "changes slower by",
            "queries slower by",
            "peak memory, MB",
            "written, MB",
            "upkeep, s",
        ),
        "Q6 beside a writer : alone",
    ]
    picture = bars.publish(bench, ages, field.names, "Ten rounds: how many times txlog's time")
    return (
        f"{markdown_table(header, lines)}\n\n{picture}\n\n{made.rows:,} rows in {files} files, {rounds} rounds: one"
        f" order in {_ONE_IN} is added, one deleted, and one row in {_ONE_IN} is corrected by an upsert; then Q1, Q6"
        f" and a read of all columns, each the median of {_RUNS} runs. *with upkeep* runs it after each round. First"
        f" and last rounds are the medians of {_ROUNDS_COMPARED}. The last column is Q6 in a second process while the"
        " first one runs a round, in relation to Q6 before it (medians)."
    )


def _rounds(bench: Bench, made: Lineitem, base: Sequence[Path], count: int) -> list[Round]:
    names = ", ".join(f"'{each}'" for each in base)
    on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
    found = []
    with connect_duckdb((), bench.folder("answers.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS FROM read_parquet([{names}])")
        step = max(1, made.last_order // _ONE_IN)
        for number in range(count):
            low = number * step * 3
            deleted = f"l_orderkey >= {low} AND l_orderkey < {low + step}"
            added = made.changed(f"added-{number}", _ONE_IN, shift=str((number + 1) * made.last_order), seed=number)
            corrected = made.changed(f"corrected-{number}", _ONE_IN, seed=100 + number)
            for source in (added, corrected):
                connection.execute(f"CREATE TEMP TABLE s AS FROM read_parquet('{source}')")
                connection.execute(f"DELETE FROM t USING s WHERE {on}")
                connection.execute("INSERT INTO t FROM s")
                connection.execute("DROP TABLE s")
                if source == added:
                    connection.execute(f"DELETE FROM t WHERE {deleted}")
            answers = {what: connection.execute(query).fetchall()[0] for what, query in QUERIES.items()}
            found.append(Round(added, deleted, corrected, answers))
    return found


def _aged(
    field: Field,
    name: str,
    place: Path,
    files: tuple[Path, Sequence[Path]],
    plan: Sequence[Round],
    keeps: bool,
    ages: dict[tuple[str, str], Measured],
) -> list[str] | None:
    """The line of one program, with or without upkeep; None if it has none. A round in a table of the first of the
    ``files``, which does not count, comes before the table of the others."""
    table = "kept" if keeps else "t"
    title = f"{field.names[name]}{', with upkeep' if keeps else ''}"
    with field.worker(name, place) as worker:
        field.adopt(worker, f"warm_{table}", [files[0]])
        warm = _changed(worker, f"warm_{table}", plan[0])
        if warm.failure:
            return [title, warm.failure.replace("|", "/")[:80], *[""] * 9]
        for what in QUERIES:
            _query(worker, f"warm_{table}", what)
        field.adopt(worker, table, files[1])
        changes, queries, upkeep_s = [], [], 0.0
        for number, each in enumerate(plan):
            changed = _changed(worker, table, each)
            field.record(name, f"changes of round {number + 1}, {title}", changed)
            if changed.failure:
                return [title, changed.failure.replace("|", "/")[:80], *[""] * 9]
            if keeps:
                done = worker.do("maintain", table=table, limit_s=_LIMIT_S)
                if done.failure:
                    return None
                upkeep_s += done.wall_s
            changes.append(changed)
            queries.append(_queried(field, worker, table, each))
            field.record(name, f"queries of round {number + 1}, {title}", queries[-1])
        beside = _beside(field, worker, table, plan[-1])
    what = "queries of the last rounds" + (", with upkeep" if keeps else "")
    ends = [(_middle(each[:_ROUNDS_COMPARED]), _middle(each[-_ROUNDS_COMPARED:])) for each in (changes, queries)]
    ages[what, name] = ends[1][1]
    return [
        title,
        *(f"{each.wall_s:.2f} / {each.cpu_s:.2f}" for pair in ends for each in pair),
        *(f"{100 * (last.wall_s / first.wall_s - 1):.0f} %" for first, last in ends),
        f"{max(each.peak_mb for each in (*changes, *queries)):.0f}",
        *(f"{sum(each.written_mb for each in changes):.0f}", f"{upkeep_s:.2f}" if keeps else "", f"{beside:.2f}"),
    ]


def _changed(worker: Worker, table: str, each: Round) -> Measured:
    return _together(
        [
            worker.do("append", table=table, rows=str(each.added), limit_s=_LIMIT_S),
            worker.do("delete", table=table, condition=each.deleted, limit_s=_LIMIT_S),
            worker.do("merge", table=table, rows=str(each.corrected), keys=list(KEYS), kind="upsert", limit_s=_LIMIT_S),
        ]
    )


def _queried(field: Field, worker: Worker, table: str, each: Round) -> Measured:
    found = []
    for what in QUERIES:
        runs = [_query(worker, table, what) for _ in range(_RUNS)]
        check(f"{field.names[worker.name]}, {what},", runs[-1].answer, each.answers[what])
        found.append(_middle(runs))
    return _together(found)


def _middle(found: Sequence[Measured]) -> Measured:
    """The one of the median time."""
    return sorted(found, key=lambda each: each.wall_s)[len(found) // 2]


def _query(worker: Worker, table: str, what: str) -> Measured:
    done = worker.do("query", table=table, query=QUERIES[what], columns=list(COLUMNS), limit_s=_LIMIT_S)
    if done.failure:
        raise RuntimeError(f"{worker.name}, {what}: {done.failure}")
    return done


def _together(found: Sequence[Measured]) -> Measured:
    return Measured(
        sum(each.wall_s for each in found),
        sum(each.cpu_s for each in found),
        max(each.peak_mb for each in found),
        sum(each.written_mb for each in found),
        failure=next((each.failure for each in found if each.failure), ""),
    )


def _beside(field: Field, worker: Worker, table: str, each: Round) -> float:
    """How many times as long a query takes in a second process while the first one makes the last round again."""
    with field.worker(worker.name, worker.place) as reader:
        alone = [_query(reader, table, "Q6") for _ in range(4)][1:]
        writing = threading.Thread(target=_changed, args=(worker, table, each))
        writing.start()
        beside = [_query(reader, table, "Q6")]
        while writing.is_alive():
            beside.append(_query(reader, table, "Q6"))
        writing.join()
    return statistics.median(one.wall_s for one in beside) / statistics.median(one.wall_s for one in alone)
