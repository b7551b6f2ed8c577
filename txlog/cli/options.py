"""The arguments that many `txlog` commands share, and how their strings become values."""

from __future__ import annotations

import os
import re
import shlex
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

import txlog
from txlog.core.format.properties import size_bytes
from txlog.core.format.schema import Struct, schema_from_json
from txlog.core.format.schema_input import SCHEMA_EXAMPLE
from txlog.core.util import UTC
from txlog.errors import InvalidInputError

_COLUMNS = re.compile(r"\s*[\w`]+\s+[a-zA-Z]")
"""What DDL begins with: a name and a type."""

Uri = Annotated[
    str,
    typer.Argument(metavar="URI", help="a path, or a file:, s3://, gs://, az:// or abfss:// URI", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document")]
Csv = Annotated[bool, typer.Option("--csv", help="print the rows as CSV, with a header")]
Storage = Annotated[
    list[str] | None,
    typer.Option("--storage-option", "-o", metavar="KEY=VALUE", help="an option of the store; may be repeated"),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage-option", metavar="KEY=VALUE", help="an option of the store; may be repeated"),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option("--partition-by", "-p", metavar="COLUMNS", help="partition columns: 'day,region', or one at a time"),
]
ClusterBy = Annotated[
    list[str] | None,
    typer.Option("--cluster-by", metavar="COLUMNS", help="clustering columns, up to four: 'day,place.city'"),
]
Version = Annotated[
    int | None, typer.Option("--version", min=0, metavar="NUMBER", help="this version instead of the newest")
]
Timestamp = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="the newest version at this time (ISO 8601, see --time-zone; or ms since 1970)"),
]
Columns = Annotated[list[str] | None, typer.Option("--columns", metavar="NAMES", help="only these columns: 'id,day'")]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="NUMBER", help="use this many processes; default: threads", min=1),
]
UserMetadata = Annotated[str | None, typer.Option(metavar="TEXT", help="a note for the table's history")]


time_zone: ContextVar[str] = ContextVar("time_zone", default=UTC)
"""The zone of times without one, from ``--time-zone``, wherever that stands."""


def names(texts: list[str] | None) -> tuple[str, ...]:
    """The names in comma-separated lists, as in Spark's ``partitionBy`` option."""
    return tuple(name.strip() for text in texts or () for name in text.split(","))


def size(text: str) -> int:
    """Bytes from ``134217728`` or ``128mb``. Any other string is a usage error."""
    try:
        return size_bytes(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a size: give bytes, or a unit as in 128mb") from None


Parameters = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="the text for :NAME in SQL; may be repeated")
]


def pairs(texts: list[str] | None, option: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """``KEY=VALUE`` strings as a dict. Any other string, or a repeated key, is a usage error that names ``option``."""
    found = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            shown = "" if option == "--storage-option" else f", not {text!r}"  # it may be a secret
            raise typer.BadParameter(f"expected {form}{shown}", param_hint=option)
        if key in found:
            raise typer.BadParameter(f"{option} sets {key} twice")
        found[key] = value
    return found


def assignments(texts: list[str] | None, option: str) -> dict[str, object]:
    """``n = n + 1``, as SQL writes it, or ``n=n + 1``: the columns and their new values."""
    split = [each.partition("=") for each in texts or ()]
    found = pairs([f"{column.strip()}{equals}{value}" for column, equals, value in split], option, "COLUMN=SQL")
    return {column: txlog.expr(text) for column, text in found.items()}


def schema_file(text: str) -> Path:
    """The file that ``--schema`` names. A usage error explains where to give columns in SQL, a common mistake here."""
    if os.path.exists(text) and not os.path.isdir(text):
        return Path(text)
    what = "is a folder" if os.path.isdir(text) else "is not a file"
    raise typer.BadParameter(
        f"--schema takes a file with a Delta (or Spark) schema in JSON, but {text!r} {what}. Give columns in SQL"
        f" with --columns {shlex.quote(text) if _COLUMNS.match(text) else repr('id bigint not null, name string')}"
    )


def read_schema(path: Path) -> Struct:
    """The Delta (or Spark) schema in a JSON file; raises ``InvalidInputError``, ``OSError``."""
    try:
        return schema_from_json(path.read_bytes())
    except ValueError as error:
        raise InvalidInputError(
            f"{path} does not contain a Delta schema: {error}. Write the output of df.schema.json() in Spark, such as"
            f" {SCHEMA_EXAMPLE}; or list the columns instead: --columns 'id bigint not null, name string'",
            path=str(path),
        ) from None
