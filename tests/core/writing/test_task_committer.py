"""Sealing a task: durable names, footers that agree, and nothing left where it fails; read by others as well."""

from __future__ import annotations

import datetime
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.core.format.actions import Metadata, Protocol, action_to_json
from txlog.core.format.schema import STRING, Field, from_arrow, schema_to_json
from txlog.core.store import FileStore
from txlog.core.store._local_store import local_table_store
from txlog.core.writing._task_committer import TaskCommitter, write_task
from txlog.core.writing._task_writer import TaskWriter
from txlog.core.writing._write_plan import TaskIdentity, WritePlan
from txlog.core.writing.committable import Committable, validate_committables
from txlog.errors import InvalidInputError, StorageError
from txlog.testing.memory_store import MemoryFileStore

PLAIN = Protocol(1, 2)
TASK = TaskIdentity("job", task_id=3, attempt=1, app_id="orders", checkpoint_id=17)
ROWS = pa.table({"id": [1, 2, 3], "day": ["a", "b", "a"]})


def metadata_for(schema: pa.Schema, partition_columns: tuple[str, ...] = ()) -> Metadata:
    return Metadata(
        "table-id", schema_to_json(from_arrow(schema)), partition_columns, {}, {"provider": "parquet", "options": {}}
    )


def plan_for(table: pa.Table, partition_columns: tuple[str, ...] = (), **wishes: Any) -> WritePlan:
    return WritePlan.of(metadata_for(table.schema, partition_columns), PLAIN, table="t", read_version=8, **wishes)


# --- sealing ------------------------------------------------------------------------------------------------------


def test_a_committable_has_table_job_and_files_and_every_file_is_durable() -> None:
    files = MemoryFileStore()
    sealed = write_task(files, plan_for(ROWS, ("day",)), TASK, ROWS)
    assert sealed == Committable("orders", 17, "job", 3, 1, "table-id", 8, sealed.files)
    assert [(file.partition_values, file.num_rows) for file in sealed.files] == [({"day": "a"}, 2), ({"day": "b"}, 1)]
    assert files.durable == {file.path for file in sealed.files} == set(files.objects)
    validate_committables([sealed], partition_fields={"day": Field("day", STRING)}, table_id="table-id", files=files)


def test_a_task_without_rows_seals_no_files() -> None:
    files = MemoryFileStore()
    sealed = write_task(files, plan_for(ROWS), TASK, iter(()))
    assert (sealed.files, sealed.num_rows, files.objects) == ((), 0, {})


