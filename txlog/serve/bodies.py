"""The body of a request as rows: JSON lines or an array, CSV, or an Arrow stream.

In: bytes from anybody. Out: one record batch, or an error that says which line is wrong. Nothing here may crash, or use
more memory than a few times the body.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson
import pyarrow as pa

import txlog
from txlog.core.format.schema import Primitive, to_arrow, types_in
from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.extend import Point, computed_names, open_table_of
from txlog.serve.batches import How, TooLargeError, message_of
from txlog.serve.service import COLUMNS_MAX, Lines

FORMATS: Mapping[str, str] = {
    "application/x-ndjson": "json",
    "application/ndjson": "json",
    "application/jsonl": "json",
    "application/json": "json",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
}
"""The content types that are taken. A page in a browser cannot send them to another site without being allowed to, but
for none of the types of forms."""

_APPENDS = How()
_NAME = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
_NULL_LINE = re.compile(rb"^(?:\xef\xbb\xbf)?[ \t\r]*n", re.MULTILINE)
_BLOCK_BYTES = 4 << 20
"""The reader finds out about columns by so many bytes."""
_ARRAY_BYTES = 4 << 20
"""A small element costs a hundred times its bytes while an array is taken apart."""
_VALUES_MAX = 16 << 20
LINES_MAX = 20_000
"""Lines that may be looked at one by one: each costs a thousand times the memory and the time of its bytes."""

_READERS: Point[Any] = Point("txlog.data_files", "what reads")


def rows_in(
    body: bytes, kind: str, table: txlog.Table, *, how: How = _APPENDS, sets_aside: bool
) -> tuple[pa.RecordBatch, Lines | None]:
    """The rows of a body of one of the `FORMATS`.

    Args:
        body: The bytes.
        kind: The format.
        table: The table, whose types text is read as.
        how: What the rows do to the table. In an upsert, a row of JSON has all columns unless it deletes.
        sets_aside: Whether lines of JSON that are no rows are set aside, in place of an error.

    Returns:
        The rows, and which lines they come from if some were set aside.

    Raises:
        InvalidInputError: The body is no such text or stream; the message names the line.
    """
    if kind == "arrow":
        return _arrow(body), None
    if kind == "json":
        body = _as_lines(body, is_strict=not sets_aside)
    _require_few_columns(body, kind, table)
    if not body.strip():
        return pa.RecordBatch.from_pylist([], pa.schema([])), None
    try:
        return _text(body, kind, table, how), None
    except InvalidInputError:
        if kind != "json" or not sets_aside:
            raise
    return _lines(body, table)


def _as_lines(body: bytes, *, is_strict: bool) -> bytes:
    """JSON lines of a JSON array of objects, or of one object over several lines; lines as they are. ``is_strict``:
    what begins as an array, and is none, is refused, and not taken for lines."""
    first = body.lstrip()[:1]
    if first not in (b"[", b"{") or (first == b"{" and b"\n" not in body.strip()):
        return body
    if first == b"[" and len(body) > _ARRAY_BYTES:
        raise TooLargeError(
            f"a JSON array may have {_ARRAY_BYTES:,} bytes: send more rows as JSON lines, an object a line, with"
            " Content-Type: application/x-ndjson"
        )
    try:
        values: list[Any] = (
            msgspec.json.decode(body, type=list[msgspec.Raw])
            if first == b"["
            else [msgspec.json.decode(body, type=msgspec.Raw)]
        )
    except (msgspec.DecodeError, RecursionError) as error:
        if first == b"[" and is_strict:
            raise InvalidInputError(f"the body begins as a JSON array, but is not one: {error}") from None
        return body
    if b"\n" in body or b"\r" in body:
        return b"\n".join(bytes(value).replace(b"\n", b" ").replace(b"\r", b" ") for value in values)
    return b"\n".join(values)


def _require_few_columns(body: bytes, kind: str, table: txlog.Table) -> None:
    """Refuse text that stands for very many values: each line gets a null for each name that only other lines have.

    The columns are those of the first block of lines: what has other names later is refused anyway.
    """
    if kind == "csv":
        lines, names = 1, 1 + body.partition(b"\n")[0].count(b",")
    else:
        block = body[:_BLOCK_BYTES]
        lines, names = 1 + block.count(b"\n"), block.count(b":")
        if names > COLUMNS_MAX or names * lines > _VALUES_MAX:  # of values too, so far
            types = types_in(open_table_of(table).known_state().schema)
            if any(isinstance(kind, Primitive) and kind.facts.by_package for kind in types):
                return  # the text of such a value has any names
            names = len({*_NAME.findall(block)})
    if names > COLUMNS_MAX or names * lines > _VALUES_MAX:
        raise TooLargeError(
            f"the body has {names:,} names of columns, and {lines:,} lines with a value for each: the service takes"
            f" {COLUMNS_MAX:,} columns, and {_VALUES_MAX:,} values in {_BLOCK_BYTES:,} bytes of text"
        )


def _text(body: bytes, kind: str, table: txlog.Table, how: How = _APPENDS) -> pa.RecordBatch:
    null = _NULL_LINE.search(body) if kind == "json" else None
    if null is not None:  # pyarrow 26 ends the process if a block of lines begins so
        line = body.count(b"\n", 0, null.end())
        raise InvalidInputError(f"the rows: row {line:,}, counting from 0, is null, not a JSON object")
    state = open_table_of(table).known_state()
    schema = state.schema
    # A merge engine says itself what a null means.
    is_plain = how.mode == "upsert" and "txlog.merge-engine" not in state.metadata.configuration
    found = _READERS.load("bytes", "a request with rows")(
        body,
        kind,
        column_types={member.name: member.type for member in to_arrow(schema)},
        optional=computed_names(schema),
        replacing=(how.row_kind, None) if is_plain else None,
    )
    with found.reader(lambda size: None) as reader:
        return _one(reader.read_all())


def _lines(body: bytes, table: txlog.Table) -> tuple[pa.RecordBatch, Lines]:
    """The rows of the lines that are rows, each read alone, and the other lines."""
    good: list[bytes] = []
    numbers: list[int] = []
    refused: dict[int, tuple[str, str]] = {}
    lines = body.splitlines()
    if len(lines) > LINES_MAX:
        raise InvalidInputError(
            f"the body has {len(lines):,} lines, some of which are not rows: each must be looked at separately, so"
            f" send at most {LINES_MAX:,} at a time"
        )
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            if not isinstance(orjson.loads(line), dict):
                raise InvalidInputError("the line is not a JSON object")
            _text(line, "json", table)
        except (InvalidInputError, orjson.JSONDecodeError) as error:
            message = message_of(error) if isinstance(error, InvalidInputError) else f"the line is not JSON: {error}"
            refused[number] = message, line.decode(errors="replace")
            continue
        good.append(line)
        numbers.append(number)
    rows = _text(b"\n".join(good), "json", table) if good else pa.RecordBatch.from_pylist([], pa.schema([]))
    return rows, Lines(numbers, refused)


def _arrow(body: bytes) -> pa.RecordBatch:
    try:
        for message in _messages(body):
            if _is_compressed(message):
                raise UnsupportedFeatureError(
                    "compressed Arrow buffers are not accepted over HTTP, since a few bytes can expand to very many:"
                    " send them as they are, or use Arrow Flight"
                )
        with pa.ipc.open_stream(body) as reader:
            return _one(reader.read_all())
    except (pa.ArrowException, OSError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the body is not an Arrow stream: {error}") from None


def _one(rows: pa.Table) -> pa.RecordBatch:
    rows.validate(full=True)
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def _messages(body: bytes) -> Iterator[bytes]:
    """The metadata of each message of a stream. Arrow columnar format, "IPC Streaming Format"."""
    reader = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            yield reader.read_next_message().metadata.to_pybytes()
        except StopIteration:
            return


def _is_compressed(message: bytes) -> bool:
    """Whether the buffers of a message are compressed: ``Message.fbs``, read by hand, as pyarrow does not tell."""
    root = struct.unpack_from("<I", message)[0]
    kind_at, header_at = _field(message, root, 1), _field(message, root, 2)
    kind = message[kind_at] if kind_at else 0
    if kind not in (2, 3) or not header_at:  # a dictionary, or rows
        return False
    header = header_at + struct.unpack_from("<I", message, header_at)[0]
    if kind == 2:
        data_at = _field(message, header, 1)
        header = data_at + struct.unpack_from("<I", message, data_at)[0]
    return _field(message, header, 3) != 0


def _field(message: bytes, table: int, slot: int) -> int:
    """Where a field of a flatbuffers table is; 0 if the table lacks it."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, vtable)[0]
    at = 4 + 2 * slot
    offset = struct.unpack_from("<H", message, vtable + at)[0] if at + 2 <= size else 0
    return table + offset if offset else 0
