"""The arguments that many commands of `txlog` take, and how their texts become values."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Json", "Storage", "Uri", "pairs"]

Uri = Annotated[str, typer.Argument(help="a path, or a file:, s3://, gs://, az:// or abfss:// URI", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
Storage = Annotated[
    list[str] | None,
    typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="an option of the store; may be repeated"),
]


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """``KEY=VALUE`` texts as a dict; a usage error that names ``option`` for any other text."""
    found = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise typer.BadParameter(f"{option} takes KEY=VALUE")
        found[key] = value
    return found
