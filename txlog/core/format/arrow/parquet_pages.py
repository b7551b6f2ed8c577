"""A column chunk without some of its rows: only the pages with such a row are decoded.

In: the bytes of a chunk of a flat column, its ``ColumnMetaData``, and which rows stay. Out: the same of these rows, or
None if the chunk is not understood, or if decoding all of it takes no longer. Other pages are passed on. What stays of
a page with removed rows is encoded as the pages around it are, so a chunk has no kinds of pages that it did not have.
Arrow decodes and encodes, by files in memory that have just these pages, as values of the physical type.

Nothing of a removed row stays in the chunk. If its values are entries of a dictionary, the rows that stay have to use
each of these entries. Otherwise the chunk is decoded, or it ends up without a dictionary, if that saves nothing: it got
full, and plain pages follow. parquet-format: ``parquet.thrift``, whose structs are named below, and ``Encodings.md``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.arrow.arrays import flags_of, from_flags, numbers_of, one_array
from txlog.core.format.arrow.parquet_splice import MAGIC, NO_PAGES, Page, pages_of, tail_of
from txlog.core.format.arrow.parquet_thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    ThriftStruct,
    put_struct,
)
from txlog.core.format.arrow.parquet_writer import open_writer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RUNS_MAX = 16
"""Each run of pages with removed rows takes as long as decoding and encoding some ten thousand values."""
_ENTRIES_MAX = 1 << 16
"""To encode one page with a larger dictionary takes longer than to encode the chunk."""
_BOUND_BYTES = 4096
"""Arrow's writer leaves out longer ones."""

