"""Checks the footers of Parquet files, so that a damaged one raises an error instead of ending the process.

parquet C++ throws an exception if a column chunk contradicts its schema. pyarrow's accessors
(``row_group(...).column(...)``, ``.statistics``) do not catch it, and the process ends. In: an open file. Out: the
bytes of its footer, and whether the accessors are safe on pyarrow's metadata. A footer encoded differently from what
Thrift's generated code writes counts as damaged, so this module and pyarrow read the same. parquet-format,
``parquet.thrift``; Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

_TAIL_BYTES = 64 << 10
_KEPT_BYTES = 1 << 20
_INDEX_BYTES = 3  # more than a dictionary index takes, less than most plain text values

_passed: tuple[tuple[bytes, tuple[bool, ...]], ...] = ()
"""The footers checked last, and what was found: a checkpoint is opened more than once."""


def read_footer(source: Any) -> bytes:
    """The end of a file with its whole footer. pyarrow can open it as a file if only metadata is read.

    Raises what the source raises. pyarrow reports a missing footer.
    """
    size_bytes: int = source.size()
    source.seek(max(0, size_bytes - _TAIL_BYTES))
    tail: bytes = source.read()
    wanted = _footer_bytes(tail) + 8
    if len(tail) < wanted <= size_bytes:
        source.seek(size_bytes - wanted)
        tail = source.read()
    return tail


def check_footer(footer: bytes, metadata: Any) -> tuple[bool, ...]:
    """Raise ``pa.ArrowInvalid`` unless every accessor of ``metadata``, made from ``footer``, returns or raises.

    ``compression`` of a column chunk is not checked, since txlog does not read it. Returns for each leaf whether the
    footer states the order of its bounds.
    """
    global _passed
    for passed, found in _passed:
        if passed == footer:
            return found
    leaves = _leaves(metadata.schema)
    end = len(footer) - 8

    def chunks(body: bytes, at: int, field: int) -> int:
        count, at = _list_of(_STRUCT, body, at)
        if count != len(leaves):
            raise _damaged(f"a row group has {count} columns, the schema {len(leaves)}")
        for leaf in leaves:
            at = leaf.chunk(body, at)
        return at

    row_group: _Members = {1: (_LIST, chunks), 4: _list_member(_STRUCT)}

    def row_groups(body: bytes, at: int, field: int) -> int:
        count, at = _list_of(_STRUCT, body, at)
        for _ in range(count):
            at = _struct(body, at, row_group)
        return at

    states_order = [False] * len(leaves)

    def orders(body: bytes, at: int, field: int) -> int:
        count, at = _list_of(_STRUCT, body, at)
        if count != len(leaves):
            raise _damaged(f"it has {count} column orders, and {len(leaves)} columns")
        for leaf in range(count):
            states_order[leaf] = body[at] == _TYPE_DEFINED_ORDER
            at = _skip_struct(body, at, 0)
        return at

    try:
        file: _Members = {**dict.fromkeys((2, 5), _list_member(_STRUCT)), 4: (_LIST, row_groups), 7: (_LIST, orders)}
        if _struct(footer, end - _footer_bytes(footer), file) > end:
            raise IndexError
    except IndexError:
        raise _damaged("it ends too early") from None
    result = tuple(states_order)
    _idle.append((metadata.schema, leaves))
    del _idle[:-_IDLE_MAX]
    if len(footer) <= _KEPT_BYTES:
        _passed = (*_passed[-3:], (footer, result))
    return result


def check_opened(metadata: Any) -> tuple[bool, ...]:
    """`check_footer` of a footer that pyarrow has read, and of which the bytes are not at hand."""
    body = pa.BufferOutputStream()
    metadata.write_metadata_file(body)
    return check_footer(body.getvalue().to_pybytes(), metadata)


def indexed_columns(metadata: Any, names: Collection[str]) -> list[str]:
    """The top-level columns among ``names`` whose values are all dictionary entries, as far as sizes show.

    Arrow reads such columns as dictionaries in a fraction of the time; others would take it several times as long.
    ``metadata`` has passed `check_footer`.
    """
    schema = metadata.schema
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    return [
        name
        for at in range(metadata.num_columns)
        if (name := schema.column(at).path) in names and all(_is_indexed(group.column(at)) for group in groups)
    ]


def dictionary_leaves(group: Any) -> tuple[list[int], list[int]]:
    """The leaves of a row group whose values are all dictionary entries, which saves space, as far as sizes show; and
    the texts of which only some are, since the dictionary got full.

    Numbers that fill a dictionary, or take more than half of their plain size with it, are better without.
    """
    saving: list[int] = []
    doubtful: list[int] = []
    for leaf, chunk in enumerate(map(group.column, range(group.num_columns))):
        plain_bytes = _WIDTHS_BYTES.get(chunk.physical_type, 0) * chunk.num_values
        if _is_indexed(chunk):
            if not plain_bytes or 2 * chunk.total_uncompressed_size <= plain_bytes:
                saving.append(leaf)
        elif chunk.has_dictionary_page and not plain_bytes:
            doubtful.append(leaf)
    return saving, doubtful


def _leaves(schema: Any) -> list[_ChunksOfLeaf]:
    """What checks the chunks of each leaf, kept from file to file: the files of a table mostly have one schema.

    Nobody else has them until they are in `_idle` again.
    """
    try:
        known, leaves = _idle.pop()
    except IndexError:
        known = None
    if known is None or not known.equals(schema):
        leaves = [_ChunksOfLeaf(schema.column(at)) for at in range(len(schema))]
    return leaves


_idle: list[tuple[Any, list[_ChunksOfLeaf]]] = []
_IDLE_MAX = 8


def _is_indexed(chunk: Any) -> bool:
    if not chunk.has_dictionary_page:
        return False
    dictionary_bytes: int = chunk.data_page_offset - chunk.dictionary_page_offset
    indexes_bytes: int = chunk.total_compressed_size - dictionary_bytes
    num_values: int = chunk.num_values
    return dictionary_bytes > 0 and indexes_bytes <= _INDEX_BYTES * num_values


def _footer_bytes(tail: bytes) -> int:
    return int.from_bytes(tail[-8:-4], "little")


def _damaged(why: str) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"the Parquet footer is damaged: {why}")


# --- column chunks ------------------------------------------------------------------------------------------------

_PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_WIDTHS_BYTES = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}


class _ChunksOfLeaf:
    """Checks the column chunks of one leaf.

    The check depends only on the bytes ahead, so bytes that equal those of an earlier chunk of the leaf need no second
    check. This makes leaves that are null in every row cheap; checkpoints have many of them.
    """

    def __init__(self, column: Any) -> None:
        name = column.physical_type
        self._column = column
        self._type = 2 * _PHYSICAL_TYPES.index(name)
        self._is_text = name == "BYTE_ARRAY"
        self._width_bytes: int = _WIDTHS_BYTES.get(name, column.length)
        self._levels = {2: column.max_repetition_level + 1, 3: column.max_definition_level + 1}
        self._lengths: dict[int, int] = {}
        self._start = 0
        self._state = self._tail = b"none yet"
        self._bounds: _Members = dict.fromkeys((1, 2, 5, 6), (_BINARY, self._bound))
        self._sizes: _Members = dict.fromkeys((2, 3), (_LIST, self._histogram))
        if not self._is_text:
            self._sizes = {**self._sizes, 1: (_I64, self._text_bytes)}
        self._members: _Members = {
            1: (_I32, self._physical_type),
            2: _list_member(_I32),
            3: (_LIST, self._path),
            8: _list_member(_STRUCT),
            12: (_STRUCT, self._statistics),
            13: _list_member(_STRUCT),
            16: (_STRUCT, self._size_statistics),
            17: (_STRUCT, _geospatial_statistics),
        }
        self._chunk: _Members = {3: (_STRUCT, self._column_metadata), 8: (_STRUCT, self._encryption)}

    def chunk(self, body: bytes, at: int) -> int:
        """The position after the chunk that starts at ``at``."""
        numbers = _NUMBERS.match(body, at + len(self._state)) if body.startswith(self._state, at) else None
        if numbers is None:
            self._start = at
            return _struct(body, at, self._chunk)
        at = numbers.end()
        if not numbers[1]:
            at = _skip_struct(body, at, 0) if self._is_text else self._statistics(body, at, 12)
        if not body.startswith(self._tail, at):
            end = _struct(body, _struct(body, at, self._members, 12), self._chunk, 3)
            self._tail = body[at:end]
        return at + len(self._tail)

    def _column_metadata(self, body: bytes, at: int, field: int) -> int:
        return _struct(body, at, self._members)

    def _encryption(self, body: bytes, at: int, field: int) -> int:
        raise pa.ArrowInvalid(f"column {self._column.path} is encrypted, and there is no key")

    def _physical_type(self, body: bytes, at: int, field: int) -> int:
        if body[at] != self._type:
            raise _damaged(f"column {self._column.path} has another type in a row group than in the schema")
        return at + 1

    def _path(self, body: bytes, at: int, field: int) -> int:
        at = _take_list(_BINARY, body, at)
        self._state = body[self._start : at]
        return at

    def _statistics(self, body: bytes, at: int, field: int) -> int:
        self._lengths = {}
        at = _struct(body, at, self._bounds)
        for pair in ({1, 2}, {5, 6}):  # C++ uses neither bound of a pair if one is absent
            if pair <= self._lengths.keys() and min(self._lengths[each] for each in pair) < self._width_bytes:
                raise _damaged(f"a bound of column {self._column.path} is shorter than its type")
        return at

    def _bound(self, body: bytes, at: int, field: int) -> int:
        self._lengths[field], at = _varint(body, at)
        return at + self._lengths[field]

    def _size_statistics(self, body: bytes, at: int, field: int) -> int:
        return _struct(body, at, self._sizes)

    def _text_bytes(self, body: bytes, at: int, field: int) -> int:
        raise _damaged(f"column {self._column.path} has a count of string bytes, but is not a string column")

    def _histogram(self, body: bytes, at: int, field: int) -> int:
        count, at = _list_of(_I64, body, at)
        levels = self._levels[field]
        if count not in (0, levels):
            raise _damaged(f"a histogram of column {self._column.path} has {count} levels instead of {levels}")
        for _ in range(count):
            while body[at] > 127:
                at += 1
            at += 1
        return at


def _geospatial_statistics(body: bytes, at: int, field: int) -> int:
    return _struct(body, at, {2: _list_member(_I32)})


# The fields between path and statistics as most writers write them, and statistics without bounds.
_NUMBERS = re.compile(
    rb"\x15V\x16V\x16V\x16V\x26V(?:\x26V\x1c|\x3c)(\x36V\x00)?".replace(b"V", rb"[\x80-\xff]*[\x00-\x7f]")
)


# --- Thrift's compact protocol ------------------------------------------------------------------------------------

_I32, _I64, _BINARY, _LIST, _MAP, _STRUCT = 5, 6, 8, 9, 11, 12
_TYPE_DEFINED_ORDER = 0x1C
"""The head of a union's member 1, which is a struct."""
_VARINTS = (4, 5, 6)
_DEPTH_MAX = 32

