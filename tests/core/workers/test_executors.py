"""Commands on executors: the same rows, history and results as in threads, whatever becomes of the tasks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from maintained_tables import COMMANDS, SCHEMA, left_by, random_table

import txlog
from tests.worker_processes import Speculating, kill_the_process_that_rewrites
from txlog.audit.verify import verify_table
from txlog.core.changes.plan import _distributed_tasks as parts_module
from txlog.core.maintenance import _optimize as optimize_module
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.workers._executor import ExecutorWorkers
from txlog.core.writing import UnsentFiles
from txlog.testing.memory_store import memory_table_store


def new_processes(number: int = 2, **options: Any) -> ProcessPoolExecutor:
    """Forks of a process that has imported what tasks need, and nothing else."""
    context = get_context("forkserver")
    context.set_forkserver_preload(
        ["txlog.table", "txlog.core.maintenance.rewriting._rewrite_bin", "txlog.core.changes.tasks._specs"]
    )
    return ProcessPoolExecutor(number, mp_context=context, **options)


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with new_processes() as executor:
        yield executor


@pytest.mark.parametrize("seed", range(2))
def test_every_command_does_on_processes_what_it_does_in_threads(
    seed: int, tmp_path: Path, processes: Executor
) -> None:
    base = random_table(tmp_path / "base", seed)
    for name, command in COMMANDS.items():
        alone, spread = (Path(shutil.copytree(base, tmp_path / name / kind)) for kind in ("alone", "spread"))
        expected = left_by(alone, command(txlog.Table.open(alone)))
        found = left_by(spread, command(txlog.Table.open(spread, workers=processes)))
        assert found == expected, name
        assert verify_table(open_store(spread)).is_sound, name


ROW_METRICS = ("numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def changes_of(table: txlog.Table, version: int) -> list[str]:
    found = table.changes(version).read_all().drop_columns(["_commit_timestamp"])
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize("properties", [{}, {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}])
def test_a_source_in_a_file_reaches_the_parts_of_the_table_on_processes(
    properties: dict[str, str], tmp_path: Path, processes: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "PART_BYTES", 1)
    monkeypatch.setattr(parts_module, "INLINE_BYTES", 0)
    monkeypatch.setattr(parts_module, "PARTS_PER_SLOT", 3)
    base = random_table(tmp_path / "base", 0)
    txlog.Table.open(base).set_properties(properties)
    for name in ("upsert", "upsert of known keys", "merge", "merge by ranges"):
        found = []
        for kind, workers in (("alone", None), ("spread", processes)):
            table = txlog.Table.open(shutil.copytree(base, tmp_path / name / kind), workers=workers)
            version = COMMANDS[name](table).version
            metrics = table.history(1)[0]["operationMetrics"]
            changes = changes_of(table, version) if properties else None
            rows = sorted(map(repr, table.to_arrow().to_pylist()))
            found.append((rows, {key: metrics[key] for key in ROW_METRICS}, changes))
            assert verify_table(open_store(table.uri)).is_sound
        assert found[0] == found[1], name


def test_workers_find_the_rows_of_a_change_that_adds_columns(tmp_path: Path, processes: Executor) -> None:
    """In the same version: the tasks write by the definition that the change commits."""
    old = pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int32())})
    wider = pa.table({"id": [2, 3], "n": pa.array([20, 30], pa.int32()), "more": ["x", "y"]})
    changes = {
        "upsert": lambda table: table.upsert(wider, "id", schema_mode="merge"),
        "merge": lambda table: (
            table.merge(wider, "target.id = source.id", schema_mode="merge")
            .when_matched_update({"more": txlog.expr("source.more")})
            .when_not_matched_insert_all()
            .execute()
        ),
    }
    for feed in ("false", "true"):
        for name, change in changes.items():
            found = []
            for kind, workers in (("alone", None), ("spread", processes)):
                place, properties = tmp_path / name / kind / feed, {"delta.enableChangeDataFeed": feed}
                txlog.Table.create(place, "id bigint, n int", properties=properties).append(old)
                table = txlog.Table.open(place, workers=workers)
                assert change(table).version == 2
                assert verify_table(open_store(table.uri)).is_sound
                changed = changes_of(table, 2) if feed == "true" else None
                found.append((sorted(map(repr, table.to_arrow().to_pylist())), changed))
            assert found[0] == found[1], name
            n = 20 if name == "upsert" else 2
            assert found[0][0] == [
                "{'id': 1, 'n': 1, 'more': None}",
                f"{{'id': 2, 'n': {n}, 'more': 'x'}}",
                "{'id': 3, 'n': 30, 'more': 'y'}",
            ]


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(3), Speculating])
def test_a_calls_workers_replace_the_handles_workers(make: Callable[[], Executor], tmp_path: Path) -> None:
    class Refusing(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            raise AssertionError("used")

    folder = random_table(tmp_path / "t", 0)
    rows = sorted(txlog.Table.open(folder).to_arrow()["id"].to_pylist())
    table = txlog.Table.open(folder, workers=Refusing())
    with make() as executor:
        assert table.optimize(workers=executor).versions
    with pytest.raises(AssertionError, match="used"):
        table.add_constraint("small", "id < 1000")
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows


def test_a_dask_client_is_an_executor(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
    folder = random_table(tmp_path / "t", 0)
    rows = sorted(txlog.Table.open(folder).to_arrow()["id"].to_pylist())
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        table = txlog.Table.open(folder, workers=client)
        assert table.optimize().files_removed
        assert table.verify(["id"]).is_sound
        with pytest.raises(txlog.InvalidInputError, match="violate"):
            table.add_constraint("small", "id < 5")
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows


# --- what cannot run where it was asked ---------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [8, "8", ProcessPoolExecutor])
def test_anything_but_an_executor_is_refused(workers: Any, tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, SCHEMA)
    for call in (lambda: txlog.Table.open(tmp_path, workers=workers), lambda: table.optimize(workers=workers)):
        with pytest.raises(txlog.InvalidInputError, match="ProcessPoolExecutor") as caught:
            call()
        assert caught.value.parameter == "workers"


def test_a_table_that_other_processes_could_not_open_is_refused_before_the_first_task(processes: Executor) -> None:
    from txlog.core.definition import create_table

    open_table = OpenTable(memory_table_store())
    create_table(open_table, SCHEMA, None, None)
    table = txlog.Table(open_table)
    for call in (
        table.optimize,
        table.purge,
        table.vacuum,
        table.verify,
        lambda workers: table.delete(all=True, workers=workers),
    ):
        with pytest.raises(txlog.InvalidInputError, match="could not open the table"):
            call(workers=processes)
    assert table.version == 0


def test_what_cannot_be_pickled_is_refused_before_the_first_task(tmp_path: Path, processes: Executor) -> None:
    txlog.write(tmp_path, pa.table({"id": [1], "day": ["a"], "note": ["x"]}))
    table = txlog.Table.open(tmp_path, workers=processes, credential_provider=lambda: {})
    with pytest.raises(txlog.InvalidInputError, match="credential provider"):
        table.optimize()
    table = txlog.Table.open(tmp_path, workers=processes)
    with pytest.raises(txlog.InvalidInputError, match="an update with this condition or these values cannot be sent"):
        table.update({"id": lambda rows: rows["id"]})
    assert table.version == 0


def test_an_executor_that_was_shut_down_is_refused(tmp_path: Path) -> None:
    folder = random_table(tmp_path / "t", 0)
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(txlog.InvalidInputError, match="accepts no tasks"):
        txlog.Table.open(folder).optimize(workers=executor)


# --- faults -------------------------------------------------------------------------------------------------------


def orphans(folder: Path) -> set[str]:
    """Data files that no version names."""
    table = txlog.Table.open(folder)
    named = {
        path for version in range(table.version + 1) for path in table.snapshot(version).files()["path"].to_pylist()
    }
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet") if path.parent == folder} - named


def in_ten_bins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[txlog.Table, list[int], int]:
    """A table whose files are rewritten in ten bins of two files, in groups of four bins; and its rows."""
    table = txlog.Table.create(folder, SCHEMA)
    for number in range(20):
        table.append(pa.table({"id": [number], "day": ["a"], "note": ["x"]}))
    monkeypatch.setattr(optimize_module, "GROUP_FILES", 4)  # for each of two workers
    size = max(table.files()["size"].to_pylist())
    return table, sorted(table.to_arrow()["id"].to_pylist()), 2 * size + 1


def test_a_killed_process_costs_one_group_and_a_rerun_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows, target = in_ten_bins(tmp_path / "t", monkeypatch)
    ninth = table.files().sort_by("modificationTime")["path"].to_pylist()[10]
    with (
        new_processes(initializer=kill_the_process_that_rewrites, initargs=(ninth, str(tmp_path / "flag"))) as executor,
        pytest.raises(txlog.StorageError, match="a process of the executor ended before its task did"),
    ):
        table.optimize(target_file_size=target, workers=executor)
    assert table.history()[0]["operationMetrics"]["numRemovedFiles"] == "8"
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows
    assert 1 <= len(orphans(tmp_path / "t")) <= 4, "what two processes had in hand"
    with new_processes() as executor:
        done = table.optimize(target_file_size=target, workers=executor)
    assert (done.files_removed, done.files_added) == (12, 6)
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows
    table.vacuum(0, force=True)
    assert not orphans(tmp_path / "t")


def test_tasks_that_run_twice_change_no_row_and_their_files_are_vacuumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows, target = in_ten_bins(tmp_path / "t", monkeypatch)
    done = table.optimize(target_file_size=target, workers=Speculating())
    assert done.files_added == len(orphans(tmp_path / "t")) == 10
    clustered = table.optimize(zorder_by="id", workers=Speculating())
    assert clustered.files_added == 1
    assert not list((tmp_path / "t").rglob("*.npy")), "orders of rows"
    deleted = table.delete("id < 5", row_mode="copy-on-write", workers=Speculating())
    assert deleted.metrics.rows_deleted == 5
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows[5:]
    table.vacuum(0, force=True)
    assert not orphans(tmp_path / "t")


def test_a_driver_that_dies_before_its_commit_leaves_one_groups_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Executor
) -> None:
    table, rows, target = in_ten_bins(tmp_path / "t", monkeypatch)

    class Dies(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Dies

    monkeypatch.setattr(UnsentFiles, "discard", lambda self: None)  # nobody tidies up
    monkeypatch.setattr(ProposalBuilder, "build", die)
    with pytest.raises(Dies):
        table.optimize(target_file_size=target, workers=processes)
    monkeypatch.undo()
    assert table.version == 20
    assert len(orphans(tmp_path / "t")) == 4, "a group of four bins"
    assert table.optimize(target_file_size=target, workers=processes).files_added == 10
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows


def test_the_error_of_one_task_is_raised_with_its_class_and_file_and_leaves_nothing(
    tmp_path: Path, processes: Executor
) -> None:
    table = txlog.Table.open(random_table(tmp_path / "t", 0))
    broken = table.files()["path"].to_pylist()[3]
    (tmp_path / "t" / broken).write_bytes(b"PAR1 nothing PAR1")
    before = set((tmp_path / "t").rglob("*.parquet"))
    version = table.version
    for workers in (None, processes):
        for call in (table.optimize, lambda workers: table.add_constraint("small", "id < 1000", workers=workers)):
            with pytest.raises(txlog.CorruptLogError) as caught:
                call(workers=workers)
            assert caught.value.path == broken
    assert (table.version, set((tmp_path / "t").rglob("*.parquet"))) == (version, before)


def test_an_executor_of_unknown_size_gets_all_tasks_at_once() -> None:
    waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    class Held(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            waiting.append((future, lambda: fn(*args)))
            if len(waiting) == 500:
                for held, call in waiting:
                    held.set_result(call())
            return future

    found = ExecutorWorkers.of(Held()).map(str, range(500))
    assert sorted(found) == [(number, str(number)) for number in range(500)]
