"""The command of `txlog` that sets and unsets a table's properties."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, UserMetadata, pairs

__all__ = ["set_properties"]


def set_properties(
    uri: Uri,
    properties: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="properties to set: delta.appendOnly=true", show_default=False),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="a property to remove; may be repeated")
    ] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Set and remove properties of a table.

    Setting and removing make one version each. `txlog show` lists a table's properties.
    """
    to_set = pairs(properties, "txlog set")
    if not to_set and not unset:
        raise typer.BadParameter("give KEY=VALUE, such as delta.appendOnly=true, or --unset KEY")
    both = sorted({*to_set} & {*(unset or ())})
    if both:
        raise typer.BadParameter(f"{', '.join(both)} cannot be both set and unset")
    with opened(uri, storage_options, as_json) as (table, out):
        if to_set:
            table.set_properties(to_set, user_metadata=user_metadata)
        if unset:
            table.unset_properties(unset, user_metadata=user_metadata)
        snapshot = table.snapshot()
        found = dict(sorted(snapshot.properties.items()))
        lines = [f"{table.uri} is at version {snapshot.version}, with", *(f"  {key}={found[key]}" for key in found)]
        shown = "\n".join(lines) if found else f"{table.uri} is at version {snapshot.version}, without properties"
        out.result({"table": table.uri, "version": snapshot.version, "properties": found}, Text(shown))
