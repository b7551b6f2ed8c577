"""How the command line shows what the library returns: as plain data for JSON, or as text for a person.

In: snapshots, histories, file lists, probe reports. Out: for each, its facts (`..._facts`) and
the renderables a person sees (`..._shown`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from msgspec.structs import asdict
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from txlog.cli.tables import grid, table_of
from txlog.cli.values import plain
from txlog.core.format.arrow.wide_years import python_values
from txlog.core.format.file_statistics import live_row_counts
from txlog.core.format.paths import location_of, resolve_data_path
from txlog.core.format.schema import type_name
from txlog.core.operations import HISTORY_COLUMNS, OPERATIONS, history_row
from txlog.errors import TxlogError
from txlog.extend import open_table_of
from txlog.result import WriteResult, counted, human_size, in_milliseconds, sum_if_known, utc_text

if TYPE_CHECKING:
    from txlog.core.store import ProbeReport
    from txlog.snapshot import Snapshot
    from txlog.table import Table as DeltaTable

Facts = dict[str, Any]

_ALWAYS_SHOWN = 3  # version, time and operation of a commit
_READABLE_WIDTH = 24  # of an operation, a writer or a note, before it wraps
_GAP = 2  # between columns


# --- a write ------------------------------------------------------------------------------------------------


def append_shown(uri: str, result: WriteResult) -> str:
    if result.outcome != "committed":
        where = "" if result.version is None else f" in version {result.version}"
        return f"{uri} already contains these rows{where}: nothing was written"
    metrics = result.metrics
    attempts = "" if result.attempts == 1 else f", at attempt {result.attempts}"
    size = f"{counted(metrics.files, 'file')} ({human_size(metrics.bytes)})"
    return f"{counted(metrics.rows, 'row')} in {size} appended to {uri} as version {result.version}{attempts}"


def write_facts(uri: str, result: WriteResult, *, replaces: bool = False) -> Facts:
    """What a write did; of a dry run, the counts that a preview knows. ``replaces``: it is an overwrite."""
    if result.outcome != "dry_run":
        return {"table": uri, **result.to_dict()}
    did = result.metrics
    counts = {"rows": did.rows} if replaces else {"rows_inserted": did.rows_inserted, "rows_updated": did.rows_updated}
    counts |= {"rows_deleted": did.rows_deleted, "rows_copied": did.rows_copied}
    counts |= {"files_removed": did.files_removed, "files_marked": did.vectors}
    return {"table": uri, "dry_run": True, "version": result.version, **counts}


def overwrite_shown(uri: str, result: WriteResult) -> str:
    metrics = result.metrics
    gone = f"{counted(metrics.rows_deleted, 'row')} in {counted(metrics.files_removed + metrics.vectors, 'file')}"
    if result.outcome == "dry_run":
        copied = f", {counted(metrics.rows_copied, 'row')} would be copied" if metrics.rows_copied else ""
        unchanged = f"{uri} stays at version {result.version}"
        return f"{counted(metrics.rows, 'row')} would replace {gone}{copied}: dry run, {unchanged}"
    if result.outcome != "committed":
        return append_shown(uri, result)
    copied = f", {counted(metrics.rows_copied, 'row')} copied" if metrics.rows_copied else ""
    return f"{counted(metrics.rows, 'row')} in place of {gone}{copied}: {uri} is at version {result.version}"


def rows_shown(uri: str, result: WriteResult) -> str:
    """What a delete, an update, an upsert or a merge did, or would do."""
    metrics = result.metrics
    if result.outcome == "dry_run":
        files = counted(metrics.files_removed + metrics.vectors, "file")
        copied = f", {counted(metrics.rows_copied, 'row')} copied" if metrics.rows_copied else ""
        counts = _row_counts(asdict(metrics), " would be")
        return f"{counts}, in {files}{copied}: dry run, {uri} stays at version {result.version}"
    if result.outcome != "committed":
        return append_shown(uri, result)
    return f"{_row_counts(asdict(metrics), '')}: {uri} is at version {result.version}"


def _row_counts(counts: dict[str, Any], would: str) -> str:
    parts = [f"{counted(counts[f'rows_{what}'], 'row')}{would} {what}" for what in ("inserted", "updated", "deleted")]
    return ", ".join(text for text in parts if not text.startswith("0 ")) or f"0 rows{would} changed"


# --- a version ----------------------------------------------------------------------------------------------


def snapshot_facts(uri: str, snapshot: Snapshot) -> Facts:
    """Sizes in bytes, times in ms since the epoch. ``rows`` is None if the row count of a file is unknown."""
    return {
        "table": uri,
        "version": snapshot.version,
        "timestamp_ms": in_milliseconds(snapshot.timestamp),
        "id": snapshot.table_id,
        "name": snapshot.name,
        "description": snapshot.description,
        "files": snapshot.num_files,
        "size_bytes": snapshot.size_bytes,
        "rows": sum_if_known(live_row_counts(snapshot.files()).to_pylist()),
        "partition_columns": list(snapshot.partition_columns),
        "clustering_columns": list(snapshot.clustering_columns),
        "columns": [
            {"name": column.name, "type": type_name(column.type), "nullable": column.nullable}
            for column in snapshot.delta_schema.fields
        ],
        "properties": dict(snapshot.properties),
        "protocol": snapshot.protocol.to_json(),
        "app_versions": dict(sorted(snapshot.transactions.items())),
    }


def snapshot_shown(facts: Facts) -> list[RenderableType]:
    rows = "an unknown number of rows" if facts["rows"] is None else counted(facts["rows"], "row")
    lines = {
        "table": facts["table"],
        **{name: facts[name] for name in ("name", "description") if facts[name]},
        "version": f"{facts['version']}, committed {utc_text(facts['timestamp_ms'])} UTC",
        "size": f"{rows}, {counted(facts['files'], 'file')}, {human_size(facts['size_bytes'])}",
        "partitioned by": ", ".join(facts["partition_columns"]) or "nothing",
        **({"clustered by": ", ".join(facts["clustering_columns"])} if facts["clustering_columns"] else {}),
        "protocol": _protocol(facts["protocol"]),
        **({"Iceberg readers see": _iceberg_shown(facts["iceberg"])} if facts.get("iceberg") else {}),
        **{f"app {app_id}": f"committed up to {version}" for app_id, version in facts["app_versions"].items()},
        **{f"  {key}": value for key, value in sorted(facts["properties"].items())},
    }
    columns = table_of("column", "type", "")
    for column in facts["columns"]:
        columns.add_row(Text(column["name"]), Text(column["type"]), "" if column["nullable"] else "not null")
    return [grid(lines), Text(), columns]


def iceberg_facts(table: DeltaTable, newest: int) -> dict[str, Any] | None:
    """The exported version and its lag, without exporting; None if the table was never exported."""
    try:
        lag = OPERATIONS.get("iceberg_lag")
        found = None if lag is None else lag(open_table_of(table), newest=newest)
    except TxlogError as error:
        return {"version": None, "lag": None, "problem": error.message}
    return None if found is None else asdict(found)


def _iceberg_shown(facts: dict[str, Any]) -> str:
    if facts["problem"] is not None:
        return str(facts["problem"])
    lag = f"{counted(facts['lag'], 'version')} behind" if facts["lag"] else "up to date"
    return f"version {facts['version']}, {lag}"


def _protocol(protocol: Mapping[str, Any]) -> str:
    features = sorted({*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())})
    named = f" ({', '.join(features)})" if features else ""
    return f"reader {protocol['minReaderVersion']}, writer {protocol['minWriterVersion']}{named}"


# --- history ------------------------------------------------------------------------------------------------


def history_facts(entries: Sequence[Mapping[str, Any]]) -> list[Facts]:
    """The commits as in the log; times have the name that all commands use."""
    return [
        {
            "timestamp_ms": in_milliseconds(entry["timestamp"]),
            **{name: value for name, value in entry.items() if name != "timestamp"},
        }
        for entry in entries
    ]


def history_shown(entries: Sequence[Mapping[str, Any]]) -> RenderableType:
    names, rows = HISTORY_COLUMNS, [history_row(entry) for entry in entries]
    wide = _commits(names, rows)
    needed = sum(max(column.min_width or 0, len(str(column.header))) for column in wide.columns)
    return _Fitting(wide, needed + _GAP * (len(wide.columns) - 1), Group(*_narrow_history(names, rows)))


class _Fitting(msgspec.Struct, frozen=True):
    """``wide`` if the terminal is wide enough for it, otherwise ``narrow``."""

    wide: RenderableType
    needed: int
    narrow: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.wide if self.needed <= options.max_width else self.narrow


def _commits(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    # A column without values would only take space.
    shown = [at for at in range(len(names)) if at < _ALWAYS_SHOWN or any(row[at] for row in rows)]
    numbers, unbroken = ("version", "rows", "files", "size"), ("version", "time (UTC)", "rows", "files", "size")
    table = table_of(*(names[at] for at in shown), numbers=numbers, unbroken=unbroken)
    for at, column in zip(shown, table.columns, strict=True):
        column.min_width = min(_READABLE_WIDTH, max((len(row[at]) for row in rows), default=0))
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    return table


def _narrow_history(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[RenderableType]:
    """Writer and note stand below the operation; if one writer made all commits, it stands below the table."""
    writers = {row[-2] for row in rows}
    cells = []
    for *left, operation, changed, files, size, by, note in rows:
        below = [f"by {by}"] if by and len(writers) > 1 else []
        cells.append((*left, "\n".join([operation, *below, *([note] if note else [])]), changed, files, size))
    yield _commits(names[:-2], cells)
    if len(writers) == 1 and writers != {""}:
        yield Text(f"all by {writers.pop()}")


# --- files --------------------------------------------------------------------------------------------------


def file_facts(uri: str, files: pa.Table) -> list[Facts]:
    """Each file's path as in the log and in full, partition, size in bytes, live rows, modification time."""
    names = ("path", "partitionValues", "size", "modificationTime")
    columns = [files.column(name).to_pylist() for name in names]
    return [
        {
            "path": path,
            "uri": _whole(uri, path),
            "partition": dict(partition),
            "size_bytes": size,
            "rows": rows,
            "modified_ms": modified,
        }
        for path, partition, size, modified, rows in zip(*columns, live_row_counts(files).to_pylist(), strict=True)
    ]


