"""Tables that track rows: each row gets one id, whichever writer wins a race."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.writes import write_batch
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CorruptLogError, InvalidInputError

TRACKED = {"delta.enableRowTracking": "true"}


def rows(count: int) -> pa.Table:
    return pa.table({"n": range(count)})


def log_of(table: txlog.Table) -> list[list[dict[str, Any]]]:
    names = sorted(Path(table.uri, "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in name.read_text().splitlines()] for name in names]


def ids_are_right(commits: list[list[dict[str, Any]]], first_id: int = 0) -> int:
    """No two rows have one id; the mark is the highest id given; each file has its commit's version. The mark."""
    given: list[int] = []
    for version, lines in enumerate(commits):
        adds = [line["add"] for line in lines if "add" in line]
        for add in adds:
            assert add["defaultRowCommitVersion"] == version
            given += range(add["baseRowId"], add["baseRowId"] + json.loads(add["stats"])["numRecords"])
        marks = [line["domainMetadata"] for line in lines if "domainMetadata" in line]
        assert len(marks) == bool(adds)
        if marks:
            assert marks[0]["domain"] == "delta.rowTracking"
            assert json.loads(marks[0]["configuration"]) == {"rowIdHighWaterMark": max(given)}
    assert sorted(given) == list(range(first_id, first_id + len(given)))
    return max(given, default=-1)


def test_every_way_to_write_gives_each_row_its_own_id(tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(3), properties=TRACKED)
    table = txlog.Table.open(tmp_path)
    table.append(rows(2))
    other = txlog.Table.open(tmp_path)
    for _ in range(3):
        other.append(rows(1))
        table.append(rows(2), schema_mode="merge")
    table.create_checkpoint()
    with txlog.Table.open(tmp_path).transaction() as txn:
        txn.append(rows(4))
        txn.append(rows(5))
    txlog.Table.open(tmp_path).overwrite(rows(7))
    sink = txlog.Sink(txlog.Table.open(tmp_path), app_id="a")
    with sink.task(checkpoint_id=1, task_id=1) as writer:
        writer.write(rows(3).to_batches()[0])
    sink.commit(1, [writer.committable])
    assert ids_are_right(log_of(table)) == 3 + 2 + 3 + 6 + 9 + 7 + 3 - 1
    protocol = table.snapshot().protocol
    assert set(protocol.writer_features or ()) >= {"rowTracking", "domainMetadata"}
    assert table.snapshot().properties.keys() >= {
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }


def test_an_append_that_only_gives_row_ids_is_still_blind(tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(1), properties=TRACKED)
    table = txlog.Table.open(tmp_path)
    table.append(rows(1))
    info = log_of(table)[-1][0]["commitInfo"]
    assert info["isBlindAppend"] is True
    assert info["txlog"]["actions"] == len(log_of(table)[-1])


def test_a_table_that_merely_supports_row_tracking_has_new_rows_numbered_and_old_ones_not(tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(5))
    table = txlog.Table.open(tmp_path)
    table.set_properties({"delta.feature.rowTracking": "supported"})
    assert "delta.feature.rowTracking" not in table.snapshot().properties
    table.append(rows(2))
    commits = log_of(table)
    assert "baseRowId" not in next(line["add"] for line in commits[0] if "add" in line)
    assert [line["add"]["baseRowId"] for line in commits[2] if "add" in line] == [0]
    table.set_properties({"delta.rowTrackingSuspended": "true"})
    table.append(rows(2))
    assert all("baseRowId" not in line.get("add", {}) for line in log_of(table)[-1])


@pytest.mark.parametrize("text", ["", "{}", '{"rowIdHighWaterMark":"9"}', '{"rowIdHighWaterMark":-7}', "[]"])
def test_a_high_water_mark_that_cannot_be_read_stops_the_write(text: str, tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(5), properties=TRACKED)
    domain = {"domain": "delta.rowTracking", "configuration": text, "removed": False}
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"domainMetadata": domain}) + "\n")
    with pytest.raises(CorruptLogError, match=r"delta\.rowTracking"):
        txlog.Table.open(tmp_path).append(rows(1))
    assert txlog.Table.open(tmp_path).snapshot().version == 1


def test_ids_beyond_64_bits_are_not_given(tmp_path: Path) -> None:
    txlog.write(tmp_path, rows(5), properties=TRACKED)
    domain = {"domain": "delta.rowTracking", "configuration": f'{{"rowIdHighWaterMark":{2**63 - 3}}}', "removed": False}
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text(json.dumps({"domainMetadata": domain}) + "\n")
    table = txlog.Table.open(tmp_path)
    with pytest.raises(InvalidInputError, match="too few row ids are left"):
        table.append(rows(3))
    assert table.append(rows(2)).version == 2


# --- races, through a store that can lose them on request ------------------------------------------------------------


def commits_in(scripted_log: Any, state: TableState) -> list[list[dict[str, Any]]]:
    names = [f"{version:020}.json" for version in range(state.version + 1)]
    return [[json.loads(line) for line in scripted_log.inner.read(name).splitlines()] for name in names]


@pytest.mark.parametrize("pattern", list(itertools.product([0, 1, 2], repeat=2)), ids=str)
def test_after_a_lost_race_rows_are_numbered_above_the_winners(
    pattern: tuple[int, ...], open_handle: Callable[..., OpenTable], scripted_log: Any, clock: Any
) -> None:
    """Before each put of ours, as many commits of others land as the pattern says."""
    write_batch(open_handle(), rows(3), WriteOptions(create=True, properties=TRACKED))
    ours, theirs = open_handle(), open_handle()
    for open_table in (ours, theirs):  # the first write of each probes the store with a put of its own
        write_batch(open_table, rows(1), WriteOptions())
    left = list(pattern)
    racing = False

    def overtaken(real: Any, name: str, body: bytes) -> PutOutcome:
        nonlocal racing
        if not racing and left:
            racing = True
            for _ in range(left.pop(0)):
                write_batch(theirs, rows(2), WriteOptions())
            racing = False
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [overtaken] * 50
    result = write_batch(ours, rows(5), WriteOptions())
    scripted_log.script.clear()
    state = open_handle().log.newest_state()
    assert result.metrics.lost_races == next((at for at, count in enumerate(pattern) if not count), len(pattern))
    assert ids_are_right(commits_in(scripted_log, state)) == 3 + 2 + 2 * (sum(pattern) - sum(left)) + 5 - 1
    write_batch(ours, rows(1), WriteOptions())
    assert ids_are_right(commits_in(scripted_log, open_handle().log.newest_state())) > 0


def test_a_put_whose_answer_was_lost_is_not_numbered_twice(
    open_handle: Callable[..., OpenTable], scripted_log: Any, clock: Any
) -> None:
    write_batch(open_handle(), rows(3), WriteOptions(create=True, properties=TRACKED))

    def land_and_lose_the_answer(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        return PutOutcome.UNKNOWN

    open_table = open_handle()
    scripted_log.script["put_if_absent"] = [land_and_lose_the_answer]
    assert write_batch(open_table, rows(2), WriteOptions()).version == 1
    write_batch(open_table, rows(2), WriteOptions())
    assert ids_are_right(commits_in(scripted_log, open_handle().log.newest_state())) == 6
