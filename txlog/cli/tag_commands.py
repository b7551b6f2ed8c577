"""The commands of `txlog` that name versions, list the names and remove them."""

from __future__ import annotations

from rich.text import Text

from txlog.cli.declared import CommandCall, of_operation


@of_operation("tag")
def tag(call: CommandCall) -> None:
    call.run(lambda table, named: Text(f"version {named.version} is {named.name}"), waiting="keeping the version")


@of_operation("tags")
def tags(call: CommandCall) -> None:
    with call.opened() as (table, out):
        found = table.tags()
        lines = [f"{each.version:>8}  {each.name}  (named {each.created:%Y-%m-%d %H:%M:%S} UTC)" for each in found]
        facts = {"table": table.uri, "tags": [each.to_dict() for each in found]}
        out.result(facts, Text("\n".join(lines) or "no version has a name"))


@of_operation("untag")
def untag(call: CommandCall) -> None:
    with call.opened() as (table, out):
        call.done(table, out)
        out.result({"table": table.uri, **call.given}, Text(f"removed {call.given['name']}"))
