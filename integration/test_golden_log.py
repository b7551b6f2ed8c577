"""Every golden table's log, replayed: against deltalake, and against the rows Spark expects in the live files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import deltalake
import golden
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.core.format.actions import SetTransaction
from txlog.core.format.paths import resolve_data_path
from txlog.core.store._local_store import local_table_store
from txlog.core.versions.decisions.checkpoint.classic import build_checkpoint
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.errors import CorruptLogError, TableNotFoundError

REFUSED = {
    "crc-malformed": TableNotFoundError,  # a checksum file and nothing else
    "data-reader-absolute-paths-escaped-chars": CorruptLogError,  # no metaData at all
    "deltalog-commit-info": CorruptLogError,  # metaData without schemaString
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": CorruptLogError,
    "deltalog-state-reconstruction-without-metadata": CorruptLogError,
    "no-delta-log-folder": TableNotFoundError,
    "versions-not-contiguous": CorruptLogError,
}
# deltalake leaves the add in place; PROTOCOL.md and Spark take the two spellings for one file.
SPELLED_TWICE = {"canonicalized-paths-normal-a", "canonicalized-paths-normal-b"}
REFUSED_BY_PROTOCOL_VERSION = {"deltalog-invalid-protocol-version"}

pytestmark = golden.needed


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Unpacks one golden table, once, and gives its folder (that of the Delta table, and that of the archive)."""
    target = tmp_path_factory.mktemp("golden")

    def unpack(name: str) -> list[Path]:
        root = golden.unpack(name, target)
        return sorted({log.parent for log in root.rglob("_delta_log")} or {root / "delta"})

    return unpack


def loaded(root: Path) -> tuple[DeltaLog, TableState]:
    log = DeltaLog(local_table_store(str(root)))
    return log, log.newest_state()


@pytest.mark.parametrize(
    "name", sorted(set(golden.NAMES) - REFUSED.keys() - SPELLED_TWICE - REFUSED_BY_PROTOCOL_VERSION)
)
def test_a_golden_table_has_the_live_files_that_deltalake_sees(name: str, unpacked: Any) -> None:
    for root in unpacked(name):
        log, state = loaded(root)
        theirs = deltalake.DeltaTable(str(root))
        expected = theirs.get_add_actions().to_struct_array().to_pylist()
        ours = log.files(state).to_pylist()
        assert state.version == theirs.version()
        assert {(f["size"], f["modificationTime"]) for f in ours} == {
            (f["size_bytes"], f["modification_time"]) for f in expected
        }
        assert len(ours) == len(expected)
        assert (state.metadata.id, list(state.partition_columns)) == (
            str(theirs.metadata().id),
            theirs.metadata().partition_columns,
        )


@pytest.mark.parametrize("name", sorted(set(golden.NAMES) & REFUSED.keys()))
def test_a_broken_golden_table_is_refused(name: str, unpacked: Any) -> None:
    for root in unpacked(name):
        with pytest.raises(REFUSED[name]):
            loaded(root)


@pytest.mark.parametrize("name", sorted(set(golden.NAMES) & SPELLED_TWICE))
def test_two_spellings_of_a_path_are_one_file(name: str, unpacked: Any) -> None:
    (root,) = unpacked(name)
    log, state = loaded(root)
    assert log.files(state).num_rows == 0


def rows_expected(root: Path) -> int | None:
    files = list((root.parent / "expected").rglob("*.parquet"))
    return sum(pq.read_metadata(file).num_rows for file in files) if files else None


@pytest.mark.parametrize("name", golden.NAMES)
def test_live_files_hold_as_many_rows_as_spark_expects(name: str, unpacked: Any) -> None:
    if name in REFUSED:
        return
    for root in unpacked(name):
        expected = rows_expected(root)
        if expected is None:
            continue
        log, state = loaded(root)
        rows = 0
        for file in log.files(state).to_pylist():
            deleted = file["deletionVector"]["cardinality"] if file["deletionVector"] else 0
            rows += pq.read_metadata(root / resolve_data_path(file["path"]).path).num_rows - deleted
        assert rows == expected


@pytest.mark.parametrize("name", sorted(set(golden.NAMES) - REFUSED.keys()))
def test_every_version_is_the_plain_fold_of_its_commits(name: str, unpacked: Any) -> None:
    for root in unpacked(name):
        log, state = loaded(root)
        commits = {int(p.name[:20]): p for p in (root / "_delta_log").glob("*.json") if len(p.name) == 25}
        if sorted(commits) != list(range(state.version + 1)) or name in SPELLED_TWICE:
            continue  # cleaned up: there is nothing to fold from
        live: dict[tuple[str, str | None], int] = {}
        txns: dict[str, int] = {}
        for version in range(state.version + 1):
            for line in filter(None, commits[version].read_bytes().splitlines()):
                action = orjson.loads(line)
                file = action.get("add") or action.get("remove")
                if file:
                    vector = file.get("deletionVector")
                    key = (file["path"], orjson.dumps(vector).decode() if vector else None)
                    live.pop(key, None)
                    if "add" in action:
                        live[key] = file["size"]
                if "txn" in action:
                    txns[action["txn"]["appId"]] = action["txn"]["version"]
            try:
                at = log.state_at(version)
            except CorruptLogError:
                assert version < state.version  # some golden logs get their metadata late
                continue
            files = log.files(at)
            assert sorted(files["size"].to_pylist()) == sorted(live.values())
            assert set(files["path"].to_pylist()) == {path for path, _ in live}
            assert {app_id: at.transaction_version(app_id) for app_id in at.transactions} == txns


