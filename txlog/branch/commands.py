"""The commands of `txlog` for branches: branch, branches, check, publish, rebase, discard."""

from __future__ import annotations

import contextlib

import typer
from rich.console import RenderableType
from rich.text import Text

import txlog
from txlog.branch.known import broken_branch
from txlog.branch.places import split_branch
from txlog.errors import TxlogError
from txlog.extend import open_table_of
from txlog.extend.cli import FAILED, CommandCall, of_operation, rows_table
from txlog.result import WriteResult, counted
from txlog.result.branches import BranchCheck


@of_operation("branch")
def branch(call: CommandCall) -> None:
    """Other commands take the branch as URI@NAME."""
    with call.opened() as (table, out):
        made = call.done(table, out, "making the branch")
        facts = {"table": table.uri, "branch": made.uri, "version": made.version}
        out.result(facts, Text(f"{table.uri}@{call.given['name']} is a branch, at version {made.version}"))


@of_operation("branches")
def branches(call: CommandCall) -> None:
    with call.opened() as (table, out):
        found = table.branches()
        lines = [
            f"{each.name}  {each.status}, version {each.version}, from version {each.base_version} of the table"
            f"  (made {each.created:%Y-%m-%d %H:%M:%S} UTC)"
            for each in found
        ]
        facts = {"table": table.uri, "branches": [each.to_dict() for each in found]}
        out.result(facts, Text("\n".join(lines) or "there is no branch"))


@of_operation("check")
def check(call: CommandCall) -> None:
    """The URI is that of the branch: ./orders@NAME. The table's constraints are checked too. If a row fails, the exit
    code is 1."""
    found = call.run(lambda table, found: _checked(found), waiting="checking the new rows")
    if not found.passed:
        raise typer.Exit(FAILED)


@of_operation("publish")
def publish(call: CommandCall) -> None:
    """The URI is that of the branch: ./orders@NAME. If you run it again, nothing happens twice."""
    call.run(lambda table, done: Text(_published(done)))


@of_operation("rebase")
def rebase(call: CommandCall) -> None:
    """The URI is that of the branch: ./orders@NAME."""
    call.run(lambda table, done: Text(f"{table.uri} is at version {done.version}, on the newest version of its table"))


@of_operation("discard")
def discard(call: CommandCall) -> None:
    """The URI is that of the branch: ./orders@NAME."""
    call.uri = _location_to_discard(call)
    call.run(lambda table, done: Text(f"discarded: a vacuum of the table deletes {table.uri}"))


def _location_to_discard(call: CommandCall) -> str:
    """The location of a broken branch, which its name does not open; any other location as it was given."""
    named = split_branch(call.uri)
    with contextlib.suppress(TxlogError):  # opening the location says what is wrong
        if named is not None and not txlog.Table.exists(call.uri, storage_options=call.storage_options):
            table = txlog.Table.open(named[0], storage_options=call.storage_options)
            return broken_branch(open_table_of(table), named[1]) or call.uri
    return call.uri


def _checked(found: BranchCheck) -> list[RenderableType]:
    rows = f"{counted(found.num_rows, 'row')} in new files"
    if found.passed:
        return [Text(f"{rows}: all meet {counted(len(found.checks), 'condition')}")]
    lines: list[RenderableType] = []
    for each in found.failures:
        lines += [
            Text(str(each)),
            rows_table(each.rows.schema, map(dict.values, each.rows.to_pylist())),
        ]
    return lines


def _published(done: WriteResult) -> str:
    if done.outcome == "empty":
        return "there is nothing to publish"
    if done.outcome == "already_committed":
        return "published before" + ("" if done.version is None else f", as version {done.version}")
    rows, copied = counted(done.metrics.rows, "row"), counted(done.metrics.rows_copied, "row")
    found = [f"{rows} in new files"] * bool(done.metrics.rows) + [f"{copied} copied"] * bool(done.metrics.rows_copied)
    return f"published as version {done.version}: {', '.join(found) or 'no row in new files'}"
