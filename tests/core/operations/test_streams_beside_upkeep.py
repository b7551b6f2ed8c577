"""Streams, followers and long readers while others change, restore, compact and vacuum the table they read.

Each program is drawn at random and kept in plain Python beside it: rows by version, and what each version inserted
and deleted. A reader gets exactly that, or a typed error that names what is lost.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.beside import Beside
from txlog.errors import TxlogError

SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.hunt(part="properties")) for seed in range(8, 200))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_that_reads_changes_beside_restores_compactions_and_vacuums_misses_and_repeats_nothing(
    seed: int, tmp_path: Path
) -> None:
    beside = Beside(tmp_path / "t", seed)
    copy: Counter[int] = Counter()
    seen = 0
    for _ in range(14):
        beside.step()
        if beside.random.random() < 0.4:
            continue
        try:
            feed = beside.table.changes(seen + 1).read_all() if beside.table.version > seen else None
        except TxlogError as error:
            beside.check_loss(error, seen + 1)
            copy, seen = Counter(beside.rows), beside.table.version  # as the error says: begin with a snapshot
            continue
        if feed is not None:
            for row in feed.to_pylist():
                copy[row["id"]] += 1 if row["_change_type"] in ("insert", "update_postimage") else -1
        seen = beside.table.version
        assert +copy == Counter(beside.rows)
        assert min(copy.values(), default=0) >= 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_beside_restores_compactions_and_vacuums_gets_each_added_row_or_says_why_not(
    seed: int, tmp_path: Path
) -> None:
    beside = Beside(tmp_path / "t", seed)
    seen = 0
    for _ in range(14):
        beside.step()
        if beside.random.random() < 0.4:
            continue
        before, now = beside.versions[seen], beside.versions[beside.table.version]
        try:
            found = [id for batch in beside.table.follow(seen + 1) for id in batch.rows["id"].to_pylist()]
        except TxlogError as error:
            beside.check_stop(error, seen)
        else:
            assert sorted((*before, *found)) == sorted(now)
        seen = beside.table.version


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_of_an_older_version_gets_all_its_rows_or_the_name_of_a_vacuumed_file(
    seed: int, tmp_path: Path
) -> None:
    """It opened the version, and read a part of it, before others went on."""
    beside = Beside(tmp_path / "t", seed)
    readers: list[tuple[int, tuple[int, ...], Any, list[Any]]] = []
    for _ in range(14):
        beside.step()
        snapshot = beside.table.snapshot()
        assert snapshot.version == len(beside.versions) - 1
        tasks = snapshot.scan_tasks()
        first = [task.to_arrow() for task in tasks[: len(tasks) // 2]]
        readers.append((snapshot.version, beside.rows, snapshot, [first, tasks[len(tasks) // 2 :]]))
    for version, rows, snapshot, (first, rest) in readers:
        for read in (
            snapshot.to_arrow,
            lambda first=first, rest=rest: pa.concat_tables(
                [
                    pa.table({"id": pa.array([], pa.int64())}),
                    *(each for each in (*first, *(t.to_arrow() for t in rest))),
                ],
                promote_options="default",
            ),
        ):
            try:
                found = read()
            except TxlogError as error:
                beside.check_loss(error, version)
            else:
                assert sorted(found["id"].to_pylist()) == sorted(rows)
