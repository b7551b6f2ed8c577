"""The task's writer: every row lands once, in files of the size asked for, within its budget, or not at all."""

from __future__ import annotations

import datetime
import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bucket import Bucket
from txlog.core import ambient
from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.partition_values import decode
from txlog.core.format.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VOID,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
    from_arrow,
    schema_to_json,
    to_arrow,
)
from txlog.core.writing import _partition_writer as partition_writer
from txlog.core.writing import _task_writer as task_writer
from txlog.core.writing._task_writer import TaskWriter
from txlog.core.writing._write_plan import TaskIdentity, WritePlan
from txlog.core.writing.committable import PendingFile
from txlog.errors import InvalidInputError, SchemaMismatchError, StorageError
from txlog.testing.memory_store import MemoryFileStore, MemoryOutputFile

PLAIN = Protocol(1, 2)
KIB = 1 << 10
TASK = TaskIdentity("job", task_id=1)


def plan_for(schema: Struct, partition_columns: tuple[str, ...] = (), **wishes: Any) -> WritePlan:
    configuration = wishes.pop("configuration", {})
    metadata = Metadata("table-id", schema_to_json(schema), partition_columns, configuration, {})
    return WritePlan.of(metadata, PLAIN, table="memory://t", **wishes)


def table_plan(table: pa.Table, partition_columns: tuple[str, ...] = (), **wishes: Any) -> WritePlan:
    return plan_for(from_arrow(table.schema), partition_columns, **wishes)


def read_back(files: MemoryFileStore, plan: WritePlan, pending: tuple[PendingFile, ...]) -> list[dict[str, Any]]:
    """Every row of the files, with the partition columns put back from the partition values."""
    rows = []
    for file in pending:
        found = pq.read_table(pa.BufferReader(files.read(file.path)))
        assert found.num_rows == file.num_rows == json.loads(file.stats or "")["numRecords"]
        assert files.stat(file.path).size == file.size_bytes
        values = {
            name: decode(text, field.type)
            for name, text in file.partition_values.items()
            if (field := plan.schema.find(name)) is not None
        }
        rows += [{name: {**row, **values}[name] for name in plan.schema.names} for row in found.to_pylist()]
    return rows


def table_back(files: MemoryFileStore, plan: WritePlan, pending: tuple[PendingFile, ...]) -> pa.Table:
    """The same for many rows, by id: as Arrow, where text is all that a partition can be."""
    parts = []
    for file in pending:
        part = pq.read_table(pa.BufferReader(files.read(file.path)))
        assert part.num_rows == file.num_rows
        for name, text in file.partition_values.items():
            part = part.append_column(name, pa.array([text] * part.num_rows, pa.string()))
        parts.append(part.select(plan.schema.names))
    return pa.concat_tables(parts).sort_by("id").combine_chunks()


def one_file(rows: pa.Table) -> tuple[MemoryFileStore, PendingFile]:
    """The only file that these rows become, and where it is."""
    files = MemoryFileStore()
    with TaskWriter(files, table_plan(rows), TASK) as writer:
        writer.write(rows)
    (pending,) = writer.close()
    return files, pending


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def groups_of(files: MemoryFileStore, file: PendingFile) -> list[int]:
    footer = pq.read_metadata(pa.BufferReader(files.read(file.path)))
    return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]


def wide(rows: int, partitions: int = 7) -> pa.Table:
    """About 100 bytes a row, and hardly compressible."""
    random = np.random.default_rng(5)
    return pa.table(
        {
            "id": np.arange(rows),
            "p": pa.array([f"p{n}" for n in range(partitions)]).take(pa.array(random.integers(0, partitions, rows))),
            **{f"x{n}": random.random(rows) for n in range(10)},
        }
    )


class WatchedStore(MemoryFileStore):
    """Counts the files that are open at once."""

    def __init__(self) -> None:
        super().__init__()
        self.open_now = self.open_most = 0

    def create(self, path: str) -> MemoryOutputFile:
        output = super().create(path)
        with self.lock:
            self.open_now += 1
            self.open_most = max(self.open_most, self.open_now)
        return output

    def publish(self, path: str, body: bytes) -> Any:
        with self.lock:
            self.open_now -= 1
        return super().publish(path, body)


