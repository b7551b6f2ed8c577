"""Arrow's Parquet writer without ``pyarrow.parquet``, whose import takes a fresh process as long as its first append.

In: a sink, a schema and the arguments of ``pyarrow.parquet.ParquetWriter``. Out: a writer with the same methods. A
version of pyarrow that has no such compiled writer, or another one, gets its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

try:
    from pyarrow._parquet import ParquetWriter
except ImportError:
    ParquetWriter = None

if TYPE_CHECKING:
    from txlog.core.format.arrow.parquet_annotations import AnnotatingSink

_ARGUMENTS: dict[str, Any] = {
    "version": "2.6",
    "compression": "snappy",
    "writer_engine_version": "V2",
    "data_page_version": "1.0",
    "use_compliant_nested_type": True,
    "use_deprecated_int96_timestamps": False,
}
"""What ``ParquetWriter`` passes to the compiled writer if its caller says nothing else."""


class _Writer:
    """Writes tables of one schema. The footer is in ``metadata_collector`` at the end."""

    def __init__(self, compiled: Any, metadata_collector: list[Any]) -> None:
        self._compiled = compiled
        self.write_table = compiled.write_table
        self._collected = metadata_collector
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._compiled.close()
            self._collected.append(self._compiled.metadata)


class _AnnotatedWriter:
    """A writer whose file has annotations that pyarrow does not write."""

    def __init__(self, writer: Any, sink: AnnotatingSink) -> None:
        self._writer, self._sink = writer, sink
        self.write_table = writer.write_table

    @property
    def is_open(self) -> bool:
        return bool(self._writer.is_open)

    @is_open.setter
    def is_open(self, value: bool) -> None:
        self._writer.is_open = value

    def close(self) -> None:
        if self.is_open:
            self._sink.hold()
            self._writer.close()
            self._sink.release()


def open_writer(sink: Any, schema: pa.Schema, metadata_collector: list[Any], **arguments: Any) -> Any:
    """A ``ParquetWriter``: `write_table`, `close` and ``is_open``. Raises OSError, pa.ArrowException."""
    if any(pa.types.is_nested(member.type) for member in schema):
        from txlog.core.format.arrow.parquet_annotations import AnnotatingSink, annotated_groups

        groups = annotated_groups(schema)
        if groups:
            annotating = AnnotatingSink(sink, groups)
            return _AnnotatedWriter(
                _plain_writer(pa.PythonFile(annotating, mode="w"), schema, metadata_collector, arguments), annotating
            )
    return _plain_writer(sink, schema, metadata_collector, arguments)


def _plain_writer(sink: Any, schema: pa.Schema, metadata_collector: list[Any], arguments: dict[str, Any]) -> Any:
    if ParquetWriter is not None:
        try:
            compiled = ParquetWriter(sink, schema, **{**_ARGUMENTS, **arguments})
            return _Writer(compiled, metadata_collector)
        except TypeError:  # another version's arguments
            pass
    from txlog.core.format.arrow.parquet import pq

    return pq.ParquetWriter(sink, schema, metadata_collector=metadata_collector, **arguments)
