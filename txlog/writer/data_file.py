"""One Parquet data file: how its columns are encoded, and how it becomes pending.

In: tables of the file's schema, one row group each. Out: a `PendingFile` whose statistics come from the footer just
written, without a second pass. This module knows nothing about threads, rolling and names. PROTOCOL.md, "Data Files".
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from txlog.errors import StorageError
from txlog.protocol.statistics import FileLeaf, FileStatistics, StatisticsPolicy
from txlog.store.base import FileStore, OutputFile
from txlog.writer.committable import FileTail, PendingFile
from txlog.writer.dictionary import DICTIONARY_PAGE_BYTES

__all__ = ["DataFileWriter", "FileFormat"]

SMALL_CHUNK_ROWS = 2_048
"""Chunks smaller than this on average are joined first, which costs less than encoding each."""


class FileFormat(msgspec.Struct, frozen=True):
    """The settings that all files of one task share. ``schema`` has no partition columns; ``leaves`` get
    ``statistics``.

    ``columns`` are the table's column names, which differ from the file's if the table maps its columns.
    """

    schema: pa.Schema
    compression: str
    statistics: StatisticsPolicy
    leaves: tuple[FileLeaf, ...]
    columns: tuple[str, ...]
    is_mapped: bool = False

    def labelled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of ``columns`` under the file's names, including nested ones; nothing is copied."""
        return pa.record_batch(_Labelled(batch, self.schema)) if self.is_mapped else batch


class _Labelled(msgspec.Struct, frozen=True):
    """A batch passed through Arrow's C interface with a schema that differs only in names."""

    batch: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self.schema.__arrow_c_schema__(), self.batch.__arrow_c_array__()[1]


class DataFileWriter:
    """Writes one file. Readers see nothing before `finish`, and nothing after `abort`.

    With ``in_one_piece``, the encoded bytes wait in memory and go to the store together, so a small file is a single
    write, and no handle stays open meanwhile.
    """

    def __init__(
        self,
        files: FileStore,
        path: str,
        file_format: FileFormat,
        partition_values: dict[str, str | None],
        dictionary: tuple[str, ...],
        *,
        in_one_piece: bool = False,
    ) -> None:
        from txlog.arrow.parquet import pq

        self._files = files
        self._path = path
        self._partition_values = partition_values
        self._statistics = FileStatistics(file_format.statistics, file_format.leaves)
        self._collected: list[Any] = []
        self._output: OutputFile | None = None if in_one_piece else files.create(path)
        self._sink = pa.BufferOutputStream() if self._output is None else _arrow_sink(self._output)
        try:
            self._writer = pq.ParquetWriter(
                self._sink,
                file_format.schema,
                compression=file_format.compression,
                use_dictionary=list(dictionary) or False,
                dictionary_pagesize_limit=DICTIONARY_PAGE_BYTES,
                store_schema=False,
                metadata_collector=self._collected,
            )
        except BaseException as error:
            if self._output is not None:
                self._output.abort()
            if isinstance(error, OSError):
                raise self._not_stored(error) from error
            raise
        self.num_rows = 0

    @property
    def size_bytes(self) -> int:
        """Encoded bytes so far, without the footer and an unfinished row group."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Append rows as one row group."""
        chunks = table.column(0).num_chunks
        if chunks > 1 and table.num_rows < chunks * SMALL_CHUNK_ROWS:
            table = table.combine_chunks()
        self._statistics.observe(table)
        try:
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        except OSError as error:
            raise self._not_stored(error) from error
        self.num_rows += table.num_rows

    def finish(self) -> PendingFile:
        """Close and publish: the bytes are durable under the final name. Raises StorageError."""
        try:
            self._writer.close()
        except OSError as error:
            raise self._not_stored(error) from error
        footer = self._collected[0]
        if footer.num_rows != self.num_rows:
            raise StorageError(
                f"{self.num_rows} rows were written but the footer says {footer.num_rows}: the file was not published",
                path=self._path,
            )
        stats = self._statistics.finish(footer)
        tail = None
        if self._output is None:
            encoded = self._sink.getvalue()
            meta = self._files.write(self._path, encoded)
            tail = FileTail.of(encoded)
        else:
            meta = self._output.publish()
        return PendingFile(
            path=self._path,
            size_bytes=meta.size,
            num_rows=self.num_rows,
            modified_ms=meta.modified_ms,
            partition_values=self._partition_values,
            stats=stats,
            _tail=tail,
        )

    def abort(self) -> None:
        """Remove the file: no readable file stays. Never raises."""
        if self._output is not None:
            self._output.abort()
        # a writer that is garbage-collected while open would write its footer into the sink
        self._writer.is_open = False

    def _not_stored(self, error: OSError) -> StorageError:
        """The error to raise. Arrow reports a full or broken disk as the operating system does."""
        why = error.strerror or error
        return StorageError(
            f"could not write {self._path}: {why}. No commit names it; fix the cause and run it again", path=self._path
        )


def _arrow_sink(output: OutputFile) -> Any:
    """Arrow's own file, which knows its position; a Python file is wrapped."""
    sink = output.sink
    return sink if isinstance(sink, pa.NativeFile) else pa.PythonFile(sink, mode="w")
