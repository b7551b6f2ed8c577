"""The bound expression tree: columns, values and calls of functions, each with its Delta type.

In: nothing; ``sql`` builds trees from SQL text, and ``predicates`` adds the conditions that can skip files.
Out: immutable plain data that pickles into tasks. Every node has

* ``type``: the Delta type of its value; `columns_of`: the columns that it reads, per side;
* ``str()``: its text as SQL.

``evaluate`` computes its value for each row.

The expressions of a MERGE read two sides: ``target`` is the Delta table, ``source`` the rows to merge into it. All
other expressions read only the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from txlog.core.format.properties import path_text
from txlog.core.format.schema import TIMES, VOID, DataType, Decimal, Primitive, type_name
from txlog.core.predicates.terms.values import Ordered, value_text

Path: TypeAlias = tuple[str, ...]
"""A column by its name, or a struct field by the names that lead to it."""

Side: TypeAlias = Literal["target", "source"]


class Expression(msgspec.Struct, frozen=True):
    """A value for each row. The module docstring says what every node can do."""

    if TYPE_CHECKING:

        @property
        def type(self) -> DataType:
            """The Delta type of the value."""

    @property
    def sides(self) -> frozenset[Side]:
        """The sides that the expression reads; empty for a constant."""
        return frozenset(side for side, _ in columns_of(self))

    def as_operand(self) -> str:
        """The text as an operand of another expression: in parentheses if it is an operator itself."""
        return str(self)


class Reference(Expression, frozen=True):
    """A column or struct field, with the schema's spelling of its names."""

    path: Path
    type: DataType
    side: Side = "target"

    def __str__(self) -> str:
        return f"source.{path_text(self.path)}" if self.side == "source" else path_text(self.path)


class Value(Expression, frozen=True):
    """A literal, or the result of a constant expression; ``value`` None is NULL.

    ``written`` is the literal as a Python value (a timestamp with or without a zone), and decides what it can be
    compared with; None if the value was computed.
    """

    value: Ordered | None
    type: DataType
    written: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and (self.value, self.type) == (other.value, other.type)

    def __hash__(self) -> int:
        return hash((tuple(self.value) if isinstance(self.value, list) else self.value, self.type))

    def __str__(self) -> str:
        name = type_name(self.type)
        if self.value is None:
            has_a_cast = isinstance(self.type, (Primitive, Decimal)) and self.type != VOID
            return f"CAST(NULL AS {name.upper()})" if has_a_cast else "NULL"
        if isinstance(self.value, list):
            return "array()"
        text = value_text(self.value, self.type)
        if self.type in TIMES:
            return f"{name.upper()} {text}"
        return text if name in ("string", "boolean", "int", "binary") else f"CAST({text} AS {name.upper()})"


class CallSql(str):
    """The SQL of a call whose kernel has another name or other options: ``{}`` stands for each operand."""

    __slots__ = ()

    @classmethod
    def of(cls, before: str, *literals: Ordered | None, after: str = "") -> CallSql:
        """``before``, the literals with commas between them, and ``after``. The literals have no ``{}``."""
        values = ", ".join(value_text(value, None) for value in literals).replace("{", "{{").replace("}", "}}")
        return cls(f"{before}{values}{after}")


_OR_NULL = {
    **{"/": "try_divide(a, b)", "%": "try_mod(a, b)", "div": "a div nullif(b, 0)", "cast": "TRY_CAST"},
    **{"+": "try_add(a, b)", "-": "try_subtract(a, b)", "*": "try_multiply(a, b)"},
}


class Call(Expression, frozen=True):
    """One function or operator of ``functions``, by its name there, with bound arguments of the types it needs.
    ``written`` is what a user wrote, for errors, where ``str()`` has more casts."""

    name: str
    arguments: tuple[Expression, ...]
    type: DataType
    options: tuple[Any, ...] = ()
    written: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.name, self.arguments, self.type, self.options

    @property
    def failed(self) -> str:
        """What an error of this operation begins with."""
        return f"cannot compute {self.written or self}"

    @property
    def or_null(self) -> str:
        """What an error of this operation adds: what is NULL in its place."""
        return f"; {_OR_NULL[self.name]} is NULL there" if self.name in _OR_NULL else ""

    def __str__(self) -> str:
        texts = [argument.as_operand() for argument in self.arguments]
        if self.options and isinstance(self.options[-1], CallSql):
            return self.options[-1].format(*texts)
        if self.name == "cast":
            return f"CAST({self.arguments[0]} AS {type_name(self.type).upper()})"
        if self.name == "case":
            pairs = zip(self.arguments[:-1:2], self.arguments[1::2], strict=True)
            whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
            return f"CASE {whens} ELSE {self.arguments[-1]} END"
        if self.name == "negate":
            return f"-({texts[0]})" if texts[0].startswith("-") else f"-{texts[0]}"  # -- begins a comment
        if len(texts) == 2 and (self.name == "div" or not self.name.isidentifier()):
            return f"{texts[0]} {self.name} {texts[1]}"
        if self.name == "like":
            return f"{texts[0]} LIKE {value_text(self.options[0], None)}"
        if self.name == "is_null":
            return f"{texts[0]} IS NULL"
        if self.name == "in":
            values, has_null = self.options
            shown = [value_text(value, self.arguments[0].type) for value in values] + ["NULL"] * has_null
            return f"{texts[0]} IN ({', '.join(shown)})"
        if self.name == "date_trunc":
            return f"date_trunc({value_text(self.options[0], None)}, {self.arguments[0]})"
        if self.name == "substring":
            return self._substring_text()
        options = [value_text(option, None) for option in self.options]
        return f"{self.name}({', '.join([*map(str, self.arguments), *options])})"

    def as_operand(self) -> str:
        is_function = self.name.isidentifier() and self.name not in ("like", "is_null", "in", "div")
        return str(self) if is_function else f"({self})"

    def _substring_text(self) -> str:
        start, stop = self.options
        if start < 0:
            return f"right({self.arguments[0]}, {-start})"
        length = "" if stop is None else f", {stop - start}"
        return f"substring({self.arguments[0]}, {start + 1}{length})"


def variable_name(at: int) -> str:
    """What a lambda's variable is called among the columns of its rows."""
    return f"lambda{at}"


def captured_name(at: int) -> str:
    """What a column outside of the lambda is called there."""
    return f"column{at}"


def columns_of(expression: Expression) -> frozenset[tuple[Side, Path]]:
    """Every column or struct field that the expression reads, with its side."""
    found: set[tuple[Side, Path]] = set()
    for node in walk(expression):
        if isinstance(node, Reference):
            found.add((node.side, node.path))
        elif hasattr(node, "path"):
            found.add(("target", node.path))
    return frozenset(found)


def walk(expression: Expression) -> Iterator[Expression]:
    """The node and all below it."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Call):
            waiting += node.arguments
        elif not isinstance(node, (Reference, Value)):
            parts = (getattr(node, name) for name in node.__struct_fields__)
            waiting += (part for part in parts if isinstance(part, Expression))
