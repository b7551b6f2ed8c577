"""What an UPDATE or MERGE sets: columns of the table and fields of structs, each with its new value.

In: a mapping from their names (``"a"``, ``"a.b"``) to values, what `expr` and `col` build, or functions. Out:
`Assignments`, which compute new versions of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.properties import ColumnPath, path_text
from txlog.core.format.schema import Field, Struct, type_name, type_to_arrow
from txlog.core.format.schema_changes import column_path
from txlog.core.predicates import Context, assign, evaluate, struct_of
from txlog.core.predicates.terms.tree import Expression, Reference, columns_of
from txlog.core.predicates.terms.zones import read_in
from txlog.core.row_rules import ComputedColumns
from txlog.core.util import described, invalid
from txlog.core.writing import conformer_for
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

Compute: TypeAlias = Callable[[pa.RecordBatch], Any]
"""From rows of the table to the new values of one column: an Arrow array of the same length."""

_Part: TypeAlias = tuple[ColumnPath, Any]
"""A value, and which field of a struct it is for: the path below a column, which is empty for the column itself."""


def assigned_names(given: Any, schema: Struct) -> frozenset[str]:
    """The table's columns that ``given`` names, whatever else it is."""
    found = set()
    for name in given if isinstance(given, Mapping) else ():
        with contextlib.suppress(InvalidInputError):  # `Assignments` reports a name that the table lacks
            found.add(column_path(name, schema)[0])
    return frozenset(found)


class Assignments:
    """Values for some columns of a table, bound to its schema. Thread-safe.

    A struct of which fields are set keeps its other fields. Generated columns that follow from these columns are
    computed from the new row; if they are set themselves, they are checked. Functions are allowed only without a
    source, and for whole columns. Raises ``InvalidInputError`` for a column that does not exist, and for a value that
    cannot be stored in its column.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        schema: Struct,
        computed: ComputedColumns | None = None,
        **context: Unpack[Context],
    ) -> None:
        if not isinstance(given, Mapping) or not given:
            raise invalid("values", given, "the columns to set and their values, such as {'n': txlog.col('n') + 1}")
        self._schema = schema
        self._values: dict[str, Expression | Compute] = {}
        parts: dict[str, list[_Part]] = {}
        for name, value in given.items():
            path = column_path(name, schema)
            parts.setdefault(path[0], []).append((path[1:], value))
        for name, values in parts.items():
            field = schema.find(name)
            assert field is not None
            below, value = values[0]
            if callable(value) and not (isinstance(value, Expression) or below or values[1:] or "source" in context):
                self._values[name] = value
            else:
                with read_in(context["zone"]):
                    self._values[name] = _expression((name,), field, values, schema, context)
        self._computed = computed
        self._recomputed = {} if computed is None else {each.name: each for each in computed.recomputed(self._values)}
        self._checked = () if computed is None else computed.given(self._values)

    @property
    def names(self) -> frozenset[str]:
        """The table's columns that are set."""
        return frozenset(self._values)

    @property
    def needed(self) -> frozenset[str]:
        """The table columns that new versions of rows need: the kept ones, and the ones that values read."""
        kept = {name for name in self._schema.names if name not in self._values and name not in self._recomputed}
        return self.needed_to_change | kept

    @property
    def changes_alone(self) -> bool:
        """Whether `apply` can compute the columns that are set without the others: no generated column depends on
        them, or has to be checked."""
        return not self._recomputed and not self._checked

    @property
    def needed_to_change(self) -> frozenset[str]:
        """The table columns that the values read; a function reads whole rows."""
        read: set[str] = set()
        for value in self._values.values():
            if not isinstance(value, Expression):
                return frozenset(self._schema.names)
            read |= {path[0] for side, path in columns_of(value) if side == "target"}
        return frozenset(read)

    @property
    def sides(self) -> frozenset[str]:
        """The sides whose columns the values read."""
        values = [value for value in self._values.values() if isinstance(value, Expression)]
        return frozenset(side for value in values for side, _ in columns_of(value))

    def apply(
        self,
        rows: pa.RecordBatch | None,
        source: pa.RecordBatch | None,
        num_rows: int,
        numbers: Mapping[str, pa.Array] | None = None,
        only: Sequence[Field] | None = None,
    ) -> pa.RecordBatch:
        """The new version of each row. ``rows`` has at least the columns of `needed`; None if there are none. New rows
        have ``numbers`` in the identity columns that are not set.

        ``only`` are the columns to return, if `changes_alone`: of the others, ``rows`` has what values read.
        """
        given = numbers or {}
        fields = self._schema.fields if only is None else only
        columns = {
            field.name: self._column(field, rows, source, num_rows)
            if field.name in self._values
            else given[field.name]
            if field.name in given
            else rows.column(field.name)  # type: ignore[union-attr]
            for field in fields
            if field.name not in self._recomputed
        }
        if self._recomputed or self._checked:
            self._compute(columns)
        names = [field.name for field in fields]
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)

    def _compute(self, columns: dict[str, pa.Array]) -> None:
        """Compute the generated columns again, and check the ones that are set."""
        assert self._computed is not None
        rows = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
        columns.update({name: column.of(rows) for name, column in self._recomputed.items()})
        self._computed.check(self._checked, rows)

    def _column(
        self, field: Field, rows: pa.RecordBatch | None, source: pa.RecordBatch | None, num_rows: int
    ) -> pa.Array:
        value = self._values[field.name]
        if isinstance(value, Expression):
            if rows is None and source is None:
                rows = pa.RecordBatch.from_arrays([pa.nulls(num_rows)], names=[""])
            return evaluate(value, rows, source)
        assert rows is not None
        found = value(rows)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array) or len(found) != num_rows:
            raise InvalidInputError(
                f"the function for column {field.name} must return an Arrow array of {num_rows} values, not"
                f" {described(found)}"
            )
        wanted = type_to_arrow(field.type)
        if found.type == wanted:  # a cast would refuse a null struct with required fields
            return _checked(found, field)
        try:
            return found.cast(wanted)
        except pa.ArrowException as error:
            raise InvalidInputError(f"the function for column {field.name} returned {found.type}: {error}") from None


def _expression(path: ColumnPath, field: Field, parts: list[_Part], schema: Struct, context: Context) -> Expression:
    """The new value of the column or struct field at ``path``."""
    name = path_text(path)
    whole = [value for below, value in parts if not below]
    if whole and len(parts) > 1:
        raise InvalidInputError(f"column {name} is set twice")
    if whole:
        return assign(whole[0], replace(field, name=name), schema, **context)
    if not isinstance(field.type, Struct):
        raise InvalidInputError(f"column {name} is {type_name(field.type)}, which can only be set as a whole")
    members = []
    for member in field.type.fields:
        below = [(rest[1:], value) for rest, value in parts if rest[0] == member.name]
        here = (*path, member.name)
        members.append(_expression(here, member, below, schema, context) if below else Reference(here, member.type))
    return struct_of(field.type, members)


def _checked(values: pa.Array, field: Field) -> pa.Array:
    """The values of a function in the column's type, checked as those of an append are: decimals for their digits."""
    one = Struct((replace(field, nullable=True),))
    given = pa.RecordBatch.from_arrays([values], names=[field.name])
    return conformer_for(one, given.schema).conform(given).column(0)