class Tampering(MemoryFileStore):
    """Changes the bytes of every file after it was published, as a lying disk would."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def make_durable(self, paths: Any) -> None:
        for path in paths:
            body, modified_ms = self.objects[path]
            self.objects[path] = (self.change(body), modified_ms)


def other_rows(body: bytes) -> bytes:
    table = pq.read_table(pa.BufferReader(body))
    sink = pa.BufferOutputStream()
    pq.write_table(table.slice(1), sink)
    return sink.getvalue().to_pybytes()


DAMAGE = [
    pytest.param(lambda body: body[:-9], id="cut"),
    pytest.param(lambda body: b"\0" * len(body), id="zeros"),
    pytest.param(lambda body: b"", id="empty"),
    pytest.param(other_rows, id="other-rows"),
]


@pytest.mark.parametrize("change", DAMAGE)
@pytest.mark.parametrize("partitions", [1, 8])
def test_a_file_that_reads_back_differently_fails_the_task_and_is_removed(change: Any, partitions: int) -> None:
    files = Tampering(change)
    table = pa.table(
        {"id": [1, 2, 3] * partitions, "day": sorted(f"d{n}" for n in range(partitions) for _ in range(3))}
    )
    with pytest.raises(StorageError, match="reads back damaged"):
        write_task(files, plan_for(table, ("day",) if partitions > 1 else ()), TASK, table)
    assert files.objects == {}


@pytest.mark.parametrize("change", DAMAGE)
def test_a_file_written_in_pieces_is_read_back_too(change: Any) -> None:
    files = Tampering(change)
    rows = 200_000
    table = pa.table({"id": np.random.default_rng(7).integers(0, 1 << 60, rows)})
    plan = plan_for(table, memory_budget_bytes=1 << 20)
    with TaskWriter(files, plan, TASK) as writer:
        for batch in table.to_batches(20_000):
            writer.write(batch)
        pending = writer.close()
        assert any(file.tail is None for file in pending)
        with pytest.raises(StorageError, match="reads back"):
            TaskCommitter(files, plan).seal(TASK, [file for file in pending if file.tail is None])


def test_an_error_in_the_data_leaves_nothing() -> None:
    files = MemoryFileStore()
    bad = [ROWS, pa.table({"id": [2**63], "day": ["a"]}, ROWS.schema.set(0, pa.field("id", pa.uint64())))]
    with pytest.raises(InvalidInputError, match="column id has 9223372036854775808"):
        write_task(files, plan_for(ROWS, max_records_per_file=1), TASK, bad)
    assert files.objects == {}


# --- on a disk, and read by others ----------------------------------------------------------------------------------

NASTY = [
    None,
    "",
    "plain",
    "US/East",
    "50%",
    "100%25",
    "a=b",
    "a b",
    "line\nbreak",
    "tab\t",
    "quote\"'",
    "back\\slash",
    "question?",
    "hash#",
    "colon:",
    "star*",
    "{}[]^",
    "Ünï",
    "漢字",
    "smile 😀",
    "__HIVE_DEFAULT_PARTITION__",
    "x" * 300,
    "😀" * 80,
    "..",
    ".",
    "+&;,@$!~",
]


def commit(root: Path, metadata: Metadata, *found: Committable) -> None:
    lines = [action_to_json(Protocol(1, 2)), action_to_json(metadata)]
    lines += [action_to_json(add) for committable in found for add in committable.adds()]
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_files_of_any_partition_value_are_found_and_read_by_another_reader(tmp_path: Path) -> None:
    table = pa.table({"id": list(range(len(NASTY))), "p": NASTY})
    metadata = metadata_for(table.schema, ("p",))
    store = local_table_store(str(tmp_path))
    sealed = write_task(store.files, WritePlan.of(metadata, PLAIN, table=store.uri), TASK, table)
    commit(tmp_path, metadata, sealed)
    expected = {number: value or None for number, value in enumerate(NASTY)}
    found = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    assert dict(zip(found["id"].to_pylist(), found["p"].to_pylist(), strict=True)) == expected


def test_all_types_are_read_alike_by_deltalake_and_duckdb(tmp_path: Path) -> None:
    utc = datetime.timezone.utc
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "b": pa.array([1, None], pa.int8()),
            "s": pa.array(["x", None]),
            "raw": pa.array([b"\0", None]),
            "f": pa.array([1.5, None], pa.float32()),
            "flag": pa.array([True, None]),
            "day": pa.array([datetime.date(2024, 1, 1), None]),
            "at": pa.array([datetime.datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=utc), None], pa.timestamp("us", "UTC")),
            "d9": pa.array([None, 1]).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
            "d38": pa.array([None, 1]).cast(pa.decimal128(38, 10)),
            "l": pa.array([[1, None], None]),
            "st": pa.array([{"a": 1, "b": ["x"]}, None]),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    metadata = metadata_for(table.schema)
    store = local_table_store(str(tmp_path))
    sealed = write_task(store.files, WritePlan.of(metadata, PLAIN, table=store.uri), TASK, table)
    commit(tmp_path, metadata, sealed)
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table().select(table.column_names).to_pylist() == table.to_pylist()
    (file,) = sealed.files
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    read = connection.sql(f"select * from read_parquet('{tmp_path}/{file.path}')").to_arrow_table()
    assert read.cast(table.schema).to_pylist() == table.to_pylist()


def _child(root: Path, *, partitioned: bool) -> subprocess.Popen[str]:
    """A process that writes into several open files without end, and says so once bytes are on their way."""
    script = f"""
        import pyarrow as pa
        from txlog.core.format.actions import Metadata, Protocol
        from txlog.core.format.schema import from_arrow, schema_to_json
        from txlog.core.writing._task_writer import TaskWriter
        from txlog.core.writing._write_plan import TaskIdentity, WritePlan
        from txlog.core.store._local_store import local_table_store

        table = pa.table({{"p": [n % 5 for n in range(5000)], "x": ["y" * 200] * 5000}})
        columns = ("p",) if {partitioned} else ()
        metadata = Metadata("id", schema_to_json(from_arrow(table.schema)), columns, {{}}, {{}})
        wishes = {{"memory_budget_bytes": 2 << 20, "parquet": {{"parquet.compression": "none"}}}}
        plan = WritePlan.of(metadata, Protocol(1, 2), table="t", **wishes)
        writer = TaskWriter(local_table_store({str(root)!r}).files, plan, TaskIdentity("job"))
        for turn in range(100):
            writer.write(table)
            if turn == 20:
                print("writing", flush=True)
    """
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_task_killed_while_it_writes_leaves_nothing_that_a_listing_shows(tmp_path: Path, partitioned: bool) -> None:
    with _child(tmp_path, partitioned=partitioned) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "writing\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert left
    assert all(path.name.startswith(".") and path.suffix != ".parquet" for path in left)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_an_aborted_task_leaves_an_empty_directory_tree(tmp_path: Path) -> None:
    files: FileStore = local_table_store(str(tmp_path)).files
    table = pa.table({"p": [n % 5 for n in range(5000)], "x": ["y" * 200] * 5000})
    plan = plan_for(
        table,
        ("p",),
        memory_budget_bytes=1 << 20,
        target_file_size_bytes=20_000,
        parquet={"parquet.compression": "none"},
    )
    writer = TaskWriter(files, plan, TASK)
    for _ in range(10):
        writer.write(table)
    assert list(tmp_path.rglob("*.parquet"))
    writer.abort()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_sealing_on_a_disk_reads_the_files_back(tmp_path: Path) -> None:
    files = local_table_store(str(tmp_path)).files
    plan = plan_for(ROWS)
    with TaskWriter(files, plan, TASK) as writer:
        writer.write(ROWS)
    (file,) = writer.close()
    (tmp_path / file.path).write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="reads back damaged"):
        TaskCommitter(files, plan).seal(TASK, [file])
