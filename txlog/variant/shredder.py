"""Shreds variants: a file's typed columns for the parts that most of its rows have, as the table's property says or as
its first rows show.

In: a column of variants, and the types of its parts (`Shape`), given or found. Out: the column as the file stores it, a
struct of ``metadata``, ``value`` and ``typed_value``, and the bounds of its typed parts. `shredding` puts such columns
together again. Pure. The rules are those of "Variant Shredding", VariantShredding.md of apache/parquet-format.
"""

from __future__ import annotations

import decimal
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    LONG,
    STRING,
    TIMESTAMPS,
    Array,
    DataType,
    Decimal,
    Field,
    Struct,
    as_variant_struct,
    type_to_arrow,
)
from txlog.variant.bounds import encoded_bounds
from txlog.variant.encoding import MalformedVariantError, Part, names_of, object_of
from txlog.variant.shredding import TYPED

Shape: TypeAlias = DataType
"""The type of what is stored in typed columns: a struct for an object's fields, an array for a list's elements, or the
type of a value."""

_SAMPLE_ROWS = 4_096
_SHARE_MIN = 0.1  # of the rows: rarer fields stay together
_FIELDS_MAX = 100
_DEPTH_MAX = 8
_DIGITS = (18, 38)  # of decimals in 8 and 16 bytes
_KINDS: Mapping[str, DataType] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), LONG),
    **{each.name: each for each in (BOOLEAN, DOUBLE, FLOAT, STRING, BINARY, DATE, *TIMESTAMPS)},
}
"""The types of typed columns by the kinds of values that go there. Decimals have theirs by their digits."""
_NOTHING = object()


class Shredder:
    """One column of one file. Its bounds are of all rows that it has stored."""

    def __init__(self, shape: Shape) -> None:
        self._root = _made(shape)
        self._names: dict[bytes, tuple[str, ...]] = {}
        self._has_damage = False
        members = [pa.field("metadata", pa.binary(), nullable=False), *self._root.members]
        self.kind: pa.StructType = as_variant_struct(pa.struct(members))
        """The column's type in the file."""

    def stored(self, array: pa.StructArray) -> pa.StructArray:
        """The same variants in the file's form, of which `shredding.unshredded` makes equal ones. Bytes that are no
        variant are stored as they are."""
        self._root.begin()
        metadata, values = (array.field(name).to_pylist() for name in ("metadata", "value"))
        valid = array.is_valid().to_pylist()
        for at, is_valid in enumerate(valid):
            if not is_valid:
                self._root.put(None)
                continue
            try:
                if metadata[at] not in self._names:
                    self._names[metadata[at]] = names_of(metadata[at])
                self._root.put(Part(self._names[metadata[at]], values[at]))
            except MalformedVariantError:
                self._has_damage = True
                self._root.cut(at)
                self._root.put_bytes(values[at])
        parts = [array.field("metadata"), *self._root.columns()]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(self.kind), mask=mask)

    def bounds(self) -> tuple[str | None, str | None]:
        """The least and the greatest values of the typed parts, as ``minValues`` and ``maxValues`` have them; None if
        there are none. PROTOCOL.md, "Statistics for Variant Columns"."""
        if self._has_damage:
            return None, None
        known = dict(self._root.known(()))
        return encoded_bounds(known, is_maximum=False), encoded_bounds(known, is_maximum=True)


