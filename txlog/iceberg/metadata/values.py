"""Values in Iceberg's formats: column and partition bounds, and partition values inside manifests.

In: typed Python values, as decoded from statistics and partition values. Out: bytes of Iceberg's single-value
serialization (bounds), or of Avro (partition values), and keys that order bounds. Iceberg spec, appendices
A and D.
"""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from txlog.core.format.schema import DataType, Decimal, Primitive
from txlog.iceberg.metadata.avro import encode_bytes, encode_long

BoundEncoder: TypeAlias = Callable[[Any], "bytes | None"]
"""Takes a value; returns its bytes, or None where the value cannot be a bound."""

_DAY_0 = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EXACT = decimal.Context(prec=60)
_NUMPY = {"<i": "<i4", "<q": "<i8", "<f": "<f4", "<d": "<f8"}
_INT, _LONG, _FLOAT, _DOUBLE = map(struct.Struct, _NUMPY)


def micros(moment: datetime.datetime) -> int:
    """Microseconds since the epoch, of an instant or of a local time."""
    return (moment - (_EPOCH_UTC if moment.tzinfo else _EPOCH)) // _MICROSECOND


def decimal_bytes(unscaled: int) -> bytes:
    """The shortest two's complement, highest byte first."""
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def bound_encoder(data_type: DataType, *, upper: bool = False) -> BoundEncoder | None:
    """The function that encodes a minimum (or with ``upper`` a maximum). None for a type that has no bounds."""
    if isinstance(data_type, Decimal):
        return partial(_decimal_bound, data_type, decimal.ROUND_CEILING if upper else decimal.ROUND_FLOOR)
    if not isinstance(data_type, Primitive):
        return None
    if data_type.name in ("float", "double"):
        form = _FLOAT if data_type.name == "float" else _DOUBLE
        return partial(_floating_bound, form, 0.0 if upper else -0.0)
    return _BOUNDS.get(data_type.facts.iceberg)


def order_key(data_type: DataType) -> Callable[[bytes], Any]:
    """The function that decodes a bound's bytes to a value that sorts as the type does."""
    if isinstance(data_type, Decimal):
        return partial(int.from_bytes, byteorder="big", signed=True)
    assert isinstance(data_type, Primitive)
    form = _FORMS.get(data_type.facts.iceberg)
    return partial(_unpacked, form) if form else bytes  # UTF-8 sorts as its characters do


def fixed_form(data_type: DataType) -> str | None:
    """The number of a fixed width that a bound is, as numpy names it; None for a type whose bounds are none."""
    if not isinstance(data_type, Primitive):
        return None
    form = _FORMS.get(data_type.facts.iceberg)
    return _NUMPY[form.format] if form else {"boolean": "<u1"}.get(data_type.name)


def avro_type(data_type: DataType) -> Any:
    """The Avro type of a partition value."""
    if isinstance(data_type, Decimal):
        return {
            "type": "fixed",
            "name": f"decimal_{data_type.precision}_{data_type.scale}",
            "size": _fixed_size(data_type.precision),
            "logicalType": "decimal",
            "precision": data_type.precision,
            "scale": data_type.scale,
        }
    assert isinstance(data_type, Primitive)
    return _AVRO_TYPES[data_type.facts.iceberg]


def avro_encoder(data_type: DataType) -> Callable[[Any], bytes]:
    """The function that encodes a non-null partition value in its Avro type."""
    if isinstance(data_type, Decimal):
        return partial(_avro_decimal, data_type.scale, _fixed_size(data_type.precision))
    assert isinstance(data_type, Primitive)
    return _AVRO_ENCODERS[data_type.facts.iceberg]


def _unpacked(form: struct.Struct, body: bytes) -> Any:
    return form.unpack(body)[0]


def _unscaled(value: decimal.Decimal, scale: int, rounding: str) -> int:
    return int(value.scaleb(scale, _EXACT).to_integral_value(rounding=rounding, context=_EXACT))


def _decimal_bound(data_type: Decimal, rounding: str, value: decimal.Decimal) -> bytes | None:
    unscaled = _unscaled(value, data_type.scale, rounding)
    return decimal_bytes(unscaled) if abs(unscaled) < 10**data_type.precision else None


def _floating_bound(form: struct.Struct, zero: float, value: float) -> bytes | None:
    """NaN is not a bound. Iceberg orders -0.0 below 0.0, Delta does not: a bound of zero must hold for both."""
    return None if math.isnan(value) else form.pack(zero if value == 0 else value)


def _avro_decimal(scale: int, size: int, value: decimal.Decimal) -> bytes:
    return _unscaled(value, scale, decimal.ROUND_HALF_UP).to_bytes(size, "big", signed=True)


def _fixed_size(precision: int) -> int:
    highest: int = 10**precision - 1
    return highest.bit_length() // 8 + 1


def _days(value: datetime.date) -> int:
    return value.toordinal() - _DAY_0


def _boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


# By the names of Iceberg's types.
_BOUNDS: dict[str, BoundEncoder] = {
    "int": _INT.pack,
    "long": _LONG.pack,
    "boolean": _boolean,
    "string": str.encode,
    "binary": bytes,
    "date": lambda value: _INT.pack(_days(value)),
    **dict.fromkeys(("timestamp", "timestamptz"), lambda value: _LONG.pack(micros(value))),
}
_FORMS = {
    **dict.fromkeys(("int", "date"), _INT),
    **dict.fromkeys(("long", "timestamp", "timestamptz"), _LONG),
    "float": _FLOAT,
    "double": _DOUBLE,
}
_AVRO_TYPES: dict[str, Any] = {
    "int": "int",
    "long": "long",
    "boolean": "boolean",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
}
_AVRO_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    **dict.fromkeys(("int", "long"), encode_long),
    "boolean": _boolean,
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "string": lambda value: encode_bytes(value.encode()),
    "binary": lambda value: encode_bytes(bytes(value)),
    "date": lambda value: encode_long(_days(value)),
    **dict.fromkeys(("timestamp", "timestamptz"), lambda value: encode_long(micros(value))),
}
