"""How the command line shows a summary of a table's files: as plain data, and as a page for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from txlog.cli.tables import grid, table_of
from txlog.result import counted, human_size, whole_size
from txlog.result.audits import FilesSummary

_PARTITIONS_SHOWN = 10
_BAR_WIDTH = 30


def summary_facts(table: str, summary: FilesSummary) -> dict[str, Any]:
    """Sizes in bytes."""
    return {"table": table, **asdict(summary)}


def summary_shown(table: str, summary: FilesSummary) -> list[RenderableType]:
    lines = {
        "table": table,
        "version": str(summary.version),
        "files": f"{counted(summary.files, 'file')}, {human_size(summary.size_bytes)}{_spread(summary)}",
        "small": _small(summary),
        "deleted rows": _deleted(summary),
        "removed": _removed(summary),
    }
    shown: list[RenderableType] = [grid(lines)]
    if summary.files:
        shown += [Text(), _histogram(summary)]
    if summary.files and summary.partitions[0].values:
        shown += [Text(), *_partitions(summary)]
    return shown


def _spread(summary: FilesSummary) -> str:
    smallest, median, largest = summary.smallest_bytes, summary.median_bytes, summary.largest_bytes
    if smallest is None or median is None or largest is None or smallest == largest:
        return ""
    average = human_size(summary.size_bytes // summary.files)
    return f"; {human_size(smallest)} to {human_size(largest)}, median {human_size(median)}, average {average}"


def _small(summary: FilesSummary) -> str:
    below = whole_size(summary.small_below_bytes)
    if not summary.small_files:
        return f"none below {below}"
    found = f"{counted(summary.small_files, 'file')} below {below}, {human_size(summary.small_bytes)}"
    if not summary.mergeable_files:
        return f"{found}; no two of them in one partition"
    return f"{found}; {summary.mergeable_files:,} could be merged with others of their partition"


def _deleted(summary: FilesSummary) -> str:
    if not summary.files_with_deleted_rows:
        return "none marked in live files"
    return f"{counted(summary.deleted_rows, 'row')} marked in {counted(summary.files_with_deleted_rows, 'file')}"


def _removed(summary: FilesSummary) -> str:
    if not summary.removed_files:
        return "no removed file waits for a vacuum"
    found = f"{counted(summary.removed_files, 'file')}, {human_size(summary.removed_bytes)}"
    return f"{found}; {summary.expired_files:,} past their retention, for vacuum to delete"


def _histogram(summary: FilesSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("size of file", "files", "together", ""):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    most = max(found.files for found in summary.sizes)
    for found in summary.sizes:
        # A bin that is not empty gets at least a narrow bar.
        bar = "█" * (found.files * _BAR_WIDTH // most) or ("▏" if found.files else "")
        together = human_size(found.size_bytes) if found.files else ""
        table.add_row(found.size_range, f"{found.files:,}", together, Text(bar, style="cyan"))
    return table


def _partitions(summary: FilesSummary) -> list[RenderableType]:
    numbers = ("files", "small", "together")
    table = table_of("partition", *numbers, numbers=numbers)
    for found in summary.partitions[:_PARTITIONS_SHOWN]:
        table.add_row(
            Text(_named(found.values)), f"{found.files:,}", f"{found.small_files:,}", human_size(found.size_bytes)
        )
    more = len(summary.partitions) - _PARTITIONS_SHOWN
    total = counted(len(summary.partitions), "partition")
    return [table, Text(f"{total}, most files first; {more:,} not shown" if more > 0 else total)]


def _named(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in values.items())
