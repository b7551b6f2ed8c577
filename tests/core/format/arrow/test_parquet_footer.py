"""Footers that contradict themselves: pyarrow's accessors would end the process, so they are refused before that."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.format.arrow.parquet_footer import check_footer, read_footer

# --- Thrift's compact protocol, written ---------------------------------------------------------------------------

Field = tuple[int, bytes]
"""A value as it stands in a struct: its type, and its bytes."""


def varint(number: int) -> bytes:
    low = bytes([number & 127 | (128 if number > 127 else 0)])
    return low + varint(number >> 7) if number > 127 else low


def number(value: int, wire_type: int = 6) -> Field:
    return wire_type, varint((value << 1) ^ (value >> 63))


def text(value: bytes) -> Field:
    return 8, varint(len(value)) + value


def struct(fields: Mapping[int, Field]) -> Field:
    body, last = b"", 0
    for field in sorted(fields):
        wire_type, value = fields[field]
        is_far = field - last > 15
        body += (bytes([wire_type]) + varint(2 * field) if is_far else bytes([(field - last) << 4 | wire_type])) + value
        last = field
    return 12, body + b"\0"


def several(values: list[Field], wire_type: int | None = None) -> Field:
    assert len(values) < 15
    element = wire_type if wire_type is not None else values[0][0] if values else 12
    return 9, bytes([len(values) << 4 | element]) + b"".join(value for _, value in values)


INT64 = 2
LEAF = struct({1: number(INT64, 5), 3: number(1, 5), 4: text(b"id")})
COLUMN: dict[int, Field] = {
    1: number(INT64, 5),
    2: several([number(0, 5)]),
    3: several([text(b"id")]),
    4: number(0, 5),
    5: number(2),
    6: number(30),
    7: number(30),
    9: number(4),
    12: struct({3: number(0), 5: text(b"\2" + b"\0" * 7), 6: text(b"\1" + b"\0" * 7)}),
    16: struct({3: several([number(0), number(2)])}),
}


def chunk(changes: Mapping[int, Field], outside: Mapping[int, Field] | None = None) -> Field:
    return struct({2: number(0), 3: struct({**COLUMN, **changes}), **(outside or {})})


def row_group(*chunks: Field) -> Field:
    return struct({1: several([*chunks]), 2: number(30), 3: number(2)})


def parquet(*row_groups: Field, has_order: bool = True) -> bytes:
    """A file that is nothing but a footer, of one column ``id``, an INT64 that may be null.

    Without an order of its columns only the bounds under their old names count.
    """
    schema = several([struct({4: text(b"schema"), 5: number(1, 5)}), LEAF])
    fields = {1: number(2, 5), 2: schema, 3: number(2 * len(row_groups)), 4: several([*row_groups])}
    _, body = struct({**fields, 7: several([struct({1: struct({})})])} if has_order else fields)
    return b"PAR1" + body + len(body).to_bytes(4, "little") + b"PAR1"


def checked(body: bytes) -> pq.FileMetaData:
    footer = read_footer(pa.BufferReader(body))
    metadata = pq.ParquetFile(pa.BufferReader(footer)).metadata
    check_footer(footer, metadata)
    return metadata


WHOLE = chunk({})
SHORT = struct({3: number(0), 5: text(b"\2"), 6: text(b"\1")})

# Each is a file that pyarrow opens, and the error for it.
CONTRADICTIONS: dict[str, tuple[bytes, str]] = {
    "more definition levels than the schema has": (
        parquet(row_group(chunk({16: struct({3: several([number(1)] * 3)})}))),
        "3 levels instead of 2",
    ),
    "repetitions of what cannot repeat": (
        parquet(row_group(chunk({16: struct({2: several([number(1)] * 2)})}))),
        "2 levels instead of 1",
    ),
    "a count of string bytes in a column of numbers": (
        parquet(row_group(chunk({16: struct({1: number(7)})}))),
        "has a count of string bytes",
    ),
    "another type than in the schema": (parquet(row_group(chunk({1: number(1, 5)}))), "has another type"),
    "a type that there is not": (parquet(row_group(chunk({1: number(77, 5)}))), "has another type"),
    "bounds shorter than their type": (parquet(row_group(chunk({12: SHORT}))), "shorter than its type"),
    "old bounds shorter than their type": (
        parquet(row_group(chunk({12: struct({1: text(b""), 2: text(b"\1" * 8), 3: number(0)})})), has_order=False),
        "shorter than its type",
    ),
    "a column under a key": (
        parquet(row_group(chunk({}, {8: struct({2: struct({1: several([text(b"id")])})})}))),
        "is encrypted",
    ),
    "a column too many": (parquet(row_group(WHOLE, WHOLE)), "has 2 columns, the schema 1"),
    "no column": (parquet(row_group()), "has 0 columns, the schema 1"),
    "one wrong row group behind whole ones": (
        parquet(row_group(WHOLE), row_group(WHOLE), row_group(chunk({12: SHORT}))),
        "shorter than its type",
    ),
    "a wrong end behind whole ones": (
        parquet(row_group(WHOLE), row_group(WHOLE), row_group(chunk({16: struct({3: several([number(1)] * 3)})}))),
        "3 levels instead of 2",
    ),
    "a list that says it holds something else": (
        parquet(row_group(chunk({2: several([number(0, 5)], 1)}))),
        "has values of type 1 instead of 5",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_footer_that_contradicts_itself_is_refused(name: str) -> None:
    body, reported = CONTRADICTIONS[name]
    with pytest.raises(pa.ArrowInvalid, match=reported):
        checked(body)


def test_the_undamaged_footer_of_these_tests_is_read_with_its_statistics() -> None:
    statistics = checked(parquet(row_group(WHOLE), row_group(WHOLE))).row_group(1).column(0).statistics
    assert (statistics.min, statistics.max, statistics.null_count) == (1, 2, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {12: struct({3: number(0), 5: text(b"")})},  # one bound alone is none
        {16: struct({2: several([], 6), 3: several([], 6)})},
        {16: struct({3: several([], 0)})},
        {14: number(1 << 40), 15: number(9, 5), 300: struct({1: several([several([text(b"new")])])})},
    ],
    ids=["one bound", "no levels", "an empty list of nothing", "fields yet to come"],
)
def test_a_harmless_footer_is_accepted(changes: Mapping[int, Field]) -> None:
    metadata = checked(parquet(row_group(WHOLE), row_group(chunk(changes))))
    assert metadata.row_group(1).column(0).num_values == 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"write_statistics": False},
        {"data_page_version": "2.0", "write_page_index": True, "compression": "zstd"},
        {"version": "1.0", "use_dictionary": False},
        {"use_deprecated_int96_timestamps": True},
    ],
    ids=str,
)
def test_whole_files_pass_with_all_types_and_levels(options: dict[str, object]) -> None:
    values = [{"x": [[1, None], None], "m": {"a": 1}, "t": "ü"}, None, {"x": None, "m": None, "t": None}]
    kind = pa.struct(
        [("x", pa.list_(pa.list_(pa.int8()))), ("m", pa.map_(pa.string(), pa.int64())), ("t", pa.string())]
    )
    columns = {
        "s": pa.array(values, kind),
        "f": pa.array([1.5, None, float("nan")]),
        "b": pa.array([True, None, False]),
        "d": pa.array([1, None, 3]).cast(pa.decimal128(30, 2)),
        "w": pa.array([b"abc", None, b"def"], pa.binary(3)),
        "n": pa.nulls(3, pa.int32()),
        "at": pa.array([1, None, 3], pa.timestamp("us")),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, row_group_size=1, **options)
    assert checked(sink.getvalue()).num_row_groups == 3


@pytest.mark.parametrize("size_bytes", [0, 3, 7, 12])
def test_a_file_too_short_for_a_footer_is_left_to_pyarrow(size_bytes: int) -> None:
    body = b"P" * size_bytes
    assert read_footer(pa.BufferReader(body)) == body


def test_a_footer_longer_than_the_first_read_is_read_whole() -> None:
    columns = {f"{'c' * 90}{at}": pa.array([at]) for at in range(900)}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    assert checked(sink.getvalue()).num_columns == 900


CALLS = """
import sys
import txlog

