"""Input files are open for as long as Arrow reads them: its thread reads ahead, and file numbers are used again."""

from __future__ import annotations

import datetime
import gc
import gzip
import io
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.errors import InvalidInputError
from txlog.loading import data_files
from txlog.loading.data_files import InputFile, TextFormat, inspected

_CSV = b"id,name\n" + b"".join(b"%d,n\n" % number for number in range(600_000))
_JSON = b"".join(b'{"id": %d}\n' % number for number in range(400_000))


class _SlowFile(io.BytesIO):
    """Knows how many reads were going on when it was closed. Its reads take longer than it takes to want to close."""

    def __init__(self, text: bytes, reads_at_close: list[int]) -> None:
        super().__init__(text)
        self._reading, self._reads_at_close = 0, reads_at_close

    def read(self, size: int | None = -1) -> bytes:
        self._reading += 1
        time.sleep(0.02)
        try:
            return super().read(size)
        finally:
            self._reading -= 1

    def close(self) -> None:
        self._reads_at_close.append(self._reading)
        super().close()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "BLOCK_BYTES", 1 << 20)


def _input(name: str, text: bytes, reads_at_close: list[int]) -> InputFile:
    return InputFile(name, len(text), lambda: _SlowFile(text, reads_at_close))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("name", "text"), [("rows.csv", _CSV), ("rows.json", _JSON)])
def test_a_file_is_not_closed_while_arrow_reads_ahead_of_what_was_asked_for(name: str, text: bytes) -> None:
    closed: list[int] = []
    reader = inspected([_input(name, text, closed)]).reader(lambda _bytes: None)
    reader.read_next_batch()
    del reader
    assert {*closed} <= {0}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("name", "text"), [("rows.csv", b"oops\n" + _CSV), ("rows.json", b"oops\n" + _JSON)])
def test_a_file_that_fails_is_not_closed_while_arrow_reads_ahead(name: str, text: bytes) -> None:
    closed: list[int] = []
    with pytest.raises(InvalidInputError, match=name):
        inspected([_input(name, text, closed)])
    assert {*closed} <= {0}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the test counts open files as Linux shows them")
@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet", ".csv.gz"])
def test_files_are_closed_when_their_rows_are_read(tmp_path: Path, suffix: str) -> None:
    rows = pa.table({"id": [1, 2, 3]})
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pq.write_table(rows, path)
    elif suffix == ".json":
        path.write_text('{"id": 1}\n{"id": 2}\n{"id": 3}\n')
    else:
        text = b"id\n1\n2\n3\n"
        path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    for _ in range(3):
        file = InputFile(str(path), path.stat().st_size, lambda: pa.OSFile(str(path)))
        assert inspected([file]).reader(lambda _bytes: None).read_all() == rows

    def is_open() -> bool:
        gc.collect()
        links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
        return any(os.path.realpath(link) == str(path) for link in links)

    while is_open():  # a thread of Arrow's may hold the last file for a moment
        time.sleep(0.01)


def _rows(name: str, text: bytes, **text_format: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        inspected([_input(name, text, [])], text_format=TextFormat(**text_format))
        .reader(lambda _bytes: None)
        .read_all()
        .to_pylist()
    )
    return found


@pytest.mark.parametrize("text", [b"n\n1\n\n3\n", b'n\n1\n""\n3\n', b"n\r\n1\r\n\r\n3"])
def test_a_null_of_the_only_column_of_a_csv_file_is_a_row_as_each_library_writes_it(text: bytes) -> None:
    for kind in (pa.int64(), pa.float64(), pa.decimal128(9, 2)):
        assert _rows("a.csv", text, column_types={"N": kind}) == [{"N": 1}, {"N": None}, {"N": 3}]


def test_the_last_line_of_a_csv_file_of_one_column_may_be_null() -> None:
    assert _rows("a.csv", b"n\n1\n\n") == [{"n": 1}, {"n": None}]
    assert _rows("a.csv", b's\nx\n""\n', column_types={"s": pa.string()}) == [{"s": "x"}, {"s": ""}]


def test_an_empty_line_of_a_csv_file_of_several_columns_is_no_row() -> None:
    assert _rows("a.csv", b"\na,b\n1,2\n\n3,4\n\n\n") == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