_KNOWN = frozenset((*range(1, 8), 9, *range(11, 17)))
"""Fields of ``ColumnMetaData`` that a chunk without some rows gets anew, or can be without."""
_BOOLEAN, _INT32, _INT64, _, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = range(8)
_INTEGER_BYTES = {_INT32: 4, _INT64: 8}
_ARROW_TYPES = {
    _BOOLEAN: pa.bool_(),
    _INT32: pa.int32(),
    _INT64: pa.int64(),
    _FLOAT: pa.float32(),
    _DOUBLE: pa.float64(),
    _BYTE_ARRAY: pa.binary(),
}
_CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4"}
"""``CompressionCodec``, by the names of Arrow's writer; its ``lz4`` is LZ4_RAW."""
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_INDEXES = (_PLAIN_DICTIONARY, _RLE_DICTIONARY)
_ENCODINGS = {
    _PLAIN: "PLAIN",
    _RLE: "RLE",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    9: "BYTE_STREAM_SPLIT",
}
"""Encodings in which each page can be read alone: old writers' DELTA_BYTE_ARRAY continues the page before
(PARQUET-246)."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_NO_STATISTICS: tuple[int, dict[int, Any]] = STRUCT, {}


class FlatColumn(NamedTuple):
    """A column that is in no list and no struct: its physical type, as ``Type`` counts them, the bytes of a value of a
    fixed length, and whether there may be nulls."""

    physical_type: int
    width_bytes: int
    is_nullable: bool

    @property
    def has_floats(self) -> bool:
        return self.physical_type in (_FLOAT, _DOUBLE)


class ShorterChunk(NamedTuple):
    """The rows of a chunk that stay: a chunk behind the magic, and the footer of a file that begins so; and all its
    values, if these are floats."""

    body: bytes
    footer: ThriftStruct
    floats: Sequence[pa.Array]


def without_rows(
    chunk: memoryview,
    metadata: ThriftStruct,
    column: FlatColumn,
    stays: NDArray[np.bool_],
    *,
    keeps_dictionary: bool,
    wants_floats: bool,
) -> ShorterChunk | None:
    """The chunk with just the rows that ``stay``; its statistics are true, and give the nulls and both bounds.

    If it has a dictionary, it keeps that or ends up without one. Floats get no statistics: Parquet leaves NaN out of
    their bounds. ``wants_floats``: decode them all. Raises PageDamaged.
    """
    try:
        found = _understood(chunk, metadata, column, stays)
        if found is None:
            return None
        if keeps_dictionary and found.dictionary is not None:
            return found.with_entries()
        return found.with_values(wants_floats=wants_floats)
    except (pa.ArrowException, OSError, *NO_PAGES):  # who decodes the chunk says what is wrong
        return None


class _PageRun(NamedTuple):
    """Consecutive pages that are passed on, or decoded; the first of their rows, and the end of these."""

    is_decoded: bool
    pages: Sequence[Page]
    first: int
    end: int


class _Encoded(NamedTuple):
    """A page of the new chunk: its header and the bytes of that."""

    header: ThriftStruct
    header_bytes: int


class _OldChunk:
    """The pages of a chunk, and which of its rows stay."""

    def __init__(
        self,
        body: memoryview,
        metadata: ThriftStruct,
        column: FlatColumn,
        stays: NDArray[np.bool_],
        dictionary: Page | None,
        data: Sequence[Page],
    ) -> None:
        self._body = body
        self._metadata = metadata
        self._column = column
        self._stays = stays
        self.dictionary = dictionary
        self._data = data
        self._codec = _CODECS[metadata[4][1]]
        self._pieces: list[bytes | memoryview] = [MAGIC]
        self._pages: list[_Encoded] = []

    # --- what becomes of the chunk --------------------------------------------------------------------------

    def with_entries(self) -> ShorterChunk | None:
        """Every page consists of places in the dictionary, which stays; what is at them is not even looked at.

        The values that the chunk has are the same, so their bounds are too.
        """
        assert self.dictionary is not None
        count = self.dictionary.header[7][1][1][1]
        runs = self._runs(np.zeros(len(self._data), dtype=bool))
        if runs is None or not 0 < count <= _ENTRIES_MAX or self._column.has_floats:
            return None
        if not all(map(_has_indexes, self._data)):
            return None
        places = self._decoded(self._data, self._numbered(count), FlatColumn(_INT32, 0, self._column.is_nullable))
        numbers, stays = numbers_of(places), self._stays
        valid = flags_of(places.is_valid()) if places.null_count else np.ones(len(places), dtype=bool)
        is_used = np.zeros(count, dtype=bool)
        is_used[numbers[stays & valid]] = True
        if not is_used[numbers[~stays & valid]].all():
            return None
        self._pass_on([self.dictionary])
        entries = _texts(count)
        for run in runs:
            if not run.is_decoded:
                self._pass_on(run.pages)
                continue
            left = places[run.first : run.end].filter(from_flags(stays[run.first : run.end]))
            self._append(pa.DictionaryArray.from_arrays(left, entries), run.pages[0], _encoding(run.pages[0]))
        old = self._metadata[12][1]
        return self._finished({**old, 3: (I64, int(np.count_nonzero(stays & ~valid)))})

    def with_values(self, *, wants_floats: bool) -> ShorterChunk | None:
        """Pages of places in a dictionary are decoded too, and the dictionary is left out."""
        is_indexed = np.array([*map(_has_indexes, self._data)])
        runs = self._runs(is_indexed)
        if runs is None:
            return None
        encoding, *others = {_encoding(page) for page in self._data if not _has_indexes(page)}
        if others:
            return None
        kept: list[pa.Array] = []
        gone: list[pa.Array] = []
        for run in runs:
            if not run.is_decoded:
                self._pass_on(run.pages)
                continue
            values = self._values(run.pages)
            stays = self._stays[run.first : run.end]
            kept.append(values.filter(from_flags(stays)))
            gone.append(values.filter(from_flags(~stays)))
            self._append(kept[-1], run.pages[0], encoding)
        passed_on = [page for run in runs if not run.is_decoded for page in run.pages]
        if self._column.has_floats:
            return self._finished(None, [*kept, *self._all_values(passed_on)] if wants_floats else ())
        statistics = self._statistics(kept, gone, passed_on)
        return None if statistics is None else self._finished(statistics)

    def _runs(self, are_decoded_too: NDArray[np.bool_]) -> Sequence[_PageRun] | None:
        """The pages in order; None if passing some of them on saves little."""
        counts = np.array([_num_values(page) for page in self._data], np.int64)
        ends = np.cumsum(counts)
        starts = ends - counts
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        stay = np.array([np.count_nonzero(self._stays[start:end]) for start, end in spans], np.int64)
        are_decoded = (stay < counts) | are_decoded_too
        cuts = [0, *(np.flatnonzero(np.diff(are_decoded)) + 1).tolist(), len(counts)]
        if 2 * int(stay[are_decoded].sum()) > int(stay.sum()) or len(cuts) > 2 * _RUNS_MAX:
            return None
        return [
            _PageRun(bool(are_decoded[at]), self._data[at:end], int(starts[at]), int(ends[end - 1]))
            for at, end in itertools.pairwise(cuts)
        ]

    # --- pages ----------------------------------------------------------------------------------------------

    def _pass_on(self, pages: Sequence[Page]) -> None:
        self._pieces.append(self._body[pages[0].start : pages[-1].end])
        self._pages += [_Encoded(page.header, page.values - page.start) for page in pages]

    def _values(self, pages: Sequence[Page]) -> pa.Array:
        indexed = self.dictionary if any(map(_has_indexes, pages)) else None
        body = b"" if indexed is None else self._body[indexed.start : indexed.end]
        return self._decoded(pages, body, self._column)

    def _all_values(self, pages: Sequence[Page]) -> Sequence[pa.Array]:
        return [self._values(pages)] if pages else []

    def _decoded(self, pages: Sequence[Page], dictionary: bytes | memoryview, column: FlatColumn) -> pa.Array:
        """The values of some pages. Raises what Arrow raises, ValueError."""
        count = sum(map(_num_values, pages))
        body = b"".join((MAGIC, dictionary, *(self._body[page.start : page.end] for page in pages)))
        metadata = {
            1: (I32, column.physical_type),
            2: (LIST, (I32, sorted({_RLE, *map(_encoding, pages)}))),
            3: (LIST, (BINARY, [b"c"])),
            4: self._metadata[4],
            5: (I64, count),
            6: (I64, sum(page.header[2][1] for page in pages)),
            7: (I64, len(body) - len(MAGIC)),
            9: (I64, len(MAGIC) + len(dictionary)),
        }
        if dictionary:
            metadata[11] = I64, len(MAGIC)
        leaf: dict[int, Any] = {1: (I32, column.physical_type), 3: (I32, int(column.is_nullable)), 4: (BINARY, b"c")}
        if column.physical_type == _FIXED:
            leaf[2] = I32, column.width_bytes
        schema = [{4: (BINARY, b"root"), 5: (I32, 1)}, leaf]
        footer = {1: (I32, 2), 2: (LIST, (STRUCT, schema)), 3: (I64, count), **_one_group(metadata, count)}
        file = pq.ParquetFile(pa.BufferReader(body + tail_of(footer)))
        values = one_array(file.read(use_threads=False).column(0))
        if not isinstance(values, pa.Array) or len(values) != count:
            raise ValueError("these pages have another number of values than their headers say")
        return values

    def _numbered(self, count: int) -> bytes:
        """A dictionary page whose entries are the numbers of their places."""
        plain = np.arange(count, dtype="<i4").tobytes()
        codec = {"none": None, "lz4": "lz4_raw"}.get(self._codec, self._codec)
        body = plain if codec is None else pa.compress(plain, codec=codec, asbytes=True)
        of_dictionary = {1: (I32, count), 2: (I32, _PLAIN)}
        header = bytearray()
        put_struct(
            header,
            {1: (I32, _DICTIONARY), 2: (I32, len(plain)), 3: (I32, len(body)), 7: (STRUCT, of_dictionary)},
        )
        return bytes(header) + body

    def _append(self, rows: pa.Array, like: Page, encoding: int) -> None:
        """Add pages with these values, or places, in the form of an old page. Raises what Arrow raises, ValueError."""
        if not len(rows):
            return
        has_entries = encoding in _INDEXES
        schema = pa.schema([pa.field("c", rows.type, nullable=self._column.is_nullable)])
        sink, collected = pa.BufferOutputStream(), list[Any]()
        of_values = {"column_encoding": _ENCODINGS.get(encoding)}
        writer = open_writer(
            sink,
            schema,
            collected,
            compression=self._codec,
            use_dictionary=has_entries,
            data_page_version="1.0" if 5 in like.header else "2.0",
            dictionary_pagesize_limit=1 << 30,
            write_page_checksum=4 in like.header,
            write_statistics=False,
            store_schema=False,
            **({} if has_entries else of_values),
        )
        writer.write_table(pa.Table.from_arrays([rows], schema=schema), row_group_size=len(rows))
        writer.close()
        made = collected[0].row_group(0).column(0)
        start = made.dictionary_page_offset if made.has_dictionary_page else made.data_page_offset
        body = memoryview(sink.getvalue()).cast("B")[start : start + made.total_compressed_size]
        pages = [page for page in pages_of(body) if page.data is not None]
        if sum(map(_num_values, pages)) != len(rows):
            raise ValueError("Arrow has written another number of values")
        for page in pages:
            if _encoding(page) != encoding and not (has_entries and _has_indexes(page)):
                raise ValueError("Arrow has written another encoding")
            made_header, header = _with_encoding(page, encoding), bytearray()
            put_struct(header, made_header)
            self._pieces += [bytes(header), body[page.values : page.end]]
            self._pages.append(_Encoded(made_header, len(header)))

    # --- metadata -------------------------------------------------------------------------------------------

    def _statistics(
        self, kept: Sequence[pa.Array], gone: Sequence[pa.Array], passed_on: Sequence[Page]
    ) -> ThriftStruct | None:
        """Statistics, with the bounds of the ``kept`` values and those of pages that are passed on; None if the old
        ones contradict the pages. 5 and 6 are the bounds, 7 and 8 say whether they are values."""
        old = self._metadata[12][1]
        null_count = old[3][1] - sum(each.null_count for each in gone)
        low, high = _key(old[6][1], self._column), _key(old[5][1], self._column)
        is_exact = _is_exact(old)
        removed, found = self._ends(gone), self._ends(kept)
        if not 0 <= null_count <= np.count_nonzero(self._stays):
            return None
        if removed is not None and (removed[0] < low or removed[1] > high):
            return None
        same = {**old, 3: (I64, null_count)}
        if is_exact and (removed is None or low < removed[0] <= removed[1] < high or found == (low, high)):
            return same
        if is_exact and self._stated_ends(self._data) == (low, high):
            found = _joined([found, self._stated_ends(passed_on)])
        else:
            found = _joined([found, self._ends(self._all_values(passed_on))])
        if found is None:
            return {3: (I64, null_count)}
        if is_exact and found == (low, high):
            return same
        raw = [_raw(each, self._column) for each in found]
        if found[0] < low or found[1] > high or max(map(len, raw)) > _BOUND_BYTES:
            return None
        return {
            3: (I64, null_count),
            5: (BINARY, raw[1]),
            6: (BINARY, raw[0]),
            7: (TRUE, None),
            8: (TRUE, None),
        }

    def _ends(self, arrays: Iterable[pa.Array]) -> tuple[Any, Any] | None:
        """The least and the greatest of these values in Parquet's order, as `_key` has them."""
        from txlog.core.format.arrow.compute import pc

        flips = self._column.physical_type == _FIXED
        found = [pc.min_max(_flipped(each) if flips else each) for each in arrays]
        low, high = ([value for each in found if (value := each[end].as_py()) is not None] for end in ("min", "max"))
        if not low:
            return None
        shift = 1 << (8 * self._column.width_bytes - 1) if flips else 0
        ends = min(low), max(high)
        return (int.from_bytes(ends[0], "big") - shift, int.from_bytes(ends[1], "big") - shift) if flips else ends

    def _stated_ends(self, pages: Sequence[Page]) -> tuple[Any, Any] | None:
        """The same as the headers of these pages say; None if one does not. They have them in field 5, of the second
        version in 8."""
        found = []
        for page in pages:
            header, _ = _fields_of(page)
            stated = header.get(_kind(page.header), _NO_STATISTICS)[1]
            if stated.get(3, _NO_STATISTICS)[1] == _num_values(page):
                continue
            if not {5, 6} <= stated.keys() or not _is_exact(stated):
                return None
            found.append((_key(stated[6][1], self._column), _key(stated[5][1], self._column)))
        return _joined(found)

    def _finished(self, statistics: ThriftStruct | None, floats: Sequence[pa.Array] = ()) -> ShorterChunk:
        """ColumnMetaData: 2 and 13 are its encodings, 5 counts values, 6 and 7 bytes; 9 and 11 are places."""
        old, body = self._metadata, b"".join(self._pieces)
        num_rows = int(np.count_nonzero(self._stays))
        data = [each.header for each in self._pages if 7 not in each.header]
        if sum(_num_values(header) for header in data) != num_rows:
            raise ValueError("these pages do not have the rows that stay")
        start = len(MAGIC)
        found = {field: old[field] for field in (1, 3, 4)} | {
            2: (LIST, (I32, self._encodings())),
            5: (I64, num_rows),
            6: (I64, sum(each.header_bytes + each.header[2][1] for each in self._pages)),
            7: (I64, len(body) - start),
            9: (I64, start),
        }
        if len(data) < len(self._pages):
            found |= {9: (I64, start + self._pages[0].header_bytes + self._pages[0].header[3][1]), 11: (I64, start)}
        if statistics is not None:  # distinct values (4) are not counted
            found[12] = STRUCT, {field: value for field, value in statistics.items() if field != 4}
        if 13 in old:
            kinds = Counter((each.header[1][1], _encoding(each.header)) for each in self._pages)
            counted = [
                {1: (I32, kind), 2: (I32, encoding), 3: (I32, count)} for (kind, encoding), count in kinds.items()
            ]
            found[13] = LIST, (STRUCT, counted)
        return ShorterChunk(body, _one_group(found, num_rows), floats)

    def _encodings(self) -> list[int]:
        """Those that the old chunk names, without a dictionary that is left out, and those of the pages."""
        has_dictionary = 7 in self._pages[0].header
        old = [each for each in self._metadata[2][1][1] if has_dictionary or each not in _INDEXES]
        return [*dict.fromkeys((*old, _RLE, *(_encoding(each.header) for each in self._pages)))]