_Member: TypeAlias = tuple[int, Callable[[bytes, int, int], int]]
"""The type that a field must have, and a function (bytes, position, field) -> the position after its value."""

_Members: TypeAlias = Mapping[int, _Member]


def _struct(body: bytes, at: int, members: _Members, field: int = 0) -> int:
    """The position after a struct whose last field read was ``field``.

    Fields must ascend: for a repeated field C++ would take the second value.
    """
    while True:
        header = body[at]
        at += 1
        if not header:
            return at
        if header > 15:
            field += header >> 4
        else:
            field, at = _far_field(body, at, field)
        wire_type = header & 15
        member = members.get(field)
        if member is not None:
            if wire_type != member[0]:
                raise _damaged(f"a field {field} is of type {wire_type} instead of {member[0]}")
            at = member[1](body, at, field)
        elif wire_type in _VARINTS:
            while body[at] > 127:
                at += 1
            at += 1
        else:
            at = _skip(body, at, wire_type, 0)


def _far_field(body: bytes, at: int, last: int) -> tuple[int, int]:
    number, at = _varint(body, at)
    field = number >> 1
    if number & 1 or not last < field < 1 << 15:
        raise _damaged(f"field {field} follows field {last}")
    return field, at


def _skip(body: bytes, at: int, wire_type: int, depth: int) -> int:
    if wire_type == _STRUCT:
        return _skip_struct(body, at, depth + 1)
    if wire_type == _BINARY:
        length, at = _varint(body, at)
        return at + length
    if wire_type in _VARINTS:
        return _skip_varint(body, at)
    if wire_type in (1, 2):  # a boolean, whose value is in the header
        return at
    if wire_type in (3, 7):
        return at + (1 if wire_type == 3 else 8)
    if wire_type in (9, 10):
        return _skip_list(body, at, depth)
    if wire_type == _MAP:
        count, at = _varint(body, at)
        if not count:
            return at
        return _skip_many(body, at + 1, (body[at] >> 4, body[at] & 15), count, depth + 1)
    raise _damaged(f"type {wire_type} does not exist")


