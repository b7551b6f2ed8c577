"""Files as the rows of a command: its arguments about them, and the point that asks for what reads them.

In: the paths of local files, and what they are. Out: `RowsOfFiles`. A package reads the files; txlog's own reads
Parquet, CSV and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa
import typer

import txlog
from txlog.core.points import Point
from txlog.core.row_rules import computed_names

Format = Annotated[
    str | None, typer.Option("--format", metavar="parquet|csv|json", help="the format of files without a known suffix")
]
NullValues = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="TEXT",
        help="a string that means null in CSV, like an empty field (in a file of one column, an empty line)",
    ),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHARACTER", help="separates CSV values: ';', '|', 'tab'")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV has no header; its columns are the table's, in order")]
DecimalComma = Annotated[bool, typer.Option("--decimal-comma", help="numbers in CSV are written as 1,50")]
Files = Annotated[
    list[Path],
    typer.Argument(
        exists=True,
        dir_okay=False,
        readable=True,
        show_default=False,
        metavar="FILES",
        help="the rows: .parquet, .csv, .tsv, .json, .jsonl, .ndjson; text also as .gz, .bz2, .zst",
    ),
]
MergeSchema = Annotated[bool, typer.Option("--merge-schema", help="add columns that the table lacks")]


Replacing: TypeAlias = tuple[str | None, Mapping[Any, str] | None]
"""The arguments ``row_kind`` and ``row_kinds`` of an upsert."""


class RowsOfFiles(Protocol):
    """Existing files whose columns fit together."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def size_bytes(self) -> int: ...

    def require_types(self) -> None:
        """Check that every column has a type, which a new table needs. Raises ``InvalidInputError``."""

    def reader(self, advance: Callable[[int], None]) -> pa.RecordBatchReader:
        """All rows, once. ``advance`` is called with the number of bytes read since the last call.

        An unreadable file raises ``InvalidInputError`` naming it.
        """

    def named(self) -> AbstractContextManager[None]:
        """Add the file to an error about a row or a column, raised by what takes the rows of the reader."""


class OpensFiles(Protocol):
    def __call__(
        self,
        paths: Sequence[Path],
        file_format: str | None = None,
        *,
        column_types: Mapping[str, pa.DataType] | None = None,
        null_values: Sequence[str] = ("",),
        delimiter: str | None = None,
        has_header: bool = True,
        has_decimal_commas: bool = False,
        optional: Collection[str] = (),
        replacing: Replacing | None = None,
    ) -> RowsOfFiles:
        """Inspect the files.

        Args:
            paths: The files.
            file_format: ``parquet``, ``csv`` or ``json``; None: by their suffixes.
            column_types: The types of columns that are known.
            null_values: The strings that mean null in CSV.
            delimiter: What separates values in CSV; None: the usual for the suffix.
            has_header: Whether the first line of CSV names the columns; else they are the known ones, in order.
            has_decimal_commas: Whether a comma is before the fraction of a number in CSV, and no point.
            optional: The columns that rows may lack, which does not mean null.
            replacing: Given for rows that replace others, so that rows of JSON have all known columns that are read,
                unless their kind says that they delete.

        Raises ``InvalidInputError`` for a file that is of another format, contradicts another or can be read only once,
        ``OSError`` for one that cannot be opened.
        """


_READERS: Final[Point[OpensFiles]] = Point("txlog.data_files", "what reads")


def opens_files() -> OpensFiles:
    """What reads files of rows. Raises ``UnsupportedFeatureError`` if no installed package brings it."""
    return _READERS.load("files", "a command that takes rows from files")


class GivenFiles(msgspec.Struct, frozen=True):
    """The files of a command, and what it says about them; each field is an argument of the command."""

    files: Files
    file_format: Format = None
    null_values: NullValues = None
    delimiter: Delimiter = None
    no_header: NoHeader = False
    decimal_comma: DecimalComma = False
    merge_schema: MergeSchema = False

    def __post_init__(self) -> None:
        if self.file_format not in (None, "parquet", "csv", "json"):
            raise typer.BadParameter(
                f"expected 'parquet', 'csv' or 'json', not {self.file_format!r}", param_hint="--format"
            )

    def rows_for(
        self,
        table: txlog.Table | None,
        *,
        keeps_missing: bool = False,
        replacing: Replacing | None = None,
    ) -> RowsOfFiles:
        """The rows for a table. With ``keeps_missing``, rows that are there already keep what the files lack."""
        mark = separator_of(self.delimiter)
        if self.no_header and table is None:
            raise txlog.InvalidInputError(
                "--no-header: the columns of a new table would have no names; create the table first with txlog create"
            )
        types = {} if table is None else {member.name: member.type for member in table.snapshot().schema}
        optional = frozenset(types)
        if not keeps_missing and table is not None:
            optional = computed_names(table.snapshot().delta_schema)
        return opens_files()(
            self.files,
            self.file_format,
            column_types=types,
            null_values=("", *(self.null_values or ())),
            delimiter=mark,
            has_header=not self.no_header,
            has_decimal_commas=self.decimal_comma,
            optional=optional,
            replacing=replacing,
        )


def separator_of(delimiter: str | None) -> str | None:
    mark = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
    if mark is not None and len(mark) != 1:
        raise typer.BadParameter(f"expected one character, or tab, not {delimiter!r}", param_hint="--delimiter")
    return mark
