"""A table whose versions hold the appends of several threads, for everything that reads a log: other engines, history,
verify, the change feed, row ids, sinks, Iceberg exports.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import orjson
import pyarrow as pa
import pytest
from iceberg_tables import metadata_file
from pyiceberg.table import StaticTable

import txlog
from txlog.core import ambient
from txlog.core.store import PutOutcome
from txlog.core.versions import OpenTable
from txlog.table import Table
from txlog.testing.faults import faulty_table_store

MEMBERS = 6
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableInCommitTimestamps": "true",
    "txlog.iceberg": "v2",
}
ROWS = pa.schema([("id", pa.int64()), ("part", pa.string())])


class Joined:
    """Version 2 of a table holds one append of each of `MEMBERS` threads, some of them checkpoints."""

    def __init__(self, path: Path, **properties: str) -> None:
        self.path = path
        txlog.Table.create(path, ROWS, ["part"], PROPERTIES | properties)
        plain = txlog.Table.open(path)
        store = faulty_table_store(plain._open_table.store)
        open_table = OpenTable(store)
        self.table = Table(open_table)
        waiting: Any = open_table._committer.waiting  # type: ignore[attr-defined]

        def hold(real: Callable[..., PutOutcome], name: str, body: bytes) -> PutOutcome:
            _until(lambda: len(waiting) == MEMBERS)
            return real(name, body)

        store.log.script["put_if_absent"] = [hold]  # type: ignore[attr-defined]
        self.results: dict[int, txlog.WriteResult] = {}
        threads = [threading.Thread(target=self._append, args=(number,)) for number in range(MEMBERS + 1)]
        threads[0].start()
        _until(lambda: store.log.names("put_if_absent"))  # type: ignore[attr-defined]
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert {result.version for number, result in self.results.items() if number} == {2}

    def _append(self, number: int) -> None:
        app = {"app_id": f"app-{number}", "checkpoint_id": 10 * number, "fingerprint": f"offsets {number}"}
        self.results[number] = self.table.append(rows(number), **(app if number % 2 else {}))

    def info(self) -> dict[str, Any]:
        lines = (self.path / "_delta_log" / f"{2:020d}.json").read_bytes().splitlines()
        info: dict[str, Any] = orjson.loads(lines[0])["commitInfo"]
        return info


def rows(number: int) -> pa.Table:
    """As many rows as the number says, and one."""
    return pa.table(
        {"id": [100 * number + each for each in range(number + 1)], "part": ["ab"[number % 2]] * (number + 1)}
    )


def ids(*numbers: int) -> list[int]:
    return sorted(100 * number + each for number in numbers for each in range(number + 1))


def _until(holds: Callable[[], object]) -> None:
    while not holds():
        ambient.sleep(0.001)


ALL = ids(*range(MEMBERS + 1))


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Joined:
    return Joined(tmp_path_factory.mktemp("joined") / "table")


def test_deltalake_and_duckdb_find_every_row_of_every_append(joined: Joined) -> None:
    table = deltalake.DeltaTable(str(joined.path))
    assert table.version() == 2
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == ALL
    dataset = duckdb.connect().register("t", table.to_pyarrow_dataset())
    assert dataset.sql("select count(*), sum(id) from t").fetchall() == [(len(ALL), sum(ALL))]
    assert table.transaction_version("app-3") == 30


def test_deltalakes_history_reads_the_joined_commit_as_one_append(joined: Joined) -> None:
    newest = deltalake.DeltaTable(str(joined.path)).history(1)[0]
    assert (newest["operation"], newest["isBlindAppend"]) == ("WRITE", True)
    assert int(newest["operationMetrics"]["numOutputRows"]) == len(ids(*range(1, MEMBERS + 1)))


def test_the_history_shows_each_append(joined: Joined) -> None:
    history = joined.table.history()
    listed = {each["txnId"]: each for each in history[0]["txlog"]["joined"]}
    assert listed.keys() == {joined.results[number].txn_id for number in range(1, MEMBERS + 1)}
    assert [listed[joined.results[number].txn_id]["rows"] for number in range(1, MEMBERS + 1)] == [2, 3, 4, 5, 6, 7]
    assert f"WRITE append, {MEMBERS} in one" in repr(history)


def test_verify_finds_nothing_wrong(joined: Joined) -> None:
    found = joined.table.verify()
    assert found.is_sound, found


def test_the_change_feed_has_every_row_at_the_version_that_its_writer_was_told(joined: Joined) -> None:
    changes = joined.table.changes(1).read_all().select(["id", "_commit_version"]).to_pylist()
    told = {each: result.version for number, result in joined.results.items() for each in ids(number)}
    assert {row["id"]: row["_commit_version"] for row in changes} == told
    assert len(changes) == len(told)


def test_iceberg_readers_find_every_row(joined: Joined) -> None:
    table = txlog.Table.open(joined.path)
    assert table.export_iceberg().version == 2
    found = StaticTable.from_metadata(str(metadata_file(table))).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == ALL


def test_a_replay_of_any_checkpoint_in_it_is_recognized_and_other_work_under_its_id_refused(joined: Joined) -> None:
    fresh = txlog.Table.open(joined.path)
    for number in range(1, MEMBERS + 1, 2):
        app = {"app_id": f"app-{number}", "checkpoint_id": 10 * number}
        again = fresh.append(rows(number), **app, fingerprint=f"offsets {number}")
        assert (again.outcome, again.version) == ("already_committed", 2)
        with pytest.raises(txlog.InvalidInputError, match=f"'offsets {number}' there, 'others' here"):
            fresh.append(rows(number), **app, fingerprint="others")


def test_a_sink_continues_after_its_checkpoint_landed_with_others(joined: Joined) -> None:
    sink = txlog.Sink(txlog.Table.open(joined.path), "app-3")
    assert sink.last_checkpoint_id() == 30
    assert not sink.recover().partial


def test_resolve_knows_each_append(joined: Joined) -> None:
    for number in range(1, MEMBERS + 1):
        assert joined.table.resolve(joined.results[number].txn_id, 2)
    assert not joined.table.resolve(joined.results[0].txn_id, 2)


def test_every_row_of_a_row_tracked_table_has_its_own_id(tmp_path: Path) -> None:
    joined = Joined(tmp_path / "table", **{"delta.enableRowTracking": "true", "txlog.iceberg": "v3"})
    lines = [
        orjson.loads(line) for line in (tmp_path / "table" / "_delta_log" / f"{2:020d}.json").read_bytes().splitlines()
    ]
    adds = [line["add"] for line in lines if "add" in line]
    given = [add["baseRowId"] + place for add in adds for place in range(orjson.loads(add["stats"])["numRecords"])]
    assert sorted(given) == [*range(1, 1 + len(ids(*range(1, MEMBERS + 1))))]  # version 1 has one row
    assert {add["defaultRowCommitVersion"] for add in adds} == {2}
    assert joined.table.verify().is_sound
