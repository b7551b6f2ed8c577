"""Commits of other programs, written by hand: the core alone takes over no files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from txlog.table import Table

__all__ = ["commit_files"]


def commit_files(table: Table, *names: str, stats: str | None = None) -> None:
    """Add Parquet files in the table's folder as its next version, with as many rows as their footers say."""
    lines = [{"commitInfo": {"operation": "WRITE"}}]
    for name in names:
        path = Path(table.uri, name)
        found = stats or json.dumps({"numRecords": pq.read_metadata(path).num_rows})
        values = dict(part.split("=") for part in name.split("/")[:-1])
        add = {"path": name, "partitionValues": values, "size": path.stat().st_size, "modificationTime": 0}
        lines.append({"add": {**add, "dataChange": True, "stats": found}})
    body = "".join(json.dumps(line) + "\n" for line in lines)
    Path(table.uri, "_delta_log", f"{Table.open(table.uri).version + 1:020d}.json").write_text(body)