class FailingStore(MemoryFileStore):
    """Refuses to publish the ``nth`` file."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self.nth = nth

    def publish(self, path: str, body: bytes) -> Any:
        with self.lock:
            self.nth -= 1
            if self.nth == 0:
                raise StorageError("the disk is full", path=path)
        return super().publish(path, body)


# --- every row, once ----------------------------------------------------------------------------------------------

SCHEMA = Struct(
    (
        Field("id", LONG, False),
        Field("p", STRING),
        Field("d", DATE),
        Field("x", DOUBLE),
        Field("s", STRING),
        Field("n", Struct((Field("a", INTEGER), Field("b", Array(STRING))))),
        Field("m", Map(STRING, LONG)),
        Field("amount", Decimal(9, 2)),
        Field("at", TIMESTAMP),
    )
)
ROW = st.fixed_dictionaries(
    {
        "p": st.sampled_from([None, "a", "b/c", "100%", "=\n😀", "x" * 300]),
        "d": st.none() | st.dates(),
        "x": st.none() | st.floats(allow_nan=False),
        "s": st.none() | st.text(max_size=5),
        "n": st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.integers(-9, 9),
                "b": st.none() | st.lists(st.none() | st.text(max_size=2), max_size=2),
            }
        ),
        "m": st.none()
        | st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2).map(lambda m: list(m.items())),
        "amount": st.none() | st.decimals(-1000, 1000, places=2),
        "at": st.none() | st.datetimes(datetime.datetime(1900, 1, 1), timezones=st.just(datetime.timezone.utc)),
    }
)


@given(st.data())
def test_any_batches_written_under_any_limits_are_read_back_row_for_row(data: st.DataObject) -> None:
    rows = data.draw(st.lists(ROW, max_size=40))
    rows = [{"id": number, **row} for number, row in enumerate(rows)]
    plan = plan_for(
        SCHEMA,
        data.draw(st.sampled_from([(), ("p",), ("d", "p")])),
        target_file_size_bytes=data.draw(st.sampled_from([1, 2 * KIB, 1 << 30])),
        max_records_per_file=data.draw(st.sampled_from([0, 1, 7])),
        memory_budget_bytes=data.draw(st.sampled_from([100, 3 * KIB, 1 << 30])),
        max_open_files=data.draw(st.sampled_from([1, 2, 100])),
    )
    files = MemoryFileStore()
    with TaskWriter(files, plan, TASK) as writer:
        at = 0
        while at < len(rows):
            size = data.draw(st.integers(1, 15))
            writer.write(pa.RecordBatch.from_pylist(rows[at : at + size], to_arrow(SCHEMA)))
            at += size
        pending = writer.close()
    assert writer.num_rows == len(rows)
    assert by_id(read_back(files, plan, pending)) == rows
    assert {file.path for file in pending} == set(files.objects)
    assert all(file.num_rows <= (plan.max_records_per_file or len(rows)) for file in pending)


def test_no_rows_make_no_files_and_start_no_thread() -> None:
    files = MemoryFileStore()
    before = set(threading.enumerate())
    table = wide(0)
    empty: list[Any] = [table, [], table.to_batches(), pa.RecordBatch.from_pylist([], table.schema)]
    for data in empty:
        with TaskWriter(files, table_plan(table, ("p",)), TASK) as writer:
            writer.write(data)
        assert writer.close() == ()
    assert files.objects == {}
    assert set(threading.enumerate()) <= before  # a thread of an earlier test may end meanwhile


def test_one_small_file_is_written_without_threads() -> None:
    files = MemoryFileStore()
    table = wide(100)
    with TaskWriter(files, table_plan(table), TASK) as writer:
        writer.write(table)
    (file,) = writer.close()
    assert writer._pool is None
    assert read_back(files, table_plan(table), (file,)) == table.to_pylist()
    assert file.modified_ms == files.stat(file.path).modified_ms


def test_batches_may_change_their_types_as_long_as_the_table_takes_them() -> None:
    schema = Struct((Field("a", LONG), Field("b", STRING)))
    files = MemoryFileStore()
    plan = plan_for(schema)
    with TaskWriter(files, plan, TASK) as writer:
        writer.write([pa.table({"a": pa.array([1], pa.int8())}), pa.table({"B": pa.array(["x"]).dictionary_encode()})])
        writer.write(pa.table({"b": pa.array(["y"], pa.string_view()), "A": pa.array([2], pa.uint64())}))
    assert read_back(files, plan, writer.close()) == [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_file_columns_keep_nullability_use_micros_and_leave_out_partitions() -> None:
    schema = Struct((Field("p", STRING), Field("id", LONG, False), Field("at", TIMESTAMP), Field("v", VOID)))
    files = MemoryFileStore()
    with TaskWriter(files, plan_for(schema, ("p",)), TASK) as writer:
        writer.write(pa.table({"p": ["a"], "id": [1], "at": pa.array([5], pa.timestamp("s", "Asia/Tokyo"))}))
    (file,) = writer.close()
    footer = pq.read_metadata(pa.BufferReader(files.read(file.path)))
    assert footer.schema.names == ["id", "at"]
    assert footer.schema.column(0).max_definition_level == 0
    logical = json.loads(footer.schema.column(1).logical_type.to_json())
    assert (footer.schema.column(1).physical_type, logical["isAdjustedToUTC"], logical["timeUnit"]) == (
        "INT64",
        True,
        "microseconds",
    )
    assert b"ARROW:schema" not in (footer.metadata or {})


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "uncompressed"])
def test_the_file_uses_the_codec_of_the_plan_and_has_it_in_its_name(codec: str) -> None:
    files = MemoryFileStore()
    table = wide(2000)
    with TaskWriter(files, table_plan(table, parquet={"parquet.compression": codec}), TASK) as writer:
        writer.write(table)
    (file,) = writer.close()
    footer = pq.read_metadata(pa.BufferReader(files.read(file.path)))
    assert footer.row_group(0).column(0).compression == codec.upper()
    suffix = {"gzip": ".gz.parquet", "uncompressed": "-000.parquet"}.get(codec, f".{codec}.parquet")
    assert file.path.endswith(suffix)


# --- sizes --------------------------------------------------------------------------------------------------------


def test_small_batches_become_large_row_groups() -> None:
    table = wide(60_000)
    files = MemoryFileStore()
    with TaskWriter(files, table_plan(table), TASK) as writer:
        for batch in table.to_batches(max_chunksize=500):
            writer.write(batch)
    assert [groups_of(files, file) for file in writer.close()] == [[60_000]]


def test_files_roll_at_their_target_size() -> None:
    table = wide(60_000)
    plan = table_plan(table, target_file_size_bytes=1 << 20)
    files = MemoryFileStore()
    with TaskWriter(files, plan, TASK) as writer:
        for batch in table.to_batches(max_chunksize=1000):
            writer.write(batch)
    pending = writer.close()
    sizes = sorted(file.size_bytes for file in pending)
    assert len(pending) > 3
    assert all((1 << 20) * 0.5 <= size <= (1 << 20) * 1.5 for size in sizes[2:])
    assert table_back(files, plan, pending).equals(table.combine_chunks())


@pytest.mark.parametrize("partition_columns", [(), ("p",)])
def test_a_batch_larger_than_the_target_size_is_split(partition_columns: tuple[str, ...]) -> None:
    table = wide(60_000, partitions=2)
    target = 128 * KIB
    plan = table_plan(table, partition_columns, target_file_size_bytes=target)
    files = MemoryFileStore()
    with TaskWriter(files, plan, TASK) as writer:
        writer.write(table.combine_chunks())
    pending = writer.close()
    assert len(pending) > 8
    fitting = [file for file in pending if target * 0.5 <= file.size_bytes <= target * 1.6]
    assert len(fitting) >= len(pending) - 4
    assert table_back(files, plan, pending).equals(table.combine_chunks())


def test_files_roll_at_exactly_the_records_allowed() -> None:
    table = wide(1000)
    files = MemoryFileStore()
    with TaskWriter(files, table_plan(table, max_records_per_file=300), TASK) as writer:
        for batch in table.to_batches(max_chunksize=77):
            writer.write(batch)
    assert [file.num_rows for file in writer.close()] == [300, 300, 300, 100]


def test_one_huge_batch_is_taken_in_pieces() -> None:
    table = wide(40_000)
    plan = table_plan(table, ("p",), memory_budget_bytes=1 << 20)
    files = MemoryFileStore()
    with TaskWriter(files, plan, TASK) as writer:
        writer.write(table.combine_chunks())
    assert writer.peak_pending_bytes <= 1 << 20
    assert table_back(files, plan, writer.close()).equals(table.combine_chunks())


# --- bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition_columns", [(), ("p",)])
@pytest.mark.parametrize("batch_rows", [100, 5000])
def test_the_rows_held_stay_within_the_budget(
    partition_columns: tuple[str, ...], batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    submit = partition_writer.EncoderPool.submit

    def watched(pool: Any, *arguments: Any) -> None:
        submit(pool, *arguments)
        held.append(pool.held_bytes)

    monkeypatch.setattr(partition_writer.EncoderPool, "submit", watched)
    table = wide(60_000, partitions=40)
    budget = 3 << 20
    plan = table_plan(table, partition_columns, memory_budget_bytes=budget)
    files = MemoryFileStore()
    with TaskWriter(files, plan, TASK) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write(batch)
            assert writer.pending_bytes <= budget
    assert budget // 4 < writer.peak_pending_bytes <= budget  # how fast the threads encode decides how much it is
    assert max(held) <= budget
    assert writer.pending_bytes == 0
    assert sum(file.num_rows for file in writer.close()) == table.num_rows


def test_under_pressure_the_largest_partition_is_written_first() -> None:
    row = pa.table({"p": ["big"] * 9 + ["small"], "x": ["y" * 1000] * 10})
    plan = table_plan(row, ("p",), memory_budget_bytes=400 * KIB, target_file_size_bytes=1 << 30)
    files = MemoryFileStore()
    with TaskWriter(files, plan, TASK) as writer:
        for _ in range(100):
            writer.write(row)
    big, small = sorted(writer.close(), key=lambda file: file.partition_values["p"] or "")
    assert (big.num_rows, small.num_rows) == (900, 100)
    assert len(groups_of(files, big)) > 1
    assert groups_of(files, small) == [100]


def test_no_more_files_are_open_than_allowed_and_the_least_used_close_first() -> None:
    plan = plan_for(
        Struct((Field("p", LONG), Field("x", STRING))), ("p",), memory_budget_bytes=64 * KIB, max_open_files=4
    )
    files = WatchedStore()
    with TaskWriter(files, plan, TASK) as writer:
        for turn in range(60):
            partition = [turn % 20] * 8 + [0] * 8
            writer.write(pa.table({"p": partition, "x": ["y" * 2000] * 16}))
    pending = writer.close()
    assert files.open_most <= 4 + partition_writer.THREADS
    assert files.open_now == 0
    by_partition = Counter(file.partition_values["p"] for file in pending)
    assert sum(file.num_rows for file in pending) == 60 * 16
    assert by_partition["0"] < by_partition["7"] + 3


def test_the_open_file_bound_is_strict_while_rows_come_in() -> None:
    plan = plan_for(
        Struct((Field("p", LONG), Field("x", STRING))), ("p",), memory_budget_bytes=64 * KIB, max_open_files=3
    )
    files = WatchedStore()
    writer = TaskWriter(files, plan, TASK)
    for turn in range(40):
        writer.write(pa.table({"p": [turn % 10] * 16, "x": ["y" * 2000] * 16}))
        assert files.open_most <= 3
    writer.abort()


class UploadingStore(MemoryFileStore):
    """Gathers parts, as an object store's uploads do, and knows the most bytes that waited in unfinished ones."""

    part_bytes = 64 * KIB

    def __init__(self) -> None:
        super().__init__()
        self.uploads: set[Upload] = set()
        self.gathered_most = 0

    def create(self, path: str) -> MemoryOutputFile:
        upload = Upload(self, path)
        with self.lock:
            self.uploads.add(upload)
        return upload

    def look(self) -> None:
        gathered = sum(upload.sink.tell() % self.part_bytes for upload in self.uploads)
        self.gathered_most = max(self.gathered_most, gathered)


