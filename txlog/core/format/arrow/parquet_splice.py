"""A Parquet file made from the encoded column chunks of another one, with new chunks in place of some: nothing else is
decoded.

In: the footer of the old file, and row groups encoded anew. Out: which bytes of which source follow each other in the
new file, and its footer. Pure: the caller moves the bytes. The new file has the old one's schema, ``created_by`` and
order of bounds, by which readers judge statistics; sizes, places and counts are its own. Page indexes are left out, and
so are key-value pairs that may count rows or sum up values. What this module does not understand it refuses, and then
the caller decodes the rows. parquet-format: ``parquet.thrift`` (its structs are named below) and ``BloomFilter.md``.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from txlog.core.format.arrow.parquet_thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    NOTHING,
    STRUCT,
    TRUE,
    ThriftStruct,
    put_struct,
    read_struct,
    structs,
)

MAGIC = b"PAR1"
"""Begins and ends a file, "File format". A file whose footer is encrypted ends in ``PARE``."""

_FOOTER_MAX_BYTES = 1 << 20  # some ten thousand column chunks: Python would take too long for more
_GROUPS_MAX = 1 << 15  # ``RowGroup.ordinal`` is an i16
_KEPT_PAIRS = (b"ARROW:schema", b"org.apache.spark.")
"""Key-value pairs about the types of columns, and about the calendar of their dates; row changes keep both."""

_SHORT_CHUNKS = (b"parquet-mr version 1.0", b"parquet-mr version 1.1.", b"parquet-mr version 1.2.")
"""Until 1.2.9, this writer counted a chunk's bytes without the header of its dictionary page (PARQUET-816)."""


class Piece(NamedTuple):
    """Bytes of the old file, or of the row group that was encoded anew: the pages of a chunk with ``num_values``, or
    another part of the file (None)."""

    is_old: bool
    start: int
    length: int
    num_values: int | None


