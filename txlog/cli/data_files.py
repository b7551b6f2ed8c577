"""Parquet, CSV and JSON files as one stream of record batches, for `txlog append` and `txlog create --like`.

In: paths of local files. Out: a reader over all of them in turn, one schema, read a batch at a time; what has been
read is told to a callback in bytes of input. Files whose columns differ are lined up by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from txlog.errors import InvalidInputError

__all__ = ["DataFiles", "TextFormat", "open_data_files"]

BATCH_ROWS = 65_536

_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSION_OF_SUFFIX = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How text is to be understood: the types of the columns known beforehand, and what stands for null in CSV."""

    column_types: Mapping[str, pa.DataType] = field(default_factory=dict)
    null_values: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Input files that exist, whose formats are known and whose columns fit together under ``schema``."""

    files: tuple[_DataFile, ...]
    schema: pa.Schema

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def reader(self, advance: Advance) -> pa.RecordBatchReader:
        """All rows, once; ``advance`` is told how many more bytes of the files have been read.

        A file that turns out unreadable raises ``InvalidInputError`` naming it.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(advance))

    def _batches(self, advance: Advance) -> Iterator[pa.RecordBatch]:
        for file in self.files:
            told = 0
            with file.opened() as (_, batches):
                for batch, done_bytes in batches:
                    yield _lined_up(batch, self.schema)
                    advance(done_bytes - told)
                    told = done_bytes
            advance(file.size_bytes - told)


def open_data_files(
    paths: Sequence[Path], file_format: str | None = None, text_format: TextFormat | None = None
) -> DataFiles:
    """Look at the files: their formats (``file_format``, else by suffix) and columns.

    Raises ``InvalidInputError`` for a file that is none of these or whose columns contradict another's,
    ``OSError`` for one that cannot be opened.
    """
    files = tuple(_data_file(path, file_format, text_format or TextFormat()) for path in paths)
    schemas = []
    for file in files:
        with file.opened() as (schema, _):
            schemas.append(schema)
    try:
        return DataFiles(files, pa.unify_schemas(schemas, promote_options="permissive"))
    except pa.ArrowException as error:
        raise InvalidInputError(f"the files' columns contradict each other: {error}") from None


@dataclass(frozen=True, slots=True)
class _DataFile:
    path: Path
    format: str
    compression: str | None
    size_bytes: int
    text_format: TextFormat

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]]:
        """The columns, and the batches, each with the number of bytes of the file that have been read by then."""
        try:
            # Arrow reads ahead in threads of its own, and one that is in Python code when the program ends aborts it.
            with pa.OSFile(str(self.path)) as handle:
                yield (self._open_parquet if self.format == "parquet" else self._open_text)(handle)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            hint = " (each line must be one JSON object)" if self.format == "json" else ""
            message = f"{self.path} cannot be read as {self.format}{hint}: {error}"
            raise InvalidInputError(message, path=str(self.path)) from None

    def _open_parquet(self, handle: Any) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]:
        import pyarrow.parquet as pq

        parquet = pq.ParquetFile(handle)
        rows_total = parquet.metadata.num_rows

        def batches() -> Iterator[tuple[pa.RecordBatch, int]]:
            rows_done = 0
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
                rows_done += batch.num_rows
                yield batch, self.size_bytes * rows_done // max(1, rows_total)

        return parquet.schema_arrow.remove_metadata(), batches()

    def _open_text(self, handle: Any) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]:
        source = pa.CompressedInputStream(handle, self.compression) if self.compression else handle
        reader = self._csv_reader(source) if self.format == "csv" else self._json_reader(source)
        dates = {name for name, type_ in self.text_format.column_types.items() if pa.types.is_date(type_)}
        schema = pa.schema([pa.field(m.name, pa.date32()) if m.name in dates else m for m in reader.schema])
        return schema, ((_lined_up(batch, schema), self._passed(handle)) for batch in reader)

    def _passed(self, handle: Any) -> int:
        """Text is read ahead of the batch in hand, to the end perhaps: there the reader closes what it reads from."""
        try:
            return min(int(handle.tell()), self.size_bytes)
        except ValueError:
            return self.size_bytes

    def _csv_reader(self, source: Any) -> Any:
        from pyarrow import csv

        nulls = list(self.text_format.null_values)
        tabbed = ".tsv" in self.path.suffixes
        return csv.open_csv(
            source,
            parse_options=csv.ParseOptions(delimiter="\t" if tabbed else ",", newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict(self.text_format.column_types),
                null_values=nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _json_reader(self, source: Any) -> Any:
        from pyarrow import json

        # Arrow's JSON reader takes no text for a date: it is read as text and cast.
        types = self.text_format.column_types
        known = pa.schema([(name, pa.string() if pa.types.is_date(types[name]) else types[name]) for name in types])
        return json.open_json(source, parse_options=json.ParseOptions(explicit_schema=known if types else None))


def _data_file(path: Path, file_format: str | None, text_format: TextFormat) -> _DataFile:
    compression = _COMPRESSION_OF_SUFFIX.get(path.suffix.lower())
    plain = path.with_suffix("") if compression else path
    known = file_format or _FORMAT_OF_SUFFIX.get(plain.suffix.lower())
    if known is None:
        raise InvalidInputError(
            f"{path.name!r} does not say by its suffix what it is; name it with --format parquet, csv or json"
        )
    return _DataFile(path, known, compression, path.stat().st_size, text_format)


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