class Upload(MemoryOutputFile):
    def __init__(self, files: UploadingStore, path: str) -> None:
        super().__init__(files, path)
        self.store = files

    def publish(self) -> Any:
        with self.store.lock:
            self.store.look()
            self.store.uploads.remove(self)
            return super().publish()


def test_what_uploads_gather_in_memory_is_bounded_like_the_rows() -> None:
    table, budget = wide(40_000, 100), 512 * KIB
    files = UploadingStore()
    plan = table_plan(table, ("p",), memory_budget_bytes=budget)
    with TaskWriter(files, plan, TASK) as writer:
        for batch in table.to_batches(max_chunksize=1_000):
            writer.write(batch)
    pending = writer.close()
    assert sum(file.num_rows for file in pending) == 40_000
    assert sum(file.size_bytes for file in pending) > 4 * budget  # else nothing would have had to give way
    assert budget / 2 < files.gathered_most <= 2 * budget


def test_a_task_with_one_core_writes_one_file_where_two_encoders_write_two() -> None:
    table = wide(60_000, 2)
    for encoders in (1, 2):
        plan = table_plan(table, (), memory_budget_bytes=3 << 20)
        with TaskWriter(MemoryFileStore(), plan, TASK, encoders=encoders) as writer:
            for batch in table.to_batches(max_chunksize=5_000):
                writer.write(batch)
        assert [file.num_rows > 0 for file in writer.close()] == [True] * encoders
        assert sum(file.num_rows for file in writer.close()) == 60_000