class Splice:
    """The new file so far: each row group of the old one is passed on, replaced or left out, in order."""

    def __init__(self, footer: ThriftStruct, groups: Sequence[ThriftStruct]) -> None:
        self._footer = footer
        self._old = groups
        self._new: list[ThriftStruct] = []
        self._at = len(MAGIC)

    @classmethod
    def of(cls, tail: bytes, file_bytes: int) -> Splice | None:
        """Begin with the old file, of which ``tail`` is the end with the whole footer. None if it is not understood.

        ``tail`` has passed ``check_footer``.
        """
        footer = footer_of(tail)
        if footer is None or not {2, 3, 4} <= footer.keys() or {8, 9} & footer.keys():  # FileMetaData: encrypted
            return None
        if footer.get(6, (BINARY, b""))[1].startswith(_SHORT_CHUNKS):
            return None
        groups = structs(footer[4])
        end = file_bytes - 8 - int.from_bytes(tail[-8:-4], "little")
        chunks = [chunk for group in groups for chunk in structs(group[1])]
        if len(groups) >= _GROUPS_MAX or not all(map(_is_plain, chunks)) or not _are_apart(chunks, end):
            return None
        return cls(footer, groups)

    @property
    def num_rows(self) -> int:
        return sum(group[3][1] for group in self._new)

    def chunk(self, group: int, leaf: int) -> tuple[ThriftStruct, int, int]:
        """``ColumnMetaData`` of a leaf in a row group of the old file; where its pages begin, and their bytes."""
        found = structs(self._old[group][1])[leaf]
        return (found[3][1], *_span(found))

    def pass_on(self, group: int) -> Iterator[Piece]:
        """The next row group is one of the old file, as it is. All pieces have to be taken."""
        return self._append(self._old[group], iter(()))

    def replace(self, group: int, parts: Iterable[tuple[ThriftStruct, Sequence[int]]]) -> Iterator[Piece]:
        """The next row group is one of the old file, with chunks of other files as some of its leaves, or as all.

        Each part is the footer of a file with one row group, and the leaves that its chunks are. With all leaves, it
        may have another number of rows. If there are several parts, they are all leaves in order, without bloom
        filters. What a leaf holds and how deep it is nested must be the same; the names of lists' elements may differ.
        All pieces have to be taken; the next part is not before those of the last one are.
        """
        return self._append(self._old[group], iter(parts))

    def finish(self) -> bytes:
        """The end of the new file: its footer, the length of that, and the magic."""
        footer = {**self._footer, 3: (I64, self.num_rows), 4: (LIST, (STRUCT, self._new))}
        kept = [pair for pair in structs(footer.pop(5, NOTHING)) if pair[1][1].startswith(_KEPT_PAIRS)]
        if kept:
            footer[5] = (LIST, (STRUCT, kept))
        return tail_of(footer)

    def _append(self, base: ThriftStruct, parts: Iterator[tuple[ThriftStruct, Sequence[int]]]) -> Iterator[Piece]:
        """A row group with the chunks of ``base``, or those of the ``parts``."""
        fresh: dict[int, ThriftStruct] = {}
        filters: list[Piece] = []
        chunks: list[dict[int, Any]] = []
        at, total_bytes, num_rows = self._at, 0, base[3]
        for leaf, old in enumerate(structs(base[1])):
            for footer, leaves in itertools.islice(parts, 0 if leaf in fresh else 1):
                group = structs(footer[4])[0]
                assert not fresh or group[3] == num_rows
                num_rows = group[3]
                fresh |= zip(leaves, structs(group[1]), strict=True)
            chunk = fresh.get(leaf, old)
            start, length = _span(chunk)
            metadata = _moved(chunk[3][1], at - start) | {3: old[3][1][3]}
            yield Piece(chunk is old, start, length, metadata[5][1])
            at, total_bytes = at + length, total_bytes + metadata[6][1]
            # ColumnChunk: 2 must be 0 if the metadata are in the footer only; 4 to 7 are the page index.
            chunks.append({2: (I64, 0), 3: (STRUCT, metadata)})
        assert num_rows == base[3] or len(fresh) == len(chunks)
        group_bytes = at - self._at
        for leaf, old in enumerate(structs(base[1])):
            bits = _bloom_filter(fresh.get(leaf, old)[3][1])
            if bits is not None:  # BloomFilter.md: between row groups, or after all of them
                chunks[leaf][3][1].update({14: (I64, at), 15: (I32, bits[1])})
                filters.append(Piece(leaf not in fresh, *bits, None))
                at += bits[1]
        # RowGroup: the order of its rows (4) is known of the old values only.
        kept = {field: value for field, value in base.items() if field != 4 or not fresh}
        self._new.append(
            {
                **kept,
                1: (LIST, (STRUCT, chunks)),
                2: (I64, total_bytes),
                3: num_rows,
                5: (I64, self._at),
                6: (I64, group_bytes),
                7: (I16, len(self._new)),
            }
        )
        self._at = at
        yield from filters


def set_bounds(footer: ThriftStruct, leaf: int, null_count: int, low: bytes | None, high: bytes | None) -> None:
    """Put the statistics of a leaf into the footer of a file with one row group. Statistics: 3, 5 and 6; 7 and 8 say
    that the bounds are values."""
    found = {3: (I64, null_count), 5: (BINARY, high), 6: (BINARY, low), 7: (TRUE, None), 8: (TRUE, None)}
    for bound, fields in ((high, (5, 7)), (low, (6, 8))):
        if bound is None:
            found = {field: value for field, value in found.items() if field not in fields}
    structs(structs(footer[4])[0][1])[leaf][3][1][12] = (STRUCT, found)


class PageDamaged(Exception):
    """A page contradicts its own checksum."""


NO_PAGES = IndexError, KeyError, TypeError, ValueError, RecursionError
"""What `pages_of` raises if the bytes are no pages."""


class Page(NamedTuple):
    """A page of a column chunk: its header, where that and the encoded values begin, and where the page ends."""

    header: dict[int, Any]
    start: int
    values: int
    end: int

    @property
    def data(self) -> dict[int, Any] | None:
        """``DataPageHeader`` (5) or ``DataPageHeaderV2`` (8); None if it is another page."""
        found: dict[int, Any] | None = next((self.header[field][1] for field in (5, 8) if field in self.header), None)
        return found