def add_statistics(facts: Sequence[Facts], files: pa.Table) -> None:
    """Give each file's facts the statistics of its columns: of a struct, those of its fields, as ``place.city``."""
    for fact in facts:
        fact["statistics"] = {}
    for name in ("min", "max", "null_count"):
        if name in files.column_names:
            for path, values in _leaves("", files.column(name).combine_chunks()):
                for fact, value in zip(facts, python_values(values), strict=True):
                    fact["statistics"].setdefault(path, {})[name] = plain(value)


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if not pa.types.is_struct(values.type):
        yield path, values
        return
    for field, each in zip(values.type, values.flatten(), strict=True):
        yield from _leaves(f"{path}.{field.name}" if path else field.name, each)


def files_shown(files: Sequence[Facts], found: int) -> list[RenderableType]:
    is_partitioned = any(file["partition"] for file in files)
    names = ("size", "rows", "modified (UTC)", *(["partition"] if is_partitioned else []), "path")
    table = table_of(*names, numbers=("size", "rows"), unbroken=names)
    for file in files:
        partition = ", ".join(
            f"{name}={'null' if value is None else value}" for name, value in file["partition"].items()
        )
        sizes = human_size(file["size_bytes"]), _number(file["rows"])
        cells = (*sizes, utc_text(file["modified_ms"]), *([partition] if is_partitioned else []), file["uri"])
        table.add_row(*map(Text, cells))
    total = counted(found, "file") if len(files) == found else f"{len(files):,} of {counted(found, 'file')}"
    counted_text = Text(f"{total}, {human_size(sum(file['size_bytes'] for file in files))}")
    with_statistics = files and "statistics" in files[0]
    return [table, *([_statistics_shown(files)] if with_statistics else []), counted_text]


