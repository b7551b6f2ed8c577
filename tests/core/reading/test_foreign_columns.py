"""Files whose columns do not stand where their names say: no predicate may skip a row of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.other_writers import commit_files
from txlog.core.format.actions import AddFile


class Point(pa.ExtensionType):
    """As some programs register them: then Arrow gives it for every file whose writer had it."""

    def __init__(self) -> None:
        super().__init__(pa.struct({"x": pa.int64(), "y": pa.int64()}), "txlog.point")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Point:
        return cls()


@pytest.fixture
def point() -> Iterator[Point]:
    kind = Point()
    pa.register_extension_type(kind)
    yield kind
    pa.unregister_extension_type("txlog.point")


def test_a_column_after_one_of_a_registered_type_is_pruned_by_its_own_bounds(point: Point, tmp_path: Path) -> None:
    rows = [{"x": 1, "y": 100}, {"x": 2, "y": 200}]
    table = txlog.Table.create(tmp_path, pa.schema({"point": point.storage_type, "k": pa.int64()}))
    points = pa.ExtensionArray.from_storage(point, pa.array(rows, point.storage_type))
    path = tmp_path / "theirs.parquet"
    pq.write_table(pa.table({"point": points, "k": [5, 6]}), path, row_group_size=1)
    commit_files(table, path.name)
    assert table.snapshot().to_arrow(where="k = 6").to_pylist() == [{"point": rows[1], "k": 6}]
    assert table.snapshot().to_arrow(where="point.y = 200")["k"].to_pylist() == [6]


def converted(root: Path, **ids: int) -> txlog.Table:
    """A table of the columns b (id 1) and a (id 3), and files of two rows with one column, named a, with these ids."""
    adds = []
    for name, number in ids.items():
        path = root / f"{name}.parquet"
        schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": str(number)})])
        pq.write_table(pa.table([pa.array([1, 2])], schema=schema), path, row_group_size=1)
        adds.append(AddFile(path.name, {}, path.stat().st_size, 1, data_change=True, stats='{"numRecords":2}'))
    fields = [
        {
            "name": name,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name},
        }
        for name, number in (("b", 1), ("a", 3))
    ]
    metadata = {
        "id": "converted",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "3"},
    }
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1, "operation": "CONVERT"}},
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {"metaData": metadata},
        *({"add": add.to_json()} for add in adds),
    ]
    (root / "_delta_log").mkdir()
    (root / "_delta_log" / f"{0:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    return txlog.Table.open(root)


def test_a_column_known_by_its_id_is_not_pruned_by_the_bounds_of_another_of_its_name(tmp_path: Path) -> None:
    """Column a became b, and a new a came: files from before have the values of b under the name a."""
    snapshot = converted(tmp_path, old=1).snapshot()
    assert snapshot.to_arrow(where="a IS NULL").to_pylist() == [{"b": 1, "a": None}, {"b": 2, "a": None}]
    assert snapshot.to_arrow(where="b = 2").to_pylist() == [{"b": 2, "a": None}]


def test_files_that_differ_only_in_the_ids_of_their_columns_are_distinguished(tmp_path: Path) -> None:
    rows = converted(tmp_path, old=1, new=3, older=1).to_arrow().to_pylist()
    of_old, of_new = [{"b": 1, "a": None}, {"b": 2, "a": None}], [{"b": None, "a": 1}, {"b": None, "a": 2}]
    assert sorted(map(str, rows)) == sorted(map(str, [*of_old, *of_new, *of_old]))
