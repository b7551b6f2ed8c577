"""The table property that says which parts of variants have typed columns in new files.

In: the property's text. Out: the type of the parts of each column that it names. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final

from txlog.core.format.properties import PropertyRule
from txlog.core.format.schema import (
    BYTE,
    INTEGER,
    LONG,
    SHORT,
    VARIANT,
    VOID,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    types_in,
)
from txlog.core.format.schema_input import from_any
from txlog.errors import InvalidInputError

SHREDDING: Final = "txlog.variant.shredding"

_WHOLE = (BYTE, SHORT, INTEGER)


def given_shape(configuration: Mapping[str, str], names: Sequence[str]) -> DataType | None:
    """The type of the parts of a column, or of a field of structs, that are to have typed columns; None if the property
    does not name it."""
    text = configuration.get(SHREDDING)
    found: DataType | None = None if text is None else _parsed(text)
    for name in names:
        field = found.find(name) if isinstance(found, Struct) else None
        found = None if field is None else field.type
    return found


@functools.lru_cache(64)
def _parsed(text: str) -> Struct:
    """The columns with the types of their parts. Raises ValueError."""
    try:
        found: Struct = from_any(text)
    except InvalidInputError as error:
        raise ValueError(error.message) from None
    for data_type in types_in(found):
        if isinstance(data_type, Map) or data_type in (VARIANT, VOID):
            raise ValueError("a variant has no maps, and what has any type stays in the variant: leave it out")
    return Struct(tuple(Field(field.name, _stored(field.type)) for field in found.fields))


def _stored(data_type: DataType) -> DataType:
    """Integers of all widths are in columns of 64 bits, which variants do not tell apart."""
    if isinstance(data_type, Struct):
        return Struct(tuple(Field(field.name, _stored(field.type)) for field in data_type.fields))
    if isinstance(data_type, Array):
        return Array(_stored(data_type.element))
    return LONG if data_type in _WHOLE else data_type


SHREDDING_RULE = PropertyRule(
    parse=_parsed,
    expected="columns with the types of their parts, as in 'body struct<kind: string, user: struct<id: bigint>>'",
    is_rule_of_rows=False,
)
