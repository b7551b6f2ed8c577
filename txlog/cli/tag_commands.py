"""The commands of `txlog` that name versions, list the names and remove them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri
from txlog.result import utc_text

__all__ = ["tag", "tags", "untag"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="the name of a version", show_default=False)]


def tag(
    uri: Uri,
    name: Name,
    version: Annotated[
        int | None, typer.Option("--version", min=0, metavar="NUMBER", help="this version instead of the newest")
    ] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Name a version, so that txlog's log cleanup and vacuum keep it."""
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("keeping the version"):
            named = table.tag(name, version)
        out.result({"table": table.uri, **named.to_dict()}, Text(f"version {named.version} is {named.name}"))


def tags(uri: Uri, storage_options: Storage = None, as_json: Json = False) -> None:
    """List the named versions."""
    with opened(uri, storage_options, as_json) as (table, out):
        found = table.tags()
        lines = [f"{each.version:>8}  {each.name}  (named {utc_text(each.created_ms)} UTC)" for each in found]
        facts = {"table": table.uri, "tags": [each.to_dict() for each in found]}
        out.result(facts, Text("\n".join(lines) or "no version has a name"))


def untag(uri: Uri, name: Name, storage_options: Storage = None, as_json: Json = False) -> None:
    """Remove the name of a version. The next vacuum may delete its files."""
    with opened(uri, storage_options, as_json) as (table, out):
        table.untag(name)
        out.result({"table": table.uri, "name": name}, Text(f"removed {name}"))
