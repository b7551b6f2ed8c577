"""The outcome of a write, without what differs from write to write: to compare two writes that should, or should not,
do the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["commits_since"]

_DIFFER = {"timestamp", "txnId", "modificationTime", "lastUpdated", "deletionTimestamp", "createdTime", "id", "size"}


def commits_since(path: Path, first: int) -> list[list[Any]]:
    """The actions of each commit from version ``first`` on. A file is shown by its codec, not by its name."""
    commits = sorted((path / "_delta_log").glob("*.json")) if path.exists() else []
    return [[_stable(json.loads(line), path) for line in each.read_text().splitlines()] for each in commits[first:]]


def _stable(action: dict[str, Any], path: Path) -> Any:
    ((kind, body),) = action.items()
    kept = {name: value for name, value in body.items() if name not in _DIFFER and name != "operationMetrics"}
    if kind in ("add", "remove", "cdc"):
        kept["deletionVector"] = "deletionVector" in kept
        file = pq.ParquetFile(path / kept.pop("path")).metadata
        kept["codec"] = file.row_group(0).column(0).compression if file.num_row_groups else None
    return kind, kept