# --- what is understood -------------------------------------------------------------------------------------------


def _understood(
    body: memoryview, metadata: ThriftStruct, column: FlatColumn, stays: NDArray[np.bool_]
) -> _OldChunk | None:
    """Raises PageDamaged, IndexError, KeyError, ValueError."""
    statistics = metadata[12][1] if 12 in metadata else {}
    if not metadata.keys() <= _KNOWN or not (column.has_floats or {3, 5, 6} <= statistics.keys()):
        return None
    if column.physical_type not in (*_ARROW_TYPES, _FIXED) or metadata[4][1] not in _CODECS:
        return None
    pages = [*pages_of(body)]
    dictionary = pages.pop(0) if pages and pages[0].header[1][1] == _DICTIONARY else None
    if dictionary is not None and _encoding(dictionary.header) not in (_PLAIN, _PLAIN_DICTIONARY):
        return None
    if not pages or not all(_is_plain(page, column, has_dictionary=dictionary is not None) for page in pages):
        return None
    if sum(map(_num_values, pages)) != len(stays):
        return None
    return _OldChunk(body, metadata, column, stays, dictionary, pages)


def _is_plain(page: Page, column: FlatColumn, *, has_dictionary: bool) -> bool:
    """Whether a page is one of values, in an encoding that is known here.

    DataPageHeader: its definition levels (3) may be encoded in an old way. DataPageHeaderV2: it has as many rows (3) as
    values (1), and no bytes of repetition levels (6).
    """
    kind = _kind(page.header)
    if page.header[1][1] == _DATA:
        is_known = kind == 5 and (not column.is_nullable or page.header[5][1][3][1] == _RLE)
    elif page.header[1][1] == _DATA_V2:
        data = page.header[8][1]
        is_known = kind == 8 and data[3][1] == data[1][1] and data[6][1] == 0
    else:
        return False
    encodings = (*_ENCODINGS, *_INDEXES) if has_dictionary else _ENCODINGS
    return is_known and _num_values(page) > 0 and _encoding(page) in encodings


