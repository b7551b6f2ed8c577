"""The net change of a version, whatever its rows hold."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from txlog.core.changes.tasks._net_changes import net_changes

FAR_DAY, FAR_MOMENT = 5_000_000, 400_000_000_000_000_000
"""After the year 9999, which ends Python's own dates."""
DAYS = pa.array([FAR_DAY, 0, FAR_DAY + 1], pa.int32()).cast(pa.date32())
MOMENTS = pa.array([FAR_MOMENT, 0, FAR_MOMENT + 1]).cast(pa.timestamp("us", "UTC"))
OFFSETS = pa.array([0, 1, 2, 3], pa.int32())


@pytest.mark.parametrize(
    "column",
    [
        DAYS,
        MOMENTS,
        pa.StructArray.from_arrays([DAYS, MOMENTS], ["day", "at"]),
        pa.ListArray.from_arrays(OFFSETS, pa.StructArray.from_arrays([MOMENTS], ["at"])),
        pa.MapArray.from_arrays(OFFSETS, pa.array(["a", "b", "c"]), MOMENTS),
    ],
    ids=["days", "moments", "struct", "list of structs", "map"],
)
def test_days_and_moments_of_any_year_cancel_out_at_every_depth(column: pa.Array) -> None:
    def read() -> Iterator[pa.RecordBatch]:
        for places, kind in (([0, 1], "delete"), ([2, 0], "insert")):
            kinds = pa.array([kind] * 2)
            yield pa.record_batch([pa.array(places), column.take(pa.array(places)), kinds], ["id", "v", "kind"])

    found = pa.Table.from_batches(net_changes(read))
    assert found.select(["id", "kind"]).to_pylist() == [{"id": 1, "kind": "delete"}, {"id": 2, "kind": "insert"}]
    assert found.column("v").combine_chunks().equals(column.take(pa.array([1, 2])))
