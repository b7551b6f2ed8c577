"""What an aggregate of a query is: its operands, duckdb's calls, and what Spark makes of their values.

In: nothing. Out: plain data, which `aggregates` fills and the binder writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa

from txlog.core.format.schema import DataType
from txlog.core.predicates.terms.tree import Value


class AggregateOperand(msgspec.Struct, frozen=True):
    """An operand: duckdb's text, its type, and its value if it is a literal, or its values if it is an array of
    them."""

    text: str
    type: DataType
    literal: Value | None = None
    items: tuple[Value, ...] = ()


class AggregateCall(msgspec.Struct, frozen=True):
    """One of duckdb's aggregates. ``where`` is a condition of its own on the rows that it takes."""

    name: str
    operands: tuple[str, ...] = ()
    where: str = ""


class Aggregate(msgspec.Struct, frozen=True):
    """duckdb's calls, with Spark's value of them: a text in which ``{0}`` is the first, or of texts, what
    ``compute`` makes of arrays of them."""

    type: DataType
    calls: tuple[AggregateCall, ...]
    text: str | tuple[str, ...] = "{0}"
    compute: Callable[..., pa.Array] | None = None
    call_types: tuple[DataType, ...] = ()
    """The types of the calls' values, which are the arguments of ``compute``."""


Make = Callable[[Sequence[AggregateOperand]], "Aggregate | None"]
