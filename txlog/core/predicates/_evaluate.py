"""Evaluation: the value of a bound expression for each row of a batch, computed with Arrow's kernels.

In: a bound tree and batches of one or two sides. Out: arrays. The kernels of each function are in ``_kernels`` and
``casts``. This module adds what SQL requires: AND, OR, CASE and COALESCE compute an operand that can fail only for the
rows that need it, so ``b != 0 AND a / b > 1`` is safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import absent, cast_to
from txlog.core.format.schema import DataType, type_to_arrow
from txlog.core.predicates._row_filter import comparison, membership
from txlog.core.predicates.terms.predicate import (
    And,
    BooleanExpression,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StartsWith,
)
from txlog.core.predicates.terms.tree import Call, Expression, Path, Reference, Side, Value, walk
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from txlog.core.predicates._package_functions import PackageFunction


def evaluate(
    expression: Expression,
    target: pa.RecordBatch | pa.Table | None = None,
    source: pa.RecordBatch | pa.Table | None = None,
) -> pa.Array:
    """Compute the value for each row of ``target`` or of ``source``, or for each pair of their rows.

    Args:
        expression: A bound expression.
        target: Rows of the Delta table, with at least the columns that the expression reads on this side.
        source: Rows of the source. If both are given, they have the same length, and rows at the same position are a
            pair.

    Returns:
        An array of the Arrow form of the expression's type; null for SQL's NULL.

    Raises:
        InvalidInputError: For a value that SQL in ANSI mode refuses: an overflow, a division by zero, a string that
            does not hold a value of the type it is cast to.
    """
    given = [rows for rows in (target, source) if rows is not None]
    if not given or len({rows.num_rows for rows in given}) > 1:
        raise TypeError("evaluate() needs the rows of at least one side, and the same number of rows of both")
    rows = _RowsOfSides({"target": target, "source": source}, given[0].num_rows)
    found = _compute(expression, rows)
    arrow_type = type_to_arrow(expression.type)
    if isinstance(found, pa.Scalar):
        if not found.is_valid:
            return absent(rows.num_rows, arrow_type)
        if isinstance(found, pa.ListScalar):
            _require_few(expression, len(found) * rows.num_rows)
        found = pa.repeat(found.cast(arrow_type), rows.num_rows)
    elif isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    return cast_to(found, arrow_type)


def _require_few(expression: Expression, num_values: int) -> None:
    from txlog.core.predicates._row_kernels import VALUES_MAX

    if num_values > VALUES_MAX:
        raise InvalidInputError(f"cannot compute {expression}: its arrays have more than {VALUES_MAX} values")


def can_fail(expression: Expression) -> bool:
    """Whether some row may make evaluation fail: arithmetic that overflows, a cast that does not fit."""
    return any(isinstance(node, Call) and _fails(node) for node in walk(expression))


_WITHOUT_KERNEL = ("cast", "try_cast", "in")
"""What `_call` computes by itself."""


def _fails(node: Call) -> bool:
    if node.name == "cast":
        from txlog.core.predicates._casts import cast_can_fail

        return cast_can_fail(node.arguments[0].type, node.type)
    from txlog.core.predicates._kernels import FALLIBLE, KERNELS
    from txlog.core.predicates._lambda_kernels import LAMBDA_KERNELS

    if node.name in LAMBDA_KERNELS:
        return can_fail(node.options[0])
    test = FALLIBLE.get(node.name)
    is_own = node.name in KERNELS or node.name in _WITHOUT_KERNEL or _is_lazy(node)
    if test is None and not is_own and node.name.isidentifier():
        return _brought(node).can_fail
    return test is not None and test(node)


def _brought(node: Call) -> PackageFunction:
    from txlog.core.predicates._package_functions import package_function

    found = package_function(node.name)
    if found is None:
        raise InvalidInputError(f"no installed package computes the function {node.name}()")
    return found


# --- rows -----------------------------------------------------------------------------------------------------


class _RowsOfSides(msgspec.Struct, frozen=True):
    """The rows of each side; with ``numbers``, only these rows, taken when a column is needed."""

    sides: dict[Side, pa.RecordBatch | pa.Table | None]
    num_rows: int
    numbers: Any = None

    def column(self, path: Path, data_type: DataType, side: Side) -> Any:
        rows = self.sides[side]
        if rows is None:
            raise TypeError(f"evaluate() needs the {side} rows: the expression reads {side}.{'.'.join(path)}")
        found = rows.column(path[0])
        if len(path) > 1:
            found = pc.struct_field(found, list(path[1:]))
        if self.numbers is not None:
            found = found.take(pa.array(self.numbers))
        arrow_type = type_to_arrow(data_type)
        return cast_to(found, arrow_type)

    def taken(self, numbers: Any) -> _RowsOfSides:
        chosen = numbers if self.numbers is None else self.numbers[numbers]
        return _RowsOfSides(self.sides, len(chosen), chosen)


# --- the walk --------------------------------------------------------------------------------------------------


def _compute(node: Expression, rows: _RowsOfSides) -> Any:
    match node:
        case Reference(path, data_type, side):
            return rows.column(path, data_type, side)
        case Value(value, data_type):
            return pa.scalar(value, type_to_arrow(data_type))
        case Constant(value):
            return pa.scalar(value, pa.bool_())
        case Comparison(path, operator, value, data_type):
            return comparison(rows.column(path, _bound(node, data_type), "target"), operator, value, data_type)
        case In(path, values, has_null, data_type):
            column = rows.column(path, _bound(node, data_type), "target")
            return membership(column, values, has_null, data_type)
        case StartsWith(path, prefix, data_type):
            return pc.starts_with(rows.column(path, _bound(node, data_type), "target"), prefix)
        case IsNull(path, data_type):
            return pc.is_null(rows.column(path, _bound(node, data_type), "target"))
        case Not(operand):
            return pc.invert(_compute(operand, rows))
        case BooleanExpression(condition):
            return _compute(condition, rows)
    if _is_lazy(node):
        return _compute_lazily(node, rows)
    if isinstance(node, Call):
        arguments = [_compute(argument, rows) for argument in node.arguments]
        return _call(node, arguments)
    raise TypeError(f"not an expression: {node!r}")


def _bound(node: Expression, data_type: DataType | None) -> DataType:
    if data_type is None:
        raise TypeError(f"bind the predicate to a schema first: {node}")
    return data_type


def _call(node: Call, arguments: list[Any]) -> Any:
    try:
        if node.name in ("cast", "try_cast"):
            from txlog.core.predicates._casts import cast, try_cast

            kinds = node.arguments[0].type, node.type
            if node.name == "cast":
                return cast(arguments[0], *kinds, *node.options)
            return try_cast(arguments[0], *kinds, *node.options[:-1])
        if node.name == "in":
            values, has_null = node.options
            return membership(arguments[0], values, has_null, node.arguments[0].type)
        from txlog.core.predicates._kernels import KERNELS
        from txlog.core.predicates._lambda_kernels import LAMBDA_KERNELS

        if node.name in LAMBDA_KERNELS:
            return LAMBDA_KERNELS[node.name](evaluate, node, *arguments)
        kernel = KERNELS.get(node.name) or _brought(node).kernel
        return kernel(node, *arguments)  # type: ignore[misc]
    except (pa.ArrowInvalid, OverflowError) as error:
        raise InvalidInputError(f"{node.failed}: {error}{node.or_null}") from None


# --- operands that only some rows need -----------------------------------------------------------------------


def _is_lazy(node: Expression) -> bool:
    return isinstance(node, (And, Or)) or (isinstance(node, Call) and node.name in ("case", "coalesce"))


def _operands(node: Expression) -> tuple[Expression, ...]:
    if isinstance(node, (And, Or)):
        return (node.left, node.right)
    assert isinstance(node, Call)
    return node.arguments


def _compute_lazily(node: Expression, rows: _RowsOfSides) -> Any:
    operands = _operands(node)
    if not any(can_fail(operand) for operand in operands[1:]):
        return _joined(node, [_compute(operand, rows) for operand in operands])
    if isinstance(node, (And, Or)):
        return _compute_connective(node, rows)
    assert isinstance(node, Call)
    pieces = []
    left = np.arange(rows.num_rows)
    branches = _branches(node)
    for condition, value in branches:
        here = rows if len(left) == rows.num_rows else rows.taken(left)
        if node.name == "coalesce":
            found = _whole(_compute(value, here), here.num_rows)
            taken = _flags(found.is_valid())
            pieces.append((left[taken], found.filter(pa.array(taken))))
        else:
            taken = np.ones(len(left), bool) if condition is None else _truth(_compute(condition, here), here.num_rows)
            chosen = left[taken]
            if len(chosen):
                part = here if taken.all() else rows.taken(chosen)
                pieces.append((chosen, _whole(_compute(value, part), len(chosen))))
        left = left[~taken]
        if not len(left):
            break
    return _scattered(pieces, rows.num_rows, type_to_arrow(node.type))


def _branches(node: Call) -> list[tuple[Expression | None, Expression]]:
    if node.name == "coalesce":
        return [(None, value) for value in node.arguments]
    pairs = list(zip(node.arguments[:-1:2], node.arguments[1::2], strict=True))
    return [*pairs, (None, node.arguments[-1])]


def _compute_connective(node: And | Or, rows: _RowsOfSides) -> Any:
    """Compute the right operand only for rows that the left one does not decide. For other rows it counts as NULL,
    which does not change the result."""
    left = _whole(_compute(node.left, rows), rows.num_rows)
    is_and = isinstance(node, And)
    open_rows = np.flatnonzero(_flags(pc.fill_null(left, is_and)) == is_and)
    if not len(open_rows):
        return left
    part = rows if len(open_rows) == rows.num_rows else rows.taken(open_rows)
    found = _whole(_compute(node.right, part), len(open_rows))
    return _joined(node, [left, _scattered([(open_rows, found)], rows.num_rows, pa.bool_())])


def _joined(node: Expression, operands: list[Any]) -> Any:
    if isinstance(node, And):
        return pc.and_kleene(*operands)
    if isinstance(node, Or):
        return pc.or_kleene(*operands)
    assert isinstance(node, Call)
    return _call(node, operands)


def _whole(found: Any, num_rows: int) -> pa.Array:
    if isinstance(found, pa.Scalar):
        return pa.repeat(found, num_rows)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _truth(found: Any, num_rows: int) -> Any:
    return _flags(pc.fill_null(_whole(found, num_rows), False))


def _flags(mask: pa.Array) -> Any:
    return mask.to_numpy(zero_copy_only=False)


def _scattered(pieces: list[tuple[Any, pa.Array]], num_rows: int, arrow_type: pa.DataType) -> pa.Array:
    """The pieces at their row numbers; null in all other rows."""
    position = np.full(num_rows, -1, np.int64)
    offset = 0
    for numbers, values in pieces:
        position[numbers] = np.arange(offset, offset + len(values))
        offset += len(values)
    values = pa.concat_arrays([values for _, values in pieces]) if pieces else pa.nulls(0, arrow_type)
    return values.take(pa.array(position, mask=position < 0))