def test_a_process_with_few_file_handles_opens_fewer_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert task_writer._files_at_once(1024) == 64
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert task_writer._files_at_once(1024) == 1024


class PlainSink(io.RawIOBase):
    """A Python file without an Arrow position of its own, as object stores give."""

    def __init__(self) -> None:
        super().__init__()
        self.body = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.body += memoryview(data)
        return memoryview(data).nbytes


class PlainOutput:
    def __init__(self, files: MemoryFileStore, path: str) -> None:
        self.files, self.path, self.sink = files, path, PlainSink()

    def publish(self) -> Any:
        return self.files.publish(self.path, bytes(self.sink.body))

    def abort(self) -> None:
        self.sink.body.clear()


class PlainStore(MemoryFileStore):
    def create(self, path: str) -> Any:
        return PlainOutput(self, path)


@pytest.mark.parametrize("budget", [1 << 20, 1 << 30])
def test_a_store_may_give_a_plain_python_file(budget: int) -> None:
    table = wide(20_000)
    plan = table_plan(table, ("p",), memory_budget_bytes=budget)
    files = PlainStore()
    with TaskWriter(files, plan, TASK) as writer:
        writer.write(table)
    assert table_back(files, plan, writer.close()).equals(table.combine_chunks())


# --- failures -----------------------------------------------------------------------------------------------------


