"""The command of `txlog` that clones a table."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, UserMetadata, pairs
from txlog.result import counted, human_size
from txlog.result.maintenance import CloneResult

__all__ = ["clone"]


def clone(
    uri: Uri,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="the clone's location", show_default=False)],
    shallow: Annotated[
        bool, typer.Option("--shallow", help="read the table's files instead of copies; see the page about clones")
    ] = False,
    version: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="the version to clone")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="the newest version at this time (ISO 8601, UTC)")
    ] = None,
    mode: Annotated[
        str, typer.Option(metavar="error|ignore|replace", help="what to do if there is a table at TARGET")
    ] = "error",
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", help="a property of the clone; may be repeated"),
    ] = None,
    target_options: Annotated[
        list[str] | None,
        typer.Option("--target-option", metavar="KEY=VALUE", help="a storage option of TARGET, if it has others"),
    ] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Copy a table, or make one that reads its files.

    `--mode replace` again copies only what is new, and follows what was removed. A run that was killed is continued.
    """
    for_target = pairs(target_options, "--target-option") if target_options else None
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as report:
            done = table.clone(
                target,
                version,
                timestamp,
                shallow=shallow,
                mode=cast(Any, mode),
                properties=pairs(properties, "--property"),
                storage_options=for_target,
                user_metadata=user_metadata,
                on_progress=lambda copied, total: report("copying files", copied, total),
            )
        out.result({"table": table.uri, **done.to_dict()}, Text(_shown(done)))


def _shown(done: CloneResult) -> str:
    if done.outcome == "ignored":
        return f"{done.uri} exists, and stays as it is"
    if done.outcome == "unchanged":
        return f"{done.uri} is at version {done.version}: it is a clone of version {done.source_version} already"
    how = "reads the files of the table" if done.is_shallow else f"{human_size(done.bytes_copied)} copied"
    size = f"{counted(done.files, 'file')}, {human_size(done.size_bytes)}"
    return f"{done.uri} is at version {done.version}: a clone of version {done.source_version}, {size}, {how}"
