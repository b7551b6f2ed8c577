"""Parquet, CSV and JSON files as one stream of record batches, for `Table.copy_into` and the command line.

In: `InputFile`s. Out: a reader over all of them in order, with one schema, a batch at a time. A callback receives the
progress in input bytes. Files with different columns are matched by name.
"""

from __future__ import annotations

import bisect
import contextlib
import csv as pycsv
import io
import itertools
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, json

from txlog.core.format.arrow.old_calendar import old_calendar
from txlog.core.format.arrow.parquet_rows import counted_batches, row_count
from txlog.core.format.arrow.text import first_not_utf8
from txlog.core.format.schema import fold_name, is_variant_struct
from txlog.core.wording import advice, setting
from txlog.errors import InvalidInputError, SchemaMismatchError
from txlog.extend.commits import parallel_map
from txlog.loading.footer_facts import with_moments
from txlog.result import counted

BATCH_ROWS = 65_536

_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
BLOCK_BYTES = 4 << 20
"""How much text Arrow parses at once. The first block decides about types, and a row fits in a block. That block is
parsed when a file is inspected and again when it is read: with 16 MiB, files of 8 MiB took a third longer."""
_PARSERS = 2
_BEGINS_WITH_NULL = re.compile(rb"\s*n")
_SEARCHED_BYTES_MAX = 16 << 20
"""The text of a file in which the line of an error is searched."""
_ARROWS_ADVICE = re.compile(r"If these timestamps are in local time, .*assume_timezone\.?", re.DOTALL)
_CSV_COLUMN = re.compile(r"CSV column #(\d+)")
_CSV_VALUES = (
    re.compile(r"conversion error to (?P<type>[^:]+): invalid value '(?P<value>.*)'"),
    re.compile(r"The string '(?P<value>.*)' is not a valid (?P<type>decimal)"),
)
_OTHER_NULLS = ("null", "na", "n/a", "nan", "none", "nil", "\\n", "-", "?")
_COMPRESSION_OF_SUFFIX = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

_AS_UTF8 = {
    "parquet": "write the file again with text that is, or with this column as bytes",
    "csv": "convert the file, for example with iconv",
    "json": "convert the file, for example with iconv",
}

FORMATS = ("parquet", "csv", "json")

Advance = Callable[[int], None]


class InputFile(msgspec.Struct, frozen=True):
    """A file that can be opened several times, as what ``pyarrow`` reads; ``name`` is for errors, and has the suffix.

    If Arrow reads ahead in its own threads, and one of them runs Python code while the program ends, the program
    aborts. So what ``open`` returns should need none to read text. Nobody closes it: a thread that reads ahead goes on
    for a moment after its reader is gone, and would take its bytes from whatever file has the number by then. The last
    one to let go of it closes it. ``open_footer`` opens a Parquet file for its columns alone, if that is cheaper.
    """

    name: str
    size_bytes: int
    open: Callable[[], Any]
    open_footer: Callable[[], Any] | None = None


class TextFormat(msgspec.Struct, frozen=True):
    """How to parse text files: the known column types, and the strings that mean null in CSV.

    ``delimiter`` None means the usual one for a file's suffix. Without ``has_header``, CSV columns are the known ones,
    in order. ``optional`` are the columns that rows may lack, which does not mean null: the rows of a JSON file have
    them all, or lack them all. ``is_whole`` says which rows of JSON must have all known columns that are read, and all
    fields of their structs, since they replace other rows.
    """

    column_types: Mapping[str, pa.DataType] = msgspec.field(default_factory=dict)
    null_values: tuple[str, ...] = ("",)
    delimiter: str | None = None
    has_header: bool = True
    optional: frozenset[str] = frozenset()
    is_whole: Callable[[Mapping[str, Any]], bool] | None = None
    has_decimal_commas: bool = False