def _statistics_shown(files: Sequence[Facts]) -> RenderableType:
    names = ("column", "min", "max", "nulls", "path")
    table = table_of(*names, numbers=("nulls",), unbroken=("column", "path"))
    for file in files:
        for column, found in file["statistics"].items():
            bounds = ("" if found.get(name) is None else str(found[name]) for name in ("min", "max"))
            table.add_row(*map(Text, (column, *bounds, _number(found.get("null_count")), file["path"])))
    return table


def _whole(uri: str, path: str) -> str:
    """A log path as other programs accept it: with the table's location, and not escaped."""
    found = resolve_data_path(path)
    return f"{uri.rstrip('/')}/{found.path}" if found.is_relative else location_of(found)


# --- probe -----------------------------------------------------------------------------------------------------


def probe_facts(report: ProbeReport) -> Facts:
    facts = asdict(report)
    return {"table": facts.pop("uri"), **facts, "safe": report.is_safe}


def probe_shown(report: ProbeReport) -> list[RenderableType]:
    race = f"{report.winners} of {report.racers} racers won, a put takes {report.round_trip_s * 1000:.1f} ms"
    verdict = ("safe", "green") if report.is_safe else ("not safe", "bold red")
    problems = [Text(f"- {problem}") for problem in (*report.problems, *report.notes)]
    return [Text.assemble(verdict, f" for concurrent writers: {race}"), *problems]


# --- small things -------------------------------------------------------------------------------------------


def _number(value: Any) -> str:
    """A count as the commit's writer stored it: a string, a number, or absent."""
    text = "" if value is None else str(value)
    return f"{int(text):,}" if text.isdecimal() else text
