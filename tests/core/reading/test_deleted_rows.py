"""Tables with deletion vectors, made by hand: deleted rows stay deleted, and a vector that cannot be read is an
error."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import txlog
from txlog.errors import CorruptLogError

MAGIC = struct.pack("<i", 1681511377)
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
UUID_TEXT = "^-aqEH.-t@S}K{vb[*k^"
"""The uuid in `NAME`, as the protocol's example spells it."""

ROWS = 400_000


def vector_file(*blocks: bytes) -> tuple[bytes, list[int]]:
    """The bytes of a file of deletion vectors, and the offset of each."""
    body, offsets = b"\x01", []
    for bitmap in blocks:
        offsets.append(len(body))
        body += struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
    return body, offsets


def bitmap_of(rows: list[int] | range) -> bytes:
    return MAGIC + bytes(BitMap64(rows).serialize())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data file of several row groups and several batches."""
    root = tmp_path_factory.mktemp("dv")
    data = pa.table({"n": range(ROWS), "g": [number // 100_000 for number in range(ROWS)]})
    txlog.write(root, data.slice(0, 1), properties={"delta.enableDeletionVectors": "true"})
    name = next(root.glob("*.parquet"))
    pq.write_table(data, name, row_group_size=70_000)
    add = txlog.Table.open(root).snapshot().files().to_pylist()[0]
    stats = {"numRecords": ROWS, "minValues": {"n": 0, "g": 0}, "maxValues": {"n": ROWS - 1, "g": 3}}
    stats |= {"nullCount": {"n": 0, "g": 0}, "tightBounds": False}
    log = root / "_delta_log" / f"{0:020}.json"
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    for line in lines:
        line.get("commitInfo", {}).pop("txlog", None)
        if "add" in line:
            line["add"] |= {"size": name.stat().st_size, "stats": orjson.dumps(stats).decode(), "path": add["path"]}
    log.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    return root


@pytest.fixture
def with_vector(made: Path, tmp_path: Path) -> Callable[..., txlog.Table]:
    """The table with a deletion vector in version 1: its descriptor, and the file it stands in."""
    import shutil

    def build(descriptor: dict[str, Any], files: dict[str, bytes] | None = None) -> txlog.Table:
        root = tmp_path / "a table"
        shutil.copytree(made, root)
        for name, body in (files or {}).items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(body)
        log = root / "_delta_log"
        lines = [orjson.loads(line) for line in (log / f"{0:020}.json").read_bytes().splitlines()]
        add = next(line["add"] for line in lines if "add" in line)
        if str(descriptor["pathOrInlineDv"]).startswith("ROOT"):
            descriptor = descriptor | {"pathOrInlineDv": descriptor["pathOrInlineDv"].replace("ROOT", root.as_uri())}
        remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}
        actions = [{"remove": remove}, {"add": add | {"deletionVector": descriptor}}]
        (log / f"{1:020}.json").write_bytes(b"\n".join(map(orjson.dumps, actions)) + b"\n")
        return txlog.Table.open(root)

    return build


def descriptor(bitmap: bytes, offset: int, rows: int, kind: str = "u", text: str = UUID_TEXT) -> dict[str, Any]:
    return {
        "storageType": kind,
        "pathOrInlineDv": text,
        "offset": offset,
        "sizeInBytes": len(bitmap),
        "cardinality": rows,
    }


DEAD = [0, 1, 69_999, 70_000, *range(131_000, 132_000), *range(200_000, 290_000), ROWS - 1]


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        ("u", UUID_TEXT, NAME),
        ("u", "ab" + UUID_TEXT, f"ab/{NAME}"),
        ("p", f"ROOT/{NAME}", NAME),
    ],
)
def test_dead_rows_are_left_out_in_every_row_group_batch_and_projection(
    kind: str, text: str, place: str, with_vector: Callable[..., txlog.Table]
) -> None:
    bitmap = bitmap_of(DEAD)
    body, offsets = vector_file(bitmap_of([5, 6]), bitmap, bitmap_of([7]))
    snapshot = with_vector(descriptor(bitmap, offsets[1], len(DEAD), kind, text), {place: body}).snapshot()
    live = sorted(set(range(ROWS)) - set(DEAD))
    assert snapshot.to_arrow(["n"]).column("n").to_pylist() == live
    assert snapshot.to_arrow().num_rows == len(live)
    assert sum(batch.num_rows for batch in snapshot.to_batches(["g"])) == len(live)
    for condition, expected in (
        ("n = 70000", []),
        ("n = 70001", [70_001]),
        (f"n >= {ROWS - 2}", [ROWS - 2]),
        ("n between 289998 and 290001", [290_000, 290_001]),
        ("g = 2 and n < 290002", [290_000, 290_001]),
    ):
        assert snapshot.to_arrow(["n"], condition).column("n").to_pylist() == expected, condition


def test_a_vector_that_marks_every_row_leaves_no_rows(with_vector: Callable[..., txlog.Table]) -> None:
    bitmap = bitmap_of(range(ROWS))
    body, _ = vector_file(bitmap)
    snapshot = with_vector(descriptor(bitmap, 1, ROWS), {NAME: body}).snapshot()
    assert snapshot.to_arrow().num_rows == 0
    assert snapshot.num_files == 1


BITMAP = bitmap_of([ROWS - 2, ROWS - 1])
BODY = vector_file(BITMAP)[0]


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (None, "missing"),
        (b"", "format version"),
        (b"\x02" + BODY[1:], "format version"),
        (BODY[:-1], "short"),
        (BODY[:20] + b"!" + BODY[21:], "checksum"),
        (BODY[:4] + b"\x7f" + BODY[5:], "bytes, but the log records"),
        (vector_file(bitmap_of([ROWS - 1, ROWS]))[0], f"row {ROWS}"),
    ],
)
def test_a_missing_or_damaged_vector_is_named_and_no_row_comes_back(
    body: bytes | None, reported: str, with_vector: Callable[..., txlog.Table]
) -> None:
    table = with_vector(descriptor(BITMAP, 1, 2), {} if body is None else {NAME: body})
    came: list[int] = []
    with pytest.raises(CorruptLogError, match=reported) as caught:
        came += [batch.num_rows for batch in table.snapshot().to_batches()]
    assert not came
    assert (caught.value.version, caught.value.path) == (1, NAME)
    assert NAME in str(caught.value)
    assert table.snapshot(0).to_arrow().num_rows == ROWS


def test_an_old_version_whose_vector_was_vacuumed_says_so(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", {"n": pa.int64()}, properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"n": range(9)}))
    table.delete("n = 1")
    table.delete("n = 2")
    table.vacuum(0, force=True)
    with pytest.raises(CorruptLogError, match=r"is missing: vacuumed.*If only an old version has it, read a newer"):
        table.snapshot(2).to_arrow()
    assert table.count() == 7


def test_a_vector_of_another_table_is_read_and_a_missing_one_named(
    with_vector: Callable[..., txlog.Table], tmp_path: Path
) -> None:
    (tmp_path / NAME).write_bytes(BODY)
    table = with_vector(descriptor(BITMAP, 1, 2, "p", (tmp_path / NAME).as_uri()))
    assert table.snapshot().to_arrow().num_rows == ROWS - 2
    (tmp_path / NAME).unlink()
    with pytest.raises(CorruptLogError, match="shallow clone") as caught:
        table.snapshot().to_arrow()
    assert caught.value.path == str(tmp_path / NAME)


def test_statistics_of_a_file_with_dead_rows_skip_only_what_no_physical_row_holds(
    with_vector: Callable[..., txlog.Table],
) -> None:
    table = with_vector(descriptor(BITMAP, 1, 2), {NAME: BODY})
    snapshot = table.snapshot()
    assert snapshot.files(f"n > {ROWS}").num_rows == 0
    assert snapshot.files("n is null").num_rows == 0  # a null count of none holds, whatever is dead
    assert snapshot.files(f"n = {ROWS - 1}").num_rows == 1  # may match; only the vector shows that it is dead
    assert snapshot.to_arrow(where=f"n = {ROWS - 1}").num_rows == 0


def test_rows_appended_to_a_table_with_deleted_rows_are_read(
    with_vector: Callable[..., txlog.Table],
) -> None:
    table = with_vector(descriptor(BITMAP, 1, 2), {NAME: BODY})
    table.append(pa.table({"n": [ROWS - 1], "g": [9]}))
    table.create_checkpoint()
    again = txlog.Table.open(table.uri).snapshot()
    assert again.to_arrow(where=f"n = {ROWS - 1}").to_pylist() == [{"n": ROWS - 1, "g": 9}]
    assert again.to_arrow(["n"]).num_rows == ROWS - 1
    result = table.overwrite(pa.table({"n": [7], "g": [7]}))
    assert result.metrics.files_removed == 2
    assert table.snapshot().to_arrow().num_rows == 1
