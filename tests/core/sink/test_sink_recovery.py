"""A sink that stages: seal, commit, recover, whatever was there before and whatever other processes do."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from staging_contract import AWKWARD_APP_IDS

import txlog
from tests.losing_writer import losing_to
from txlog.core.definition import create_table
from txlog.core.format.log_names import commit_name
from txlog.core.sink._inspection import AGE_MIN_MS, clean_staging, staged_states
from txlog.core.sink._recovery import Recovery
from txlog.core.store import PutOutcome, TableStore, open_store
from txlog.core.versions import OpenTable
from txlog.testing.faults import Fault, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
LAST = 2**63 - 1
DAY_S = 24 * 3600


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": ["mon" if i % 2 else "tue" for i in ids]}, schema=SCHEMA)


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(txlog.Table.open(table.uri).snapshot().to_arrow().column("id").to_pylist())


def staged(sink: txlog.Sink, checkpoint_id: int, task_id: int, *ids: int, attempt: int = 0) -> txlog.Committable:
    with sink.task(checkpoint_id, task_id, attempt) as task:
        task.write(rows_of(*ids))
    sink.stage(task.committable)
    return task.committable


def sealed(sink: txlog.Sink, checkpoint_id: int, *ids: int, fingerprint: str | None = None) -> None:
    """A checkpoint of one task for each id."""
    for task_id, number in enumerate(ids):
        staged(sink, checkpoint_id, task_id, number)
    sink.prepare(checkpoint_id, range(len(ids)), fingerprint=fingerprint)


def restarted(table: txlog.Table, app_id: str = "app") -> txlog.Sink:
    """The sink of another process."""
    return txlog.Sink(txlog.Table.open(table.uri), app_id)


def forget_commits(table: txlog.Table) -> None:
    """Clean up the log up to a checkpoint of its newest version, which is no commit of a sink."""
    table.append(rows_of())
    table.create_checkpoint()
    for version in range(table.version):
        (Path(table.uri) / "_delta_log" / commit_name(version)).unlink()


def staging_of(table: txlog.Table) -> list[str]:
    return sorted(path.name for path in (Path(table.uri) / "_txlog" / "staging").iterdir())


def age(path: Path, days: float) -> None:
    then_s = path.stat().st_mtime - days * DAY_S
    os.utime(path, (then_s, then_s))


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=SCHEMA, partition_by=["day"])


@pytest.fixture
def sink(table: txlog.Table) -> txlog.Sink:
    return txlog.Sink(table, "app")


# --- the way it goes without a crash --------------------------------------------------------------------------------


def test_staged_work_is_sealed_committed_and_removed(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(restarted(table), 17, 0, 1, 2)
    staged(restarted(table), 17, 1, 3)
    manifest = sink.prepare(17, range(2), fingerprint="0-3")
    assert manifest is not None
    assert (manifest.num_rows, manifest.attempts, manifest.fingerprint) == (3, {0: 0, 1: 0}, "0-3")
    assert table.snapshot().num_files == 0
    result = restarted(table).commit(17)
    assert (result.version, result.outcome, result.metrics.rows, result.metrics.files) == (1, "committed", 3, 3)
    assert ids_of(table) == [1, 2, 3]
    assert staging_of(table) == []
    assert deltalake.DeltaTable(table.uri).transaction_version("app") == 17
    assert table.history(1)[0]["txlog"]["fingerprint"] == "0-3"


@pytest.mark.parametrize("way", ["recover", "commit", "next commit", "abandon"])
def test_a_seal_is_proof_of_a_checkpoint_whose_commit_was_cleaned_up(
    table: txlog.Table, sink: txlog.Sink, way: str
) -> None:
    """It was left by a process that died after the commit. Nothing but this work can be committed while it exists."""
    sealed(sink, 17, 1, 2, fingerprint="0-3")
    staging = Path(table.uri) / "_txlog" / "staging"
    left = {path: path.read_bytes() for path in staging.iterdir()}
    sink.commit(17)
    for path, body in left.items():
        path.write_bytes(body)
    forget_commits(table)
    again = restarted(table)
    if way == "recover":
        assert again.recover().results[17].outcome == "already_committed"
    elif way == "commit":
        assert again.commit(17, fingerprint="0-3").outcome == "already_committed"
    elif way == "abandon":
        assert again.abandon(17).result.outcome == "already_committed"
    else:
        assert again.commit(18, [staged(again, 18, 0, 3)], fingerprint="3-4").outcome == "committed"
    assert ids_of(table) == ([1, 2, 3] if way == "next commit" else [1, 2])
    assert staging_of(table) == []


def test_without_a_seal_a_replay_whose_commit_was_cleaned_up_is_dropped_only_without_a_fingerprint(
    table: txlog.Table, sink: txlog.Sink
) -> None:
    sealed(sink, 17, 1, fingerprint="0-3")
    sink.commit(17)
    forget_commits(table)
    again = restarted(table)
    work = staged(again, 17, 0, 1)
    for replay in (again.prepare, again.commit):
        with pytest.raises(txlog.InvalidInputError, match=r"17 of 'app' is the last .* run it again without fingerpr"):
            replay(17, [work], fingerprint="0-3")
    assert again.prepare(17, [work]) is None
    assert again.commit(17, [work]).outcome == "already_committed"
    assert ids_of(table) == [1]


def test_committables_can_be_sealed_as_they_are(table: txlog.Table, sink: txlog.Sink) -> None:
    committables = []
    for task_id in (0, 1):
        with sink.task(1, task_id) as task:
            task.write(rows_of(task_id))
        committables.append(txlog.Committable.from_bytes(task.committable.to_bytes()))
    sink.prepare(1, committables)
    assert len(staging_of(table)) == 3
    assert sink.commit(1, committables).version == 1
    assert ids_of(table) == [0, 1]
    with pytest.raises(txlog.InvalidInputError, match=r"3 is not a committable: pass task\.committable"):
        sink.prepare(2, [*committables, 3])  # type: ignore[list-item]
    with pytest.raises(txlog.InvalidInputError, match="one committable per task"):
        sink.prepare(2, [*committables, committables[0]])
    assert sink.prepare(1, committables) is None


def test_only_the_attempts_that_were_sealed_are_committed(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 1)
    staged(sink, 1, 1, 2)
    staged(sink, 1, 1, 2, attempt=1)
    with pytest.raises(txlog.InvalidInputError, match="task 1: 0, 1"):
        sink.prepare(1, [0, 1])
    sink.prepare(1, {0: 0, 1: 1})
    staged(sink, 1, 0, 1, attempt=9)
    assert sink.commit(1).metrics.files == 2
    assert ids_of(table) == [1, 2]
    assert staging_of(table) == []


def test_prepare_seals_the_attempt_that_the_caller_names(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 10)
    staged(sink, 1, 0, 11, attempt=1)
    sink.prepare(1, {0: 0})
    sink.commit(1)
    assert ids_of(table) == [10]


def test_a_checkpoint_without_rows_is_sealed_and_makes_no_version(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0)
    sink.prepare(1, [0])
    sink.prepare(2, [])
    assert [sink.commit(1).outcome, sink.commit(2).outcome] == ["empty", "empty"]
    assert (table.snapshot().version, staging_of(table)) == (0, [])
    sink.prepare(3, [])
    assert [result.outcome for result in restarted(table).recover().results.values()] == ["empty"]
    assert staging_of(table) == []


@pytest.mark.parametrize("app_id", AWKWARD_APP_IDS)
def test_any_app_id_and_any_id_can_be_staged(app_id: str, table: txlog.Table) -> None:
    sink = restarted(table, app_id)
    for checkpoint_id in (0, LAST):
        sealed(sink, checkpoint_id, checkpoint_id % 1000)
        assert list(restarted(table, app_id).recover().results) == [checkpoint_id]
    assert ids_of(table) == [0, LAST % 1000]
    assert sink.last_checkpoint_id() == LAST
    with pytest.raises(txlog.InvalidInputError, match="checkpoint_id"):
        sink.prepare(LAST + 1, [])


# --- sealing ----------------------------------------------------------------------------------------------------------


def test_a_seal_needs_every_task(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 1)
    with pytest.raises(txlog.InvalidInputError, match="1 of 2 are missing"):
        sink.prepare(1, [0, 1])
    with pytest.raises(txlog.InvalidInputError, match="not sealed"):
        sink.commit(1)
    assert table.snapshot().version == 0


def test_a_checkpoint_is_sealed_once(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 1)
    staged(sink, 1, 1, 2)
    first = sink.prepare(1, [0, 1], fingerprint="a")
    assert restarted(table).prepare(1, [1, 0], fingerprint="a") == first
    with pytest.raises(txlog.InvalidInputError, match="with tasks 0, 1, not task 0"):
        sink.prepare(1, [0], fingerprint="a")
    with pytest.raises(txlog.InvalidInputError, match="'a' there, 'b' here"):
        sink.prepare(1, [0, 1], fingerprint="b")
    staged(sink, 1, 1, 3, attempt=1)
    with pytest.raises(txlog.InvalidInputError, match="other attempts of task 1"):
        sink.prepare(1, {0: 0, 1: 1}, fingerprint="a")
    sink.commit(1)
    assert ids_of(table) == [1, 2]


def test_a_checkpoint_that_another_process_sealed_again_is_committed_as_sealed_last(
    table: txlog.Table, sink: txlog.Sink
) -> None:
    """Who sealed it first still has its own seal in memory: the number of the checkpoint alone proves nothing."""
    sealed(sink, 1, 5)
    other = restarted(table)
    assert other.discard(1)
    staged(other, 1, 0, 6, attempt=1)
    other.prepare(1, {0: 1})
    assert sink.commit(1).outcome == "committed"
    assert ids_of(table) == [6]


def test_an_attempt_number_used_again_is_refused(table: txlog.Table, sink: txlog.Sink) -> None:
    """Rows of two runs, which may have read other offsets, never get into one checkpoint by accident."""
    same = staged(sink, 1, 0, 1)
    sink.stage(same)
    with pytest.raises(txlog.InvalidInputError, match="attempt 0 of task 0") as caught:
        staged(restarted(table), 1, 0, 1, 2)
    assert "sink.discard(1)" in str(caught.value)
    assert sink.discard(1)
    assert not sink.discard(1)
    staged(restarted(table), 1, 0, 1, 2)
    sink.prepare(1, [0])
    sink.commit(1)
    assert ids_of(table) == [1, 2]


def test_only_the_sealed_work_can_be_committed(table: txlog.Table, sink: txlog.Sink) -> None:
    first = staged(sink, 1, 0, 1)
    other = staged(sink, 1, 0, 2, attempt=1)
    sink.prepare(1, {0: 0}, fingerprint="a")
    with pytest.raises(txlog.InvalidInputError, match="only what is sealed"):
        sink.commit(1, [other])
    with pytest.raises(txlog.InvalidInputError, match="only what is sealed"):
        sink.commit(1, fingerprint="b")
    assert sink.commit(1, [first], fingerprint="a").outcome == "committed"
    assert ids_of(table) == [1]


def test_committables_of_other_sinks_are_not_staged_and_not_sealed(
    table: txlog.Table, sink: txlog.Sink, tmp_path: Path
) -> None:
    with pytest.raises(txlog.InvalidInputError, match="'another'"):
        sink.stage(staged(restarted(table, "another"), 1, 0, 1))
    of_other_table = staged(txlog.Sink(txlog.Table.create(tmp_path / "o", SCHEMA, ["day"]), "app"), 1, 0, 1)
    sink.stage(of_other_table)
    with pytest.raises(txlog.InvalidInputError, match="table_id"):
        sink.prepare(1, [0])
    assert [name for name in staging_of(table) if name.endswith("manifest")] == []


# --- order ------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_waits_for_an_earlier_one_that_is_sealed(table: txlog.Table, sink: txlog.Sink) -> None:
    sealed(sink, 1, 1)
    sealed(sink, 2, 2)
    direct = staged(sink, 3, 0, 3)
    for refused in (lambda: sink.commit(2), lambda: sink.commit(3, [direct])):
        with pytest.raises(txlog.InvalidInputError, match="checkpoint 1 of 'app' is sealed but not committed"):
            refused()
    assert table.snapshot().version == 0
    assert [sink.commit(1).version, sink.commit(2).version, sink.commit(3, [direct]).version] == [1, 2, 3]
    assert staging_of(table) == []


def test_another_application_does_not_wait(table: txlog.Table, sink: txlog.Sink) -> None:
    sealed(sink, 1, 1)
    other = restarted(table, "other")
    sealed(other, 2, 2)
    assert other.commit(2).version == 1
    assert len(staging_of(table)) == 2


def test_leftovers_of_a_commit_block_nothing(table: txlog.Table, sink: txlog.Sink, tmp_path: Path) -> None:
    """A committer died after its commit, before it removed the staging."""
    sealed(sink, 1, 1)
    shutil.copytree(Path(table.uri) / "_txlog", tmp_path / "copy")
    sink.commit(1)
    shutil.copytree(tmp_path / "copy", Path(table.uri) / "_txlog", dirs_exist_ok=True)
    sealed(sink, 2, 2)
    assert restarted(table).commit(2).version == 2
    assert staging_of(table) == []
    assert ids_of(table) == [1, 2]


def test_a_seal_that_the_application_has_passed_is_reported_and_kept(table: txlog.Table, sink: txlog.Sink) -> None:
    sealed(sink, 1, 1)
    table.append(rows_of(5), app_id="app", checkpoint_id=5)
    for refused in (lambda: sink.commit(6, []), sink.recover, lambda: sink.commit(1)):
        with pytest.raises(txlog.InvalidInputError, match="checkpoint 1 of 'app' is older"):
            refused()
    assert len(staging_of(table)) == 2
    assert sink.discard(1)
    assert sink.recover().results == {}


def test_unsealed_staging_is_removed_once_the_application_is_past_it(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 1)
    staged(sink, 3, 0, 3)
    sealed(sink, 2, 2)
    sink.commit(2)
    assert [name.split(".")[1] for name in staging_of(table)] == [f"{3:020}"]
    assert ids_of(table) == [2]


# --- recovery ---------------------------------------------------------------------------------------------------------


def test_sealed_checkpoints_are_recovered_once_and_in_order(
    table: txlog.Table, sink: txlog.Sink, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "txlog")
    for checkpoint_id in (9, 10, 8, 100):
        sealed(sink, checkpoint_id, checkpoint_id, checkpoint_id + 1000, fingerprint=f"up to {checkpoint_id}")
    staged(sink, 101, 0, 101)
    staged(sink, 101, 4, 105, attempt=2)
    recovery = restarted(table).recover()
    assert [(k, result.outcome, result.version) for k, result in recovery.results.items()] == [
        (8, "committed", 1),
        (9, "committed", 2),
        (10, "committed", 3),
        (100, "committed", 4),
    ]
    assert recovery.partial == {101: {0: (0,), 4: (2,)}}
    assert "committed: 8, 9, 10, 100; partial: 101" in caplog.text
    assert [entry["txlog"]["fingerprint"] for entry in table.history(4)] == [f"up to {k}" for k in (100, 10, 9, 8)]
    again = restarted(table).recover()
    assert (again.results, again.partial) == ({}, recovery.partial)
    assert ids_of(table) == [8, 9, 10, 100, 1008, 1009, 1010, 1100]
    assert len(staging_of(table)) == 2


def test_recovery_of_nothing_is_nothing(table: txlog.Table, sink: txlog.Sink) -> None:
    recovery = sink.recover()
    assert (recovery.results, recovery.partial) == ({}, {})
    assert not (Path(table.uri) / "_txlog").exists()


def test_a_partial_checkpoint_is_written_again(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 1)
    recovering = restarted(table)
    for checkpoint_id in recovering.recover().partial:
        recovering.discard(checkpoint_id)
    sealed(recovering, 1, 1, 2)
    recovering.commit(1)
    assert ids_of(table) == [1, 2]


def test_recovery_does_not_commit_again_what_was_committed_before_the_crash(
    table: txlog.Table, sink: txlog.Sink, tmp_path: Path
) -> None:
    sealed(sink, 1, 1, 2, fingerprint="a")
    shutil.copytree(Path(table.uri) / "_txlog", tmp_path / "copy")
    sink.commit(1)
    for left in ("*", "*.manifest", "*.task.*"):
        for path in (tmp_path / "copy" / "staging").glob(left):
            shutil.copy(path, Path(table.uri) / "_txlog" / "staging")
        results = restarted(table).recover().results
        assert [result.outcome for result in results.values()] in (["already_committed"], [])
        assert staging_of(table) == [], left
    assert ids_of(table) == [1, 2]
    assert table.snapshot().version == 1


def damaged(path: Path) -> None:
    path.write_bytes(b"PAR1")


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (Path.unlink, "does not exist"),
        (damaged, "4 bytes"),
        (lambda path: age(path, 3.6), "hours too long ago"),
    ],
    ids=["deleted", "cut short", "old"],
)
def test_recovery_stops_at_the_first_checkpoint_that_cannot_be_committed(
    damage: Callable[[Path], Any], reported: str, table: txlog.Table, sink: txlog.Sink
) -> None:
    sealed(sink, 1, 1)
    sealed(sink, 2, 2, 4)
    sealed(sink, 3, 3)
    doomed = staged(sink, 9, 0, 9).files[0].path
    victim = next(path for path in Path(table.uri).rglob("*.parquet") if _holds(path, 4))
    damage(victim)
    with pytest.raises(txlog.TxlogError, match=reported) as caught:
        restarted(table).recover()
    assert isinstance(caught.value, txlog.NotFoundError | txlog.InvalidInputError)
    assert victim.name in str(caught.value)
    assert "sink.discard(2)" in str(caught.value)
    assert list(caught.value.recovery.results) == [1]
    assert pickle.loads(pickle.dumps(caught.value)).recovery.results[1].version == 1
    assert ids_of(table) == [1]
    assert restarted(table).discard(2)
    sealed(sink, 2, 2, 4)
    assert list(restarted(table).recover().results) == [2, 3]
    assert ids_of(table) == [1, 2, 3, 4]
    assert (Path(table.uri) / doomed).exists()


def _holds(path: Path, number: int) -> bool:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist() == [number]


def test_a_longer_retention_makes_old_files_committable_again(table: txlog.Table, sink: txlog.Sink) -> None:
    sealed(sink, 1, 1)
    for path in Path(table.uri).rglob("*.parquet"):
        age(path, 6)
    with pytest.raises(txlog.InvalidInputError, match=r"delta\.deletedFileRetentionDuration"):
        sink.recover()
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    assert sink.recover().results[1].version == 2
    assert ids_of(table) == [1]


def test_a_seal_older_than_the_transaction_retention_is_not_committed(table: txlog.Table, sink: txlog.Sink) -> None:
    table.set_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})
    sealed(sink, 1, 1)
    for path in Path(table.uri).rglob("*.parquet"):
        age(path, 2)
    with pytest.raises(txlog.InvalidInputError, match="too long ago"):
        sink.recover()


def test_old_files_are_not_committed_without_a_seal(table: txlog.Table, sink: txlog.Sink) -> None:
    committable = staged(sink, 1, 0, 1)
    age(Path(table.uri) / committable.files[0].path, 4)
    with pytest.raises(txlog.InvalidInputError, match="too long ago"):
        sink.commit(1, [committable])
    assert table.snapshot().version == 0


def test_a_table_without_retention_accepts_files_written_just_now(table: txlog.Table, sink: txlog.Sink) -> None:
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    sealed(sink, 1, 1)
    with pytest.raises(txlog.InvalidInputError, match="too long ago"):
        restarted(table).recover()
    assert sink.commit(1).outcome == "committed"


def test_checkpoints_of_a_dropped_table_are_not_committed_to_its_successor(
    table: txlog.Table, sink: txlog.Sink
) -> None:
    sealed(sink, 1, 1)
    shutil.rmtree(Path(table.uri) / "_delta_log")
    again = txlog.Table.create(table.uri, SCHEMA, partition_by=["day"])
    with pytest.raises(txlog.InvalidInputError, match="table_id") as caught:
        restarted(again).recover()
    assert "sink.discard(1)" in str(caught.value)
    assert ids_of(again) == []
    assert len(staging_of(again)) == 2


def test_replaced_columns_stop_a_recovery(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "plain", SCHEMA)
    sink = txlog.Sink(table, "app")
    sealed(sink, 1, 1)
    deltalake.write_deltalake(table.uri, pa.table({"id": ["x"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(txlog.MetadataChangedError):
        restarted(table).recover()
    assert len(staging_of(table)) == 2


def test_other_changes_of_the_table_do_not_stop_a_recovery(table: txlog.Table, sink: txlog.Sink) -> None:
    sealed(sink, 1, 1)
    table.append(rows_of(2))
    table.add_columns(pa.schema([("new", pa.float64())]))
    table.create_checkpoint()
    deltalake.DeltaTable(table.uri).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert len(staging_of(table)) == 2
    assert restarted(table).recover().results[1].outcome == "committed"
    assert ids_of(table) == [1, 2]


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_sealed_checkpoint_is_committed_beside_a_forced_vacuum_and_another_one_is_refused(
    is_sealed: bool, tmp_path: Path
) -> None:
    """A vacuum keeps the files of sealed checkpoints, whose commit loses the race to it."""
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    sink = txlog.Sink(losing_to(table, lambda other: other.vacuum(0, force=True)), "job")
    with sink.task(1, 0, 0) as task:
        task.write(pa.table({"id": [1, 2]}))
    if is_sealed:
        sink.stage(task.committable)
        sink.prepare(1, {0: 0})
        assert sink.commit(1).outcome == "committed"
        assert deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist() == [1, 2]
    else:
        with pytest.raises(txlog.ConcurrentDeleteReadError, match="so short a retention"):
            sink.commit(1, [task.committable])
        assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 0


def test_the_staging_folder_is_invisible_to_vacuums_and_readers_of_other_engines(
    table: txlog.Table, sink: txlog.Sink
) -> None:
    sealed(sink, 1, 1)
    left = staging_of(table)
    for path in (Path(table.uri) / "_txlog").rglob("*"):
        age(path, 100)
    other = deltalake.DeltaTable(table.uri)
    gone = other.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert not [path for path in gone if "_txlog" in path]
    assert staging_of(table) == left
    assert other.to_pyarrow_table().num_rows == 0


# --- two committers of one application --------------------------------------------------------------------------------


class Meddled:
    """A store whose ``moments`` count every call; before call number ``at``, another process acts."""

    def __init__(self, inner: Any, moments: Moments) -> None:
        self._inner, self._moments = inner, moments

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if callable(found) and name != "round_trip_s":
            self._moments.pass_one()
        return found


class Moments:
    def __init__(self, at: int, act: Callable[[], object]) -> None:
        self.passed, self.at, self.act = 0, at, act

    def pass_one(self) -> None:
        self.passed += 1
        if self.passed - 1 == self.at:
            self.act()


def sink_of(store: TableStore) -> txlog.Sink:
    return txlog.Sink(txlog.Table(OpenTable(store)), "app")


def new_store() -> TableStore:
    """An empty table in memory."""
    store = memory_table_store()
    create_table(OpenTable(store), SCHEMA, ("day",), {})
    return store


def copy_of(store: TableStore) -> TableStore:
    """Another table in memory that holds the same."""
    copied = memory_table_store()
    for name in ("log", "files", "staging"):
        original, copy = getattr(store, name), getattr(copied, name)
        copy.objects, copy.durable = original.objects.copy(), original.durable.copy()
    return copied


def ends_with_the_next(store: TableStore) -> None:
    rival = sink_of(store)
    rival.commit(1)
    sealed(rival, 2, 2)
    rival.commit(2)


RIVALS: dict[str, Callable[[TableStore], object]] = {
    "commits": lambda store: sink_of(store).commit(1),
    "recovers": lambda store: sink_of(store).recover(),
    "goes on": ends_with_the_next,
    "seals the next": lambda store: sealed(sink_of(store), 2, 2),
}
OURS: dict[str, Callable[[txlog.Sink], str]] = {
    "commits": lambda sink: sink.commit(1).outcome,
    "recovers": lambda sink: sink.recover().results[1].outcome,
    "seals and commits": lambda sink: (sink.prepare(1, [0, 1]), sink.commit(1).outcome)[1],
}


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("ours", OURS)
def test_of_two_concurrent_committers_one_wins_and_the_other_finds_the_commit(ours: str, rival: str) -> None:
    """The other acts as a whole before each of our calls to the log and to the staging in turn."""
    one_sealed = new_store()
    sealed(sink_of(one_sealed), 1, 1, 3)
    outcomes = set()
    at = 0
    while True:
        store = copy_of(one_sealed)
        moments = Moments(at, lambda store=store: RIVALS[rival](store))  # type: ignore[misc]
        meddled = TableStore(store.uri, Meddled(store.log, moments), store.files, Meddled(store.staging, moments))
        try:
            outcome = OURS[ours](sink_of(meddled))
        except KeyError:  # nothing is left to recover
            outcome = "already_committed"
        if moments.passed <= at:
            break
        outcomes.add(outcome)
        sink_of(store).recover()
        snapshot = txlog.Table(OpenTable(store)).snapshot()
        others = [2] if snapshot.transaction_version("app") == 2 else []
        assert sorted(snapshot.to_arrow()["id"].to_pylist()) == [1, *others, 3], f"before call {at}"
        assert snapshot.version == 1 + len(others), f"before call {at}"
        assert store.staging is not None
        assert store.staging.list_from("") == [], f"before call {at}"
        at += 1
    assert at > 12
    assert outcomes == ({"committed"} if rival == "seals the next" else {"committed", "already_committed"})


def test_a_concurrently_discarded_checkpoint_is_committed_whole_or_not_at_all() -> None:
    one_sealed = new_store()
    sealed(sink_of(one_sealed), 1, 1, 3)
    landed = set()
    at = 0
    while True:
        store = copy_of(one_sealed)
        moments = Moments(at, lambda store=store: sink_of(store).discard(1))  # type: ignore[misc]
        meddled = TableStore(store.uri, Meddled(store.log, moments), store.files, Meddled(store.staging, moments))
        try:
            outcome = sink_of(meddled).commit(1).outcome
        except (txlog.InvalidInputError, txlog.NotFoundError):
            outcome = "refused"
        if moments.passed <= at:
            break
        landed.add(outcome)
        found = sorted(txlog.Table(OpenTable(store)).snapshot().to_arrow()["id"].to_pylist())
        assert found == ([1, 3] if outcome == "committed" else []), f"before call {at}"
        at += 1
    assert landed == {"committed", "refused"}


@pytest.mark.parametrize("ours", OURS)
def test_a_concurrently_abandoned_checkpoint_is_in_the_table_whole_or_given_up_whole(ours: str) -> None:
    one_sealed = new_store()
    sealed(sink_of(one_sealed), 1, 1, 3)
    seen = set()
    at = 0
    while True:
        store = copy_of(one_sealed)
        given_up: list[str] = []
        moments = Moments(
            at, lambda store=store, found=given_up: found.append(sink_of(store).abandon(1).result.outcome)
        )  # type: ignore[misc]
        meddled = TableStore(store.uri, Meddled(store.log, moments), store.files, Meddled(store.staging, moments))
        try:
            outcome = OURS[ours](sink_of(meddled))
        except KeyError:  # nothing is left to recover
            outcome = "already_committed"
        if moments.passed <= at:
            break
        seen.add((outcome, *given_up))
        assert sink_of(store).recover().partial == {}
        snapshot = txlog.Table(OpenTable(store)).snapshot()
        assert (snapshot.version, snapshot.transaction_version("app")) == (1, 1), f"before call {at}"
        found = sorted(snapshot.to_arrow()["id"].to_pylist())
        assert found == ([] if given_up == ["committed"] else [1, 3]), f"before call {at}"
        assert store.staging is not None
        assert store.staging.list_from("") == [], f"before call {at}"
        at += 1
    assert seen == {("already_committed", "committed"), ("committed", "already_committed")}


def test_an_abandonment_that_dies_at_any_moment_is_finished_by_a_recovery() -> None:
    one_sealed = new_store()
    sealed(sink_of(one_sealed), 1, 1, 3)
    ends = set()
    at = 0
    while True:
        store = copy_of(one_sealed)

        def die() -> None:
            raise KeyboardInterrupt

        moments = Moments(at, die)
        meddled = TableStore(store.uri, Meddled(store.log, moments), store.files, Meddled(store.staging, moments))
        with contextlib.suppress(KeyboardInterrupt):
            sink_of(meddled).abandon(1)
        if moments.passed <= at:
            break
        (result,) = sink_of(store).recover().results.values() or [None]
        found = sorted(txlog.Table(OpenTable(store)).snapshot().to_arrow()["id"].to_pylist())
        ends.add(tuple(found))
        assert result is None or result.outcome == ("committed" if found else "already_committed")
        assert store.staging is not None
        assert store.staging.list_from("") == [], f"before call {at}"
        at += 1
    assert ends == {(), (1, 3)}


def test_a_zombie_coordinator_cannot_seal_or_commit_past_checkpoints(table: txlog.Table, sink: txlog.Sink) -> None:
    zombie = restarted(table)
    staged(sink, 1, 0, 1)
    of_zombie = staged(zombie, 1, 0, 99, attempt=7)
    with pytest.raises(txlog.InvalidInputError, match="task 0: 0, 7"):
        sink.prepare(1, [0])
    sink.prepare(1, {0: 0})
    sink.commit(1)
    sealed(sink, 2, 2)
    sink.commit(2)
    assert zombie.prepare(1, [0]) is None
    assert zombie.commit(1).outcome == "already_committed"
    assert zombie.commit(1, [of_zombie]).outcome == "already_committed"
    with pytest.raises(txlog.InvalidInputError, match="not sealed"):
        zombie.commit(3)
    assert ids_of(table) == [1, 2]


# --- calls that cannot be meant ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [5, b"bytes", [b"bytes"], ["0"], [None], {"a": 1}, object()])
def test_values_that_are_not_committables_or_tasks_are_refused(
    given: Any, table: txlog.Table, sink: txlog.Sink
) -> None:
    for call in (lambda: sink.commit(1, given), lambda: sink.stage(given), lambda: sink.prepare(1, given)):
        with pytest.raises(txlog.InvalidInputError):
            call()
    assert table.snapshot().version == 0


@pytest.mark.parametrize("checkpoint_id", [-1, 2**63, True, "1", None, 1.0])
def test_values_that_are_not_checkpoint_ids_are_refused(checkpoint_id: Any, sink: txlog.Sink) -> None:
    calls = (
        lambda: sink.prepare(checkpoint_id, []),
        lambda: sink.commit(checkpoint_id, []),
        lambda: sink.commit(checkpoint_id),
        lambda: sink.discard(checkpoint_id),
    )
    for call in calls:
        with pytest.raises(txlog.InvalidInputError, match="checkpoint_id"):
            call()


def test_committables_may_come_from_a_generator(table: txlog.Table, sink: txlog.Sink) -> None:
    found = [staged(sink, 1, task_id, task_id) for task_id in (0, 1)]
    assert sink.commit(1, (each for each in found)).metrics.rows == 2  # type: ignore[arg-type]
    assert ids_of(table) == [0, 1]


# --- a power cut ------------------------------------------------------------------------------------------------------


def seen_before_it_was_on_disk(store: TableStore) -> txlog.Sink:
    """A task has staged what it wrote for v1, and no sync has put it on disk."""
    store.log.before_sync = lambda name: False  # type: ignore[attr-defined]
    with pytest.raises(txlog.CommitStateUnknownError):
        txlog.Table(OpenTable(store)).append(rows_of(7))
    store.log.before_sync = None  # type: ignore[attr-defined]
    sink = sink_of(store)
    staged(sink, 1, 0, 1)
    return sink


def test_a_seal_syncs_the_version_that_its_files_were_written_for() -> None:
    store = new_store()
    seen_before_it_was_on_disk(store).prepare(1, [0])
    store.log.power_cut()  # type: ignore[attr-defined]
    assert sink_of(store).recover().results[1].version == 2


def test_a_checkpoint_planned_on_a_version_lost_in_a_power_cut_is_not_sealed() -> None:
    store = new_store()
    seen_before_it_was_on_disk(store)
    store.log.power_cut()  # type: ignore[attr-defined]
    sink = sink_of(store)
    with pytest.raises(txlog.InvalidInputError, match=r"is at v0, and .* for v1: .* write the checkpoint again"):
        sink.prepare(1, [0])
    staged(sink, 1, 0, 2, attempt=1)
    sink.prepare(1, {0: 1})
    assert sink.commit(1).version == 1


# --- checkpoints without rows -----------------------------------------------------------------------------------------


def without_rows() -> TableStore:
    """A table in memory with one checkpoint sealed, which one task has staged without rows."""
    store = new_store()
    staged(sink_of(store), 1, 0)
    sink_of(store).prepare(1, [0])
    return store


@pytest.mark.parametrize("ours", ["commits", "recovers", "commits what it has sealed"])
def test_an_empty_checkpoint_that_another_process_ended_blocks_nothing(ours: str) -> None:
    """The table keeps no record of it, so that only the seal shows it."""
    outcomes = set()
    for at in range(100):
        store = without_rows()
        moments = Moments(10**6, lambda store=store: sink_of(store).recover())  # type: ignore[misc]
        meddled = TableStore(store.uri, Meddled(store.log, moments), store.files, Meddled(store.staging, moments))
        sink = sink_of(meddled)
        if ours == "commits what it has sealed":
            sink.prepare(1, [0])
        moments.at = moments.passed + at
        try:
            if ours == "recovers":
                outcomes.update(result.outcome for result in sink.recover().results.values())
            else:
                outcomes.add(sink.commit(1).outcome)
        except txlog.InvalidInputError as error:
            outcomes.add("ended" if "not sealed" in str(error) or "no longer sealed" in str(error) else str(error))
        if moments.passed <= moments.at:
            break
        assert store.staging is not None
        assert store.staging.list_from("") == []
    else:
        pytest.fail("it never ends")
    assert outcomes == ({"empty", "ended"} if ours.startswith("commits") else {"empty"})


def test_an_empty_seal_that_reappears_after_a_power_cut_is_ended_again() -> None:
    """A removal that was not on disk when the power failed may be undone for the seal alone."""
    store = without_rows()
    seal, task = (meta.name for meta in store.staging.list_from(""))  # type: ignore[union-attr]
    store.staging.delete(task)  # type: ignore[union-attr]
    assert [result.outcome for result in sink_of(store).recover().results.values()] == ["empty"]
    assert seal.endswith(".manifest")
    assert store.staging.list_from("") == []  # type: ignore[union-attr]


def test_a_recovery_skips_concurrently_discarded_checkpoints() -> None:
    store = new_store()
    sealed(sink_of(store), 1, 1)
    moments = Moments(2, lambda: sink_of(store).discard(1))
    meddled = TableStore(store.uri, store.log, store.files, Meddled(store.staging, moments))
    assert not sink_of(meddled).recover().results
    assert moments.passed > 2


# --- what is removed while it is sealed -------------------------------------------------------------------------------


REMOVERS: dict[str, Callable[[TableStore], object]] = {
    "discards": lambda store: sink_of(store).discard(1),
    "cleans": lambda store: clean_staging(OpenTable(store), AGE_MIN_MS),
}


def staged_long_ago() -> TableStore:
    store = new_store()
    staged(sink_of(store), 1, 0, 1)
    staged(sink_of(store), 1, 1, 3)
    objects = store.staging.objects  # type: ignore[union-attr]
    objects.update({name: (body, 0) for name, (body, _) in objects.items()})
    return store


@pytest.mark.parametrize("remover", REMOVERS)
@pytest.mark.parametrize("who_is_slow", ["the coordinator", "the remover"])
def test_concurrently_removed_work_is_not_sealed_and_sealed_work_is_complete(who_is_slow: str, remover: str) -> None:
    """The other acts as a whole before each call to the staging in turn."""
    landed = set()
    for at in range(100):
        store = staged_long_ago()
        reported: list[str] = []

        def seals(store: TableStore, reported: list[str] = reported) -> None:
            try:
                sink_of(store).prepare(1, [0, 1])
                reported.append("sealed")
            except (txlog.InvalidInputError, txlog.NotFoundError):
                reported.append("refused")

        slow, quick = (seals, REMOVERS[remover]) if who_is_slow == "the coordinator" else (REMOVERS[remover], seals)
        moments = Moments(at, lambda store=store, quick=quick: quick(store))  # type: ignore[misc]
        slow(TableStore(store.uri, store.log, store.files, Meddled(store.staging, moments)))
        if moments.passed <= at:
            break
        sink_of(store).recover()
        found = sorted(txlog.Table(OpenTable(store)).snapshot().to_arrow()["id"].to_pylist())
        landed.add((reported[0], len(found)))
    else:
        pytest.fail("it never ends")
    # a cleaner leaves what is sealed; who discards takes that, too
    assert landed - {("refused", 0), ("sealed", 2)} <= ({("sealed", 0)} if remover == "discards" else set())
    assert ("refused", 0) in landed


def test_a_seal_that_arrives_after_a_clean_up_finds_its_name_taken() -> None:
    """A coordinator slept inside ``prepare`` while its work was cleaned up, and wakes up with its put."""
    store, slept = staged_long_ago(), staged_long_ago()
    sink_of(slept).prepare(1, [0, 1])
    clean_staging(OpenTable(store), AGE_MIN_MS)
    seal = next(name for name in slept.staging.objects if name.endswith(".manifest"))  # type: ignore[union-attr]
    put = store.staging.put_if_absent(seal, slept.staging.read(seal))  # type: ignore[union-attr]
    assert put is PutOutcome.ALREADY_EXISTS
    assert sink_of(store).recover() == Recovery()
    sealed(sink_of(store), 1, 1, 3)
    assert sink_of(store).recover().results[1].outcome == "committed"
    assert sorted(txlog.Table(OpenTable(store)).snapshot().to_arrow()["id"].to_pylist()) == [1, 3]


def test_the_next_removal_finishes_an_interrupted_one(table: txlog.Table, sink: txlog.Sink) -> None:
    staged(sink, 1, 0, 1)
    log = OpenTable(open_store(table.uri)).store.staging
    assert log is not None
    log.put_if_absent(staging_of(table)[0].replace("task.0.0", "manifest"), b"txlog-given-up 1\n")
    recovery = restarted(table).recover()
    assert (recovery.results, recovery.partial) == ({}, {1: {0: (0,)}})
    with pytest.raises(txlog.NotFoundError, match=r"Nothing was sealed: call sink\.discard\(1\)"):
        sink.prepare(1, [0])
    with pytest.raises(txlog.InvalidInputError, match=r"sink\.discard\(1\) before it is written again"):
        sink.commit(1)
    assert [state.state for state in staged_states(OpenTable(open_store(table.uri)))] == ["partial"]
    for path in (Path(table.uri) / "_txlog" / "staging").iterdir():
        age(path, 1)
    assert len(clean_staging(OpenTable(open_store(table.uri)), AGE_MIN_MS)) == 1
    assert not any(".task." in name for name in staging_of(table))
    sealed(sink, 1, 2)
    assert sink.commit(1).version == 1
    assert staging_of(table) == []


def test_a_checkpoint_whose_removal_was_interrupted_is_partial_and_can_be_written_again(
    table: txlog.Table, sink: txlog.Sink
) -> None:
    sealed(sink, 1, 1)
    staged(sink, 2, 0, 2)
    log = OpenTable(open_store(table.uri)).store.staging
    assert log is not None
    log.put_if_absent(staging_of(table)[-1].replace("task.0.0", "manifest"), b"txlog-given-up 1\n")
    after = restarted(table)
    recovery = after.recover()
    assert [result.outcome for result in recovery.results.values()] == ["committed"]
    assert str(recovery) == "Recovery(committed: 1; partial: 2 (staged by task 0))"
    for checkpoint_id in recovery.partial:
        assert after.discard(checkpoint_id)
    sealed(after, 2, 3)
    assert after.commit(2).outcome == "committed"
    assert ids_of(table) == [1, 3]


def test_discarding_a_checkpoint_below_a_sealed_one_logs_a_warning(
    table: txlog.Table, sink: txlog.Sink, caplog: pytest.LogCaptureFixture
) -> None:
    sealed(sink, 1, 1)
    sealed(sink, 2, 2)
    staged(sink, 3, 0, 3)
    sink.discard(1)
    assert (
        "checkpoint 1 of 'app' discarded, sealed; 2 is already sealed: once it is committed, 1 will be refused"
        in caplog.text
    )
    sink.commit(2)
    with pytest.raises(txlog.InvalidInputError):
        sink.commit(1, [staged(sink, 1, 0, 1)])
    caplog.clear()
    sink.discard(3)
    assert caplog.text.rstrip().endswith("discarded, not sealed")


def test_a_recovery_that_cannot_read_the_log_after_a_commit_reports_what_it_committed() -> None:
    store = memory_table_store()
    table = OpenTable(store)
    create_table(table, SCHEMA, (), {})
    sealed(txlog.Sink(txlog.Table(table), "app"), 1, 5)
    put: list[str] = []

    def fail_after_the_commit(call: StoreCall) -> Fault | None:
        if call.operation == "put_if_absent":
            put.append(call.name)
        return Fault("refused") if put and call.operation in ("read", "list_from") else None

    log = FaultyLogStore(store.log, fail_after_the_commit)
    broken = OpenTable(TableStore(store.uri, log, store.files, store.staging))
    with pytest.raises(txlog.StorageError) as raised:
        txlog.Sink(txlog.Table(broken), "app").recover()
    assert raised.value.recovery.results[1].version == 1


def test_a_recovery_that_cannot_list_what_was_staged_says_that_it_committed_nothing() -> None:
    store = memory_table_store()
    create_table(OpenTable(store), SCHEMA, (), {})
    staging = FaultyLogStore(store.staging, lambda call: Fault("refused") if call.operation == "list_from" else None)
    sink = txlog.Sink(txlog.Table(OpenTable(TableStore(store.uri, store.log, store.files, staging))), "app")
    with pytest.raises(txlog.StorageError) as raised:
        sink.recover()
    assert raised.value.recovery.results == {}
    with pytest.raises(txlog.StorageError) as raised:
        txlog.SinkGroup(sink).recover()
    assert [each.results for each in raised.value.recovery] == [{}]
