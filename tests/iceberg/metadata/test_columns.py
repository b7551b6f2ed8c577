"""Many files encoded at once are what each of them is when encoded alone: fastavro decodes both."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.actions import AddFile, Metadata
from txlog.core.format.file_columns import adds_to_batch
from txlog.iceberg.metadata.definition import define
from txlog.iceberg.metadata.file_encoder import FileEncoder, encode_files
from txlog.iceberg.metadata.manifest import entry_schema

TYPES: dict[str, Any] = {
    "tiny": "byte",
    "number": "integer",
    "big": "long",
    "ratio": "double",
    "single": "float",
    "flag": "boolean",
    "text": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "price": "decimal(9,2)",
    "place": {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]},
    "tags": {"type": "array", "elementType": "string", "containsNull": True},
    "part": "string",
    "year": "integer",
}
METADATA = Metadata(
    id="0e0a4a6e-3f0e-4c61-9d11-3f1b6a0a7e11",
    schema_string=json.dumps(
        {
            "type": "struct",
            "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in TYPES.items()],
        }
    ),
    partition_columns=("part", "year"),
    configuration={},
    format={"provider": "parquet"},
)
BOUNDS: dict[str, st.SearchStrategy[Any]] = {
    "tiny": st.integers(-128, 127),
    "number": st.integers(-(2**31), 2**31 - 1),
    "big": st.integers(-(2**63), 2**63 - 1),
    "ratio": st.floats(allow_nan=False, allow_infinity=False) | st.just("Infinity"),
    "single": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "flag": st.booleans(),
    "text": st.text(max_size=8) | st.just("x" * 40 + "\ufffd"),
    "day": st.dates().map(str) | st.just("not a day"),
    "at": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z") | st.just("2024-01-01T00:00:00"),
    "local": st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds")),
    "price": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: number / 100),
    "place": st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9)}),
}
COUNTS = dict.fromkeys([name for name in TYPES if name not in ("tags", "place", "part", "year")], st.integers(0, 12))
STATS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "numRecords": st.integers(0, 10),
        "tightBounds": st.booleans(),
        "minValues": st.fixed_dictionaries({}, optional=BOUNDS),
        "maxValues": st.fixed_dictionaries({}, optional=BOUNDS),
        "nullCount": st.fixed_dictionaries({}, optional=COUNTS),
    },
)


@st.composite
def files(draw: st.DrawFn) -> list[AddFile]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        stats = draw(STATS)
        values = {
            "part": draw(st.sampled_from([None, "a", "b c/%"])),
            "year": draw(st.sampled_from([None, "1999", "2024"])),
        }
        found.append(
            AddFile(
                path=draw(
                    st.sampled_from([f"f{number}.parquet", f"part=b%2520c/f{number}.parquet", f"s3://b/{number}"])
                ),
                partition_values=values,
                size=draw(st.integers(0, 2**40)),
                modification_time=1,
                data_change=True,
                stats=None if stats is None else json.dumps(stats),
                base_row_id=draw(st.none() | st.integers(0, 1000)),
            )
        )
    return found


def decoded(record: bytes, schema: dict[str, Any]) -> dict[str, Any]:
    found = fastavro.schemaless_reader(io.BytesIO(record), schema, None)
    assert isinstance(found, dict)
    for key in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
        found[key] = {pair["key"]: pair["value"] for pair in found[key] or ()}
    return found


@pytest.mark.hypothesis
@pytest.mark.parametrize("format_version", [2, 3])
@given(files())
def test_files_encoded_together_equal_files_encoded_one_by_one(format_version: int, adds: list[AddFile]) -> None:
    definition = define(METADATA, format_version, None)
    encoder = FileEncoder(definition, "file:///t")
    schema = entry_schema(definition.partition, format_version)["fields"][-1]["type"]
    start = 100 if format_version == 3 else None
    found = encode_files(pa.Table.from_batches([adds_to_batch(adds)]), definition, encoder, lambda add: 4, start)
    next_row_id = start
    for add, record, rows in zip(adds, found.records.to_pylist(), found.rows, strict=True):
        alone, count = encoder.data_file(add, lambda add: 4, next_row_id)
        assert decoded(record, schema) == decoded(alone, schema)
        assert rows == count
        if next_row_id is not None:
            next_row_id = max(next_row_id, (next_row_id if add.base_row_id is None else add.base_row_id) + count)
    assert found.next_row_id == next_row_id
    values = [found.partitions[number] for number in found.partition_numbers]
    assert values == [encoder.partition_values(add.partition_values) for add in adds]