def test_an_error_in_the_with_block_leaves_nothing() -> None:
    files = MemoryFileStore()
    table = wide(20_000)
    plan = table_plan(table, ("p",), memory_budget_bytes=1 << 20, target_file_size_bytes=100 * KIB)
    writer = TaskWriter(files, plan, TASK)

    def interrupted() -> None:
        with writer:
            writer.write(table)
            assert files.objects
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert files.objects == {}
    with pytest.raises(InvalidInputError, match="aborted"):
        writer.write(table)
    with pytest.raises(InvalidInputError, match="aborted"):
        writer.close()


@pytest.mark.parametrize("nth", [1, 2, 5])
@pytest.mark.parametrize("partition_columns", [(), ("p",)])
def test_a_store_that_fails_at_any_file_fails_the_task_and_leaves_nothing(
    nth: int, partition_columns: tuple[str, ...]
) -> None:
    files = FailingStore(nth)
    table = wide(20_000)
    plan = table_plan(table, partition_columns, memory_budget_bytes=1 << 20, target_file_size_bytes=100 * KIB)
    with pytest.raises(StorageError, match="the disk is full"):
        _write_in_batches(TaskWriter(files, plan, TASK), table)
    assert files.objects == {}


def _write_in_batches(writer: TaskWriter, table: pa.Table) -> None:
    with writer:
        for batch in table.to_batches(max_chunksize=1000):
            writer.write(batch)


