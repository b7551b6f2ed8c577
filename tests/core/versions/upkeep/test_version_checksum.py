"""Checksum files: exact or absent when written, believed only with the commit they belong to when read."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import txlog
from txlog.core import ambient
from txlog.core.format.actions import AddFile, SetTransaction
from txlog.core.format.log_names import checkpoint_name, checksum_name, commit_name
from txlog.core.store._local_store import local_table_store
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.checksum import checksum_bytes, parse_checksum
from txlog.core.versions.decisions.state import Totals
from txlog.core.versions.upkeep._version_checksum import write_checksum

SCHEMA = pa.schema([("id", pa.int64())])


class SecondsLater(ambient.Ambient):
    """Commits that are so far apart that a checksum file follows each."""

    def monotonic_s(self) -> float:
        return super().monotonic_s() + 5


class AtOnce(ambient.Ambient):
    """Commits between which no time passes."""

    def monotonic_s(self) -> float:
        return 0.0


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def new_table(path: Path, **properties: str) -> txlog.Table:
    table = txlog.Table.create(str(path / "t"), SCHEMA, properties=properties)
    table._open_table.post_commit.drain()
    return table


def log_of(table: txlog.Table) -> Path:
    return Path(table.uri) / "_delta_log"


def forget_checksums(table: txlog.Table) -> None:
    table._open_table.post_commit.drain()
    for path in log_of(table).glob("*.crc"):
        path.unlink()


def write_now(table: txlog.Table) -> Path:
    """The checksum file of the newest version, which the commit itself may have written or have left to later."""
    table._open_table.post_commit.drain()
    state = table._open_table.log.newest_state()
    assert write_checksum(table._open_table.log, state)
    return log_of(table) / checksum_name(state.version)


# --- written ------------------------------------------------------------------------------------------------


def test_a_commit_is_followed_by_a_checksum_file_of_all_but_the_files(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    forget_checksums(table)
    open_table = OpenTable(local_table_store(table.uri))
    with ambient.use(SecondsLater()):
        result = txlog.Table(open_table).append(rows(1, 2), app_id="a", checkpoint_id=7)
        open_table.post_commit.drain()
    reported = orjson.loads((log_of(table) / checksum_name(1)).read_bytes())
    files = table.snapshot().files()
    commit = [orjson.loads(line) for line in (log_of(table) / commit_name(1)).read_bytes().splitlines()]
    first = [orjson.loads(line) for line in (log_of(table) / commit_name(0)).read_bytes().splitlines()]
    assert reported == {
        "txnId": result.txn_id,
        "tableSizeBytes": sum(files["size"].to_pylist()),
        "numFiles": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "domainMetadata": [],
        "setTransactions": [line["txn"] for line in commit if "txn" in line],
        "metadata": next(line["metaData"] for line in first if "metaData" in line),
        "protocol": next(line["protocol"] for line in first if "protocol" in line),
    }


def test_every_tenth_version_has_a_checksum_file_however_fast_they_follow(tmp_path: Path) -> None:
    with ambient.use(AtOnce()):
        table = new_table(tmp_path, **{"delta.checkpointInterval": "1000"})
        for number in range(1, 21):
            table.append(rows(number))
            if number % 10 == 0:
                table._open_table.post_commit.drain()
    assert {int(path.stem) for path in log_of(table).glob("*.crc")} == {10, 20}


def test_alternating_writers_write_a_checksum_file_only_at_every_tenth_version(tmp_path: Path) -> None:
    first = new_table(tmp_path, **{"delta.checkpointInterval": "1000"})
    handles = [first, txlog.Table.open(first.uri)]
    for number in range(12):
        handle = handles[number % 2]
        handle._open_table.post_commit._checksum_begun_s = -1e9  # long ago
        handle.append(rows(number))
        handle._open_table.post_commit.drain()
    found = sorted(path.name for path in log_of(first).glob("*.crc"))
    assert found == [checksum_name(version) for version in (1, 2, 10)]  # the first commit of each handle, and the tenth


@given(
    st.lists(
        st.sampled_from(["append", "overwrite", "remove", "add again", "txn", "reopen", "foreign", "checkpoint"]),
        min_size=1,
        max_size=8,
    )
)
def test_totals_match_the_files_or_are_absent(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    table = new_table(tmp_path_factory.mktemp("totals"))
    for number, step in enumerate(steps):
        take(table, step, number)
        if step == "reopen":
            table = txlog.Table.open(table.uri)
        table._open_table.post_commit.drain()
        state = table._open_table.log.newest_state()
        files = table.snapshot().files()
        exact = Totals(files.num_rows, sum(files["size"].to_pylist()))
        assert state.totals in (None, exact), step
        if step == "checkpoint":
            assert write_checksum(table._open_table.log, state)
            assert table._open_table.log.newest_state().totals == exact, "counted in the checkpoint"
        for path in log_of(table).glob("*.crc"):
            version = int(path.stem)
            then = table.snapshot(version).files()
            reported = parse_checksum(path.read_bytes(), version)
            assert reported is not None
            assert reported.totals == Totals(then.num_rows, sum(then["size"].to_pylist()))


def take(table: txlog.Table, step: str, number: int) -> None:
    if step == "append":
        table.append(rows(number))
    elif step == "overwrite":
        table.overwrite(rows(number))
    elif step == "txn":
        table.append(rows(number), app_id="a", checkpoint_id=number)
    elif step == "checkpoint":
        table.create_checkpoint()
    elif step == "foreign":
        state = table._open_table.log.newest_state()
        add = {"path": f"foreign-{number}", "partitionValues": {}, "size": 5, "modificationTime": 1, "dataChange": True}
        lines = [{"commitInfo": {"operation": "WRITE"}}, {"add": add}]
        table._open_table.store.log.put_if_absent(
            commit_name(state.version + 1), b"".join(orjson.dumps(line) + b"\n" for line in lines)
        )
    elif step in ("remove", "add again") and table.snapshot().num_files:
        row = next((r for r in table.snapshot().files().to_pylist() if not r["path"].startswith("foreign")), None)
        if row is not None:
            with table.transaction() as transaction:
                if step == "remove":
                    transaction.remove(row["path"])
                else:
                    transaction.add(AddFile.from_json({**row, "dataChange": True}))


def test_too_many_applications_are_left_out_as_unknown(tmp_path: Path) -> None:
    state = new_table(tmp_path)._open_table.log.newest_state()
    for count in (1000, 1001):
        found = {f"app-{number}": SetTransaction(f"app-{number}", number, 1) for number in range(count)}
        reported = parse_checksum(checksum_bytes(replace(state, transactions=found), Totals(0, 0)), state.version)
        assert reported is not None
        assert reported.is_whole is (count == 1000)
        assert reported.transactions == (tuple(found.values()) if reported.is_whole else None)


def test_applications_that_may_expire_are_left_out_and_found_in_the_log(tmp_path: Path) -> None:
    table = new_table(tmp_path, **{"delta.setTransactionRetentionDuration": "interval 30 days"})
    table.append(rows(1), app_id="a", checkpoint_id=7)
    forget_checksums(table)
    reported = orjson.loads(write_now(table).read_bytes())
    assert "setTransactions" not in reported
    assert reported["numFiles"] == 1
    assert reopened(table).transaction_version("a") == 7


def test_a_checksum_file_is_never_written_over(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    path = write_now(table)
    path.write_bytes(b"another's")
    write_now(table)
    assert path.read_bytes() == b"another's"


# --- read ---------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """A table whose newest version has a checksum file; its checkpoint, two versions before, cannot be read."""
    table = new_table(tmp_path)
    for number in range(3):
        table.append(rows(number), app_id="a", checkpoint_id=number)
    table.create_checkpoint()
    for number in range(3, 5):
        table.append(rows(number), app_id="a", checkpoint_id=number)
    forget_checksums(table)
    write_now(table)
    return table


def reopened(table: txlog.Table) -> txlog.Snapshot:
    return txlog.Table.open(table.uri).snapshot()


def spoil(table: txlog.Table, **changes: Any) -> None:
    path = log_of(table) / checksum_name(5)
    reported = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({key: value for key, value in {**reported, **changes}.items() if value is not None}))


def test_a_table_opens_from_its_checksum_file_without_the_checkpoint(
    table: txlog.Table, caplog: pytest.LogCaptureFixture
) -> None:
    (log_of(table) / checkpoint_name(3)).write_bytes(b"not looked at")
    snapshot = reopened(table)
    assert (snapshot.version, snapshot.transaction_version("a")) == (5, 4)
    assert not caplog.records
    assert (
        table._open_table.log.newest_state().totals == txlog.Table.open(table.uri)._open_table.log.newest_state().totals
    )


def test_commits_after_the_checksum_file_count(table: txlog.Table) -> None:
    txlog.Table.open(table.uri).append(rows(9), app_id="a", checkpoint_id=9)
    snapshot = reopened(table)
    assert (snapshot.version, snapshot.transaction_version("a")) == (6, 9)
    state = snapshot._version.state
    assert state.totals == Totals(snapshot.num_files, snapshot.size_bytes)


def test_a_missing_list_of_applications_is_unknown_and_looked_for_elsewhere(table: txlog.Table) -> None:
    spoil(table, setTransactions=None)
    assert reopened(table).transaction_version("a") == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"txnId": "of another commit"},
        {"setTransactions": [{"appId": "a", "version": 99, "lastUpdated": 1}]},
        {"setTransactions": []},
        {"setTransactions": [{"appId": "a", "version": 4}] * 2},
        {"inCommitTimestampOpt": 5},
        {"numMetadata": 2},
        {"numFiles": -1},
        {"tableSizeBytes": "many"},
        {"metadata": {}},
        {"protocol": None},
    ],
)
def test_a_checksum_file_that_cannot_be_right_is_passed_over(
    table: txlog.Table, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    spoil(table, **{"txnId": commit_txn_id(table), **changes})
    snapshot = reopened(table)
    assert snapshot.transaction_version("a") == 4
    assert "ignored" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize(
    ("what", "changes"), [("metadata", {"schemaString": ""}), ("protocol", {"minReaderVersion": 5})]
)
def test_a_checksum_file_that_would_make_a_table_unreadable_is_passed_over(
    table: txlog.Table, what: str, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    reported = orjson.loads((log_of(table) / checksum_name(5)).read_bytes())
    spoil(table, **{what: {**reported[what], **changes}})
    assert reopened(table).to_arrow().num_rows == 5
    assert "ignored" in caplog.text


def test_a_checksum_file_that_a_former_table_left_behind_is_passed_over(
    table: txlog.Table, caplog: pytest.LogCaptureFixture
) -> None:
    """Its commit was Spark's, which has a txnId; in its place is one by a writer that gives none."""
    spoil(table, txnId="a former one", setTransactions=[{"appId": "a", "version": 99}])
    path = log_of(table) / commit_name(5)
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    lines = [{"commitInfo": {"operation": "WRITE"}}, *(line for line in lines if "add" in line)]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert reopened(table).transaction_version("a") == 3
    assert "ignored" in caplog.text


def commit_txn_id(table: txlog.Table) -> str:
    line = (log_of(table) / commit_name(5)).read_bytes().splitlines()[0]
    return str(orjson.loads(line)["commitInfo"]["txnId"])


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"{}", b"\xff"])
def test_a_checksum_file_with_any_damage_is_ignored(table: txlog.Table, body: bytes) -> None:
    (log_of(table) / checksum_name(5)).write_bytes(body)
    assert reopened(table).transaction_version("a") == 4


def test_a_checksum_file_of_version_0_is_not_read(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    forget_checksums(table)
    state = table._open_table.log.newest_state()
    ghost = orjson.loads(checksum_bytes(state, Totals(0, 0)))
    ghost["setTransactions"] = [{"appId": "ghost", "version": 1}]
    (log_of(table) / checksum_name(0)).write_bytes(orjson.dumps(ghost))
    assert reopened(table).transaction_version("ghost") is None
