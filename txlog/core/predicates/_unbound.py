"""What users build values and conditions from: columns, SQL, and Python's operators on them.

In: ``col("price") * 2 > expr("amount + 1")`` and the like. Out: operands, and conditions of ``predicate``, which know
no schema yet: ``_binding`` binds them. They are plain data that pickles into tasks.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from txlog.core.format.properties import path_text
from txlog.core.format.scalars import plain, scalar_type
from txlog.core.format.schema import TIMESTAMP
from txlog.core.predicates.terms.predicate import (
    Comparison,
    In,
    IsNull,
    Not,
    Predicate,
    StartsWith,
    UnboundCondition,
    operand_text,
)
from txlog.core.predicates.terms.tree import Expression, Path, Value
from txlog.core.util import WrongCallError, described, explains_names, invalid
from txlog.errors import InvalidInputError

Parameters: TypeAlias = Mapping[str, Any]
"""Values for ``:name`` in SQL text."""


AnyCondition: TypeAlias = "str | Predicate | Operand"
"""Which rows: SQL text, or what `col` and `expr` build."""


@explains_names
class Operand:
    """A column, SQL, or what is computed from them: `col` and `expr` make one.

    ``+ - * / %`` compute a value; ``== != < <= > >=`` make a condition. ``&``, ``|`` and ``~`` join conditions, and
    take an operand that is a boolean for one. The other side is an operand too, or a value: a string is text here.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> Predicate:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: Any) -> Predicate:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Predicate:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Predicate:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Predicate:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Predicate:
        return self._compare(">=", other)

    def __add__(self, other: Any) -> Operand:
        return self._computed("+", other)

    def __radd__(self, other: Any) -> Operand:
        return self._computed("+", other, is_right=True)

    def __sub__(self, other: Any) -> Operand:
        return self._computed("-", other)

    def __rsub__(self, other: Any) -> Operand:
        return self._computed("-", other, is_right=True)

    def __mul__(self, other: Any) -> Operand:
        return self._computed("*", other)

    def __rmul__(self, other: Any) -> Operand:
        return self._computed("*", other, is_right=True)

    def __truediv__(self, other: Any) -> Operand:
        return self._computed("/", other)

    def __rtruediv__(self, other: Any) -> Operand:
        return self._computed("/", other, is_right=True)

    def __mod__(self, other: Any) -> Operand:
        return self._computed("%", other)

    def __rmod__(self, other: Any) -> Operand:
        return self._computed("%", other, is_right=True)

    def __neg__(self) -> Operand:
        return Arithmetic("negative", (self,))

    def __and__(self, other: Predicate | Operand) -> Predicate:
        return self.as_condition() & other

    def __or__(self, other: Predicate | Operand) -> Predicate:
        return self.as_condition() | other

    def __rand__(self, other: Predicate) -> Predicate:
        raise _not_joined("&", other)

    def __ror__(self, other: Predicate) -> Predicate:
        raise _not_joined("|", other)

    def __invert__(self) -> Predicate:
        return Not(self.as_condition())

    def __bool__(self) -> bool:
        raise TypeError("a column has no truth value here: combine conditions with &, | and ~, not with and, or, not")

    if not TYPE_CHECKING:  # a type checker reports the operator

        def _no_division(self, other: object) -> NoReturn:
            raise WrongCallError(
                "Python rounds // and % down, and SQL's div cuts off: write what is meant with txlog.expr, such as"
                f' txlog.expr("{self} div 2"), or floor({self} / 2)'
            )

        def _no_power(self, other: object) -> NoReturn:
            raise WrongCallError(f'write a power with txlog.expr("power({self}, 2)")')

        __floordiv__ = __rfloordiv__ = _no_division
        __pow__ = __rpow__ = _no_power

    def as_condition(self) -> Predicate:
        """The operand, which must be a boolean, as a condition.

        Returns:
            The condition.

        Raises:
            InvalidInputError: Where it is bound to a table: it is no boolean.
        """
        return UnboundCondition("true", (self,))

    def is_null(self) -> Predicate:
        """Rows whose value is null.

        Returns:
            The condition.
        """
        return IsNull(self.path) if isinstance(self, Column) else UnboundCondition("is null", (self,))

    def is_not_null(self) -> Predicate:
        """Rows whose value is not null.

        Returns:
            The condition.
        """
        return Not(self.is_null())

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Rows whose value is in a list.

        Args:
            values: The values. As in SQL, a None among them matches nothing.

        Returns:
            The condition.

        Raises:
            InvalidInputError: One of them is not a value of a column, such as a duration.
        """
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise invalid("values", values, "a list of values")
        given = [_other(value, self) for value in values]
        if not isinstance(self, Column) or any(isinstance(value, Operand | Expression) for value in given):
            return UnboundCondition("in", (self, *given))
        kept = tuple(value for value in given if value is not None)
        return In(self.path, kept, has_null=len(kept) < len(given))

    def between(self, low: Any, high: Any) -> Predicate:
        """Rows whose value is in a range.

        Args:
            low: The first value of the range.
            high: The last one.

        Returns:
            The condition.

        Raises:
            InvalidInputError: One of them is None.
        """
        return self._compare(">=", low) & self._compare("<=", high)

    def starts_with(self, prefix: str) -> Predicate:
        """Rows whose string starts with a prefix.

        Args:
            prefix: The first characters.

        Returns:
            The condition.

        Raises:
            InvalidInputError: It is not a string.
        """
        found = _other(prefix, self)
        if not isinstance(found, str):
            raise invalid("prefix", prefix, "a string")
        return (
            StartsWith(self.path, found) if isinstance(self, Column) else UnboundCondition("starts with", (self, found))
        )

    def _compare(self, operator: str, other: Any) -> Predicate:
        found = _other(other, self)
        if found is None:
            raise InvalidInputError(
                f"a comparison of {self} with {other} is never true: use is_null() or is_not_null()"
            )
        if isinstance(self, Column) and not isinstance(found, Operand | Expression):
            return Comparison(self.path, operator, found)
        return UnboundCondition(operator, (self, found))

    def _computed(self, operator: str, other: Any, *, is_right: bool = False) -> Operand:
        found = _typed(other, _other(other, self))
        return Arithmetic(operator, (found, self) if is_right else (self, found))


class Column(Operand):
    """A column of the table, or in a merge of either side. `col` makes one."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return path_text(self.path)

    def __repr__(self) -> str:
        return f"txlog.col({', '.join(map(repr, self.path))})"


