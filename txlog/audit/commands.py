"""The commands of `txlog` that look a table over: verify, diff, check-deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from txlog.extend.cli import (
    FAILED,
    CommandCall,
    Output,
    first_rows,
    of_operation,
    pairs,
    plain,
    processes,
    show_rows,
    table_of,
)
from txlog.result import counted, human_size

if TYPE_CHECKING:
    from txlog.result.audits import (
        Change,
        DeletionCheck,
        KeyCheck,
        Remnant,
        RowsByFile,
        Verification,
        VersionDiff,
    )

_REMAINS_SHOWN = 50

Facts = dict[str, Any]


@of_operation("verify")
def verify(
    call: CommandCall,
    acknowledged: Annotated[
        list[str] | None,
        typer.Option(
            "--acknowledged",
            metavar="VERSION=TXN_ID",
            help="the result of a write: this version must still be that transaction",
        ),
    ] = None,
) -> None:
    """Exit code 1 if one is broken.

    Reads every commit and checkpoint in the log and compares them. Checks that each data file exists with the size in
    the log, but does not read the data files, except with --footers and the columns of --keys.
    """
    txn_ids = _txn_ids(acknowledged)
    out = Output(call.as_json)
    with out.reporting():
        from txlog.audit.verify import verify_table  # also of tables that `Table.open` refuses
        from txlog.core.catalogs import open_place
        from txlog.core.changes.tasks import TaskStore

        store = open_place(call.uri, call.storage_options)
        with out.steps() as on_progress, processes(call.workers) as executor:
            verification = verify_table(
                store,
                txn_ids=txn_ids,
                on_progress=on_progress,
                tasks=TaskStore.at(store, call.storage_options),
                workers=executor,
                **call.given,
            )
        out.result(_verification_facts(verification), *_verification_shown(verification))
        if not verification.is_sound:
            raise typer.Exit(FAILED)


@of_operation("diff")
def diff(call: CommandCall) -> None:
    """To count rows, the table needs the change data feed (delta.enableChangeDataFeed)."""
    call.run(lambda table, found: _diff_shown(found), waiting="comparing versions")


@of_operation("diff_rows")
def diff_rows(
    call: CommandCall,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="show at most this many")] = 100,
) -> None:
    """Compares the rows of changed files, so the table needs no change data feed. With --json, all rows are one
    document."""
    with call.opened() as (table, out):
        with out.waiting("comparing rows"):
            found = first_rows(table.diff_rows(**call.given), None if call.as_json else limit)
        show_rows(out, found, nothing="no row differs")


@of_operation("check_deleted")
def check_deleted(call: CommandCall) -> None:
    """The exit code is 1 if a file may still have some of it.

    Checks every file in the table's folder: data files of any version, named versions, change data, staging, the log.
    """
    found = call.run(lambda table, found: _remains_shown(found), waiting="looking at files")
    if not found.is_gone:
        raise typer.Exit(FAILED)


# --- from arguments to values, and from results to text ----------------------------------------------------------


def _txn_ids(texts: list[str] | None) -> dict[int, str]:
    form = "VERSION=TXN_ID, such as 12=6f1c..."
    found = pairs(texts, "--acknowledged", form)
    for version, txn_id in found.items():
        if not version.isdecimal():
            raise typer.BadParameter(f"Invalid --acknowledged {f'{version}={txn_id}'!r}: expected {form}")
    return {int(version): txn_id for version, txn_id in found.items()}


def _verification_facts(verification: Verification) -> Facts:
    return {
        "table": verification.table,
        "sound": verification.is_sound,
        "version": verification.version,
        "commits": verification.commits,
        "checkpoints": verification.checkpoints,
        "data_files": verification.data_files,
        "footers": verification.footers,
        "findings": [asdict(finding) for finding in verification.findings],
        **({} if verification.keys is None else {"keys": _key_facts(verification.keys)}),
    }


def _key_facts(check: KeyCheck) -> Facts:
    return {
        "columns": list(check.columns),
        "version": check.version,
        "rows": check.rows,
        "repeated_keys": check.repeated_keys,
        "repeated_rows": check.repeated_rows,
        "examples": [{"key": plain(dict(each.values)), **_files_facts(each.found)} for each in check.examples],
        "nulls": _files_facts(check.nulls),
    }


def _files_facts(found: RowsByFile) -> Facts:
    files = [{"path": path, "rows": rows} for path, rows in found.files.items()]
    return {"rows": found.rows, "num_files": found.num_files, "files": files}


def _verification_shown(verification: Verification) -> list[RenderableType]:
    shown: list[RenderableType] = []
    if verification.findings:
        table = table_of("", "rule", "where", "what is wrong")
        for finding in verification.findings:
            color = "red" if finding.severity == "error" else "yellow"
            table.add_row(
                Text(finding.severity, style=color), Text(finding.rule), Text(finding.where), Text(finding.message)
            )
        shown.append(table)
    errors = sum(finding.severity == "error" for finding in verification.findings)
    verdict = ("sound", "green") if verification.is_sound else (counted(errors, "error"), "bold red")
    seen = (
        f": version {verification.version}; read {counted(verification.commits, 'commit')} and"
        f" {counted(verification.checkpoints, 'checkpoint')}, {_data_files_seen(verification)}"
    )
    rules = {finding.rule for finding in verification.findings}
    repairs = [Text(repair) for repair, of_rules in _REPAIRS.items() if not rules.isdisjoint(of_rules)]
    keys = [] if verification.keys is None else [Text(_keys_seen(verification.keys))]
    return [*shown, *repairs, *keys, Text.assemble(verdict, seen)]


def _keys_seen(check: KeyCheck) -> str:
    found = f"{counted(check.repeated_keys, 'key')} with several rows, {counted(check.nulls.rows, 'null key')}"
    return f"read the key ({', '.join(check.columns)}) of {counted(check.rows, 'row')}: {found}"


_REPAIRS = {
    "A damaged or missing commit: restore it from a backup or from an object version that the store keeps. If it is"
    " the newest and there is no copy, stop all writers, delete it and the .crc file of its version, and write its rows"
    " again.": ("corrupt-commit", "missing-version", "lost-version"),
    "A damaged checkpoint: readers do not need it while the log has an older checkpoint or all commits; txlog"
    " checkpoint writes one at the newest version.": ("corrupt-checkpoint",),
    "A missing data file: restore it from a copy, or take it out of the table with txlog repair --remove, and write its"
    " rows again.": ("missing-file",),
    "A truncated data file: restore it from a copy, or remove it from the table with txn.remove(path) in a"
    " table.transaction(), and write its rows again.": ("wrong-size",),
    "A version that the catalog and the log's folder have differently: txlog repair gives the catalog back what it has"
    " forgotten, or says what cannot be kept. Move neither of the two away.": ("forked-version",),
    "A key with several rows: an upsert of one row with this key replaces all of them. Appends add such rows; upserts"
    " on these columns do not.": ("repeated-key",),
}
"""How to repair a problem -> the rules that report it."""


def _data_files_seen(verification: Verification) -> str:
    """Which data files the verdict covers, and what was read of them."""
    count, footers = verification.data_files, verification.footers
    looked_up = f"looked up {counted(count, 'data file')} by name and size" if count else "looked up no data file"
    if footers:
        return f"{looked_up}, read {counted(footers, 'footer')} and compared their row counts with the log's"
    return f"{looked_up}, without reading {'it' if count == 1 else 'them'}" if count else looked_up


def _diff_shown(found: VersionDiff) -> Iterator[RenderableType]:
    if changes := [*found.columns, *found.definition, *found.properties]:
        yield _table(changes)
    yield Text(_files(found))
    yield Text(_rows(found))


def _table(changes: Sequence[Change]) -> Table:
    table = table_of("what", "before", "after")
    for each in changes:
        table.add_row(*(Text("-" if text is None else text) for text in (each.what, each.before, each.after)))
    return table


def _files(found: VersionDiff) -> str:
    added = f"{counted(found.files_added, 'file')} added, {human_size(found.bytes_added)}"
    removed = f"{counted(found.files_removed, 'file')} removed, {human_size(found.bytes_removed)}"
    marked = f"; {counted(found.files_marked, 'file')} with other deleted rows" if found.files_marked else ""
    return f"{added}; {removed}{marked}"


def _rows(found: VersionDiff) -> str:
    totals = " to ".join("unknown" if rows is None else f"{rows:,}" for rows in (found.rows_before, found.rows_after))
    if found.rows is None:
        why = (found.rows_unknown or "").partition(". ")[0]  # what follows are calls of Python
        return f"rows: {totals}; which of them changed is not known: {why}"
    rows = found.rows
    return f"rows: {totals}; {rows.inserted:,} inserted, {rows.updated:,} updated, {rows.deleted:,} deleted"


def _remains_shown(found: DeletionCheck) -> list[Text]:
    what = f"of what was deleted up to version {found.version}"
    if found.is_gone:
        return [Text(f"nothing is left {what}: looked at {counted(found.files, 'file')} and the log")]
    lines = [Text(f"{_kept(each)}  {each.path}") for each in found.remains if each.kept_by != "the log"]
    shown = lines[:_REMAINS_SHOWN]
    if len(lines) > len(shown):
        shown.append(Text(f"... and {len(lines) - len(shown):,} more"))
    of_log = [each for each in found.remains if each.kept_by == "the log"]
    if of_log:
        until = max((each.until for each in of_log if each.until is not None), default=None)
        limit = "" if until is None else f", until {_moment(until)}"
        bounds = f"{counted(len(of_log), 'file')} of the log may hold column bounds{limit}"
        shown.append(Text(bounds))
    files = "no data file is left" if found.rows_are_gone else f"{counted(len(lines), 'file')} may hold some"
    return [*shown, Text(f"{files} {what}")]


def _kept(each: Remnant) -> str:
    keeper = each.kept_by if each.name is None else f"{each.kept_by} ({each.name})"
    return keeper if each.until is None else f"{keeper} until {_moment(each.until)}"


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%SZ}"
