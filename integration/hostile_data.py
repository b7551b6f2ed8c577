"""Parquet data files for a fuzzer: small ones in every encoding and codec, and damage to their bytes.

In: a directory; then, in a child process, a seed and a number. Out: tables of one data file each; the outcome of each
use of a table with a damaged file. The child may not grow beyond `ADDRESS_SPACE_BYTES`, and writes down what it is
about to read, so a crash of the Parquet library differs from an error and can be repeated.
"""

from __future__ import annotations

import datetime
import decimal
import json
import random
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import txlog
from txlog.core.format.actions import AddFile
from txlog.errors import TxlogError

ADDRESS_SPACE_BYTES = 4 << 30
_ROWS = 40

WRITERS: dict[str, dict[str, Any]] = {
    "snappy": {"compression": "snappy"},
    "no dictionary": {"compression": "none", "use_dictionary": False},
    "zstd, small pages": {"compression": "zstd", "data_page_size": 64, "write_batch_size": 8},
    "gzip, pages of version 2": {"compression": "gzip", "data_page_version": "2.0"},
    "lz4, page index": {"compression": "lz4", "write_page_index": True, "write_page_checksum": True},
    "brotli, row groups": {"compression": "brotli", "row_group_size": 7},
    "int96": {"compression": "none", "use_deprecated_int96_timestamps": True},
    "delta encodings": {
        "compression": "none",
        "use_dictionary": False,
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT"},
    },
}


