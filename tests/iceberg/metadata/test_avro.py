"""The Avro codec against fastavro: each reads what the other writes, and damage is an error of one kind."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.iceberg.metadata.avro import (
    NULL,
    SOME,
    AvroError,
    encode_bytes,
    encode_long,
    read_container,
    reader_of,
    write_container,
)

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "sample",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "text", "type": ["null", "string"], "default": None},
        {"name": "flag", "type": "boolean"},
        {"name": "ratio", "type": "double"},
        {"name": "single", "type": "float"},
        {"name": "fixed", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "blobs", "type": {"type": "array", "items": "bytes"}},
    ],
}
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.integers(-(2**63), 2**63 - 1),
            "text": st.none() | st.text(),
            "flag": st.booleans(),
            "ratio": st.floats(allow_nan=False),
            "single": st.floats(width=32, allow_nan=False),
            "fixed": st.binary(min_size=4, max_size=4),
            "blobs": st.lists(st.binary(max_size=300), max_size=5),
        }
    ),
    max_size=5,
)


def read_all(body: bytes) -> list[Any]:
    of, found = reader_of(SCHEMA), []
    for count, block in read_container(body).blocks:
        at = 0
        for _ in range(count):
            record, at = of(block, at)
            found.append(record)
        assert at == len(block)
    return found


def written_by_fastavro(records: list[dict[str, Any]], codec: str = "deflate") -> bytes:
    body = io.BytesIO()
    fastavro.writer(body, fastavro.parse_schema(SCHEMA), records, codec=codec)
    return body.getvalue()


@pytest.mark.hypothesis
@given(RECORDS, st.sampled_from(["deflate", "null"]))
def test_what_fastavro_writes_is_read_equal(records: list[dict[str, Any]], codec: str) -> None:
    assert read_all(written_by_fastavro(records, codec)) == records


@pytest.mark.hypothesis
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text()), max_size=20), st.text())
def test_fastavro_reads_what_is_written(records: list[tuple[int, str | None]], extra: str) -> None:
    schema = {"type": "record", "name": "pair", "fields": SCHEMA["fields"][:2]}
    encoded = [
        encode_long(number) + (NULL if text is None else SOME + encode_bytes(text.encode())) for number, text in records
    ]
    body = write_container(json.dumps(schema).encode(), {"own": extra.encode()}, encoded)
    assert [(each["number"], each["text"]) for each in fastavro.reader(io.BytesIO(body))] == records  # type: ignore[index]
    assert read_container(body).header["own"] == extra.encode()


def test_equal_avro_files_have_equal_bytes_and_other_headers_other_sync_markers() -> None:
    schema = {"type": "record", "name": "one", "fields": SCHEMA["fields"][:1]}
    assert write_container(json.dumps(schema).encode(), {}, [b"\2"]) == write_container(
        json.dumps(schema).encode(), {}, [b"\2"]
    )
    assert (
        write_container(json.dumps(schema).encode(), {}, [b"\2"])[-16:]
        != write_container(json.dumps(schema).encode(), {"a": b""}, [b"\2"])[-16:]
    )


@pytest.mark.hypothesis
@given(RECORDS, st.data())
def test_a_damaged_avro_file_raises_an_avro_error_or_gives_other_records(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    body = bytearray(written_by_fastavro(records, "null"))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    try:
        container = read_container(cut)
    except AvroError:
        return
    for count, block in container.blocks:
        at = 0
        try:
            for _ in range(min(count, 100)):
                _, at = reader_of(SCHEMA)(block, at)
        except (AvroError, IndexError, UnicodeDecodeError):
            return


@pytest.mark.parametrize("schema", ["map", ["null", "int", "long"], {"type": "map", "values": "int"}, {"type": "enum"}])
def test_a_type_that_iceberg_does_not_use_is_refused(schema: Any) -> None:
    with pytest.raises(AvroError, match="type"):
        reader_of(schema)
