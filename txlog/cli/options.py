"""The arguments that many commands of `txlog` take, and how their texts become values."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Json", "PartitionBy", "Storage", "Uri", "names", "pairs"]

Uri = Annotated[
    str,
    typer.Argument(metavar="URI", help="a path, or a file:, s3://, gs://, az:// or abfss:// URI", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
Storage = Annotated[
    list[str] | None,
    typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="an option of the store; may be repeated"),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option("--partition-by", "-p", metavar="COLUMNS", help="partition columns: 'day,region', or one at a time"),
]


def names(texts: list[str] | None) -> tuple[str, ...]:
    """The names in comma lists, as Spark's ``partitionBy`` option has them."""
    return tuple(name.strip() for text in texts or () for name in text.split(","))


def pairs(texts: list[str] | None, option: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """``KEY=VALUE`` texts as a dict; a usage error that names ``option`` and its ``form`` for any other text."""
    found = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise typer.BadParameter(f"{option} takes {form}")
        found[key] = value
    return found
