"""What the tests of this folder share: a schema, rows of it, and what a table's folder holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": ["mon" if i % 2 else "tue" for i in ids]}, schema=SCHEMA)


def ids_of(table: Table, **travel: Any) -> list[int]:
    return sorted(table.snapshot(**travel).to_arrow().column("id").to_pylist())


def log_of(folder: Path) -> list[list[dict[str, Any]]]:
    commits = sorted((folder / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in commit.read_text().splitlines()] for commit in commits]


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)