def test_statistics_survive_checkpoints_that_keep_them_typed_only(unpacked: Any) -> None:
    seen = 0
    for name in ("v1-single-part-struct-stats-only", "v2-parquet-sidecars-struct-stats-only"):
        (root,) = unpacked(name)
        log, state = loaded(root)
        reported = {}
        for commit in sorted((root / "_delta_log").glob("0*.json")):
            for line in commit.read_bytes().splitlines():
                add = orjson.loads(line).get("add")
                if add:
                    reported[add["path"]] = orjson.loads(add["stats"])
        for file in log.files(state).to_pylist():
            stats = orjson.loads(file["stats"])
            assert stats["numRecords"] == reported[file["path"]]["numRecords"]
            assert stats["minValues"] == reported[file["path"]]["minValues"]
            assert stats["nullCount"] == reported[file["path"]]["nullCount"]
            seen += 1
    assert seen == 10


@pytest.mark.parametrize(
    "name", sorted(set(golden.NAMES) - REFUSED.keys() - REFUSED_BY_PROTOCOL_VERSION - SPELLED_TWICE)
)
def test_deltalake_reads_our_checkpoint_of_a_golden_table(name: str, unpacked: Any, tmp_path: Path) -> None:
    for number, root in enumerate(unpacked(name)):
        log, state = loaded(root)
        before = deltalake.DeltaTable(str(root)).get_add_actions(flatten=True).to_struct_array().to_pylist()
        copy = tmp_path / str(number) / "_delta_log"
        copy.mkdir(parents=True)
        # Nothing but the last commit, so that the checkpoint must be read.
        last = f"{state.version:020d}.json"
        (copy / last).write_bytes((root / "_delta_log" / last).read_bytes())
        store = local_table_store(str(copy.parent))
        live, tombstones = log.files_and_tombstones(state)
        checkpoint = build_checkpoint(state, live, tombstones, now_ms=0)
        store.log.put(f"{state.version:020d}.checkpoint.parquet", checkpoint.body)
        store.log.put("_last_checkpoint", checkpoint.hint)
        after = deltalake.DeltaTable(str(copy.parent)).get_add_actions(flatten=True).to_struct_array().to_pylist()
        # Of a bound such as 0E-10 deltalake makes nothing where it is text, and reads it where it is typed.
        reported = {file["path"]: file for file in before}
        known = [{k: v for k, v in file.items() if reported[file["path"]][k] is not None} for file in after]
        assert by_path(known) == by_path([{k: v for k, v in file.items() if v is not None} for file in before])
        again, found = loaded(copy.parent)
        assert found.transactions == retained(state)
        assert found.metadata == state.metadata
        assert found.protocol == state.protocol
        assert by_path(parsed(again.files(found))) == by_path([{**file, "dataChange": False} for file in parsed(live)])
        assert again.files_and_tombstones(found)[1].num_rows == tombstones.num_rows


def retained(state: TableState) -> dict[str, SetTransaction]:
    """At the epoch nothing is old yet; where the table asks for expiry, what carries no time is expired."""
    expires = "delta.setTransactionRetentionDuration" in state.metadata.configuration
    return {k: txn for k, txn in state.transactions.items() if txn.last_updated is not None or not expires}


def parsed(files: pa.Table) -> list[dict[str, Any]]:
    return [{**file, "stats": file["stats"] and orjson.loads(file["stats"])} for file in files.to_pylist()]


def by_path(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(files, key=lambda file: (file["path"], str(file.get("deletionVector"))))


def test_damage_to_any_checkpoint_costs_a_warning_and_no_file(
    unpacked: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    for name in ("checkpoint", "v2-checkpoint-json", "v2-checkpoints-parquet-with-sidecars", "125-iterator-bug"):
        (root,) = unpacked(name)
        log, state = loaded(root)
        expected = sorted(log.files(state)["path"].to_pylist())
        victims = [p for p in (root / "_delta_log").rglob("*") if ".checkpoint." in p.name]
        assert victims
        if not (root / "_delta_log" / f"{0:020d}.json").exists():
            continue
        for victim in victims:
            whole = victim.read_bytes()
            for damage in (b"", whole[: len(whole) // 2], b"\0" * len(whole)):
                victim.write_bytes(damage)
                caplog.clear()
                with caplog.at_level(logging.WARNING, logger="txlog"):
                    again, found = loaded(root)
                    assert sorted(again.files(found)["path"].to_pylist()) == expected
            victim.unlink()
            again, found = loaded(root)
            assert sorted(again.files(found)["path"].to_pylist()) == expected
            victim.write_bytes(whole)