class DataFiles(msgspec.Struct, frozen=True):
    """Existing input files with known formats, whose columns fit together under ``schema``."""

    files: tuple[_DataFile, ...]
    schema: pa.Schema
    names: tuple[Sequence[str], ...]
    first_rows: list[int] = msgspec.field(default_factory=list)
    """The number of rows before each file that the last reader has begun."""

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Add the file to an error about a row or a column, raised by what takes the rows of the reader."""
        try:
            yield
        except InvalidInputError as error:
            found = self._place_of(error) if error.path is None else None
            if found is not None:
                error.path, told = found
                error.template += told
            raise

    def _place_of(self, error: InvalidInputError) -> tuple[str, str] | None:
        """The file, and what the message says of it."""
        if isinstance(error, SchemaMismatchError):
            for column in error.columns:
                for file, names in zip(self.files, self.names, strict=True):
                    if fold_name(column.partition(".")[0]) in map(fold_name, names):
                        return file.name, f"\n{column} is in {file.name}"
            return None
        if error.row is None:
            return None
        at = bisect.bisect_right(self.first_rows, error.row) - 1
        name = self.files[at].name
        return name, f". It is row {error.row - self.first_rows[at]:,} of {name}"

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def require_types(self) -> None:
        """Check that every column has a type, which a new table needs, and that no folder names one more.

        Raises ``InvalidInputError`` naming the columns in which no row of a file's first block has a value.
        """
        for file, names in zip(self.files, self.names, strict=True):
            _check_folders(file, names, file.named_by_folders)
        untyped = [column.name for column in self.schema if pa.types.is_null(column.type)]
        if untyped:
            files = ", ".join(file.name for file in self.files)
            raise InvalidInputError(
                f"the first rows of {files}, which decide about types, have no value in {', '.join(untyped)}:"
                f" create the table with all its columns, with txlog create URI --columns '{untyped[0]} string, ...'"
            )

    def reader(self, advance: Advance) -> pa.RecordBatchReader:
        """All rows, once. ``advance`` is called with the number of bytes read since the last call.

        An unreadable file raises ``InvalidInputError`` naming it.
        """
        self.first_rows.clear()
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(advance))

    def _batches(self, advance: Advance) -> Iterator[pa.RecordBatch]:
        before = 0
        for file in self.files:
            reported = rows = 0
            self.first_rows.append(before)
            with file.opened() as (_, batches):
                for batch, done_bytes in batches:
                    file.require_utf8(batch, rows)
                    rows += batch.num_rows
                    yield _lined_up(batch, self.schema)
                    advance(done_bytes - reported)
                    reported = done_bytes
            before += rows
            advance(file.size_bytes - reported)


def inspected(
    inputs: Sequence[InputFile], file_format: str | None = None, text_format: TextFormat | None = None
) -> DataFiles:
    """Inspect the files: their formats (``file_format``, or by suffix) and columns.

    Raises ``InvalidInputError`` for a file in another format or with columns that contradict another file's,
    ``OSError`` and what opening raises for a file that cannot be opened.
    """
    text_format = text_format or TextFormat()
    files = tuple(_data_file(each, file_format, text_format) for each in inputs)
    schemas = []
    for file in files:
        with file.opened(only_columns=True) as (schema, _):
            schemas.append(schema)
        name, count = max(Counter(schema.names).items(), key=itemgetter(1), default=("", 0))
        if count > 1:
            raise InvalidInputError(f"{file.name} has {count} columns named {name!r}", path=file.name)
        _check_folders(file, schema.names, file.of_folders.difference(text_format.optional))
    _check_optional(files, schemas, text_format.optional)
    try:
        whole = pa.unify_schemas(schemas, promote_options="permissive")
        return DataFiles(files, whole, tuple(schema.names for schema in schemas))
    except pa.ArrowException as error:
        raise InvalidInputError(f"{_contradiction(files, schemas) or error}: make them one type") from None


def _check_folders(file: _DataFile, names: Sequence[str], given: Collection[str]) -> None:
    """Only what is in a file is read: a column that it lacks, and the name of its folder gives, would be lost."""
    there = {*map(fold_name, names)} if given else set()
    for name in sorted(given):
        if fold_name(name) not in there:
            raise InvalidInputError(
                f"{file.name}: the file lacks the column {name!r}, which the name of its folder gives. Only what is in"
                " the file is loaded, so its values would be lost: write them into the file."
                f" {advice('convert a folder', 'Table.convert(folder)')} makes a table of a whole folder of Parquet"
                " files, with the values of its folders",
                path=file.name,
            )


def _check_optional(files: Sequence[_DataFile], schemas: Sequence[pa.Schema], optional: Collection[str]) -> None:
    """Rows of all files become one input, which has a column or lacks it."""
    there = [{*map(fold_name, schema.names)} for schema in schemas]
    for name in sorted(optional):
        has = [fold_name(name) in names for names in there]
        if any(has) and not all(has):
            raise InvalidInputError(
                f"{files[has.index(True)].name} has the column {name}, and {files[has.index(False)].name} lacks it:"
                " written together, its rows would get nulls there. Write such files one after the other"
            )


def _contradiction(files: Sequence[_DataFile], schemas: Sequence[pa.Schema]) -> str | None:
    """The first column whose types in two files have nothing in common."""
    first: dict[str, tuple[_DataFile, pa.Field]] = {}
    for file, schema in zip(files, schemas, strict=True):
        for column in schema:
            other, known = first.setdefault(column.name, (file, column))
            try:
                pa.unify_schemas([pa.schema([known]), pa.schema([column])], promote_options="permissive")
            except pa.ArrowException:
                return f"column {column.name!r} is {known.type} in {other.name} and {column.type} in {file.name}"
    return None


class _DataFile(msgspec.Struct, frozen=True):
    source: InputFile
    format: str
    compression: str | None
    text_format: TextFormat

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def size_bytes(self) -> int:
        return self.source.size_bytes

    @contextlib.contextmanager
    def opened(self, *, only_columns: bool = False) -> Iterator[tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]]:
        """The schema, and the batches, each with how many of the file's bytes have been read; ``only_columns`` if the
        caller takes no batch.

        Known columns have the names that they are known by: the case of names in a file does not matter.
        """
        try:
            is_parquet = self.format == "parquet"
            footer = self.source.open_footer if is_parquet and only_columns else None
            schema, batches = (self._open_parquet if is_parquet else self._open_text)((footer or self.source.open)())
            if not is_parquet and any(column.name in self._variants for column in schema):
                schema, batches = self._with_json(schema, batches)
            known = {fold_name(name): name for name in self.text_format.column_types}
            names = [known.get(fold_name(name), name) for name in schema.names]
            if names != schema.names:
                schema = pa.schema([column.with_name(name) for column, name in zip(schema, names, strict=True)])
                batches = ((batch.rename_columns(names), done_bytes) for batch, done_bytes in batches)
            yield schema, batches
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            # For a damaged Parquet file Arrow raises an OSError without a number.
            raise self._unreadable(error) from None

    @property
    def of_folders(self) -> frozenset[str]:
        """The known columns that folders above the file name, as Hive and Spark do: ``day=2026-11-20``."""
        named = {*map(fold_name, self.named_by_folders)}
        return frozenset(name for name in self.text_format.column_types if named and fold_name(name) in named)

    @property
    def named_by_folders(self) -> frozenset[str]:
        """All columns that folders above the file name."""
        folders = (folder.partition("=") for folder in self.name.split("/")[:-1])
        return frozenset(unquote(name) for name, equals, _ in folders if name and equals)

    def require_utf8(self, batch: pa.RecordBatch, rows_before: int) -> None:
        """Refuse text that Arrow reads as it is. Its CSV reader checks text itself, and knows the row."""
        if self.format != "csv" and (found := first_not_utf8(batch)) is not None:
            name, row = found
            raise InvalidInputError(
                f"{self.name}: column {name!r} is not UTF-8 in row {rows_before + row:,}, counting from 0:"
                f" {_AS_UTF8[self.format]}",
                path=self.name,
            )

    def _unreadable(self, error: Exception, rows_before: int = 0, names: Collection[str] = ()) -> InvalidInputError:
        """Arrow's own message. For JSON, it counts rows from 0, after the previous batches, and knows no column but
        ``names``, those of the first block."""
        if "unexpected field" in str(error) and (late := self._late_column(names)) is not None:
            return InvalidInputError(
                f"{self.name}: the column {late[1]!r} comes as late as line {late[0]:,}, when the columns of the file"
                " were settled: add it to the table first, or leave it out of the file",
                path=self.name,
            )
        if "block size" in str(error):
            return InvalidInputError(
                f"{self.name} has a row of more than {BLOCK_BYTES:,} bytes, or a quote that does not end: write such"
                " rows as Parquet",
                path=self.name,
            )
        if self.format == "csv" and (unlike := self._otherwise_separated(self._names_of_header())) is not None:
            return unlike
        form = "json, one object on each line" if self.format == "json" else self.format
        after = f", after {counted(rows_before, 'row')}" if rows_before and self.format == "json" else ""
        told = _CSV_COLUMN.sub(self._with_name, str(error).strip())
        told = _ARROWS_ADVICE.sub("Write the zone after the time, as in 2026-11-20T12:00:00Z", told)
        line = self._bad_line() if self.format == "json" else None
        at = "" if line is None else f". It is line {line:,}"
        hint = self._hint(told)
        return InvalidInputError(f"{self.name} cannot be read as {form}{after}: {told}{at}{hint}", path=self.name)

    def _hint(self, told: str) -> str:
        """What to do about what other programs write into CSV and JSON files."""
        if "Column() changed from object to array" in told:
            return ". The file is one array: write its objects one to a line, for example with jq -c '.[]'"
        found = next(filter(None, (pattern.search(told) for pattern in _CSV_VALUES)), None)
        if found is None:
            return ""
        kind, value = found["type"], found["value"]
        if value.lower() in _OTHER_NULLS:
            return f". If it means null, pass {setting('null_values', value)}"
        if kind.startswith(("double", "float", "decimal")) and re.fullmatch(r"[-+]?[\d.]*\d,\d+", value):
            return f". If the comma is a decimal point, pass {setting('decimal_comma', True)}"
        if kind.startswith("date32") and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return ". There is no such day"
        if kind.startswith(("date32", "timestamp")) and re.match(r"\d\d?[./-]\d\d?[./-]\d{2,4}", value):
            return ". Dates are written 2026-11-20: convert the file, or its column in pandas or pyarrow"
        return ""

    def _with_name(self, column: re.Match[str]) -> str:
        """``CSV column #1 (amount)``: Arrow counts columns from 0, and rows from 1."""
        names = self._names_of_header()
        number = int(column[1])
        return f"{column[0]} ({names[number]})" if number < len(names) else column[0]

    def _names_of_header(self) -> list[str]:
        """The names of a CSV file's columns, in its order, as far as its header can be read."""
        names = list(self.text_format.column_types)
        if self.text_format.has_header:
            with (
                contextlib.suppress(ValueError, OSError, pycsv.Error),
                self._decompressed(self.source.open()) as source,
            ):
                names = next(pycsv.reader(io.TextIOWrapper(source, "utf-8-sig"), delimiter=self._delimiter), [])
        return names

    def _bad_line(self) -> int | None:
        """The first line of JSON that Arrow cannot read behind the lines before it, if the file is small."""
        with contextlib.suppress(ValueError, OSError), self._decompressed(self.source.open()) as source:
            text = bytes(source.read(_SEARCHED_BYTES_MAX + 1))
            lines = text.rstrip().split(b"\n") if len(text) <= _SEARCHED_BYTES_MAX else []
            if len(lines) < 2:
                return None
            first = bisect.bisect_left(range(len(lines) + 1), True, key=lambda count: not self._is_read(lines[:count]))
            return first if first <= len(lines) else None
        return None

    def _is_read(self, lines: Sequence[bytes]) -> bool:
        try:
            rows = self._json_reader(pa.BufferReader(b"\n".join([*lines, b""])), self._readable_types).read_all()
            for name, kind in self._readable_types.items():
                rows[name].cast(_timed(rows[name].type, kind))
        except pa.ArrowException as error:
            return "Empty JSON" in str(error)
        return True

    def _open_parquet(self, handle: Any) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]:
        parquet = pq.ParquetFile(handle, coerce_int96_timestamp_unit="us")
        names, rows_total = parquet.schema_arrow.names, row_count(parquet.metadata)
        calendar = old_calendar(parquet.schema_arrow.metadata)
        schema = with_moments(parquet)

        def batches() -> Iterator[tuple[pa.RecordBatch, int]]:
            rows_done = 0
            for _, batch in counted_batches(parquet, names, BATCH_ROWS) if names else ():
                if calendar is not None and any(map(calendar.differs, batch.columns)):
                    raise InvalidInputError(
                        f"{self.name} has a date before 1582-10-15 or a time before 1900 in the calendar of Spark 2:"
                        " have Spark write the file again, or make it a table by Table.convert, which knows the dates",
                        path=self.name,
                    )
                rows_done += batch.num_rows
                yield batch.cast(schema), self.size_bytes * rows_done // max(1, rows_total)

        return schema, batches()

    def _late_column(self, names: Collection[str]) -> tuple[int, str] | None:
        """The first line of a JSON file with another column than these, and the column."""
        with contextlib.suppress(ValueError), self._decompressed(self.source.open()) as source:
            for number, line in enumerate(io.TextIOWrapper(source), 1):
                row = orjson.loads(line) if line.strip() else {}
                if (late := next((name for name in row if name not in names), None)) is not None:
                    return number, late
        return None

    def _open_text(self, handle: Any) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]:
        read = self._csv_reader if self.format == "csv" else self._json_reader
        optional = self.text_format.optional | self.of_folders if self.format == "json" else frozenset()
        types = {name: kind for name, kind in self._readable_types.items() if name not in optional}
        reader = read(self._decompressed(handle), types)
        self._check_readable(reader.schema)
        spelled = self._spelled_in_file(reader.schema.names, optional)
        if self.format == "csv" and len(reader.schema) == 1:
            handle = self.source.open()
            reader = self._csv_reader(self._decompressed(handle), spelled, only=reader.schema.field(0))
        elif spelled != types:
            handle = self.source.open()
            reader = read(self._decompressed(handle), spelled)
        if self.format == "csv":
            self._check_csv(reader.schema)
        first: list[pa.RecordBatch] = []
        times: dict[str, pa.DataType] = {}
        if self.format == "json" and (guessed := _guessed_times(reader.schema, spelled)):
            handle = self.source.open()
            reader = self._json_reader(self._decompressed(handle), spelled | guessed)
            first = [reader.read_next_batch()]
            times = {name: _time_of(first[0].column(name), kind) for name, kind in guessed.items()}
        wanted = spelled | times
        schema = pa.schema([m.with_type(_timed(m.type, wanted.get(m.name, m.type))) for m in reader.schema])
        return schema, self._text_batches(itertools.chain(first, reader), reader.schema.names, schema, handle)

    @property
    def _readable_types(self) -> Mapping[str, pa.DataType]:
        """The known types that Arrow can read from this format: its reader refuses every file if it is to read another
        one, also a file without that column."""
        known = self.text_format.column_types
        readable = {name: kind for name, kind in known.items() if not self._unknown_in(kind)}
        return {name: pa.string() if is_variant_struct(kind) else kind for name, kind in readable.items()}

    def _unknown_in(self, kind: pa.DataType) -> str | None:
        """What this format has no values of, at any depth of the type. A variant is read as the text of JSON, and one
        inside of a column is not."""
        if self.format == "json" and any(map(pa.types.is_map, _types_in(kind))):
            return "map"
        has_variants = not is_variant_struct(kind) and any(map(is_variant_struct, _types_in(kind)))
        return "variant" if has_variants else None

    @property
    def _variants(self) -> Container[str]:
        """The names of the columns of variants, as a file may have them."""
        known = self.text_format.column_types.items()
        return _AnyCase(fold_name(name) for name, kind in known if is_variant_struct(kind))

    def _with_json(
        self, schema: pa.Schema, batches: Iterable[tuple[pa.RecordBatch, int]]
    ) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]:
        """The texts of variants as texts of JSON, which a column of variants takes."""
        texts = pa.json_(pa.string())
        kinds = [pa.field(c.name, texts) if c.name in self._variants else c for c in schema]
        found = pa.schema(kinds)

        def marked() -> Iterator[tuple[pa.RecordBatch, int]]:
            for batch, done_bytes in batches:
                columns = [
                    pa.ExtensionArray.from_storage(texts, column.cast(pa.string())) if kind.type == texts else column
                    for column, kind in zip(batch.columns, found, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=found), done_bytes

        return found, marked()

    def _check_readable(self, schema: pa.Schema) -> None:
        """Refuse objects of JSON for a map or a variant: Arrow reads them as structs, in which each row has the keys of
        all rows."""
        known = {fold_name(name): (name, kind) for name, kind in self.text_format.column_types.items()}
        for column in schema:
            name, kind = known.get(fold_name(column.name), (column.name, column.type))
            what = self._unknown_in(kind)
            if what and not pa.types.is_null(column.type):
                raise InvalidInputError(
                    f"{self.name}: the column {name!r} has a {what} in the table, which is not read from"
                    f" {self.format.upper()}: write such rows as Parquet, or leave the column out",
                    path=self.name,
                )

    def _spelled_in_file(self, names: Collection[str], optional: Collection[str]) -> dict[str, pa.DataType]:
        """The types of the known columns by the names that the file has for them. The names of a JSON reader have the
        known ones too, whether a row has them or not; an ``optional`` one would be null."""
        spelled = {}
        for name, kind in self._readable_types.items():
            others = [each for each in names if fold_name(each) == fold_name(name) and each != name]
            is_there = name in names and (self.format == "csv" or not others)
            if others and not is_there:
                spelled[others[0]] = kind
            elif name in names or name not in optional:
                spelled[name] = kind
        return spelled

    def _text_batches(
        self, batches: Iterable[pa.RecordBatch], names: Collection[str], schema: pa.Schema, handle: Any
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        rows = 0
        required = {fold_name(name): name for name in schema.names if name in self._required}
        try:
            for batch in batches:
                if required and any(map(_has_nulls, (batch.column(name) for name in required.values()))):
                    self._require_values(required)
                    required = {}
                yield _lined_up(batch, schema), self._passed(handle)
                rows += batch.num_rows
        except pa.ArrowException as error:
            raise self._unreadable(error, rows, names) from None

    @property
    def _required(self) -> Container[str]:
        """The known columns of JSON where a value that is not there is not null."""
        form = self.text_format
        names = form.optional if form.is_whole is None else form.column_types.keys()
        return _AnyCase(map(fold_name, names if self.format == "json" else ()))

    def _require_values(self, required: Mapping[str, str]) -> None:
        """Refuse a row that lacks what other rows have, by the names in lower case: Arrow reads null there.

        Raises InvalidInputError naming the line.
        """
        form = self.text_format
        kinds = {fold_name(name): kind for name, kind in form.column_types.items()}
        with self._decompressed(self.source.open()) as source:
            for number, line in enumerate(io.TextIOWrapper(source, "utf-8"), 1):
                row = _object_of(line)
                if row is None or (form.is_whole is not None and not form.is_whole(row)):
                    continue
                folded = {fold_name(name): value for name, value in row.items()}
                lacking = next((name for key, name in required.items() if key not in folded), None)
                if lacking is None and form.is_whole is not None:
                    parts = (_lacking(folded[key], kinds[key], name) for key, name in required.items())
                    lacking = next(filter(None, parts), None)
                if lacking is not None:
                    why = (
                        "its row replaces a whole row, and would put a null there. Write it, as null if it has no value"
                        if form.is_whole is not None
                        else "others have it, so a null would stand there. Write it, as null if it has no value, or"
                        " leave it out of every line"
                    )
                    raise InvalidInputError(f"{self.name}: line {number:,} lacks {lacking!r}: {why}", path=self.name)

    def _passed(self, handle: Any) -> int:
        """The position in a text file. Arrow reads ahead of the current batch and closes the file at its end."""
        try:
            return min(int(handle.tell()), self.size_bytes)
        except ValueError:
            return self.size_bytes

    def _decompressed(self, handle: Any) -> Any:
        return pa.CompressedInputStream(handle, self.compression) if self.compression else handle

    @property
    def _delimiter(self) -> str:
        return self.text_format.delimiter or ("\t" if ".tsv" in PurePosixPath(self.name).suffixes else ",")

    def _csv_reader(self, source: Any, types: Mapping[str, pa.DataType], only: pa.Field | None = None) -> Any:
        """``only`` is the column of a file with one. Its null is an empty line, which is no row of other files, or
        ``""``, as pandas writes it, unless that is a string."""
        is_text = only is None or not _is_number_or_time(types.get(only.name, only.type))
        return csv.open_csv(
            source,
            read_options=csv.ReadOptions(
                block_size=BLOCK_BYTES,
                use_threads=False,  # otherwise Arrow's errors do not name the row
                column_names=None if self.text_format.has_header else list(self.text_format.column_types),
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=only is None
            ),
            convert_options=csv.ConvertOptions(
                column_types=types,
                null_values=list(self.text_format.null_values),
                decimal_point="," if self.text_format.has_decimal_commas else ".",
                strings_can_be_null=True,
                quoted_strings_can_be_null=not is_text,
            ),
        )

    def _check_csv(self, schema: pa.Schema) -> None:
        """Refuse input that Arrow accepts but nobody intends: one column named ``a;b``, non-UTF-8 text."""
        if (unlike := self._otherwise_separated(schema.names)) is not None:
            raise unlike
        unreadable = [column.name for column in schema if pa.types.is_binary(column.type)]
        if unreadable and unreadable[0] not in self.text_format.column_types:
            raise InvalidInputError(
                f"{self.name}: column {unreadable[0]!r} is not UTF-8: {_AS_UTF8['csv']}",
                path=self.name,
            )

    def _otherwise_separated(self, names: Sequence[str]) -> InvalidInputError | None:
        """The error for a header that is one name by this delimiter and several by another."""
        other = next((mark for mark in ",;\t|" if mark != self._delimiter and mark in "".join(names)), None)
        if len(names) != 1 or other is None:
            return None
        return InvalidInputError(
            f"{self.name}: its columns are separated by {other!r}, but it was read with {self._delimiter!r}: use"
            f" {setting('delimiter', other)}",
            path=self.name,
        )

    def _json_reader(self, source: Any, types: Mapping[str, pa.DataType]) -> Any:
        # Read as strings and cast: Arrow's JSON reader parses no dates, and takes times with a zone and without as one.
        known = pa.schema([(name, _with_times(kind, pa.string())) for name, kind in types.items()])
        return _reader_of_lines(source, known, self._variants if any(name in self._variants for name in types) else ())


class _AnyCase(Container[str]):
    """Names, in any case."""

    def __init__(self, folded: Iterable[str]) -> None:
        self._folded = frozenset(folded)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and fold_name(name) in self._folded


def _reader_of_lines(source: Any, known: pa.Schema, texts: Container[str] = ()) -> pa.RecordBatchReader:
    """Rows of JSON in which the values of the columns ``texts`` are texts: as they are written, so that no digit of a
    number is lost. Lines are read here, block by block, since Arrow's threads may run no code of Python, and since
    Arrow's own reader of files (pyarrow 26) ends the process at a block that begins with null.

    The first block decides about types. Raises ``pa.ArrowInvalid``, also in the reader.
    """
    blocks = _blocks_of_lines(source)

    def parsed(block: bytes, schema: pa.Schema, **options: Any) -> pa.Table:
        if texts:
            try:
                block = b"\n".join(_with_texts(line, texts) for line in block.splitlines() if line.strip())
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise pa.ArrowInvalid(f"JSON parse error: {error}") from None
        if _BEGINS_WITH_NULL.match(block):
            raise pa.ArrowInvalid("JSON parse error: a row is null, and no object")
        return json.read_json(
            pa.BufferReader(block),
            read_options=json.ReadOptions(block_size=max(len(block), 1), use_threads=False),
            parse_options=json.ParseOptions(explicit_schema=schema if len(schema) else None, **options),
        )

    first = parsed(next(blocks, b"").removeprefix(BOM_UTF8), known)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from first.to_batches()
        others = partial(parsed, schema=first.schema, unexpected_field_behavior="error")
        for table in parallel_map(others, blocks, threads=_PARSERS):
            yield from table.to_batches()

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _blocks_of_lines(source: Any) -> Iterator[bytes]:
    """Whole lines, in blocks of about the usual size; a small file is one."""
    rest = b""
    while read := source.read(BLOCK_BYTES - len(rest)):
        rest += bytes(read)
        if len(rest) < BLOCK_BYTES:
            continue
        head, end, rest = rest.rpartition(b"\n")
        if not end:
            raise pa.ArrowInvalid("a row is larger than the block size")
        if head.strip():
            yield head
    if rest.strip():
        yield rest


def _with_texts(line: bytes, texts: Container[str]) -> bytes:
    row = _ROW.decode(line)
    changed = {name: msgspec.Raw(orjson.dumps(bytes(raw).decode())) for name, raw in row.items() if name in texts}
    return msgspec.json.encode({**row, **changed}) if changed else line


_ROW = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _data_file(source: InputFile, file_format: str | None, text_format: TextFormat) -> _DataFile:
    path = PurePosixPath(source.name)
    compression = _COMPRESSION_OF_SUFFIX.get(path.suffix.lower())
    plain = path.with_suffix("") if compression else path
    known = file_format or _FORMAT_OF_SUFFIX.get(plain.suffix.lower())
    if known is None:
        raise InvalidInputError(
            f"{path.name!r} has no known suffix ({', '.join(_FORMAT_OF_SUFFIX)}, and for text also .gz, .bz2 or .zst):"
            " " + advice("the format of files", 'pass format="parquet", "csv" or "json"'),
            path=source.name,
        )
    return _DataFile(source, known, compression, text_format)


def _is_time(kind: pa.DataType | None) -> bool:
    return kind is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _with_times(kind: pa.DataType, time: pa.DataType) -> pa.DataType:
    """The type with all dates and timestamps in it, at any depth, replaced by ``time``."""
    if _is_time(kind):
        return time
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(_with_times(member.type, time)) for member in kind])
    return pa.list_(kind.value_field.with_type(_with_times(kind.value_type, time))) if pa.types.is_list(kind) else kind