def _skip_list(body: bytes, at: int, depth: int) -> int:
    count, element, at = _list(body, at)
    return _skip_many(body, at, (element,), count, depth + 1)


def _skip_many(body: bytes, at: int, wire_types: tuple[int, ...], count: int, depth: int) -> int:
    """The position after the elements of a list or a map. A boolean takes one byte there."""
    if depth > _DEPTH_MAX:
        raise _damaged("it is too deeply nested")
    if wire_types == (_STRUCT,):
        for _ in range(count):
            at = _skip_struct(body, at, depth + 1)
        return at
    for _ in range(count):
        for wire_type in wire_types:
            at = at + 1 if wire_type in (1, 2) else _skip(body, at, wire_type, depth)
        if at > len(body):
            raise IndexError
    return at


def _skip_struct(body: bytes, at: int, depth: int) -> int:
    if depth > _DEPTH_MAX:
        raise _damaged("it is too deeply nested")
    while True:
        header = body[at]
        at += 1
        if not header:
            return at
        if header < 16:
            at = _skip_varint(body, at)
        wire_type = header & 15
        if wire_type in _VARINTS:
            while body[at] > 127:
                at += 1
            at += 1
        else:
            at = _skip(body, at, wire_type, depth)


def _list(body: bytes, at: int) -> tuple[int, int, int]:
    header = body[at]
    if header >> 4 != 15:
        return header >> 4, header & 15, at + 1
    count, at = _varint(body, at + 1)
    return count, header & 15, at


def _list_of(wire_type: int, body: bytes, at: int) -> tuple[int, int]:
    count, element, at = _list(body, at)
    if count and element != wire_type:
        raise _damaged(f"a list has values of type {element} instead of {wire_type}")
    return count, at


def _list_member(wire_type: int) -> _Member:
    """A list whose element type must match: C++ reads the type it expects, whatever the header says."""
    return _LIST, lambda body, at, field: _take_list(wire_type, body, at)


def _take_list(wire_type: int, body: bytes, at: int) -> int:
    count, at = _list_of(wire_type, body, at)
    return _skip_many(body, at, (wire_type,), count, 0)


def _varint(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    if byte < 128:
        return byte, at + 1
    number, shift = byte & 127, 7
    while byte > 127:
        at += 1
        byte = body[at]
        number |= (byte & 127) << shift
        shift += 7
    return number, at + 1


def _skip_varint(body: bytes, at: int) -> int:
    while body[at] > 127:
        at += 1
    return at + 1