def rows() -> pa.Table:
    """Every kind of column, with nulls."""
    numbers = list(range(_ROWS))
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    columns: dict[str, tuple[Any, pa.DataType]] = {
        "id": (numbers, pa.int64()),
        "name": ([None if n % 7 == 0 else f"name {n % 5}" for n in numbers], pa.string()),
        "x": ([n / 3 for n in numbers], pa.float64()),
        "small": ([n % 3 for n in numbers], pa.int16()),
        "flag": ([n % 2 == 0 for n in numbers], pa.bool_()),
        "raw": ([bytes([n]) * n for n in numbers], pa.binary()),
        "day": ([datetime.date(2026, 1, 1 + n % 28) for n in numbers], pa.date32()),
        "at": ([moment + datetime.timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
        "price": ([decimal.Decimal(n) / 100 for n in numbers], pa.decimal128(20, 2)),
        "tags": ([None if n % 5 == 0 else ["a"] * (n % 4) for n in numbers], pa.list_(pa.string())),
        "of": ([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
        "point": (
            [{"x": n, "in": {"y": [n]}} for n in numbers],
            pa.struct([("x", pa.int32()), ("in", pa.struct([("y", pa.list_(pa.int64()))]))]),
        ),
    }
    return pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


def build_tables(root: Path) -> dict[str, Path]:
    """A table for each of ``WRITERS``, and its one data file by the same name."""
    files = {}
    for name, options in WRITERS.items():
        table = txlog.Table.create(str(root / name), rows().schema)
        files[name] = root / name / "part.parquet"
        pq.write_table(rows(), files[name], **options)
        add = AddFile(
            path="part.parquet",
            partition_values={},
            size=files[name].stat().st_size,
            modification_time=1,
            data_change=True,
        )
        with table.transaction() as transaction:
            transaction.add(add)
    return files


# --- damage -------------------------------------------------------------------------------------------------------


def _flip(body: bytearray, rng: random.Random, start: int, end: int) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        body[rng.randrange(start, end)] ^= 1 << rng.randrange(8)


def _set(body: bytearray, rng: random.Random, start: int, end: int) -> None:
    at, value = rng.randrange(start, end), rng.choice((b"\xff", b"\0", b"\x7f", b"\x80", b"\x01"))
    count = min(rng.choice((1, 2, 4, 9, 40)), end - at)
    body[at : at + count] = value * count


def _number(body: bytearray, rng: random.Random, start: int, end: int) -> None:
    """What may be a length, a count or an offset becomes a large or a negative one."""
    number = rng.choice((b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xfe" + b"\xff" * 8 + b"\x01"))
    at = rng.randrange(start, end)
    body[at : at + rng.choice((1, 2, 3, 5))] = number


def _cut(body: bytearray, rng: random.Random, start: int, end: int) -> None:
    at = rng.randrange(start, end)
    del body[at : at + rng.choice((1, 3, 50, len(body)))]


def _repeat(body: bytearray, rng: random.Random, start: int, end: int) -> None:
    at = rng.randrange(start, end)
    piece = bytes(body[at : at + rng.choice((1, 8, 100))])
    body[at:at] = piece * rng.choice((1, 2, 50))


def _move(body: bytearray, rng: random.Random, start: int, end: int) -> None:
    source, target, count = rng.randrange(start, end), rng.randrange(start, end), rng.choice((2, 8, 60))
    body[target : target + count] = body[source : source + count]


DAMAGE: tuple[Callable[[bytearray, random.Random, int, int], None], ...] = (_flip, _set, _number, _cut, _repeat, _move)


def damage(body: bytes, rng: random.Random) -> bytes:
    """One or two kinds of damage, half of them in the footer, whose length stays right more often than not."""
    tail = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    damaged = bytearray(body)
    for _ in range(rng.choice((1, 1, 2))):
        start, end = rng.choice(((4, tail), (tail, len(body) - 8), (0, len(body))))
        footer_bytes = len(damaged) - 8 - tail
        rng.choice(DAMAGE)(damaged, rng, min(start, len(damaged) - 2), min(end, len(damaged)))
        if len(damaged) > 12 and damaged[-4:] == b"PAR1" and rng.random() < 0.8 and start >= tail:
            grown = len(damaged) - 8 - tail - footer_bytes
            damaged[-8:-4] = max(0, footer_bytes + grown).to_bytes(4, "little")
        if len(damaged) < 12:
            break
    return bytes(damaged)


def damage_footer(body: bytes, rng: random.Random) -> bytes:
    """One to three kinds of damage, all in the footer, whose length stays right."""
    start = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    footer = bytearray(body[start:-8])
    for _ in range(rng.choice((1, 1, 2, 3))):
        if len(footer) > 2:
            rng.choice(DAMAGE)(footer, rng, 0, len(footer))
    return body[:start] + bytes(footer) + len(footer).to_bytes(4, "little") + b"PAR1"


# --- bombs --------------------------------------------------------------------------------------------------------


def footer(depth: int, num_rows: int) -> bytes:
    """A Parquet file of nothing but a footer, as Thrift packs it: one column ``id``, ``depth`` groups deep."""
    root = [b"\x48\x06schema\x15" + _zigzag(1) + b"\0"]
    groups = [b"\x35" + _zigzag(0) + b"\x18\x01a\x15" + _zigzag(1) + b"\0"] * depth
    leaf = [b"\x15" + _zigzag(2) + b"\x25" + _zigzag(0) + b"\x18\x02id\0"]
    elements = root + groups + leaf
    schema = b"\x19\xfc" + _varint(len(elements)) + b"".join(elements)
    body = b"\x15" + _zigzag(1) + schema + b"\x16" + _zigzag(num_rows) + b"\x19\x0c\0"
    return b"PAR1" + body + len(body).to_bytes(4, "little") + b"PAR1"


def _varint(number: int) -> bytes:
    low = bytes([number & 127 | (128 if number > 127 else 0)])
    return low + _varint(number >> 7) if number > 127 else low


def _zigzag(number: int) -> bytes:
    return _varint((number << 1) ^ (number >> 63))


def dictionary(path: Path) -> None:
    """One value of 64 KiB in each of 131,072 rows: eight gigabytes in one batch, and some kilobytes on disk."""
    values = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), 131_072), pa.array(["x" * 65_536]))
    pq.write_table(pa.table({"id": values}), path, store_schema=False)


# --- what is made of it -------------------------------------------------------------------------------------------

USES: dict[str, Callable[[txlog.Table], object]] = {
    "to_arrow": lambda table: table.snapshot().to_arrow(),
    "to_batches": lambda table: [batch.num_rows for batch in table.snapshot().to_batches(columns=["id", "tags"])],
    "no columns": lambda table: sum(batch.num_rows for batch in table.snapshot().to_batches(columns=[])),
    "where": lambda table: table.snapshot().to_arrow(where="id > 3 and name like 'name%' and day > '2026-01-02'"),
    "add_files": lambda table: _added_again(table),
}


def _added_again(table: txlog.Table) -> None:
    """The same file, taken into another table as it is."""
    other = Path(table.uri).parent / "other"
    target = txlog.Table.open(str(other)) if txlog.Table.exists(str(other)) else None
    target = target or txlog.Table.create(str(other), table.snapshot().schema)
    name = f"{target.snapshot().version}.parquet"
    (other / name).write_bytes((Path(table.uri) / "part.parquet").read_bytes())
    target.add_files([name])


def escapes(table: str) -> list[str]:
    """Whatever other than a TxlogError came out of a use of the table."""
    found = []
    for name, use in USES.items():
        try:
            use(txlog.Table.open(table))
        except TxlogError as error:
            str(error)
        except BaseException as error:
            found.append(f"{name}: {type(error).__name__}: {error}")
    return found


def main(root: str, journal: str, seed: int, count: int) -> None:
    """In the child: damage ``count`` files, beginning at ``seed``; escapes are printed as JSON, one line each."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    bodies = {name: (Path(root) / name / "part.parquet").read_bytes() for name in WRITERS}
    for number in range(seed, seed + count):
        rng = random.Random(number)
        name = rng.choice(list(bodies))
        Path(journal).write_text(f"{number}: {name}")
        (Path(root) / name / "part.parquet").write_bytes(rng.choice((damage, damage_footer))(bodies[name], rng))
        for escaped in escapes(str(Path(root) / name)):
            print(json.dumps({"seed": number, "file": name, "escaped": escaped}), flush=True)
        (Path(root) / name / "part.parquet").write_bytes(bodies[name])  # the next child begins with whole files


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