def _timed(read: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """The type in which JSON was read, with the dates and timestamps of ``wanted`` for the strings that hold them."""
    if _is_time(wanted) and pa.types.is_string(read):
        return wanted
    if pa.types.is_struct(read) and pa.types.is_struct(wanted):
        known = {member.name: member.type for member in wanted}
        return pa.struct([m.with_type(_timed(m.type, known.get(m.name, m.type))) for m in read])
    if pa.types.is_list(read) and pa.types.is_list(wanted):
        return pa.list_(read.value_field.with_type(_timed(read.value_type, wanted.value_type)))
    return read


def _types_in(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The type, and the types of its parts, at every depth."""
    yield kind
    for place in range(kind.num_fields):
        yield from _types_in(kind.field(place).type)


def _guessed_times(schema: pa.Schema, known: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The columns with timestamps by Arrow's guess, which drops their zones."""
    found = {column.name: column.type for column in schema if column.name not in known}
    return {name: kind for name, kind in found.items() if _with_times(kind, pa.string()) != kind}


def _time_of(texts: pa.Array, guessed: pa.DataType) -> pa.DataType:
    """The type of a column whose times all have a zone, or all have none; strings if they differ."""
    for time in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        with contextlib.suppress(pa.ArrowInvalid):
            texts.cast(_with_times(guessed, time))
            return _with_times(guessed, time)
    return texts.type


def _object_of(line: str) -> dict[str, Any] | None:
    """The object on a line of JSON; None for a line that Arrow has to judge."""
    try:
        found = orjson.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _lacking(value: Any, kind: pa.DataType, name: str) -> str | None:
    """The first field of structs in a value that is not there."""
    if pa.types.is_list(kind) and isinstance(value, list):
        return next(filter(None, (_lacking(each, kind.value_type, name) for each in value)), None)
    if not pa.types.is_struct(kind) or is_variant_struct(kind) or not isinstance(value, dict):
        return None
    for member in kind:
        if member.name not in value:
            return f"{name}.{member.name}"
    return next(filter(None, (_lacking(value[each.name], each.type, f"{name}.{each.name}") for each in kind)), None)


def _has_nulls(column: pa.Array) -> bool:
    if column.null_count:
        return True
    if pa.types.is_struct(column.type):
        return any(map(_has_nulls, column.flatten()))
    return pa.types.is_list(column.type) and _has_nulls(column.flatten())


def _is_number_or_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _lined_up(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(member.name).cast(member.type)
        if member.name in batch.schema.names
        else pa.nulls(batch.num_rows, member.type)
        for member in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