class Sql(Operand):
    """A value or a condition as SQL text, with values for its ``:name``. `expr` makes one."""

    __slots__ = ("parameters", "text")

    def __init__(self, text: str, parameters: Parameters | None = None) -> None:
        self.text = text
        self.parameters = parameters

    def __str__(self) -> str:
        return self.text

    def as_operand(self) -> str:
        return f"({self.text})"

    def __repr__(self) -> str:
        return f"txlog.expr({self.text!r})"

    def with_parameters(self, parameters: Parameters) -> Sql:
        """The same with more parameters; its own come first."""
        return Sql(self.text, {**parameters, **(self.parameters or {})})


class Arithmetic(Operand):
    """A value that is computed from operands and values."""

    __slots__ = ("operands", "operator")

    def __init__(self, operator: str, operands: tuple[Any, ...]) -> None:
        self.operator = operator
        self.operands = operands

    def __str__(self) -> str:
        first, *others = map(operand_text, self.operands)
        return f"({first} {self.operator} {others[0]})" if others else f"(-{first})"

    __repr__ = __str__


def _not_joined(sign: str, other: object) -> InvalidInputError:
    return InvalidInputError(
        f"{sign} joins conditions, and {described(other)} is not one: put each comparison in parentheses, as in"
        f" (txlog.col('a') == 1) {sign} (txlog.col('b') == 2)"
    )


def _other(value: Any, beside: Operand) -> Any:
    """What an operand is compared or computed with: another one, an expression, or a value as Python's own."""
    if isinstance(value, Operand):
        return value
    if isinstance(value, Value):
        return value.written if value.written is not None else None if value.value is None else value
    if isinstance(value, Expression):
        return value
    try:
        return plain(value)
    except ValueError as error:
        raise InvalidInputError(f"column {beside} cannot be compared with {described(value)}: {error}") from None


def _typed(value: Any, found: Any) -> Any:
    """What `_other` found of a value, with the type that `lit`, numpy or pyarrow gives it."""
    if isinstance(value, Value):  # a time without a zone of `lit` is read in the zone of the text
        return found if isinstance(found, datetime.datetime) and value.type == TIMESTAMP else value
    if isinstance(found, Operand | Expression) or scalar_type(value) is None:
        return found
    from txlog.core.predicates._build import literal

    return literal(value)


