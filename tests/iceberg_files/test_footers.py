"""What an export asks of data files' footers: rows that the log does not count, ids inside lists and maps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.errors import CorruptLogError, IcebergExportError, NotFoundError
from txlog.iceberg_files.footers import check_element_ids, row_counts
from txlog.log.files import add_files_of
from txlog.protocol.actions import AddFile
from txlog.store.base import TableStore

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


def test_a_file_that_is_gone_damaged_or_elsewhere_is_named(tmp_path: Path) -> None:
    store, [add] = files_of(tmp_path / "t")
    (tmp_path / "t" / add.path).write_bytes(b"no Parquet")
    with pytest.raises(CorruptLogError, match="footer cannot be read") as damaged:
        row_counts(store, [add])
    (tmp_path / "t" / add.path).unlink()
    with pytest.raises(NotFoundError, match="is gone") as gone:
        row_counts(store, [add])
    assert damaged.value.path == gone.value.path == add.path
    elsewhere = AddFile("/elsewhere/part-0.parquet", {}, 1, 0, True)
    with pytest.raises(IcebergExportError, match="outside of the table"):
        row_counts(store, [elsewhere])
