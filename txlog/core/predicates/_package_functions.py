"""SQL functions that a package brings with a type: what `functions` and `evaluate` ask for beyond their own.

In: the name of a function. Out: how it is bound and computed, from the packages of the point ``txlog.types``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from txlog.core.format.schema import DataType, Primitive
from txlog.core.format.type_support import all_supports, type_support
from txlog.core.predicates.terms.tree import Call, Expression, Path


class PackageFunction(msgspec.Struct, frozen=True):
    """One function.

    Attributes:
        lowest: The number of operands that it takes at least.
        highest: And at most.
        make: The bound call, of bound operands. Raises ``ValueError`` saying which operands it takes.
        kernel: The values of a call, of the arrays or scalars of its operands; it raises ``pyarrow.ArrowInvalid`` where
            SQL in ANSI mode fails. None for a function that is only made of others.
        can_fail: Whether it may fail for some row.
        part: Of a call whose value is a part of a column: the column or field, and a name for the part, under which
            ``TypeSupport.bound_of_part`` finds its bounds; None for any other call.
    """

    lowest: int
    highest: int
    make: Callable[..., Expression]
    kernel: Callable[..., Any] | None = None
    can_fail: bool = True
    part: Callable[[Call], tuple[Path, str] | None] | None = None


def package_function(name: str) -> PackageFunction | None:
    """The function of this name, in lower case; None if no installed package has it."""
    found = (support.functions.get(name) for support in all_supports())
    return next((each for each in found if each is not None), None)


def cast_of_package(expression: Expression, data_type: DataType, *, is_try: bool) -> Expression | None:
    """``CAST`` of a value whose type a package brings, or to such a type; None if no package has one of the two types.

    Raises ``ValueError`` for a cast that does not exist.
    """
    for side in (expression.type, data_type):
        support = type_support(side.name) if isinstance(side, Primitive) and side.facts.by_package else None
        if support is not None:
            found: Expression = support.cast(expression, data_type, is_try=is_try)
            return found
    return None