class _LeafNode:
    """The values of one type, and the bytes of all others."""

    def __init__(self, data_type: DataType) -> None:
        self._type = data_type
        self._arrow = type_to_arrow(data_type)
        self.members: tuple[pa.Field, pa.Field] = (pa.field("value", pa.binary()), pa.field(TYPED, self._arrow))
        self._low: Any = None
        self._high: Any = None
        self._is_mixed = False
        self.begin()

    def begin(self) -> None:
        self._values: list[bytes | None] = []
        self._typed: list[Any] = []

    def put(self, part: Part | None) -> None:
        value = _NOTHING if part is None else self._of_type(part)
        self._typed.append(None if value is _NOTHING else value)
        self._values.append(part.encoded() if part is not None and value is _NOTHING else None)
        if value is not _NOTHING:
            self._note(value)
        elif part is not None:
            self._is_mixed = True

    def put_bytes(self, value: bytes | None) -> None:
        self._values.append(value)
        self._typed.append(None)

    def cut(self, rows: int) -> None:
        """Keep only the first rows."""
        del self._values[rows:], self._typed[rows:]

    def columns(self) -> tuple[pa.Array, pa.Array]:
        return array_of(self._values, pa.binary()), pa.array(self._typed, self._arrow)

    def known(self, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[DataType, Any, Any]]]:
        """The bounds, if all values have the type and an order."""
        if not self._is_mixed and self._low is not None:
            yield path, (self._type, self._low, self._high)

    def _of_type(self, part: Part) -> Any:
        kind = part.kind
        if isinstance(self._type, Decimal):
            return self._as_decimal(part) if kind == "decimal" or kind in _WHOLE else _NOTHING
        if _KINDS.get(kind) != self._type:
            return _NOTHING
        value = part.python()
        return _NOTHING if isinstance(value, tuple) else value  # times that Python and Arrow have in no common form

    def _as_decimal(self, part: Part) -> Any:
        assert isinstance(self._type, Decimal)
        number = decimal.Decimal(part.python())
        _, digits, exponent = number.as_tuple()
        whole = len(digits) + int(exponent)
        fits = -int(exponent) <= self._type.scale and whole <= self._type.precision - self._type.scale
        return number if fits else _NOTHING

    def _note(self, value: Any) -> None:
        if value != value or self._type == BINARY:
            self._is_mixed = True  # NaN is beyond all bounds, and binaries have none
        elif self._low is None:
            self._low = self._high = value
        elif value < self._low:
            self._low = value
        elif value > self._high:
            self._high = value


class _ObjectNode:
    """The fields of an object that have typed columns, and the bytes of an object with the others."""

    def __init__(self, fields: Mapping[str, _Node]) -> None:
        self._fields = fields
        groups = [pa.field(name, pa.struct(list(node.members)), nullable=False) for name, node in fields.items()]
        self.members: tuple[pa.Field, pa.Field] = (pa.field("value", pa.binary()), pa.field(TYPED, pa.struct(groups)))
        self.begin()

    def begin(self) -> None:
        self._values: list[bytes | None] = []
        self._is_object: list[bool] = []
        for node in self._fields.values():
            node.begin()

    def put(self, part: Part | None) -> None:
        is_object = part is not None and part.kind == "object"
        found: dict[str, Part] = {}
        rest: dict[str, Part] = {}
        if part is not None and is_object:
            for name, each in part.fields():
                if name in found or name in rest:
                    raise MalformedVariantError("an object has a name twice")
                (found if name in self._fields else rest)[name] = each
        value = None
        if part is not None and not is_object:
            value = part.encoded()
        elif part is not None and rest:
            value = object_of([part.id_of(name) for name in rest], [each.encoded() for each in rest.values()])
        for name, node in self._fields.items():
            node.put(found.get(name))
        self._values.append(value)
        self._is_object.append(is_object)

    def put_bytes(self, value: bytes | None) -> None:
        self._values.append(value)
        self._is_object.append(False)
        for node in self._fields.values():
            node.put_bytes(None)

    def cut(self, rows: int) -> None:
        """Keep only the first rows."""
        del self._values[rows:], self._is_object[rows:]
        for node in self._fields.values():
            node.cut(rows)

    def columns(self) -> tuple[pa.Array, pa.Array]:
        parts = [
            pa.StructArray.from_arrays(node.columns(), fields=list(node.members)) for node in self._fields.values()
        ]
        mask = array_of([not each for each in self._is_object], pa.bool_())
        typed = pa.StructArray.from_arrays(parts, fields=list(self.members[1].type), mask=mask)
        return array_of(self._values, pa.binary()), typed

    def known(self, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[DataType, Any, Any]]]:
        for name, node in self._fields.items():
            yield from node.known((*path, name))


