"""What `txlog.core.format.type_support` asks of the type ``variant``.

In: arrays of data, and columns of data files. Out: arrays of the struct of two binaries that a variant is in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import array_of, flags_of
from txlog.core.format.properties import TableProperties
from txlog.core.util import UTC, cached_property
from txlog.core.writing import BadRow
from txlog.errors import UnsupportedFeatureError
from txlog.variant.arrow_form import DamagedRowError, in_order, struct_of
from txlog.variant.encoding import Part, names_of
from txlog.variant.json_batches import variants_of
from txlog.variant.json_text import text_of
from txlog.variant.shredding import TYPED, unshredded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.format.schema import DataType
    from txlog.core.format.type_support import FileForm
    from txlog.core.predicates import PackageFunction
    from txlog.core.predicates.terms.tree import Expression

_PYARROW = 22

_PARTS = {"metadata", "value"}
_BINARIES = (pa.binary(), pa.large_binary(), pa.binary_view())


class VariantSupport:
    """A variant comes as the struct of ``metadata`` and ``value``, or as text of the type ``arrow.json``."""

    advice = (
        "make variants of JSON with txlog.variant.parse_json(texts), and of other values with"
        " txlog.variant.from_python(values)"
    )

    @cached_property
    def functions(self) -> Mapping[str, PackageFunction]:
        """See `txlog.core.format.type_support.TypeSupport`."""
        from txlog.variant.functions import FUNCTIONS

        return FUNCTIONS

    def cast(self, expression: Expression, data_type: DataType, *, is_try: bool) -> Expression:
        """See `txlog.core.format.type_support.TypeSupport`."""
        from txlog.variant.functions import cast

        return cast(expression, data_type, is_try=is_try)

    def conversion(self, source: pa.DataType, column: str) -> Callable[[pa.Array], pa.Array] | None:
        """See `txlog.core.format.type_support.TypeSupport`."""
        if getattr(source, "extension_name", "") == "arrow.json":
            return lambda array: _from_json(array, column)
        storage = source.storage_type if isinstance(source, pa.BaseExtensionType) else source
        types = {member.name: member.type for member in storage} if pa.types.is_struct(storage) else {}
        is_shredded = types.pop(TYPED, None) is not None
        if not all(kind in _BINARIES for kind in types.values()) or not {"metadata"} <= types.keys() <= _PARTS:
            return None
        if is_shredded:
            return lambda array: _whole(array, column)
        return (lambda array: _checked(array, column)) if "value" in types else None

    def from_file(self, array: pa.Array) -> pa.Array | None:
        """See `txlog.core.format.type_support.TypeSupport`."""
        names = {member.name for member in array.type} if pa.types.is_struct(array.type) else set()
        if "metadata" not in names or not names <= {*_PARTS, TYPED}:
            return None
        return struct_of(unshredded(array)) if TYPED in names else in_order(array)

    def file_form(self, configuration: Mapping[str, str], names: tuple[str, ...], first: pa.Array) -> FileForm | None:
        """See `txlog.core.format.type_support.TypeSupport`."""
        if not TableProperties.of(configuration).enable_variant_shredding:
            return None
        from txlog.variant.properties import given_shape
        from txlog.variant.shredder import Shredder, found_shape

        shape = given_shape(configuration, names) or found_shape(first)
        return None if shape is None else Shredder(shape)

    def bound_of_part(self, bound: Any, part: str, data_type: DataType, *, is_maximum: bool) -> Any:
        """See `txlog.core.format.type_support.TypeSupport`."""
        from txlog.variant.bounds import bound_of_part

        return bound_of_part(bound, part, data_type, is_maximum=is_maximum)

    def bounds_as_text(self, bounds: pa.Array) -> pa.StringArray:
        """See `txlog.core.format.type_support.TypeSupport`."""
        from txlog.variant.bounds import text_of_bounds

        pairs = (each and (each["metadata"], each["value"]) for each in bounds.to_pylist())
        return array_of([each and text_of_bounds(*each) for each in pairs], pa.string())

    def typed_bounds(self, texts: pa.StringArray) -> pa.StructArray:
        """See `txlog.core.format.type_support.TypeSupport`."""
        from txlog.variant.bounds import bounds_of_text

        return struct_of(None if each is None else bounds_of_text(each) for each in texts.to_pylist())

    def shown(self, column: pa.Array | pa.ChunkedArray) -> list[Any] | None:
        """See `txlog.core.format.type_support.TypeSupport`."""
        if {(member.name, member.type) for member in column.type} != {(name, pa.binary()) for name in _PARTS}:
            return None
        found = [None if each is None else _text(each["metadata"], each["value"]) for each in column.to_pylist()]
        if any(each is None and is_valid for each, is_valid in zip(found, column.is_valid().to_pylist(), strict=True)):
            return None  # a struct of the same names, or a damaged value, is shown as it is
        return found


def _text(metadata: bytes | None, value: bytes | None) -> str | None:
    """The JSON of a variant; None if it is none."""
    try:
        return None if not metadata or not value else text_of(Part(names_of(metadata), value).python(), UTC)
    except ValueError:
        return None


def check_pyarrow(version: str) -> None:
    """Raise UnsupportedFeatureError for a pyarrow that opens no file with the annotation VARIANT."""
    if int(version.partition(".")[0]) < _PYARROW:
        raise UnsupportedFeatureError(
            f"a table with variants needs pyarrow {_PYARROW} or newer, and this is pyarrow {version}, which cannot open"
            " files whose columns Parquet calls VARIANT: pip install --upgrade pyarrow",
            features=("variantType",),
        )


check_pyarrow(pa.__version__)  # before a table with variants is read or written
SUPPORT = VariantSupport()


def _whole(array: pa.Array, column: str) -> pa.StructArray:
    """Of the parts of shredded ones."""
    try:
        return struct_of(unshredded(array.storage if isinstance(array, pa.ExtensionArray) else array))
    except DamagedRowError as error:
        raise BadRow(column, error.row, f"is not a variant: {error.why}") from None


def _checked(array: pa.Array, column: str) -> pa.StructArray:
    """The struct, if each variant has a first byte of its parts that the encoding has: their rest is read as it is
    used, by every engine."""
    try:
        found = in_order(array.storage if isinstance(array, pa.ExtensionArray) else array)
    except DamagedRowError as error:
        raise BadRow(column, error.row, f"is not a variant: {error.why}") from None
    if len(found):
        value_starts, _ = _starts(found.field("value"))
        starts, texts = _starts(found.field("metadata"))
        has_both = (np.diff(value_starts) > 0) & (np.diff(starts) > 0)
        first = np.zeros(len(found), np.uint8)
        first[has_both] = texts[starts[:-1][has_both]]
        bad = flags_of(found.is_valid()) & (first & 0x0F != 1)
        if bad.any():
            why = "is not a variant: its metadata begin with a byte of version 1, and its value has a byte"
            raise BadRow(column, int(bad.argmax()), why)
    return found


def _starts(column: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Where each binary begins among the bytes of all, and the end of the last one."""
    _, offsets, body = column.buffers()
    starts = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return starts, np.frombuffer(body or b"", np.uint8)


def _from_json(array: pa.Array, column: str) -> pa.StructArray:
    def refused(row: int, error: Exception) -> None:
        raise BadRow(column, row, f"has no text for a variant: {error}") from None

    return variants_of(array.storage, refused)
