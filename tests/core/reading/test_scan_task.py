"""Which columns and rows of which version are read, by whom, and how a row is found again in its file."""

from __future__ import annotations

import ast
import base64
import json
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pyroaring import BitMap64

import txlog
from tests.other_writers import commit_files
from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.schema import from_arrow
from txlog.core.predicates import _sql as sql
from txlog.core.predicates import bind_predicate
from txlog.core.reading._scan_plan import ScanPlan, select
from txlog.core.reading._scan_task import ScanTask, Selection, TaskReader
from txlog.core.store import TableStore, open_store
from txlog.core.versions import OpenTable
from txlog.core.versions.files import DeltaLog
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError
from txlog.testing.faults import FaultyFileStore
from txlog.testing.memory_store import memory_table_store


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(pa.table({"a": [1], "b": ["x"]}))


def test_columns_match_whatever_their_case_and_come_in_the_order_asked_for(table: txlog.Table) -> None:
    assert table.snapshot().to_arrow(["B", "a"]).to_pylist() == [{"b": "x", "a": 1}]


@pytest.mark.parametrize("columns", [["a", "A"], ["zz"], "ab", [1]], ids=repr)
def test_unknown_and_repeated_columns_are_refused(table: txlog.Table, columns: Any) -> None:
    with pytest.raises(InvalidInputError, match="column"):
        table.snapshot().to_arrow(columns)


@pytest.mark.timeout(20)
def test_a_version_far_beyond_the_newest_is_refused_without_asking_for_all_between(table: txlog.Table) -> None:
    with pytest.raises(NotFoundError, match="the newest is 0"):
        table.snapshot(10**15)


TEXTS = ["a", None, "x" * 40, ""]
BYTES = [b"a", None, b"x" * 40, b""]
LISTS = [["a"], None, [], ["b", None]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (TEXTS, pa.string_view()),
        (TEXTS, pa.large_string()),
        (TEXTS, pa.dictionary(pa.int32(), pa.string())),
        (BYTES, pa.binary_view()),
        (BYTES, pa.large_binary()),
        (LISTS, pa.list_view(pa.string_view())),
        (LISTS, pa.large_list_view(pa.large_string())),
        (LISTS, pa.large_list(pa.string())),
        ([["a", "b"], None, [None, "c"]], pa.list_(pa.string(), 2)),
    ],
    ids=str,
)
def test_a_file_is_read_whatever_kind_of_arrow_array_its_writer_had(
    values: list[Any], kind: pa.DataType, tmp_path: Path
) -> None:
    txlog.write(tmp_path, pa.table({"c": pa.array(values, kind)}))
    path = tmp_path / "theirs.parquet"
    try:
        pq.write_table(pa.table({"c": pa.array(values, kind)}), path, row_group_size=3)
    except pa.ArrowNotImplementedError as error:
        pytest.skip(f"this pyarrow writes no such file: {error}")
    assert pq.ParquetFile(path).schema_arrow.field("c").type == kind
    try:
        pq.read_table(path)
    except pa.ArrowInvalid as error:
        pytest.skip(f"NOT TESTED: pyarrow {pa.__version__} does not read what it wrote itself ({error})")
    table = txlog.Table.open(tmp_path)
    commit_files(table, path.name)
    assert table.snapshot().to_arrow().to_pydict() == {"c": values + values}


# --- row groups ---------------------------------------------------------------------------------------------------


@pytest.fixture
def grouped(tmp_path: Path) -> txlog.Table:
    """One file of ten row groups of 100 rows; its entry in the log has no statistics."""
    rows = {
        "n": range(1000),
        "f": [float("nan") if number == 555 else float(number) for number in range(1000)],
        "text": [f"{number:04}" for number in range(1000)],
        "s": [None if number < 100 else {"x": number} for number in range(1000)],
    }
    txlog.write(tmp_path, pa.table(rows).slice(0, 1))
    table = txlog.Table.open(tmp_path)
    add = table.snapshot().files().to_pylist()[0]
    pq.write_table(pa.table(rows), tmp_path / add["path"], row_group_size=100)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return txlog.Table.open(tmp_path)