def test_a_bad_row_fails_the_task_names_its_place_in_the_whole_stream_and_leaves_nothing() -> None:
    schema = Struct((Field("a", INTEGER),))
    files = MemoryFileStore()
    writer = TaskWriter(files, plan_for(schema, max_records_per_file=1), TASK)
    writer.write(pa.table({"a": [1, 2, 3]}))
    with pytest.raises(InvalidInputError, match=rf"column a has {2**40}.*\(row 4,"):
        writer.write(pa.table({"a": [4, 2**40]}))
    assert files.objects == {}
    with pytest.raises(InvalidInputError, match="aborted"):
        writer.close()


def test_a_schema_mismatch_is_found_even_where_no_row_comes() -> None:
    plan = plan_for(Struct((Field("a", INTEGER),)), read_version=4)
    for data in (pa.record_batch({"a": pa.array([], pa.string())}), pa.table({"a": pa.array([], pa.string())})):
        with pytest.raises(SchemaMismatchError, match="memory://t v4: 1 column differs"):
            TaskWriter(MemoryFileStore(), plan, TASK).write(data)


def test_a_failing_source_aborts_the_task() -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield from wide(5000).to_batches()
        raise KeyboardInterrupt

    files = MemoryFileStore()
    writer = TaskWriter(files, table_plan(wide(0), max_records_per_file=10), TASK)
    with pytest.raises(KeyboardInterrupt):
        writer.write(source())
    assert files.objects == {}


def test_closed_files_outlive_a_later_error_since_they_may_be_committed() -> None:
    files = MemoryFileStore()
    table = wide(10)
    writer = TaskWriter(files, table_plan(table), TASK)

    def fails_after_close() -> None:
        with writer:
            writer.write(table)
            writer.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_after_close()
    assert {file.path for file in writer.close()} == set(files.objects) != set()
    with pytest.raises(InvalidInputError, match="closed"):
        writer.write(table)
    writer.abort()
    assert files.objects == {}


def test_an_aborted_task_deletes_its_files_in_one_request() -> None:
    bucket = Bucket()
    table = pa.table({"p": [1, 2, 3, 4, 5], "id": [1, 2, 3, 4, 5]})
    writer = TaskWriter(bucket.trips.watched(bucket.store).files, table_plan(table, ("p",)), TASK)
    writer.write(table)
    assert len(writer.close()) == len(bucket.files.objects) == 5
    assert bucket.trips_of(writer.abort) == 1
    assert bucket.files.objects == {}


def test_a_table_with_only_partition_columns_cannot_be_written() -> None:
    with pytest.raises(InvalidInputError, match="only partition columns"):
        TaskWriter(MemoryFileStore(), plan_for(Struct((Field("p", LONG),)), ("p",)), TASK)


# --- names, threads, encoding -------------------------------------------------------------------------------------


def test_partition_directories_and_two_attempts_never_share_a_name() -> None:
    table = wide(50)
    plan = table_plan(table, ("p",))
    files = MemoryFileStore()
    paths = []
    for attempt in (0, 0, 1):
        with TaskWriter(files, plan, TaskIdentity("job", 1, attempt)) as writer:
            writer.write(table)
        paths += [file.path for file in writer.close()]
    assert len(set(paths)) == len(paths) == 21
    assert all(path.startswith("p=p") and "/part-00001-job-" in path for path in paths)