class _List:
    """The elements of a list as typed columns, and the bytes of what is no list."""

    def __init__(self, element: _Node) -> None:
        self._element = element
        item = pa.field("element", pa.struct(list(element.members)), nullable=False)
        self.members: tuple[pa.Field, pa.Field] = (pa.field("value", pa.binary()), pa.field(TYPED, pa.list_(item)))
        self.begin()

    def begin(self) -> None:
        self._values: list[bytes | None] = []
        self._ends = [0]
        self._is_list: list[bool] = []
        self._element.begin()

    def put(self, part: Part | None) -> None:
        if part is None or part.kind != "array":
            self.put_bytes(None if part is None else part.encoded())
            return
        end = self._ends[-1]
        for each in part.items_apart():
            self._element.put(each)
            end += 1
        self._values.append(None)
        self._is_list.append(True)
        self._ends.append(end)

    def put_bytes(self, value: bytes | None) -> None:
        self._values.append(value)
        self._is_list.append(False)
        self._ends.append(self._ends[-1])

    def cut(self, rows: int) -> None:
        """Keep only the first rows."""
        del self._values[rows:], self._is_list[rows:], self._ends[rows + 1 :]
        self._element.cut(self._ends[-1])

    def columns(self) -> tuple[pa.Array, pa.Array]:
        elements = pa.StructArray.from_arrays(self._element.columns(), fields=list(self._element.members))
        mask = array_of([not each for each in self._is_list], pa.bool_())
        offsets = array_of(self._ends, pa.int32())
        return array_of(self._values, pa.binary()), pa.ListArray.from_arrays(
            offsets, elements, self.members[1].type, mask=mask
        )

    def known(self, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[DataType, Any, Any]]]:
        """Elements have no bounds: the paths in the log lead to fields."""
        yield from ()


_Node: TypeAlias = "_LeafNode | _ObjectNode | _List"
_WHOLE = frozenset(kind for kind, data_type in _KINDS.items() if data_type == LONG)


def _made(shape: Shape) -> _Node:
    if isinstance(shape, Struct):
        return _ObjectNode({field.name: _made(field.type) for field in shape.fields})
    return _List(_made(shape.element)) if isinstance(shape, Array) else _LeafNode(shape)


# --- what most rows have --------------------------------------------------------------------------------------------


class _PlaceSample:
    """What is at one place in the rows of a sample."""

    def __init__(self) -> None:
        self.count = 0
        self.types: Counter[DataType | str] = Counter()
        self.scale = self.whole = 0
        self.fields: dict[str, _PlaceSample] = {}
        self.element: _PlaceSample | None = None

    def see(self, part: Part, depth: int) -> None:
        self.count += 1
        kind = part.kind
        if kind == "object" and depth < _DEPTH_MAX:
            self.types["object"] += 1
            for name, each in part.fields():
                self.fields.setdefault(name, _PlaceSample()).see(each, depth + 1)
        elif kind == "array" and depth < _DEPTH_MAX:
            self.types["array"] += 1
            self.element = self.element or _PlaceSample()
            for each in part.items():
                self.element.see(each, depth + 1)
        elif kind == "decimal" or kind in _WHOLE:
            self.types["decimal" if kind == "decimal" else LONG] += 1
            _, digits, exponent = decimal.Decimal(part.python()).as_tuple()
            self.scale, self.whole = max(self.scale, -int(exponent)), max(self.whole, len(digits) + int(exponent))
        elif kind != "null":
            self.types[_KINDS.get(kind, kind)] += 1

    def shape(self, least: float) -> Shape | None:
        """The type of nearly all values here; None if they have several, or one that has no typed column."""
        if {*self.types} == {"array"}:
            element = self.element and self.element.shape(self.element.count * _SHARE_MIN)
            return Array(element) if element else None
        if {*self.types} == {"object"}:
            fields = ((name, seen.shape(least)) for name, seen in self.fields.items() if seen.count >= least)
            known = tuple(Field(name, found) for name, found in fields if found is not None)
            return Struct(known[:_FIELDS_MAX]) if known else None
        if {*self.types} in ({"decimal"}, {"decimal", LONG}):
            digits = next((each for each in _DIGITS if self.whole + self.scale <= each), None)
            return None if digits is None else Decimal(digits, self.scale)
        if len(self.types) != 1:
            return None
        (found,) = self.types
        return None if isinstance(found, str) else found


def found_shape(array: pa.StructArray) -> Shape | None:
    """The type of what the first rows of a column have in common: fields that a tenth of them has, each of one type,
    and lists whose elements have something in common.

    None if there is nothing like that.
    """
    seen = _PlaceSample()
    rows = array.slice(0, _SAMPLE_ROWS)
    for is_valid, each in zip(rows.is_valid().to_pylist(), rows.to_pylist(), strict=True):
        if is_valid:
            try:
                part = Part(names_of(each["metadata"]), each["value"])
                part.python()  # checks how deep it nests, and that no offset is used twice
                seen.see(part, 0)
            except MalformedVariantError:
                return None
    return seen.shape(seen.count * _SHARE_MIN) if seen.count else None
