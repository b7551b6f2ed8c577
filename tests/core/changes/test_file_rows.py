"""Rows that come out of data files for row changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks._file_rows import plain_parts


def test_long_text_that_a_dictionary_holds_once_is_given_in_parts() -> None:
    words = ["x" * 1000, "y" * 10, None]
    batch = pa.record_batch(
        {
            "id": pa.array(range(100), pa.int64()),
            "text": pa.array([words[number % 3] for number in range(100)]).dictionary_encode(),
        }
    )
    positions = np.arange(100, dtype=np.int64) * 2
    parts = list(plain_parts(positions, batch, part_bytes=8_000))
    assert len(parts) > 4
    assert all(part.column("text").nbytes < 9_000 for _, part in parts)
    assert np.array_equal(np.concatenate([here for here, _ in parts]), positions)
    whole = pa.Table.from_batches([part for _, part in parts])
    assert whole.schema.types == [pa.int64(), pa.string()]
    assert whole.to_pylist() == pa.Table.from_batches([batch]).to_pylist()


def test_text_that_fits_comes_in_one_piece() -> None:
    batch = pa.record_batch({"text": pa.array(["a", None, "a"]).dictionary_encode()})
    ((positions, part),) = plain_parts(np.arange(3, dtype=np.uint64), batch)
    assert positions.tolist() == [0, 1, 2]
    assert part.column("text").to_pylist() == ["a", None, "a"]
