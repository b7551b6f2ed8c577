"""Variants in the binary encoding of Apache Parquet: Python values to bytes, and bytes to values.

In: a Python value, or the two parts of a variant, ``metadata`` (the names of its objects' fields) and ``value``, which
may be hostile: nothing is believed before it is checked. Out: the two parts, or a value. Pure. The sections named here
are those of "Variant Binary Encoding", VariantEncoding.md of apache/parquet-format.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import operator
import struct
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from txlog.core.format.schema import timestamp_of

DEPTH_MAX = 300
"""How deep arrays and objects may nest: Python's stack has 1,000 frames."""

SIZE_MAX = 128 << 20
"""Spark takes no larger variant."""

_PRIMITIVE, _SHORT_STRING, OBJECT, ARRAY = range(4)  # "Value encoding", basic types
_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SHORT_MAX = 63
_SPARK_SEARCHES_FROM = 32  # fields
_SMALL = 1 << 8  # counts, offsets and ids below this take a byte, and such headers have no other bit
_FEW = 64  # names of an object: those of smaller ones are remembered
_EXACT = decimal.Context(prec=80, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


class MalformedVariantError(ValueError):
    """The bytes are no variant. The caller knows where they came from and reports it."""


class Single(float):
    """A float of 32 bits."""

    __slots__ = ()


class Encoded(bytes):
    """The bytes of a value that is encoded already, and names no field."""

    __slots__ = ()


class Timestamp(NamedTuple):
    """A time outside the years 1 to 9999, which Python's ``datetime`` does not have.

    ``micros`` are microseconds since 1970-01-01, of an instant if it ``has_zone``, else of what a clock shows.
    """

    micros: int
    has_zone: bool


class Nanoseconds(NamedTuple):
    """A time finer than Python's ``datetime``: nanoseconds since 1970-01-01, with or without a zone."""

    nanos: int
    has_zone: bool


# --- values to bytes ----------------------------------------------------------------------------------------------


def encode(value: Any) -> tuple[bytes, bytes]:
    """``(metadata, value)`` of one Python value; None is the variant's own null.

    Takes None, bool, int, float, `decimal.Decimal`, str, bytes, date, datetime (an instant if it has a zone), time,
    UUID, `Timestamp`, `Nanoseconds`, and lists, tuples and mappings of them. An integer is as narrow as it can be, as
    Spark's ``parse_json`` makes it; one beyond 64 bits is a decimal, and one of more than 38 digits a double.

    Raises ValueError saying what a variant cannot hold.
    """
    ids: dict[str, int] = {}
    encoded = encode_value(value, ids)
    return metadata_of(ids), encoded


def metadata_of(names: Iterable[str]) -> bytes:
    """The dictionary of names, in their order ("Metadata encoding"). Raises ValueError for text that UTF-8 lacks."""
    listed = tuple(names)
    return _known_dictionary(listed) if len(listed) <= _FEW else _dictionary(listed)


def _dictionary(names: tuple[str, ...]) -> bytes:
    texts = [_utf8(name) for name in names]
    offsets = [*itertools.accumulate(map(len, texts), initial=0)]
    width = _width(max(offsets[-1], len(texts)))
    is_sorted = all(one < other for one, other in itertools.pairwise(texts))
    header = 1 | (bool(texts) and is_sorted) << 4 | (width - 1) << 6
    return b"".join((bytes((header,)), _numbers((len(texts), *offsets), width), *texts))


_known_dictionary = functools.lru_cache(1024)(_dictionary)


def encode_value(value: Any, ids: dict[str, int], depth: int = 0) -> bytes:
    """``value`` alone. ``ids`` has the index of each name in the dictionary, and gets new ones. Raises ValueError."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if depth > DEPTH_MAX:
        raise ValueError(f"it nests deeper than {DEPTH_MAX} levels")
    kind = type(value)
    if kind is dict or isinstance(value, Mapping):
        for name in value:
            if name not in ids:
                if not isinstance(name, str):
                    raise ValueError(f"an object's names are strings, not {name!r}")
                ids[name] = len(ids)
        in_order = (_known_order if len(value) <= _FEW else _order)(tuple(value))
        return object_of(in_order(ids), _encoded(in_order(value), ids, depth + 1))
    if kind is list or (isinstance(value, (list, tuple)) and not hasattr(value, "_fields")):
        return array_of(_encoded(value, ids, depth + 1))
    if isinstance(value, Part):
        return encode_value(value.python(), ids, depth)
    for known, write in _WRITERS.items():
        if isinstance(value, known):
            return write(value)
    raise ValueError(f"a variant cannot hold {value!r}")


def _encoded(values: Sequence[Any], ids: dict[str, int], depth: int) -> list[bytes]:
    """Each value. Most are of a type that needs no more than its writer."""
    found = []
    for value in values:
        write = _WRITERS.get(type(value))
        found.append(encode_value(value, ids, depth) if write is None else write(value))
    return found


def _order(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """What has the values of a mapping in the order of their names' bytes."""
    found = _sorted(names)
    return operator.itemgetter(*found) if len(found) > 1 else lambda values: [values[name] for name in found]


_known_order = functools.lru_cache(1024)(_order)


def _sorted(names: Collection[str]) -> list[str]:
    """By their bytes, as "Value Data for Object" says. Spark looks names of larger objects up by halves, in the order
    of UTF-16, and finds NULL where the two orders differ. Raises ValueError for such names."""
    found = sorted(names, key=_utf8)
    if len(found) >= _SPARK_SEARCHES_FROM and max(map(max, filter(None, found))) >= "\ue000":
        for name, other in zip(found, sorted(names, key=lambda each: each.encode("utf-16-be")), strict=True):
            if name != other:
                raise ValueError(
                    f"an object of {len(found)} fields has the names {name!r} and {other!r}, which UTF-8 and UTF-16"
                    f" order differently, so Spark would not find them: rename one, or nest some fields, so that no"
                    f" object with both has {_SPARK_SEARCHES_FROM} fields"
                )
    return found


def object_of(ids: Sequence[int], fields: Sequence[bytes]) -> bytes:
    """An object of encoded fields, in the order of the bytes of their names ("Value Data for Object").

    ``ids`` are the indices of their names in the dictionary.
    """
    offsets = [*itertools.accumulate(map(len, fields), initial=0)]
    if offsets[-1] < _SMALL and len(ids) < _SMALL and max(ids, default=0) < _SMALL:
        return b"".join((bytes((OBJECT, len(ids), *ids, *offsets)), *fields))
    id_width, width = _width(max(ids, default=0)), _width(offsets[-1])
    is_large = len(fields) > 0xFF
    header = OBJECT | ((width - 1) | (id_width - 1) << 2 | is_large << 4) << 2
    count = _number(len(fields), 4 if is_large else 1)
    return _checked(b"".join((bytes((header,)), count, _numbers(ids, id_width), _numbers(offsets, width), *fields)))


def array_of(items: Sequence[bytes]) -> bytes:
    """An array of encoded elements ("Value Data for Array")."""
    offsets = [*itertools.accumulate(map(len, items), initial=0)]
    if offsets[-1] < _SMALL and len(items) < _SMALL:
        return b"".join((bytes((ARRAY, len(items), *offsets)), *items))
    width = _width(offsets[-1])
    is_large = len(items) > 0xFF
    header = ARRAY | ((width - 1) | is_large << 2) << 2
    count = _number(len(items), 4 if is_large else 1)
    return _checked(b"".join((bytes((header,)), count, _numbers(offsets, width), *items)))


def _checked(encoded: bytes) -> bytes:
    if len(encoded) > SIZE_MAX:
        raise ValueError(f"it takes {len(encoded):,} bytes, and a variant may have {SIZE_MAX:,}")
    return encoded


def _width(number: int) -> int:
    """The bytes of an offset, of a size or of an id: 1 to 4."""
    return 1 if number < 1 << 8 else 2 if number < 1 << 16 else 3 if number < 1 << 24 else 4


def _number(number: int, width: int) -> bytes:
    return number.to_bytes(width, "little")


def _numbers(numbers: Sequence[int], width: int) -> bytes:
    return bytes(numbers) if width == 1 else b"".join([number.to_bytes(width, "little") for number in numbers])


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is not text that UTF-8 can encode") from None


def _header(kind: int) -> bytes:
    return bytes((kind << 2,))


def _string(text: str) -> bytes:
    body = _utf8(text)
    if len(body) <= _SHORT_MAX:
        return _SHORT_HEADERS[len(body)] + body
    return _checked(_header(16) + _number(len(body), 4) + body)


def _integer(value: int) -> bytes:
    if -128 <= value < 128:
        return _SMALL_INTEGERS[value]
    for kind, width in ((4, 2), (5, 4), (6, 8)):
        if -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
            return _header(kind) + value.to_bytes(width, "little", signed=True)
    try:
        return _decimal(decimal.Decimal(value)) if abs(value) < 10**38 else _double(float(value))
    except OverflowError:
        raise ValueError(f"a variant has no number as large as {str(value)[:20]}...") from None


def _decimal(value: decimal.Decimal) -> bytes:
    if not value.is_finite():
        raise ValueError(f"a variant has no decimal {value}: write a float")
    scale = -value.as_tuple().exponent  # type: ignore[operator]
    if scale < 0:
        value, scale = value.quantize(decimal.Decimal(1), context=_EXACT), 0
    found = decimal_of(int(value.scaleb(scale, _EXACT)), scale)
    if found is None:
        raise ValueError(f"a variant's decimals have up to 38 digits, which {value} exceeds")
    return found


def decimal_of(unscaled: int, scale: int) -> Encoded | None:
    """ "Decimal table": up to 9 digits in 4 bytes, 18 in 8, 38 in 16; None for one with more."""
    for digits, limit, headers, width in _DECIMAL_TABLE:
        if scale <= digits and -limit < unscaled < limit:
            return Encoded(headers[scale] + unscaled.to_bytes(width, "little", signed=True))
    return None


def _double(value: float) -> bytes:
    return _header(7) + struct.pack("<d", value)


def _datetime(value: datetime.datetime) -> bytes:
    has_zone = value.tzinfo is not None
    return _time_of(Timestamp((value - (_EPOCH_UTC if has_zone else _EPOCH)) // _MICROSECOND, has_zone))


def _time_of(value: Timestamp) -> bytes:
    return _header(12 if value.has_zone else 13) + struct.pack("<q", value.micros)


def _clock(value: datetime.time) -> bytes:
    if value.tzinfo is not None:
        raise ValueError("a variant's times of day have no zone")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _header(17) + struct.pack("<q", seconds * 1_000_000 + value.microsecond)


_SHORT_HEADERS = [bytes((size << 2 | _SHORT_STRING,)) for size in range(_SHORT_MAX + 1)]
_SMALL_INTEGERS = {value: bytes((0x0C, value & 0xFF)) for value in range(-128, 128)}
_DECIMAL_TABLE = tuple(
    (digits, 10**digits, [bytes((kind << 2, scale)) for scale in range(digits + 1)], width)
    for kind, digits, width in ((8, 9, 4), (9, 18, 8), (10, 38, 16))
)
_WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: _header(0),
    bool: lambda value: _header(1 if value else 2),
    int: _integer,
    float: _double,
    Single: lambda value: _header(14) + struct.pack("<f", value),
    decimal.Decimal: _decimal,
    str: _string,
    datetime.datetime: _datetime,
    datetime.date: lambda value: _header(11) + struct.pack("<i", value.toordinal() - _EPOCH_DAY),
    datetime.time: _clock,
    bytes: lambda value: _checked(_header(15) + _number(len(value), 4) + value),
    bytearray: lambda value: _checked(_header(15) + _number(len(value), 4) + bytes(value)),
    Encoded: lambda value: value,
    uuid.UUID: lambda value: _header(20) + value.bytes,
    Timestamp: _time_of,
    Nanoseconds: lambda value: _header(18 if value.has_zone else 19) + struct.pack("<q", value.nanos),
}


# --- bytes to values ----------------------------------------------------------------------------------------------


def names_of(metadata: bytes) -> tuple[str, ...]:
    """The dictionary's names by their index ("Metadata encoding"). Raises MalformedVariantError."""
    header = _at(metadata, 0)
    if header & 0x0F != 1:
        raise MalformedVariantError(f"its metadata has version {header & 0x0F}, and version 1 is known")
    width = (header >> 6) + 1
    count = _unsigned(metadata, 1, width)
    start = 1 + width * (count + 2)
    if start > len(metadata):
        raise MalformedVariantError(f"its metadata has {len(metadata)} bytes, too few for {count} names")
    ends = [_unsigned(metadata, 1 + width * (at + 1), width) for at in range(count + 1)]
    if ends[0] != 0 or start + ends[-1] > len(metadata) or any(a > b for a, b in itertools.pairwise(ends)):
        raise MalformedVariantError("the offsets of its metadata are out of order, or beyond its end")
    return tuple(_text(metadata, start + a, start + b) for a, b in itertools.pairwise(ends))


class Part:
    """One value inside a variant: where it begins, and the names that its objects use. Checked when it is read.

    ``kind`` is the value's type: ``object``, ``array``, ``string``, or one of the primitive types' names.
    """

    __slots__ = ("_names", "_start", "_stop", "_value")

    def __init__(self, names: Sequence[str], value: bytes, start: int = 0, stop: int | None = None) -> None:
        self._names, self._value, self._start = names, value, start
        self._stop = len(value) if stop is None else stop
        if start >= self._stop:
            raise MalformedVariantError(f"its value ends at byte {self._stop}, where another one should begin")

    @property
    def kind(self) -> str:
        """Raises MalformedVariantError for a type that the encoding does not have."""
        basic, info = self._header()
        if basic != _PRIMITIVE:
            return ("", "string", "object", "array")[basic]
        if info not in _KINDS:
            raise MalformedVariantError(f"it has a value of type {info}, which is not known")
        return _KINDS[info]

    def python(self) -> Any:
        """The value as `encode` takes it. Raises MalformedVariantError."""
        return self._python(0, [len(self._value)])

    def items(self) -> Iterator[Part]:
        """An array's elements. Raises MalformedVariantError."""
        _, info = self._header()
        width, at = (info & 3) + 1, self._start + 1
        count = self._number(at, 4 if info >> 2 & 1 else 1)
        at += 4 if info >> 2 & 1 else 1
        yield from self._inside(at, count, width)

    def items_apart(self) -> Iterator[Part]:
        """An array's elements, of which each ends where the next one begins, so that all of them together have no more
        bytes than the array. Raises MalformedVariantError for one that overlaps another."""
        listed = list(self.items())
        for part, following in itertools.zip_longest(listed, listed[1:]):
            yield Part(part._names, part._value, part._start, part._stop if following is None else following._start)

    def fields(self) -> Iterator[tuple[str, Part]]:
        """An object's fields, in the order of its names. Raises MalformedVariantError."""
        _, info = self._header()
        width, id_width, at = (info & 3) + 1, (info >> 2 & 3) + 1, self._start + 1
        size_width = 4 if info >> 4 & 1 else 1
        count = self._number(at, size_width)
        at += size_width
        inside = self._inside(at + count * id_width, count, width)
        for number, part in enumerate(inside):
            name_id = self._number(at + number * id_width, id_width)
            if name_id >= len(self._names):
                raise MalformedVariantError(f"an object names its field {name_id}, of {len(self._names)}")
            yield self._names[name_id], part

    def id_of(self, name: str) -> int:
        """The index of one of its names."""
        return self._names.index(name)

    def get(self, name: str) -> Part | None:
        """The field of an object; None if this is no object, or has no such field. Raises MalformedVariantError."""
        if self._header()[0] != OBJECT:
            return None
        return next((part for each, part in self.fields() if each == name), None)

    def at(self, index: int) -> Part | None:
        """The element of an array; None if this is no array, or has fewer. Raises MalformedVariantError."""
        if self._header()[0] != ARRAY:
            return None
        return next((part for at, part in enumerate(self.items()) if at == index), None)

    def encoded(self) -> bytes:
        """Its bytes alone; the names stay those of the variant. Raises MalformedVariantError."""
        return self._value[self._start : self._start + self._size()]

    def _header(self) -> tuple[int, int]:
        header = self._value[self._start]
        return header & 3, header >> 2

    def _inside(self, at: int, count: int, width: int) -> Iterator[Part]:
        """The values that ``count + 1`` offsets at ``at`` point to; the last one is the end of them all.

        Those of an object may be in any order ("Value Data for Object").
        """
        start = at + (count + 1) * width
        stop = start + self._number(start - width, width)
        if stop > self._stop:
            raise MalformedVariantError(f"an array or object ends at byte {stop}, behind its end at {self._stop}")
        for number in range(count):
            yield Part(self._names, self._value, start + self._number(at + number * width, width), stop)

    def _number(self, at: int, width: int) -> int:
        if at + width > self._stop:
            raise MalformedVariantError(f"its value ends at byte {self._stop}, in a number")
        return int.from_bytes(self._value[at : at + width], "little")

    def _python(self, depth: int, left: list[int]) -> Any:
        """``left`` counts values down: each has a byte of its own, unless offsets point to one again and again."""
        left[0] -= 1
        if left[0] < 0:
            raise MalformedVariantError("several of its offsets point to one value")
        if depth > DEPTH_MAX:
            raise MalformedVariantError(f"it nests deeper than {DEPTH_MAX} levels")
        basic, info = self._header()
        if basic == _PRIMITIVE:
            return self._primitive(info)
        if basic == _SHORT_STRING:
            return self._text(self._start + 1, info)
        if basic == ARRAY:
            return [part._python(depth + 1, left) for part in self.items()]
        found = {name: part._python(depth + 1, left) for name, part in self.fields()}
        if len(found) < self._number(self._start + 1, 4 if info >> 4 & 1 else 1):
            raise MalformedVariantError("an object has a name twice")
        return found

    def _primitive(self, info: int) -> Any:
        if info in _FIXED:
            form, made = _FIXED[info]
            return made(struct.unpack(form, self._bytes(self._start + 1, struct.calcsize(form)))[0])
        if info in _DECIMALS:
            digits, width = _DECIMALS[info]
            scale = self._number(self._start + 1, 1)
            unscaled = int.from_bytes(self._bytes(self._start + 2, width), "little", signed=True)
            if scale > digits or abs(unscaled) >= 10**digits:
                raise MalformedVariantError(f"a decimal has more than {digits} digits")
            return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)
        if info in (15, 16):
            length = self._number(self._start + 1, 4)
            return self._bytes(self._start + 5, length) if info == 15 else self._text(self._start + 5, length)
        if info == 20:
            return uuid.UUID(bytes=self._bytes(self._start + 1, 16))
        if info not in _CONSTANTS:
            raise MalformedVariantError(f"it has a value of type {info}, which is not known")
        return _CONSTANTS[info]

    def _bytes(self, at: int, length: int) -> bytes:
        if at + length > self._stop:
            raise MalformedVariantError(f"its value ends at byte {self._stop}, in one of {length} bytes")
        return self._value[at : at + length]

    def _text(self, at: int, length: int) -> str:
        self._bytes(at, length)
        return _text(self._value, at, at + length)

    def _size(self) -> int:
        """How many bytes it takes."""
        basic, info = self._header()
        if basic == _SHORT_STRING:
            return 1 + info
        if basic == _PRIMITIVE:
            if info in _FIXED:
                return 1 + struct.calcsize(_FIXED[info][0])
            if info in _DECIMALS:
                return 2 + _DECIMALS[info][1]
            if info in (15, 16):
                return 5 + self._number(self._start + 1, 4)
            return 17 if info == 20 else 1
        is_object = basic == OBJECT
        size_width = 4 if info >> (4 if is_object else 2) & 1 else 1
        count = self._number(self._start + 1, size_width)
        ids = count * ((info >> 2 & 3) + 1) if is_object else 0
        width = (info & 3) + 1
        start = self._start + 1 + size_width + ids + (count + 1) * width
        return start + self._number(start - width, width) - self._start


def _at(data: bytes, at: int) -> int:
    if at >= len(data):
        raise MalformedVariantError("its metadata is empty")
    return data[at]


def _unsigned(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise MalformedVariantError(f"its metadata ends at byte {len(data)}, in a number")
    return int.from_bytes(data[at : at + width], "little")


def _text(data: bytes, start: int, stop: int) -> str:
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError:
        raise MalformedVariantError("one of its texts is not UTF-8") from None


def _same(value: Any) -> Any:
    return value


def _date(days: int) -> Any:
    ordinal = days + _EPOCH_DAY
    if not 1 <= ordinal <= datetime.date.max.toordinal():
        raise MalformedVariantError(f"it has a date outside the years 1 to 9999, {days} days from 1970 on")
    return datetime.date.fromordinal(ordinal)


def _moment(has_zone: bool) -> Callable[[int], Any]:
    def made(micros: int) -> Any:
        try:
            return (_EPOCH_UTC if has_zone else _EPOCH) + datetime.timedelta(microseconds=micros)
        except OverflowError:
            return Timestamp(micros, has_zone)

    return made


def _fine_moment(has_zone: bool) -> Callable[[int], Any]:
    return lambda nanos: Nanoseconds(nanos, has_zone) if nanos % 1000 else _moment(has_zone)(nanos // 1000)


def _time_of_day(micros: int) -> datetime.time:
    seconds, rest = divmod(micros, 1_000_000)
    if not 0 <= seconds < 86_400:
        raise MalformedVariantError(f"it has a time of day of {micros} microseconds")
    return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest)


_FIXED: dict[int, tuple[str, Callable[[Any], Any]]] = {  # "Primitive types"
    **{kind: (form, _same) for kind, form in ((3, "<b"), (4, "<h"), (5, "<i"), (6, "<q"), (7, "<d"))},
    14: ("<f", Single),
    11: ("<i", _date),
    12: ("<q", _moment(True)),
    13: ("<q", _moment(False)),
    17: ("<q", _time_of_day),
    18: ("<q", _fine_moment(True)),
    19: ("<q", _fine_moment(False)),
}
_DECIMALS = {8: (9, 4), 9: (18, 8), 10: (38, 16)}
_CONSTANTS: dict[int, Any] = {0: None, 1: True, 2: False}
_KINDS = {
    **{0: "null", 1: "boolean", 2: "boolean", 3: "byte", 4: "short", 5: "integer", 6: "long", 7: "double"},
    **{8: "decimal", 9: "decimal", 10: "decimal", 11: "date", 14: "float", 15: "binary", 16: "string", 17: "time"},
    **dict.fromkeys((12, 18), timestamp_of(has_zone=True).name),
    **dict.fromkeys((13, 19), timestamp_of(has_zone=False).name),
    20: "uuid",
}