def col(*path: str) -> Column:
    """A column, to build conditions and values from: ``txlog.col("amount") > 100``, ``txlog.col("amount") * 2``.

    Args:
        *path: The name of the column. A dot leads into a struct, as in SQL, and in a merge names the side:
            ``col("address.city")``, ``col("source.id")``. A column whose own name has the dot comes first.
            Several names are the parts of such a path; in these a dot is a part of a name.

    Returns:
        The column, as an operand of comparisons and of arithmetic.

    Raises:
        InvalidInputError: There is no name, or a name is not a string.
    """
    if not path or not all(type(name) is str and name for name in path):
        raise InvalidInputError(f"col() takes the name of a column, got {path!r}")
    return Column(path)


def expr(text: str, parameters: Parameters | None = None) -> Sql:
    """SQL as a value or a condition: ``table.update({"amount": txlog.expr("amount * 1.1")})``.

    Args:
        text: A value or a condition in SQL; docs/expressions.md has the language.
        parameters: Values for ``:name`` in the text, each as `lit` takes it.

    Returns:
        The expression, which is read when the table is known.

    Raises:
        InvalidInputError: The text is not a string, or a parameter is not a value of a column.
    """
    if not isinstance(text, str):
        raise invalid("text", text, "SQL, such as 'amount * 1.1'; a value needs no txlog.expr")
    return Sql(str.__str__(text), None if parameters is None else checked_parameters(parameters))


def checked_parameters(parameters: Any) -> dict[str, Any]:
    """The parameters, each with a value as Python's own, or a list of them for ``IN (:name)``.

    Raises:
        InvalidInputError: They are no mapping from names, or a value is not one of a column.
    """
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        raise invalid("parameters", parameters, 'values by name, such as {"id": 7} for :id')
    return {str(name): _parameter(name, value) for name, value in parameters.items()}


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_parameter(name, each) for each in value]
    if isinstance(value, Value):
        return _typed(value, _other(value, Column((name,))))
    try:
        found = plain(value)
    except ValueError as error:
        raise InvalidInputError(f"{described(value)} cannot be the parameter :{name}: {error}") from None
    if isinstance(found, Operand | Expression) or callable(found):
        raise InvalidInputError(f"the parameter :{name} is a value, not {described(found)}: write that in the text")
    return _typed(value, found)


def with_parameters(parameters: Parameters | None, *given: Any) -> list[Any]:
    """Conditions, values and mappings of values, each with the parameters of the call in its SQL.

    Args:
        parameters: Values for ``:name``; None leaves all as they are.
        *given: What the call was given; only a condition may be text.

    Raises:
        InvalidInputError: A parameter is not a value of a column, or no SQL of the call has its name.
    """
    if parameters is None:
        return [*given]
    values = checked_parameters(parameters)
    texts: list[str] = []
    found = [_with(each, values, texts) for each in given]
    if values:
        from txlog.core.predicates._sql import parameter_names

        unused = values.keys() - {name for text in texts for name in parameter_names(text)}
        if unused:
            raise InvalidInputError(
                f"no SQL of the call has :{min(unused)}, for which there is a value: parameters are for conditions that"
                " are text, and for txlog.expr"
            )
    return found


def texts_of(*given: Any) -> list[str]:
    """The SQL in conditions, values and mappings of values; only a condition may be text itself."""
    found: list[str] = []
    for each in given:
        if isinstance(each, Mapping):
            found += texts_of(*(value for value in each.values() if not isinstance(value, str)))
        elif isinstance(each, str | Sql):
            found.append(each if isinstance(each, str) else each.text)
        elif isinstance(each, Arithmetic):
            found += _texts_inside(each.operands)
        elif isinstance(each, Predicate):
            for name in each.__struct_fields__:
                part = getattr(each, name)
                found += _texts_inside(part if isinstance(part, tuple) else (part,))
    return found


def _texts_inside(parts: Iterable[Any]) -> list[str]:
    return texts_of(*(part for part in parts if isinstance(part, Operand | Predicate)))


def _with(given: Any, parameters: Parameters, texts: list[str]) -> Any:
    if isinstance(given, Mapping):
        kept = {name: value for name, value in given.items() if isinstance(value, str)}  # refused where it is bound
        return {name: _with(value, parameters, texts) for name, value in given.items() if name not in kept} | kept
    if isinstance(given, str | Sql):
        found = (Sql(given) if isinstance(given, str) else given).with_parameters(parameters)
        texts.append(found.text)
        return found
    if isinstance(given, Arithmetic):
        return Arithmetic(given.operator, tuple(_with_operand(each, parameters, texts) for each in given.operands))
    return given


def _with_operand(given: Any, parameters: Parameters, texts: list[str]) -> Any:
    return _with(given, parameters, texts) if isinstance(given, Operand) else given
