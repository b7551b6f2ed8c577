"""A table of an older writer, whose columns and struct fields differ only in case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import txlog

__all__ = ["ROWS", "made"]

MEMBERS = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("aa", "AA")]
FIELDS = [
    *({"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("key", "KEY")),
    {"name": "s", "type": {"type": "struct", "fields": MEMBERS}, "nullable": True, "metadata": {}},
]
ROWS = pa.table({"key": [1, 5], "KEY": [2, 6], "s": [{"aa": 1, "AA": 2}, {"aa": 5, "AA": 6}]})


def made(folder: Path, partitioned: bool = False, rows: pa.Table = ROWS, fields: Sequence[Any] = FIELDS) -> txlog.Table:
    (folder / "_delta_log").mkdir()
    columns = ["key"] if partitioned else []
    pq.write_table(rows.slice(0, 1).drop_columns(columns), folder / "f.parquet")
    pq.write_table(rows.slice(1).drop_columns(columns), folder / "g.parquet")
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    adds = [
        {
            "path": path,
            "partitionValues": {"key": key} if partitioned else {},
            "size": (folder / path).stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
        }
        for path, key in (("f.parquet", "1"), ("g.parquet", "5"))
    ]
    actions: list[Any] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": columns, "configuration": {}}},
        *({"add": each} for each in adds),
    ]
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return txlog.Table.open(str(folder))