def pages_of(chunk: memoryview) -> Iterator[Page]:
    """The pages of a column chunk. No value is decoded. Raises PageDamaged, and one of `NO_PAGES`.

    PageHeader: a page has as many bytes (3) as its header says, and perhaps a checksum of these (4, CRC-32).
    """
    at = 0
    while at < len(chunk):
        header, values = read_struct(chunk, at)
        length = header[3][1]
        body = chunk[values : values + length]
        if length < 0 or len(body) != length:
            raise IndexError
        if 4 in header and zlib.crc32(body) != header[4][1] & 0xFFFFFFFF:
            raise PageDamaged
        yield Page(header, at, values, values + length)
        at = values + length


def state_of(chunk: memoryview, num_values: int) -> Literal["whole", "damaged", "unclear"]:
    """Whether the pages of a column chunk have all its values, which data pages count (1): "damaged" if one contradicts
    its own checksum."""
    try:
        for page in pages_of(chunk):
            num_values -= 0 if page.data is None else page.data[1][1]
    except PageDamaged:
        return "damaged"
    except NO_PAGES:
        return "unclear"
    return "unclear" if num_values else "whole"


def footer_of(tail: bytes) -> ThriftStruct | None:
    """``FileMetaData`` at the end of a file; None if it is too large, or if encoding it again gives other bytes."""
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or not 0 < length <= min(_FOOTER_MAX_BYTES, len(tail) - 8):
        return None
    body = tail[-8 - length : -8]
    again = bytearray()
    try:
        footer, _ = read_struct(body, 0)
        put_struct(again, footer)
    except (IndexError, ValueError):
        return None
    return footer if again == body else None


def tail_of(footer: ThriftStruct) -> bytes:
    """The end of a file with this footer: the footer, its length and the magic."""
    body = bytearray()
    put_struct(body, footer)
    return bytes(body) + len(body).to_bytes(4, "little") + MAGIC


# --- column chunks ------------------------------------------------------------------------------------------------


def _is_plain(chunk: ThriftStruct) -> bool:
    """ColumnChunk: in this file (1) and not encrypted (8, 9). ColumnMetaData: no index page (10), which no writer
    makes."""
    if {1, 8, 9} & chunk.keys() or 3 not in chunk:
        return False
    metadata = chunk[3][1]
    return {3, 5, 6, 7, 9} <= metadata.keys() and 10 not in metadata


def _span(chunk: ThriftStruct) -> tuple[int, int]:
    """ColumnMetaData: a chunk begins with its dictionary page (11) if it has one, else with its first data page (9).

    Some writers set 11 to 0, or behind 9, for no dictionary page; readers know that.
    """
    metadata = chunk[3][1]
    start: int = metadata[9][1]
    if 11 in metadata and 0 < metadata[11][1] < start:
        start = metadata[11][1]
    return start, metadata[7][1]


def _are_apart(chunks: Sequence[ThriftStruct], end: int) -> bool:
    """Whether the chunks and their bloom filters lie between the magic and the footer, and none in another one."""
    at = len(MAGIC)
    filters = [bits for chunk in chunks if (bits := _bloom_filter(chunk[3][1])) is not None]
    for start, length in sorted((*map(_span, chunks), *filters)):
        if start < at or length < 0:
            return False
        at = start + length
    return at <= end


def _moved(metadata: ThriftStruct, by: int) -> dict[int, Any]:
    """ColumnMetaData whose pages are elsewhere; without its bloom filter (14, 15)."""
    moved = {field: value for field, value in metadata.items() if field not in (14, 15)}
    for field in (9, 11):
        if field in moved and moved[field][1] > 0:
            moved[field] = (I64, moved[field][1] + by)
    return moved


def _bloom_filter(metadata: ThriftStruct) -> tuple[int, int] | None:
    """The place of the bloom filter, if its length is known: old writers left that out."""
    if not {14, 15} <= metadata.keys():
        return None
    start, length = metadata[14][1], metadata[15][1]
    return (start, length) if start >= len(MAGIC) and length > 0 else None