def _fields_of(page: Page | ThriftStruct) -> tuple[ThriftStruct, int]:
    """The header of its kind, and the field of its encoding in there."""
    header = page.header if isinstance(page, Page) else page
    kind = _kind(header)
    return header[kind][1], 4 if kind == 8 else 2


def _kind(header: ThriftStruct) -> int:
    """The field with the header of its kind. Raises KeyError."""
    kinds = [field for field in (5, 7, 8) if field in header]
    if len(kinds) != 1:
        raise KeyError("a page is of one kind")
    return kinds[0]


def _num_values(page: Page | ThriftStruct) -> int:
    count: int = _fields_of(page)[0][1][1]
    return count


def _encoding(page: Page | ThriftStruct) -> int:
    found, field = _fields_of(page)
    encoding: int = found[field][1]
    return encoding


def _has_indexes(page: Page) -> bool:
    return _encoding(page) in _INDEXES


def _with_encoding(page: Page, encoding: int) -> ThriftStruct:
    """Its header, with another name of the encoding: indexes have two."""
    found, field = _fields_of(page)
    kind = _kind(page.header)
    return {**page.header, kind: (STRUCT, {**found, field: (I32, encoding)})}


def _one_group(metadata: ThriftStruct, num_rows: int) -> dict[int, Any]:
    """The row groups of a footer: one with this chunk."""
    group = {
        1: (LIST, (STRUCT, [{2: (I64, 0), 3: (STRUCT, metadata)}])),
        2: (I64, metadata[6][1]),
        3: (I64, num_rows),
    }
    return {4: (LIST, (STRUCT, [group]))}


