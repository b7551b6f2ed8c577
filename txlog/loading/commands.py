"""The commands of `txlog` that take over data that is already there: clone, convert, copy-into."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

import txlog
from txlog.extend.cli import CommandCall, MergeSchema, Output, of_operation, processes, separator_of
from txlog.result import counted, human_size
from txlog.result.maintenance import CloneResult, ConvertResult, CopyResult

_FILES_SHOWN = 20


@of_operation("clone")
def clone(call: CommandCall) -> None:
    """To update the clone later, run it again with `--mode replace`: it copies only what is
    new. If a run was killed, the next one continues it.
    """
    call.run(lambda table, done: Text(_cloned(done)))


@of_operation("convert")
def convert(call: CommandCall) -> None:
    """Partition columns come from directories such as day=2026-11-20. If the
    folder is a table already, nothing changes.
    """
    out = Output(call.as_json)
    with out.reporting(), processes(call.workers) as executor:
        with out.steps() as on_progress:
            done = txlog.Table.convert(
                call.uri,
                storage_options=call.storage_options,
                on_progress=on_progress,
                workers=executor,
                **call.given,
            )
        out.result({"table": done.uri, **done.to_dict()}, Text(_converted(done)))


@of_operation("copy_into")
def copy_into(
    call: CommandCall,
    merge_schema: MergeSchema = False,
) -> None:
    """The table records each file, so you can run this as often as you like, also in
    several processes: each file is loaded once.
    """
    call.given["delimiter"] = separator_of(call.given.get("delimiter"))
    call.given["schema_mode"] = "merge" if merge_schema else "strict"
    call.run(lambda table, done: _loaded(done))


def _converted(done: ConvertResult) -> str:
    if done.outcome == "already_a_table":
        return f"{done.uri} is a Delta table already, at version {done.version}: nothing was changed"
    by = f", partitioned by {', '.join(done.partition_columns)}" if done.partition_columns else ""
    text = f"{done.uri} is a Delta table: {counted(done.files, 'file')}, {human_size(done.size_bytes)}{by}"
    return "\n".join([text, *done.notes])


def _cloned(done: CloneResult) -> str:
    if done.outcome == "ignored":
        return f"{done.uri} exists, and stays as it is"
    if done.outcome == "unchanged":
        return f"{done.uri} is at version {done.version}: it is a clone of version {done.source_version} already"
    how = "reads the files of the table" if done.is_shallow else f"{human_size(done.bytes_copied)} copied"
    size = f"{counted(done.files, 'file')}, {human_size(done.size_bytes)}"
    return f"{done.uri} is at version {done.version}: a clone of version {done.source_version}, {size}, {how}"


def _loaded(done: CopyResult) -> list[RenderableType]:
    if not done.files:
        return [Text(f"nothing to load: {counted(done.files_skipped, 'file')} loaded before")]
    lines: list[RenderableType] = [Text(name) for name in done.files[:_FILES_SHOWN]]
    if len(done.files) > _FILES_SHOWN:
        lines.append(Text(f"... and {len(done.files) - _FILES_SHOWN:,} more"))
    size = f"{counted(len(done.files), 'file')}, {human_size(done.size_bytes)}"
    before = f"; {done.files_skipped:,} loaded before" if done.files_skipped else ""
    if done.dry_run:
        return [*lines, Text(f"would load {size}{before}")]
    return [*lines, Text(f"loaded {size}, {counted(done.rows, 'row')}, as version {done.version}{before}")]
