"""What a notebook shows for one version: its schema, size, partitions and last commits, as HTML.

In: a version's state, its live files and the last commits. Out: escaped HTML for ``_repr_html_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.actions import CommitInfo
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import type_name
from txlog.core.util import html_facts, html_table
from txlog.result import counted, human_size

_COLUMNS_MAX = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def version_as_html(
    title: str, state: DefinedTable, files: pa.Table, commits: Sequence[tuple[int, int, CommitInfo | None]]
) -> str:
    """HTML of one version.

    Args:
        title: The heading, such as ``Table`` with its location.
        state: The version.
        files: Its live files.
        commits: The last commits, newest first: version, ms since the epoch, and the commit's information.
    """
    size_bytes = int(pc.sum(files.column("size")).as_py() or 0)
    facts = {
        "version": str(state.version),
        "files": f"{counted(files.num_rows, 'file')}, {human_size(size_bytes)}",
    }
    if state.partition_columns:
        combinations = {tuple(values) for values in files.column("partitionValues").to_pylist()}
        facts["partitioned by"] = f"{', '.join(state.partition_columns)} ({counted(len(combinations), 'partition')})"
    fields = state.schema.fields
    columns = [
        (field.name, type_name(field.type), "" if field.nullable else "not null") for field in fields[:_COLUMNS_MAX]
    ]
    if len(fields) > _COLUMNS_MAX:
        columns.append((f"and {len(fields) - _COLUMNS_MAX} more", "", ""))
    last = [
        (str(version), _time(timestamp_ms), "" if info is None else str(info.fields.get("operation", "")))
        for version, timestamp_ms, info in commits
    ]
    tables = [html_table(("column", "type", ""), columns), html_table(("version", "committed", "operation"), last)]
    return html_facts(title, facts, tables)


def _time(timestamp_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(sep=" ", timespec="seconds")
    except OverflowError:
        return f"{timestamp_ms} ms"