def damaged_but_for(table: txlog.Table, kept: list[int]) -> None:
    """Overwrite every other row group's pages: reading one of them fails."""
    path = Path(table.uri, table.snapshot().files().to_pylist()[0]["path"])
    body, metadata = bytearray(path.read_bytes()), pq.read_metadata(path)
    for group in set(range(metadata.num_row_groups)) - set(kept):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            body[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(body)


@pytest.mark.parametrize(
    ("where", "groups", "expected"),
    [
        ("n = 250", [2], [250]),
        ("n between 198 and 201", [1, 2], [198, 199, 200, 201]),
        ("n = 5 or n = 901", [0, 9], [5, 901]),
        ("text >= '0998'", [9], [998, 999]),
        ("s.x = 777", [7], [777]),
        ("s is not null and n < 3", [0], []),
        ("n > 5000", [], []),
        ("n = 5 and n = 7", [0], []),
    ],
)
def test_row_groups_that_cannot_match_are_not_read(
    where: str, groups: list[int], expected: list[int], grouped: txlog.Table
) -> None:
    damaged_but_for(grouped, groups)
    assert grouped.snapshot().to_arrow(["n"], where).column("n").to_pylist() == expected
    with pytest.raises(CorruptLogError):
        grouped.snapshot().to_arrow()


@pytest.mark.parametrize(
    ("where", "expected"),
    [("f > 998", [555, 999]), ("f = 300", [300]), ("s.x is null and n > 98", [99]), ("not (n < 999)", [999])],
)
def test_a_row_group_without_footer_statistics_is_read(where: str, expected: list[int], grouped: txlog.Table) -> None:
    """A footer leaves NaN out of its bounds, and NaN is greater than every number."""
    assert grouped.snapshot().to_arrow(["n"], where).column("n").to_pylist() == expected


# --- tasks as plain data ------------------------------------------------------------------------------------------


def plan_of(table: txlog.Table, where: str | None = None, **asked: Any) -> tuple[ScanPlan, TableStore]:
    log = DeltaLog(open_store(table.uri))
    state = log.newest_state()
    predicate = None if where is None else bind_predicate(where, state.schema, zone="UTC")
    files = log.files(state) if predicate is None else log.matching_files(state, predicate)
    return ScanPlan(select(table.uri, state, predicate=predicate, **asked), files), log.store


def test_a_task_sent_to_another_process_reads_what_the_snapshot_reads(tmp_path: Path) -> None:
    """The worker gets bytes, opens the store for itself, and never loads what reads or writes the log."""
    table = txlog.Table.create(tmp_path / "t", pa.schema({"id": pa.int64(), "p": pa.string()}), partition_by=["p"])
    table.append(pa.table({"id": range(6), "p": ["x", "y", None] * 2}))
    plan, _ = plan_of(table, "id > 1 and id < 5", columns=["p", "id"], position_column="row")
    (tmp_path / "tasks").write_bytes(pickle.dumps([*plan.tasks()]))
    worker = (
        "import pickle, sys\n"
        "from txlog.core.store._open import open_store\n"
        "tasks = pickle.load(open(sys.argv[1], 'rb'))\n"
        "store = open_store(sys.argv[2])\n"
        "print([row for task in tasks for batch in task.batches(store) for row in batch.to_pylist()])\n"
        "print([name for name in sys.modules if name.startswith('txlog.core.versions')])\n"
    )
    command = [sys.executable, "-c", worker, str(tmp_path / "tasks"), table.uri]
    rows, loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted((row["id"], row["p"], row["row"]) for row in ast.literal_eval(rows)) == [
        (2, None, 0),
        (3, "x", 1),
        (4, "y", 1),
    ]
    assert loaded == "[]"


@given(
    rows=st.integers(1, 60),
    group_rows=st.integers(1, 20),
    dead=st.sets(st.integers(0, 59)),
    where=st.sampled_from([None, "n >= 7", "n < 20 and n <> 11", "p = 'x' and n in (0, 13, 44)", "p = 'y'"]),
    columns=st.sampled_from([None, [], ["p"], ["n"]]),
    batch_rows=st.integers(1, 30),
)
def test_positions_number_the_rows_of_the_file_before_any_is_deleted(
    rows: int, group_rows: int, dead: set[int], where: str | None, columns: list[str] | None, batch_rows: int
) -> None:
    """Whatever row groups are skipped, rows are dead, and however the file is cut into batches."""
    dead = {row for row in dead if row < rows}
    body = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(rows)}), body, row_group_size=group_rows)
    store = memory_table_store()
    store.files.write("p=x/f.parquet", body.getvalue())
    schema = from_arrow(pa.schema({"n": pa.int64(), "p": pa.string()}))
    predicate = None if where is None else bind_predicate(where, schema, zone="UTC")
    fields = schema.fields if columns is None else tuple(field for field in schema.fields if field.name in columns)
    selection = Selection("t", 0, fields, predicate, schema, ("p",), file_column="file", position_column="row")
    vector = inline_vector(dead) if dead else None
    task = ScanTask("p=x/f.parquet", "p=x/f%2Eparquet", len(body.getvalue()), selection, {"p": "x"}, vector)
    reader = TaskReader(store, selection, batch_rows=batch_rows)
    found = pa.Table.from_batches(reader.batches(task), schema=selection.arrow_schema())
    keep = {
        None: lambda n: True,
        "n >= 7": lambda n: n >= 7,
        "n < 20 and n <> 11": lambda n: n < 20 and n != 11,
        "p = 'x' and n in (0, 13, 44)": lambda n: n in (0, 13, 44),
        "p = 'y'": lambda n: False,
    }[where]
    expected = [n for n in range(rows) if n not in dead and keep(n)]
    assert found.column("row").to_pylist() == expected
    assert set(found.column("file").to_pylist()) <= {"p=x/f%2Eparquet"}
    if columns is None or "n" in columns:
        assert found.column("n").to_pylist() == expected


