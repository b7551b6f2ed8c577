"""Kernels take arrays, arrays of several chunks and scalars, and give a scalar only for scalars."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.predicates.terms.arguments import as_arrays, as_given, takes_scalars

SCALAR = pa.scalar(7)
CHUNKS = pa.chunked_array([[1, 2], [None]])


def test_arguments_become_arrays_of_one_length() -> None:
    assert [each.to_pylist() for each in as_arrays([SCALAR, CHUNKS])] == [[7, 7, 7], [1, 2, None]]
    assert [each.to_pylist() for each in as_arrays([SCALAR, SCALAR])] == [[7], [7]]
    assert as_arrays([CHUNKS.slice(0, 0), SCALAR])[1].to_pylist() == []


def test_a_result_is_a_scalar_if_all_arguments_are() -> None:
    assert as_given([SCALAR, SCALAR], pa.array([8])) == pa.scalar(8)
    assert as_given([SCALAR, CHUNKS], pa.array([8, 9, None])).to_pylist() == [8, 9, None]


def test_a_function_of_an_array_takes_all_three_forms() -> None:
    @takes_scalars
    def above(values: pa.Array, least: int, *, by: int = 0) -> pa.Array:
        assert isinstance(values, pa.Array)
        return pc.greater(values, least + by)

    assert above(SCALAR, 6) == pa.scalar(True)
    assert above(CHUNKS, 0, by=1).to_pylist() == [False, True, None]
