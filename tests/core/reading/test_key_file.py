"""The bytes of a key index file: what is found in them is what a search of the keys finds, and damage is noticed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog.core.reading._key_file import DamagedKeyFileError, KeyFileHeader, KeyIndexFile, key_file_bytes
from txlog.core.reading._key_values import FileKeys, KeyNumbers, KeyValues

HEADER = KeyFileHeader(((("id",), "long"),), {"day": None}, 10**6, b"footer", b"secret")
KEYS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), max_size=3000)


def opened(body: bytes) -> KeyIndexFile:
    return KeyIndexFile.opened(pa.BufferReader(body))


def stored(keys: list[int]) -> bytes:
    sorted_keys = FileKeys.of(("f", 1, 1), KeyValues(np.array(keys, np.int64), None), np.arange(len(keys)))
    return key_file_bytes(HEADER, sorted_keys.values, sorted_keys.positions)


@given(KEYS, KEYS)
def test_the_blocks_near_a_key_have_every_row_of_it(keys: list[int], others: list[int]) -> None:
    file = opened(stored(keys))
    wanted = np.unique(np.array([*keys[:20], *others[:20]], np.int64))
    values, positions = file.near(wanted)
    assert (values.numbers[1:] >= values.numbers[:-1]).all()
    found = {(number, at) for number, at in zip(values.numbers.tolist(), positions.tolist(), strict=True)}
    assert all(keys[at] == number for number, at in found)
    assert {(key, at) for at, key in enumerate(keys) if key in {*wanted.tolist()}} <= found
    everything, all_positions = file.near(None)
    assert everything.numbers.tolist() == sorted(keys)
    assert sorted(all_positions.tolist()) == [*range(len(keys))]
    assert replace(file.header, num_keys=0, firsts=b"", checksums=b"", is_signed=True) == HEADER


def test_fingerprints_come_back_whole() -> None:
    numbers = KeyNumbers([pa.string(), pa.int64()], b"0123456789abcdef")
    values, _ = numbers.of([pa.array([f"k{number}" for number in range(2000)]), pa.array(range(2000))])
    keys = FileKeys.of(("f", 1, 1), values, np.arange(2000))
    found, positions = opened(key_file_bytes(HEADER, keys.values, keys.positions)).near(None)
    assert found.second is not None
    assert keys.values.second is not None
    assert found.numbers.tolist() == keys.values.numbers.tolist()
    assert found.second.tolist() == keys.values.second.tolist()
    assert positions.tolist() == keys.positions.tolist()


def test_every_changed_byte_and_every_cut_is_noticed() -> None:
    body = stored([*range(0, 3000, 7)])
    for at in range(len(body)):
        changed = bytearray(body)
        changed[at] ^= 1 << (at % 8)
        with pytest.raises(DamagedKeyFileError):
            opened(bytes(changed)).near(None)
    for length in range(0, len(body), 13):
        with pytest.raises(DamagedKeyFileError):
            opened(body[:length]).near(None)
    with pytest.raises(DamagedKeyFileError):
        opened(body + b"x").near(None)


def test_a_position_that_the_data_file_does_not_have_is_noticed() -> None:
    body = key_file_bytes(replace(HEADER, num_rows=3), KeyValues(np.arange(4), None), np.arange(4, dtype=np.uint32))
    with pytest.raises(DamagedKeyFileError, match="does not have"):
        opened(body).near(np.array([2]))


def test_a_search_reads_the_header_and_the_blocks_it_needs() -> None:
    class Counted(pa.BufferReader):
        read_bytes = 0

    body = Counted(stored([*range(200_000)]))
    file = KeyIndexFile.opened(body)
    reads: list[int] = []

    class Noted:
        def size(self) -> int:
            return body.size()

        def read_at(self, length: int, at: int) -> bytes:
            reads.append(length)
            return bytes(body.read_at(length, at))

    values, _ = replace(file, body=Noted()).near(np.array([5, 6, 150_000]))
    assert {5, 6, 150_000} <= {*values.numbers.tolist()}
    assert len(reads) == 2
    assert sum(reads) < 20_000
