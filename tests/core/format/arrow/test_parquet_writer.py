"""The writer without ``pyarrow.parquet`` writes the same bytes as pyarrow's own, which takes its place if need be."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.core.format.arrow import parquet_writer

ROWS = pa.table({"id": range(5000), "s": ["a", "b"] * 2500, "n": [[1], None] * 2500, "x": [0.5, None] * 2500})


def written(open_writer: Any, **arguments: Any) -> tuple[bytes, int]:
    sink = pa.BufferOutputStream()
    collected: list[Any] = []
    writer = open_writer(sink, ROWS.schema, metadata_collector=collected, **arguments)
    writer.write_table(ROWS, row_group_size=2000)
    writer.close()
    writer.close()
    (footer,) = collected
    return sink.getvalue().to_pybytes(), footer.num_rows


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"compression": "zstd", "compression_level": 3, "use_dictionary": ["s"], "store_schema": False},
        {"use_dictionary": False, "write_statistics": ["id"], "data_page_size": 4096, "data_page_version": "2.0"},
    ],
    ids=str,
)
@pytest.mark.parametrize("has_compiled", [True, False], ids=["compiled", "without"])
def test_the_bytes_are_those_of_pyarrows_writer(
    arguments: dict[str, Any], has_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_compiled:
        monkeypatch.setattr(parquet_writer, "ParquetWriter", None)
    assert written(parquet_writer.open_writer, **arguments) == written(pq.ParquetWriter, **arguments)


def test_a_compiled_writer_with_other_arguments_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(sink: Any, schema: pa.Schema) -> None:
        raise AssertionError("it takes no more arguments")

    monkeypatch.setattr(parquet_writer, "ParquetWriter", other)
    assert written(parquet_writer.open_writer) == written(pq.ParquetWriter)