# --- values -------------------------------------------------------------------------------------------------------


def _is_exact(statistics: ThriftStruct) -> bool:
    """Whether the bounds are values, which is told if they are not."""
    return all(statistics.get(field, (TRUE,))[0] == TRUE for field in (7, 8))


def _joined(ends: Iterable[tuple[Any, Any] | None]) -> tuple[Any, Any] | None:
    found = [each for each in ends if each is not None]
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


def _texts(count: int) -> pa.Array:
    """That many different texts, to stand for the entries of any dictionary: Arrow writes places in one of texts as
    they are."""
    offsets = np.arange(0, 4 * count + 4, 4, dtype=np.int32)
    numbers = np.arange(count, dtype=np.uint32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(numbers)])


def _flipped(array: pa.Array) -> pa.Array:
    """Signed numbers of a fixed length, without nulls, as bytes of which the order is theirs."""
    array = array.drop_null()
    width = array.type.byte_width
    body = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width :][: len(array) * width]
    flipped = body.reshape(-1, width) ^ np.array([0x80] + [0] * (width - 1), np.uint8)
    return pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(np.ascontiguousarray(flipped))])


def _key(raw: bytes, column: FlatColumn) -> Any:
    """A bound of a footer as a value that compares as Parquet orders it."""
    if column.physical_type in _INTEGER_BYTES:
        return int.from_bytes(raw, "little", signed=True)
    if column.physical_type == _FIXED:
        return int.from_bytes(raw, "big", signed=True)
    return bytes(raw) != b"\0" if column.physical_type == _BOOLEAN else bytes(raw)


def _raw(key: Any, column: FlatColumn) -> bytes:
    """The opposite of `_key`."""
    if column.physical_type in _INTEGER_BYTES:
        body: bytes = key.to_bytes(_INTEGER_BYTES[column.physical_type], "little", signed=True)
        return body
    if column.physical_type == _FIXED:
        return bytes(key.to_bytes(column.width_bytes, "big", signed=True))
    return bytes([key]) if column.physical_type == _BOOLEAN else bytes(key)