def report(call):
    try:
        print("answer:", call())
    except txlog.TxlogError as error:
        print(error.kind, error)

table = txlog.Table.open(sys.argv[1])
report(lambda: table.snapshot().to_arrow(where="id > 5"))
report(lambda: txlog.Table.open(sys.argv[2]).snapshot().num_files)
"""


def test_a_contradictory_footer_of_a_data_file_or_checkpoint_raises_a_txlog_error(tmp_path: Path) -> None:
    body = parquet(row_group(WHOLE), row_group(chunk({12: SHORT})))
    data, log = (txlog.Table.create(str(tmp_path / name), pa.schema([("id", pa.int64())])) for name in ("data", "log"))
    data.append(pa.table({"id": [1, 2, 8, 9]}))
    next((tmp_path / "data").glob("*.parquet")).write_bytes(body)
    log.create_checkpoint()
    for path in (tmp_path / "log" / "_delta_log").iterdir():
        if path.name.endswith(".checkpoint.parquet"):
            path.write_bytes(body)
        elif path.is_file() and path.name != "_last_checkpoint":
            path.unlink()
    command = [sys.executable, "-c", CALLS, str(tmp_path / "data"), str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["CorruptLogError", "CorruptLogError"]
    assert all("a bound of column id is shorter than its type" in line for line in lines), lines
