"""Small Parquet files as row groups of one file in memory, which Arrow opens and decodes in the time of a few of them.

In: the bytes of files, one after the other. Out: a file with a row group for each of theirs, in order. Only its footer
is new, and has no statistics; the pages are those of the files, whose footers have the same schema, key-value pairs,
writer and order of bounds, byte for byte. Pure.

Arrow reads a column of all row groups in one go. A chunk with another number of values than its row group has rows
would move the values of later files into other rows. So the header of its only data page has to state this number. What
has no such page (a list, a chunk of several pages), and what this module does not understand, is refused.
parquet-format: ``parquet.thrift``, whose structs are named below; Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from txlog.core.format.arrow.parquet_splice import MAGIC, NO_PAGES, footer_of
from txlog.core.format.arrow.parquet_thrift import (
    BINARY,
    I32,
    LIST,
    STRUCT,
    ThriftStruct,
    put_struct,
    put_varint,
    read_struct,
    structs,
)

_GROUPS_MAX = 14
"""Of one file, and the columns in its schema: the header of a longer list has another form."""
_TEXT_MAX_BYTES = 127
_WIDTHS_BYTES = (1, 4, 8, 12, 4, 8, None, None)
"""Of the values of each physical ``Type``; those of the last two have lengths of their own."""
_REPEATED = 2
_WHOLE_VALUES = (0, 6)
"""Each ``Encoding`` in which a page has all bytes of its texts, whatever it repeats: PLAIN, DELTA_LENGTH_BYTE_ARRAY."""
_VALUE_BYTES = 8
"""The most that a value takes beside its bytes: a place, and whether it is there."""


class JoinedParquet:
    """A file in the making, from files of one shape. ``counts`` are the rows of each.

    The values of all take at most ``bytes_max`` in memory: a small file may decode to many bytes.
    """

    def __init__(self, shape: FileShape, bytes_max: int) -> None:
        self._left_bytes = bytes_max
        self.counts: list[int] = []
        self._shape = shape
        self._bodies: list[bytes | memoryview] = [MAGIC]
        self._groups: list[bytes] = []
        self._at = len(MAGIC)
        self._num_groups = 0

    def add(self, body: bytes) -> int | None:
        """Add a file, and return how many rows it has. None if it is refused, and nothing has changed."""
        end = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
        try:
            found = self._shape.groups(body, end, self._at - len(MAGIC))
        except NO_PAGES:
            return None
        if found is None or found.value_bytes > self._left_bytes:
            return None
        self._left_bytes -= found.value_bytes
        pages = memoryview(body)[len(MAGIC) : end]
        self._bodies.append(pages)
        self._at += len(pages)
        self._groups += found.encoded
        self._num_groups += found.num_groups
        self.counts.append(found.num_rows)
        return found.num_rows

    def finish(self) -> pa.BufferReader:
        """The whole file."""
        footer = b"".join(
            (
                self._shape.head,
                b"\x16" + _varint(sum(self.counts) << 1) + b"\x19" + _list_of_structs(self._num_groups),
                *self._groups,
                self._shape.tail,
            )
        )
        return pa.BufferReader(b"".join((*self._bodies, footer, len(footer).to_bytes(4, "little"), MAGIC)))


class _JoinedGroups(NamedTuple):
    """The row groups of a file, encoded for the joined one."""

    encoded: list[bytes]
    num_groups: int
    num_rows: int
    value_bytes: int


class FileShape:
    """What the footers of files have in common: ``head`` are the fields of ``FileMetaData`` before the number of rows,
    ``tail`` those behind the row groups."""

    def __init__(self, head: bytes, tail: bytes, leaves: Sequence[_JoinedLeaf]) -> None:
        self.head = head
        self.tail = tail
        self._leaves = leaves
        self._columns = b"\x19" + _list_of_structs(len(leaves))

    @classmethod
    def of(cls, body: bytes, names: Collection[str]) -> FileShape | None:
        """The shape of a file, if such files can be joined to read these top-level columns."""
        footer = footer_of(body)
        if footer is None or not {1, 2, 3, 4} <= footer.keys() or {8, 9} & footer.keys():  # 8 and 9: encryption
            return None
        try:
            groups = structs(footer[4])
            leaves = [*_leaves(structs(footer[2]), names)]
            if not groups or any(is_wanted and is_repeated for _, is_wanted, is_repeated in leaves):
                return None
            types = [chunk[3][1][1][1] for chunk in structs(groups[0][1])]
            made = [
                _JoinedLeaf(path, kind, is_wanted=is_wanted)
                for (path, is_wanted, _), kind in zip(leaves, types, strict=True)
            ]
        except NO_PAGES:
            return None
        start = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
        return cls(_fields_below(3, footer), body[start + len(_fields_below(5, footer)) : -8], made)

    def groups(self, body: bytes, end: int, shift: int) -> _JoinedGroups | None:
        """The row groups of a file whose footer begins at ``end``, with its pages ``shift`` bytes further on; None if
        it has another shape. Raises one of `NO_PAGES`."""
        if end < len(MAGIC) or not body.startswith(MAGIC) or not body.startswith(self.head, end):
            return None
        found = _GROUPS.match(body, end + len(self.head))
        if found is None or body[-4:] != MAGIC:
            return None
        count, at = found[1][0] >> 4, found.end()
        encoded: list[bytes] = []
        total = value_bytes = 0
        for _ in range(count):
            group = self._group(body, at, end, shift)
            if group is None:
                return None
            some, rows, more_bytes, at = group
            value_bytes += more_bytes
            encoded += some
            total += rows
        if at + len(self.tail) != len(body) - 8 or not body.startswith(self.tail, at):
            return None
        return _JoinedGroups(encoded, count, total, value_bytes)

    def _group(self, body: bytes, at: int, end: int, shift: int) -> tuple[list[bytes], int, int, int] | None:
        """The ``RowGroup`` at this place, encoded; its rows, and the most that its values take in memory; and the place
        behind it."""
        if not body.startswith(self._columns, at):
            return None
        at += len(self._columns)
        encoded = [self._columns]
        chunks: list[tuple[_JoinedLeaf, _JoinedChunk]] = []
        for leaf in self._leaves:
            chunk = leaf.chunk(body, at, shift)
            if chunk is None:
                return None
            at = chunk.end
            encoded.append(chunk.encoded)
            if leaf.is_wanted:
                chunks.append((leaf, chunk))
        found = _GROUP_END.match(body, at)
        if found is None:
            return None
        rows = _number(found[1])
        if rows < 0:
            return None
        value_bytes = 0
        for leaf, chunk in chunks:
            some_bytes = leaf.value_bytes(body, chunk, end, rows)
            if some_bytes is None:
                return None
            value_bytes += some_bytes
        encoded.append(body[at : found.end(1)] + b"\x00")
        return encoded, rows, value_bytes, found.end()


class _JoinedChunk(NamedTuple):
    """A column chunk: encoded for the joined file; where it ends in its own footer; how many values it has, where its
    pages begin, and how many bytes they are."""

    encoded: bytes
    end: int
    num_values: int
    start: int
    length: int


class _JoinedLeaf:
    """The column chunks of one leaf."""

    def __init__(self, path: Sequence[bytes], kind: int, *, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        names = bytearray()
        put_struct(names, {1: (LIST, (BINARY, path))})
        self._width = width = _WIDTHS_BYTES[kind]
        bound = _TEXT if width is None else re.escape(bytes((width,))) + b"." * width
        pattern = _METADATA.replace(b"TYPE", re.escape(bytes((2 * kind,))))
        pattern = pattern.replace(b"BOUND", bound).replace(b"PATH", re.escape(bytes(names[:-1])))
        self._metadata = re.compile(pattern, re.DOTALL)
        self._rest = b"none yet"

    def chunk(self, body: bytes, at: int, shift: int) -> _JoinedChunk | None:
        """The ``ColumnChunk`` at this place, without what follows the places of its pages: statistics, bloom filter and
        page index."""
        found = self._metadata.match(body, at)
        if found is None:
            return None
        end, rest = found.end(), self._rest  # of another thread, perhaps
        if not body.startswith(rest, end):
            # Fields of ColumnMetaData behind the statistics, and of ColumnChunk up to 7: then comes encryption.
            _, behind = read_struct(body, end)
            more, behind = read_struct(body, behind)
            if not more.keys() <= {1, 2, 3, 4}:
                return None
            self._rest = rest = body[end:behind]
        values, length, first, dictionary = map(_number, found.groups(b"\x00"))
        places = b"\x26" + _varint((first + shift) << 1)
        start = first
        if 0 < dictionary < first:
            start = dictionary
            places += b"\x26" + _varint((dictionary + shift) << 1)
        encoded = body[at : found.start(3) - 1] + places + b"\x00\x00"
        return _JoinedChunk(encoded, end + len(rest), values, start, length)

    def value_bytes(self, body: bytes, chunk: _JoinedChunk, end: int, count: int) -> int | None:
        """The most that the values of a chunk take in memory. None unless it lies between the magic and the footer, and
        its only data page states so many values."""
        behind = chunk.start + chunk.length
        if chunk.num_values != count or chunk.start < len(MAGIC) or chunk.length < 0 or behind > end:
            return None
        at = chunk.start
        longest = 0
        dictionary = _DICTIONARY_PAGE.match(body, at, behind)
        if dictionary is not None:
            at = dictionary.end() + _number(dictionary[2])
            longest = _number(dictionary[1])
        page = _DATA_PAGE.match(body, at, behind)
        if page is None or _number(page[2] or page[4]) != count:
            return None
        encoding = _number(page[3] or page[5])
        if self._width is not None:
            return count * (self._width + _VALUE_BYTES)
        page_bytes = _number(page[1])
        if encoding not in _WHOLE_VALUES:
            page_bytes += count * max(longest, page_bytes)
        return page_bytes + count * _VALUE_BYTES


_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_TEXT = b"(?:" + b"|".join(re.escape(bytes((size,))) + b".{%d}" % size for size in range(_TEXT_MAX_BYTES + 1)) + b")"
_METADATA = (
    rb"\x26V\x1c\x15TYPE\x19[\x15\x25\x35\x45\x55\x65][\x00-\x14]*PATH\x15V\x16(V)\x16V\x16(V)\x26(V)(?:\x26(V))?"
    rb"(?:[\x1c\x3c](?:[\x18\x28\x38\x48\x58\x68]BOUND|[\x16\x26\x36\x46]V|[\x11\x12\x21\x22])*\x00)?"
).replace(b"V", _VARINT)
"""``ColumnChunk`` up to the statistics of its ``ColumnMetaData``: the number of values, the bytes, and the places of
the first data page and of the dictionary page. A leaf fills in its type, the form of a bound, and its path."""
_GROUPS = re.compile(rb"\x16V\x19([\x1c\x2c\x3c\x4c\x5c\x6c\x7c\x8c\x9c\xac\xbc\xcc\xdc\xec])".replace(b"V", _VARINT))
"""``FileMetaData``: the number of rows, and the header of the list of row groups."""
_GROUP_END = re.compile(rb"\x16V\x16(V)(?:\x26V)?(?:[\x16\x36]V)?(?:[\x14\x44]V)?\x00".replace(b"V", _VARINT))
"""``RowGroup`` behind its columns: its bytes and rows; its place, its encoded bytes and its number, if it has them."""
_DICTIONARY_PAGE = re.compile(
    rb"\x15\x04\x15(V)\x15(V)(?:\x15V\x3c|\x4c)\x15V\x15V[\x11\x12]?\x00\x00".replace(b"V", _VARINT)
)
"""A whole ``PageHeader``, and the bytes of the page before and after compression."""
_DATA_PAGE = re.compile(
    (
        rb"\x15(?=[\x00\x06]\x15(V))(?:\x00\x15V\x15V(?:\x15V\x1c|\x2c)\x15(V)\x15(V)"
        rb"|\x06\x15V\x15V(?:\x15V\x4c|\x5c)\x15(V)\x15V\x15V\x15(V))"
    ).replace(b"V", _VARINT)
)
"""``PageHeader`` up to the encoding, of a data page and of one of version 2: its bytes before compression, the number
of values, and their encoding."""


def _fields_below(below: int, footer: ThriftStruct) -> bytes:
    """The fields of a struct with lower numbers, without an end."""
    out = bytearray()
    put_struct(out, {field: value for field, value in footer.items() if field < below})
    return bytes(out[:-1])


def _leaves(elements: Sequence[ThriftStruct], names: Collection[str]) -> Iterator[tuple[list[bytes], bool, bool]]:
    """The path of each leaf of ``SchemaElement``s, whether it is in one of the columns, and whether it can have several
    values in a row."""
    remaining = iter(elements[1:])

    def below(path: list[bytes], is_repeated: bool) -> Iterator[tuple[list[bytes], bool, bool]]:
        element = next(remaining, {})
        here = [*path, bytes(element[4][1])]
        repeats = is_repeated or element.get(3, (I32, 0))[1] == _REPEATED
        children: int = element.get(5, (I32, 0))[1]
        if not children:
            yield here, here[0].decode() in names, repeats
        for _ in range(children):
            yield from below(here, repeats)

    for _ in range(elements[0].get(5, (I32, 0))[1]):
        yield from below([], False)


def _list_of_structs(count: int) -> bytes:
    """The header of a list."""
    return bytes((count << 4 | STRUCT,)) if count <= _GROUPS_MAX else bytes((0xF0 | STRUCT,)) + _varint(count)


def _number(varint: bytes) -> int:
    """A number of Thrift's."""
    found = varint[0] & 127
    for at in range(1, len(varint)):
        found |= (varint[at] & 127) << 7 * at
    return (found >> 1) ^ -(found & 1)


def _varint(number: int) -> bytes:
    """An unsigned number: twice one of Thrift's that is not negative."""
    if number < 128:
        return bytes((number,))
    out = bytearray()
    put_varint(out, number)
    return bytes(out)
