"""What an export asks of data files' footers: rows that the log does not count, ids inside lists and maps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.store import TableStore
from txlog.errors import CorruptLogError, IcebergExportError, NotFoundError
from txlog.iceberg.footers import check_column_ids, check_element_ids, row_counts
from txlog.iceberg.metadata.definition import IcebergDefinition, define

ROWS = pa.table(
    {
        "a": [1, 2, 3],
        "l": [[[1]], None, []],
        "m": pa.array([[("k", {"x": [1]})], None, []], pa.map_(pa.string(), pa.struct([("x", pa.list_(pa.int64()))]))),
    }
)


def files_of(path: Path, **properties: str) -> tuple[TableStore, list[AddFile]]:
    txlog.write(path, ROWS, properties=properties)
    table = txlog.Table.open(path)
    return table._open_table.store, add_files_of(table.snapshot().files())


def test_rows_are_counted_by_the_footer(tmp_path: Path) -> None:
    store, adds = files_of(tmp_path / "t")
    assert row_counts(store, adds) == [3]


def test_files_of_a_mapped_table_have_all_ids(tmp_path: Path) -> None:
    check_element_ids(*files_of(tmp_path / "t", **{"delta.columnMapping.mode": "name"}))


def test_files_without_any_id_are_read_by_name(tmp_path: Path) -> None:
    check_element_ids(*files_of(tmp_path / "t"))


@pytest.mark.parametrize("left_out", ["l.element", "l.element.element", "m.key", "m.value", "m.value.x.element"])
def test_a_file_with_ids_for_columns_only_is_refused_with_the_place(left_out: str, tmp_path: Path) -> None:
    store, [add] = files_of(tmp_path / "t")

    def field(name: str, kind: pa.DataType, path: str, *, nullable: bool = True) -> pa.Field:
        metadata = {} if path == left_out else {"PARQUET:field_id": "7"}
        return pa.field(name, kind, nullable, metadata)

    x = field("x", pa.list_(field("element", pa.int64(), "m.value.x.element")), "m.value.x")
    value = field("value", pa.struct([x]), "m.value")
    inner = pa.list_(field("element", pa.int64(), "l.element.element"))
    schema = pa.schema(
        [
            field("a", pa.int64(), "a"),
            field("l", pa.list_(field("element", inner, "l.element")), "l"),
            field("m", pa.map_(field("key", pa.string(), "m.key", nullable=False), value), "m"),
        ]
    )
    pq.write_table(ROWS.cast(schema), tmp_path / "t" / add.path)
    with pytest.raises(IcebergExportError, match=f"no id for {left_out}, which is inside") as caught:
        check_element_ids(store, [add])
    assert caught.value.path == add.path


def test_a_missing_damaged_or_foreign_file_is_named(tmp_path: Path) -> None:
    store, [add] = files_of(tmp_path / "t")
    (tmp_path / "t" / add.path).write_bytes(b"no Parquet")
    with pytest.raises(CorruptLogError, match="footer cannot be read") as damaged:
        row_counts(store, [add])
    (tmp_path / "t" / add.path).unlink()
    with pytest.raises(NotFoundError, match="is missing") as gone:
        row_counts(store, [add])
    assert damaged.value.path == gone.value.path == add.path
    elsewhere = AddFile("/elsewhere/part-0.parquet", {}, 1, 0, True)
    with pytest.raises(NotFoundError, match="shallow clone"):
        row_counts(store, [elsewhere])


def taken_over(path: Path, rows: pa.Table, **ids: int) -> tuple[TableStore, list[AddFile], IcebergDefinition]:
    """A table of ``ROWS``, and a file in its folder whose top-level columns have these ids."""
    table = txlog.Table.create(path, pa.schema([("a", pa.int64()), ("b", pa.int64()), ("l", pa.list_(pa.int64()))]))
    fields = [
        field.with_metadata({b"PARQUET:field_id": str(ids[field.name]).encode()}) if field.name in ids else field
        for field in rows.schema
    ]
    pq.write_table(rows.cast(pa.schema(fields)), path / "other.parquet")
    add = AddFile("other.parquet", {}, 1, 1, True)
    state = table._open_table.log.newest_state()
    return table._open_table.store, [add], define(state.metadata, 2, None)


TWO = pa.table({"a": [1], "b": [2]})


@pytest.mark.parametrize("ids", [{}, {"a": 1, "b": 2}])
def test_a_file_without_ids_or_with_the_exported_ids_is_read_correctly(ids: dict[str, int], tmp_path: Path) -> None:
    without = check_column_ids(*taken_over(tmp_path / "t", TWO, **ids))
    assert without == (set() if ids else {("a",), ("b",)})


@pytest.mark.parametrize(
    ("ids", "place"),
    [
        ({"a": 2, "b": 1}, "a has the id 2, and the exported table the id 1"),
        ({"a": 1}, "b has no id, and the exported table the id 2"),
        ({"a": 1, "b": 7}, "b has the id 7"),
    ],
)
def test_a_file_with_its_own_column_ids_is_refused_and_named_with_its_column(
    ids: dict[str, int], place: str, tmp_path: Path
) -> None:
    with pytest.raises(IcebergExportError, match=f"other.parquet was written with .*{place}"):
        check_column_ids(*taken_over(tmp_path / "t", TWO, **ids))


def test_a_column_that_the_table_lacks_must_not_have_an_id_that_a_new_column_could_get(tmp_path: Path) -> None:
    extra = TWO.append_column("z", pa.array([3]))
    check_column_ids(*taken_over(tmp_path / "reserved", extra, a=1, b=2, z=2_147_483_540))
    with pytest.raises(IcebergExportError, match="z has the id 9, and the exported table no id"):
        check_column_ids(*taken_over(tmp_path / "given", extra, a=1, b=2, z=9))


def test_a_list_without_an_id_for_its_elements_is_refused_where_its_column_has_one(tmp_path: Path) -> None:
    rows = TWO.append_column("l", pa.array([[1]]))
    with pytest.raises(IcebergExportError, match=r"l\.element has no id"):
        check_column_ids(*taken_over(tmp_path / "t", rows, a=1, b=2, l=3))


def test_a_missing_file_has_no_ids_to_refuse(tmp_path: Path) -> None:
    store, _, definition = taken_over(tmp_path / "t", TWO)
    check_column_ids(store, [AddFile("gone.parquet", {}, 1, 1, True)], definition)
