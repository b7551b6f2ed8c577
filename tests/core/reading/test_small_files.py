"""Small files are read together: whatever is in them, the rows are those that each file has alone, in order."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from tests.parquet_bytes import short_chunk
from txlog.core.format.arrow.parquet_join import FileShape, JoinedParquet
from txlog.core.predicates import bind_predicate
from txlog.core.reading import _scan_task as scan_task
from txlog.core.reading._scan_plan import ScanPlan, select
from txlog.core.store import open_store
from txlog.core.versions.files import DeltaLog

UTC = dt.timezone.utc
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 127, 0],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 2**31 - 1, 0],
    "bigint": [-(2**63), 2**63 - 1, 1],
    "float": [0.0, -0.0, float("nan"), float("inf"), 1.5],
    "double": [0.0, float("nan"), -float("inf"), 5e-324],
    "string": ["", "a", "ä\x00b", "x" * 3000],
    "binary": [b"", b"\xff\x00"],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)],
    "timestamp": [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(2026, 11, 20, 1, 2, 3, 4, tzinfo=UTC)],
    "timestamp_ntz": [dt.datetime(1582, 10, 4), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
    "decimal(9, 2)": [decimal.Decimal("-9999999.99"), decimal.Decimal("0.01")],
    "decimal(38, 10)": [decimal.Decimal("-9999999999999999999999999999.9999999999")],
    "array<int>": [[], [1, None, 3]],
    "map<string, bigint>": [[], [("a", 1), ("b", None)]],
    "struct<a: int, b: string>": [{"a": 1, "b": None}, {"a": None, "b": "x"}],
}
CONDITIONS = ("n % 3 = 0", "part = 'b'", "n > 1000000", "c3 is null or n < 20", "c7 = 'a'")


def table_of_all_types(folder: Path, seed: int) -> txlog.Table:
    """Small files, some with dead rows, an earlier schema, mapped names, narrower types, or another encoding."""
    draw, number = random.Random(seed), itertools.count()
    kinds = {f"c{at}": kind for at, kind in enumerate(VALUES)}
    columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    table = txlog.Table.create(
        folder,
        f"n int, part string, {columns}",
        partition_by=draw.choice([[], ["part"]]),
        properties={"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"},
        column_mapping=draw.choice([None, "name"]),
    )

    def append_some() -> None:
        count = draw.randint(1, 9)
        rows: dict[str, list[Any]] = {"n": [next(number) for _ in range(count)]}
        rows["part"] = draw.choices(["a", "b", None], k=count)
        for name, kind in kinds.items():
            rows[name] = [None if draw.random() < 0.3 else draw.choice(VALUES[kind]) for _ in range(count)]
        schema = table.to_arrow().schema
        settings = draw.choice([{}, {"parquet.enable.dictionary": "false"}, {"parquet.compression": "zstd"}])
        table.append(
            pa.table({each.name: pa.array(rows[each.name], each.type) for each in schema}, schema), parquet=settings
        )

    for _ in range(3):
        append_some()
    table.delete(f"n % 4 = {draw.randrange(4)}")
    table.add_columns("late string")
    table.alter_column("n", type="bigint")
    kinds["late"] = "string"
    for _ in range(3):
        append_some()
    return table


def plan_of(
    table: txlog.Table, columns: list[str] | None = None, where: str | None = None
) -> tuple[ScanPlan, DeltaLog]:
    log = DeltaLog(open_store(table.uri))
    state = log.newest_state()
    predicate = None if where is None else bind_predicate(where, state.schema)
    return ScanPlan(select(table.uri, state, columns, predicate), log.files(state)), log


FLAT = ["n", *(f"c{at}" for at, kind in enumerate(VALUES) if "<" not in kind or kind.startswith("struct")), "part"]
COLUMNS = (None, [], ["part"], ["c16", "n"], FLAT)


def check_together(table: txlog.Table, conditions: Sequence[str | None], columns: Sequence[list[str] | None]) -> None:
    for where, chosen in itertools.product(conditions, columns):
        plan, log = plan_of(table, chosen, where)
        schema = plan.selection.arrow_schema()
        alone = [batch for task in plan.tasks() for batch in task.batches(log.store)]
        for wants_all in (True, False):
            found = [*plan.batches(log.store, wants_all=wants_all)]
            assert sum(each.num_rows for each in found) == sum(each.num_rows for each in alone), (where, chosen)
            if chosen != []:
                assert all(each.schema.equals(schema, check_metadata=True) for each in found)
                assert repr(pa.Table.from_batches(found, schema).to_pylist()) == repr(
                    pa.Table.from_batches(alone, schema).to_pylist()
                ), (where, chosen)


@pytest.fixture(scope="module")
def all_types(tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    return table_of_all_types(tmp_path_factory.mktemp("all"), 1)


def test_small_files_read_together_have_the_rows_that_each_has_alone(all_types: txlog.Table) -> None:
    check_together(all_types, (None, CONDITIONS[0]), (None, FLAT))


@pytest.mark.hunt(part="properties")
@pytest.mark.parametrize("seed", range(2, 40))
def test_many_more_small_files_read_together_have_the_rows_that_each_has_alone(seed: int, tmp_path: Path) -> None:
    check_together(table_of_all_types(tmp_path, seed), (None, *CONDITIONS), COLUMNS)


def test_files_of_all_flat_types_are_decoded_together(all_types: txlog.Table) -> None:
    bodies = [Path(all_types.uri, path).read_bytes() for path in all_types.files()["path"].to_pylist()]
    names = {column.name for body in bodies for column in pq.read_schema(pa.BufferReader(body))}
    shapes = [FileShape.of(body, names - {"c14", "c15"}) for body in bodies]
    assert all(shapes)
    assert FileShape.of(bodies[0], {"c14"}) is None, "a row can have several values"
    for shape, body in zip(shapes, bodies, strict=True):
        assert shape is not None
        joined = JoinedParquet(shape, 1 << 20)
        assert joined.add(body) == joined.add(body) == pq.ParquetFile(pa.BufferReader(body)).metadata.num_rows


def spoil_chunk(path: Path) -> None:
    path.write_bytes(short_chunk(path.read_bytes(), 0))


def spoil_rows(path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("spoil", [spoil_chunk, spoil_rows, cut, Path.unlink])
def test_a_bad_file_among_small_ones_is_named(
    spoil: Callable[[Path], None], make_table: Callable[..., txlog.Table]
) -> None:
    table = make_table(schema=pa.schema([("id", pa.int64())]))
    for id in range(4):
        table.append(pa.table({"id": [id]}))
    path = table.files()["path"][2].as_py()
    spoil(Path(table.uri, path))
    for read in (table.to_arrow, lambda: [task.to_arrow() for task in table.scan_tasks()]):
        with pytest.raises(txlog.TxlogError) as raised:
            read()
        assert path in str(raised.value)


def outcome(read: Callable[[], Any]) -> str:
    try:
        return repr([[_bytes(column).to_pylist() for column in batch.columns] for batch in read()])
    except (txlog.TxlogError, pa.ArrowException) as error:
        return type(error).__name__


def _bytes(column: pa.Array) -> pa.Array:
    """Text may be damaged."""
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column


def check_damage(table: txlog.Table, draw: random.Random, times: int) -> None:
    """One wrong byte: read together, files have what each has alone, with the same kind of error. Where it says nothing
    of the rows, as in statistics, Arrow may refuse the file alone; then all its rows are right."""
    plan, log = plan_of(table)
    tasks = [*plan.tasks()]
    whole = outcome(lambda: [pa.concat_batches([*plan.batches(log.store, wants_all=True)])])
    path = Path(table.uri, tasks[1].path)
    body = path.read_bytes()
    for _ in range(times):
        at = draw.randrange(4, len(body) - 4)
        path.write_bytes(body[:at] + bytes((body[at] ^ 1 << draw.randrange(8),)) + body[at + 1 :])
        alone = outcome(lambda: [pa.concat_batches([b for task in tasks for b in task.batches(log.store)])])
        found = outcome(lambda: [pa.concat_batches([*plan.batches(log.store, wants_all=True)])])
        assert found == alone or (found == whole and alone == "CorruptLogError"), at


def table_of_few_columns(folder: Path, settings: dict[str, str]) -> txlog.Table:
    table = txlog.Table.create(folder, "id bigint, text string, number double")
    for file in range(3):
        texts = [None if id % 4 == 1 else f"text {id % 3}" for id in range(file, file + 6)]
        rows = {"id": range(file, file + 6), "text": texts, "number": [0.5] * 6}
        table.append(pa.table(rows, schema=table.to_arrow().schema), parquet=settings)
    return table


def test_a_damaged_byte_changes_no_rows_of_other_files(tmp_path: Path) -> None:
    check_damage(table_of_few_columns(tmp_path, {}), random.Random(1), 30)


@pytest.mark.hunt(part="damage")
@pytest.mark.parametrize(
    "settings", [{}, {"parquet.enable.dictionary": "false"}, {"parquet.compression": "none"}], ids=str
)
def test_no_damaged_byte_changes_rows_of_other_files(tmp_path: Path, settings: dict[str, str]) -> None:
    check_damage(table_of_few_columns(tmp_path, settings), random.Random(2), 6_000)


def test_a_condition_that_fails_for_a_row_fails_although_files_are_read_together(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = make_table(schema=pa.schema([("id", pa.int64())]))
    for id in (1, 0, 2):
        table.append(pa.table({"id": [id]}))
    with pytest.raises(txlog.InvalidInputError, match="zero"):
        table.to_arrow(where="2 / id > 1")
    assert table.to_arrow(where="try_divide(2, id) > 1")["id"].to_pylist() == [1]


def test_reading_all_small_files_opens_each_once_and_their_rows_come_in_one_batch(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = make_table(schema=pa.schema([("id", pa.int64())]))
    for id in range(9):
        table.append(pa.table({"id": [id]}))
    plan, log = plan_of(table)
    opened: list[str] = []

    class Files:
        def __getattr__(self, name: str) -> Any:
            return getattr(log.store.files, name)

        def open(self, path: str) -> Any:
            opened.append(path)
            return log.store.files.open(path)

    store = replace(log.store, files=Files())
    (batch,) = plan.batches(store, wants_all=True)
    assert sorted(batch["id"].to_pylist()) == [*range(9)]
    assert len(opened) == len({*opened}) == 9


def test_files_without_rows_are_read_together_by_a_condition_on_a_column_that_is_not_returned(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = make_table(schema=pa.schema([("id", pa.int64()), ("part", pa.string())]), partition_by=["part"])
    Path(table.uri, "part=a").mkdir()
    for name in ("part=a/1.parquet", "part=a/2.parquet"):
        pq.write_table(pa.table({"id": pa.array([], pa.int64())}), Path(table.uri, name))
        table.add_files([name])
    assert table.to_arrow(columns=["id"], where="part = 'a'").num_rows == 0


def test_small_files_that_decode_to_many_bytes_are_read_a_few_at_a_time(
    make_table: Callable[..., txlog.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(schema=pa.schema([("id", pa.int64()), ("text", pa.string())]))
    for id in range(6):
        table.append(pa.table({"id": [id] * 10, "text": ["x" * 1000] * 10}))
    monkeypatch.setattr(scan_task, "TOGETHER_BYTES", 25_000)
    plan, log = plan_of(table)
    found = [*plan.batches(log.store, wants_all=True)]
    assert [each.num_rows for each in found] == [20, 20, 20]
    assert sorted(pa.Table.from_batches(found)["id"].to_pylist()) == [id for id in range(6) for _ in range(10)]