def z85(body: bytes) -> str:
    alphabet = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    standard = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    return base64.b85encode(body, pad=True).translate(bytes.maketrans(standard, alphabet)).decode()


def inline_vector(dead: set[int]) -> DeletionVectorDescriptor:
    bitmap = struct.pack("<i", 1681511377) + bytes(BitMap64(dead).serialize())
    return DeletionVectorDescriptor("i", z85(bitmap), size_in_bytes=len(bitmap), cardinality=len(dead))


def test_a_task_reads_its_row_groups_except_those_that_cannot_match(grouped: txlog.Table) -> None:
    plan, store = plan_of(grouped, "n < 250", columns=["n"], position_column="row")
    (whole,) = plan.tasks()
    found = list(replace(whole, row_groups=(2, 4)).batches(store))
    assert pa.Table.from_batches(found).to_pydict() == {"n": [*range(200, 250)], "row": [*range(200, 250)]}


@pytest.mark.parametrize("where", [None, "n < 250"])
@pytest.mark.parametrize("of", [1, 2, 3, 7, 64])
def test_the_shares_of_a_file_have_each_of_its_rows_once(of: int, where: str | None, grouped: txlog.Table) -> None:
    plan, store = plan_of(grouped, where, columns=["n"], position_column="row")
    for task in plan.tasks():
        whole = replace(task, deletion_vector=inline_vector({*range(0, 1000, 3)}))
        shares = [list(replace(whole, share=(number, of)).batches(store)) for number in range(of)]
        found = [row for share in shares for batch in share for row in batch.to_pylist()]
        assert found == [row for batch in whole.batches(store) for row in batch.to_pylist()]
        if of == 2 and where is None:
            assert all(shares)


@pytest.mark.parametrize("name", ["file_column", "position_column"])
def test_an_extra_column_with_the_name_of_a_column_of_the_table_is_refused(table: txlog.Table, name: str) -> None:
    with pytest.raises(InvalidInputError, match="choose another name"):
        plan_of(table, **{name: "B"})


def test_two_extra_columns_of_one_name_are_refused(table: txlog.Table) -> None:
    with pytest.raises(InvalidInputError, match="choose another name"):
        plan_of(table, file_column="extra", position_column="extra")


# --- planned once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["to_arrow", "to_batches", "files", "transaction"])
def test_a_read_binds_its_predicate_once(read: str, grouped: txlog.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    bound, parse = [], sql.parse_predicate
    monkeypatch.setattr(sql, "parse_predicate", lambda *args, **kwargs: bound.append(args) or parse(*args, **kwargs))
    if read == "transaction":
        with grouped.transaction() as txn:
            assert txn.read("n = 250", ["n"]).num_rows == 1
    else:
        assert len(list(getattr(grouped.snapshot(), read)(where="n = 250"))) > 0
    assert len(bound) == 1


def test_a_transaction_prunes_once(tmp_path: Path) -> None:
    """It reads as much of the checkpoint as a look at the matching files does."""
    base = open_store(tmp_path)
    made = txlog.Table.create(tmp_path, pa.schema({"n": pa.int64()}))
    for n in range(3):
        made.append(pa.table({"n": [n]}))
    made.create_checkpoint()

    def opened(read: Callable[[txlog.Table], object]) -> list[str]:
        files = FaultyFileStore(base.files)
        read(txlog.Table(OpenTable(replace(base, files=files))))
        return [name for name in files.names("open") if "checkpoint" in name]

    def read_in_transaction(table: txlog.Table) -> None:
        with table.transaction() as txn:
            assert txn.read("n > 0").num_rows == 2

    once = opened(lambda table: table.snapshot().files("n > 0"))
    assert opened(read_in_transaction) == once != []


def test_a_predicate_may_leave_out_row_groups_and_keep_every_row_of_the_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(30)}), tmp_path / "a.parquet", row_group_size=10)
    schema = from_arrow(pa.schema([("n", pa.int64())]))
    predicate = bind_predicate(sql.parse_predicate("n >= 14 and n < 17", schema), schema, zone="UTC")
    selection = Selection("uri", 0, schema.fields, predicate, schema)
    task = ScanTask("a.parquet", "a.parquet", (tmp_path / "a.parquet").stat().st_size, selection)
    store = open_store(str(tmp_path))
    for filters_rows, expected in ((True, range(14, 17)), (False, range(10, 20))):
        reader = TaskReader(store, selection, filters_rows=filters_rows, batch_rows=4)
        found = [
            (positions.tolist(), batch.column("n").to_pylist()) for positions, batch in reader.numbered_batches(task)
        ]
        assert [n for positions, _ in found for n in positions] == [*expected]
        assert [n for _, values in found for n in values] == [*expected]