def test_encoder_threads_see_the_callers_ambient() -> None:
    class Fixed(ambient.Ambient):
        def uuid4(self) -> str:
            return "0123456789abcdef" * 2

    table = wide(20_000)
    plan = table_plan(table, ("p",), memory_budget_bytes=1 << 20, configuration={"delta.randomizeFilePrefixes": "true"})
    with ambient.use(Fixed()), TaskWriter(MemoryFileStore(), plan, TASK) as writer:
        writer.write(table)
        assert writer._pool is not None
    assert {file.path.split("/")[0] for file in writer.close()} == {"01"}


def test_no_thread_outlives_the_task() -> None:
    before = threading.active_count()
    table = wide(20_000)
    with TaskWriter(MemoryFileStore(), table_plan(table, ("p",), memory_budget_bytes=1 << 20), TASK) as writer:
        writer.write(table)
        assert threading.active_count() > before
    assert threading.active_count() <= before  # a thread of an earlier test may end meanwhile


def test_dictionaries_are_used_only_where_values_repeat() -> None:
    rows = 50_000
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "few": pa.array(["red", "green", "blue"]).take(pa.array(random.integers(0, 3, rows))),
            "many": [f"{n:x}" for n in random.integers(0, 2**62, rows)],
            "code": random.integers(0, 50, rows),
            "id": np.arange(rows),
            "ratio": random.random(rows),
            "nested": pa.StructArray.from_arrays([pa.array(["a", "b"] * (rows // 2))], names=["tag"]),
            "tags": pa.array([["x", "y"]] * rows),
        }
    )
    files = MemoryFileStore()
    with TaskWriter(files, table_plan(table), TASK) as writer:
        writer.write(table)
    (file,) = writer.close()
    group = pq.read_metadata(pa.BufferReader(files.read(file.path))).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert {column.path_in_schema for column in columns if column.has_dictionary_page} == {
        "few",
        "code",
        "nested.tag",
        "tags.list.element",
    }


def test_statistics_come_with_each_file_and_follow_the_tables_properties() -> None:
    files = MemoryFileStore()
    table = pa.table({"id": [3, 1, 2], "x": [1.0, float("nan"), 2.0], "s": ["b", None, "a"]})
    plan = table_plan(table, configuration={"delta.dataSkippingStatsColumns": "id,x"})
    with TaskWriter(files, plan, TASK) as writer:
        writer.write(table)
    (file,) = writer.close()
    assert json.loads(file.stats or "") == {
        "numRecords": 3,
        "minValues": {"id": 1},
        "maxValues": {"id": 3},
        "nullCount": {"id": 0, "x": 0},
    }


def test_footers_hold_no_bounds_of_floats_which_leave_nan_out_and_the_log_holds_those_without_nan() -> None:
    nan = float("nan")
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "x.y": [2.5, None],
            "s": [{"f": nan, "n": 7}, {"f": 1.0, "n": 8}],
            "l": [[1.5], None],
            "m": pa.array([[("k", 1.5)], []], pa.map_(pa.string(), pa.float64())),
        }
    )
    files, pending = one_file(rows)
    group = pq.read_metadata(pa.BufferReader(files.read(pending.path))).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    bounded = [column.path_in_schema for column in columns if column.statistics and column.statistics.has_min_max]
    assert bounded == ["id", "s.n", "m.key_value.key"]
    assert json.loads(pending.stats or "") == {
        "numRecords": 2,
        "minValues": {"id": 1, "x.y": 2.5, "s": {"n": 7}},
        "maxValues": {"id": 2, "x.y": 2.5, "s": {"n": 8}},
        "nullCount": {"id": 0, "x.y": 1, "s": {"f": 0, "n": 0}, "l": 1, "m": 0},
    }


def test_a_file_of_floats_alone_has_its_bounds_in_the_log() -> None:
    rows = pa.table({"x": np.arange(100, dtype=np.float32) - 50})
    files, pending = one_file(rows)
    found = pq.read_metadata(pa.BufferReader(files.read(pending.path))).row_group(0).column(0)
    assert not found.is_stats_set
    assert json.loads(pending.stats or "") == {
        "numRecords": 100,
        "minValues": {"x": -50.0},
        "maxValues": {"x": 49.0},
        "nullCount": {"x": 0},
    }
