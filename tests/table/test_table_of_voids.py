"""Tables of Spark with columns or fields of type void, which files leave out: rows go in and come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog

INNER = pa.struct([("y", pa.int64()), ("z", pa.struct([("w", pa.string())]))])


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [*fields]}


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """As Spark's Delta writes it: the log has the void fields, and the file lacks them."""
    inner = struct(field("x", "void"), field("y", "long"), field("z", struct(field("v", "void"), field("w", "string"))))
    schema = struct(field("a", "long"), field("n", "void"), field("s", inner))
    pq.write_table(pa.table({"a": [1], "s": pa.array([{"y": 5, "z": {"w": "old"}}], INNER)}), tmp_path / "f.parquet")
    size = (tmp_path / "f.parquet").stat().st_size
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    add = {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}}},
        {"add": add},
    ]
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return txlog.Table.open(tmp_path)


def test_rows_are_appended_and_changed_and_files_leave_the_void_fields_out(table: txlog.Table) -> None:
    table.append(pa.table({"a": [2, 3], "s": pa.array([{"y": 6, "z": {"w": "new"}}, None], INNER)}))
    table.update({"s.y": txlog.expr("s.y + 100")}, "a = 2")
    table.delete("a = 3")
    table.optimize()
    found = table.to_arrow().sort_by("a").to_pylist()
    assert found == [
        {"a": 1, "n": None, "s": {"x": None, "y": 5, "z": {"v": None, "w": "old"}}},
        {"a": 2, "n": None, "s": {"x": None, "y": 106, "z": {"v": None, "w": "new"}}},
    ]
    for path in table.files()["path"].to_pylist():
        assert pq.read_schema(Path(table.uri, path)) == pa.schema([("a", pa.int64()), ("s", INNER)])
    assert table.verify().findings == ()