def test_rows_of_json_have_a_column_that_the_table_fills_in_all_or_none() -> None:
    types, optional = {"id": pa.int64(), "S": pa.string()}, frozenset({"S"})
    assert _rows("a.json", b'{"id": 1}\n{"id": 2}\n', column_types=types, optional=optional) == [{"id": 1}, {"id": 2}]
    both = _rows("a.json", b'{"id": 1, "s": "x"}\n\n{"id": 2, "s": null}\n', column_types=types, optional=optional)
    assert both == [{"id": 1, "S": "x"}, {"id": 2, "S": None}]
    with pytest.raises(InvalidInputError, match="line 3 lacks 's': others have it"):
        _rows("a.json", b'{"id": 1, "s": "x"}\n\n{"id": 2}\n', column_types=types, optional=optional)


ZONED, LOCAL = b"2026-11-20T18:30:00+01:00", b"2026-11-20 18:30:00"
UTC, NAIVE = pa.timestamp("us", "UTC"), pa.timestamp("us")


@pytest.mark.parametrize(("text", "kind"), [(LOCAL, UTC), (ZONED, NAIVE)])
@pytest.mark.parametrize("at", [b'"%s"', b'{"t": "%s"}', b'["%s"]', b'[{"t": "%s"}]'])
def test_a_time_in_json_without_the_zone_that_its_column_has_is_refused_at_every_depth(
    at: bytes, text: bytes, kind: pa.DataType
) -> None:
    of_depth = {
        b'"%s"': kind,
        b'{"t": "%s"}': pa.struct({"t": kind}),
        b'["%s"]': pa.list_(kind),
        b'[{"t": "%s"}]': pa.list_(pa.struct({"t": kind})),
    }[at]
    with pytest.raises(InvalidInputError, match="zone offset"):
        _rows("a.json", b'{"c": ' + at % text + b"}\n", column_types={"c": of_depth})
    other = LOCAL if text == ZONED else ZONED
    (row,) = _rows("a.json", b'{"c": ' + at % other + b"}\n", column_types={"c": of_depth})
    assert "2026, 11, 20, 17, 30" in repr(row) or "2026, 11, 20, 18, 30" in repr(row)


def test_dates_in_json_are_read_at_every_depth_and_unknown_members_stay() -> None:
    text = b'{"c": {"d": "2026-11-20", "more": 1}}\n'
    (row,) = _rows("a.json", text, column_types={"c": pa.struct({"d": pa.date32()})})
    assert row == {"c": {"d": datetime.date(2026, 11, 20), "more": 1}}


@pytest.mark.parametrize(
    ("texts", "kind"), [((ZONED, ZONED), UTC), ((LOCAL, LOCAL), NAIVE), ((LOCAL, ZONED), pa.string())]
)
def test_the_type_of_times_in_json_says_whether_they_have_a_zone(texts: tuple[bytes, bytes], kind: pa.DataType) -> None:
    """Arrow's guess is one type for all of them, which drops the zones."""
    lines = b"".join(b'{"t": "%s", "s": {"l": ["%s"]}}\n' % (text, text) for text in texts)
    schema = inspected([_input("a.json", lines, [])]).schema
    assert schema.field("t").type == kind
    assert schema.field("s").type.field("l").type.value_type == kind


def _of_long_rows(name: str, rows: int) -> InputFile:
    form = '{"text": "%s"}\n' if name.endswith("json") else "%s\n"
    text = "" if name.endswith("json") else "text\n"
    return _input(name, (text + form % ("x" * 3_000_000) * rows).encode(), [])


@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_a_row_of_text_may_have_megabytes(name: str) -> None:
    found = inspected([_of_long_rows(name, 9)]).reader(lambda _bytes: None).read_all()
    assert [len(text) for text in found["text"].to_pylist()] == [3_000_000] * 9


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_a_row_that_is_too_long_for_text_is_refused_by_its_file(name: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{name} has a row of more than 1,048,576 bytes.*as Parquet"):
        inspected([_of_long_rows(name, 2)]).reader(lambda _bytes: None).read_all()
