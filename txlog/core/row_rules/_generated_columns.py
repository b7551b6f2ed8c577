"""Columns that rows may lack: generated columns, whose values follow from other columns, columns with a default, and
identity columns, whose values the table counts.

In: a table's schema. Out: `ComputedColumns`, bound once for each plan. ``conform`` gives new rows these columns. Only
new rows are computed or checked: an existing row may have been computed in another time zone. As in Spark, an
expression is computed in the time zone of the writer. PROTOCOL.md, "Generated
Columns", "Default Columns", "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.identity import IdentityColumn, identity_columns, is_identity
from txlog.core.format.schema import Array, DataType, Field, Map, Primitive, Struct, fold_name, type_name
from txlog.core.row_rules._constraints import Constraint
from txlog.core.row_rules._text_limits import limits_of
from txlog.core.util import UTC, pattern
from txlog.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    import datetime

    from numpy.typing import NDArray

    from txlog.core.predicates.terms.tree import Expression

_GENERATED = "delta.generationExpression"
_DEFAULT = "CURRENT_DEFAULT"
_NESTED = (Struct, Array, Map)
_WORD = pattern(r"\w+")


class GeneratedColumn(msgspec.Struct, frozen=True):
    """``value`` has the column's type and is bound to the table's schema; ``rule`` is true if a row has that value.

    Delta stores empty values of the columns ``partitioned_by`` as null, so ``value`` is computed from null. Both are
    None if txlog cannot compute the value, as of ``now()`` in another writer's table; ``problem`` says why, and
    ``mentioned`` has the columns whose names are in the text.
    """

    name: str
    sql: str
    value: Expression | None
    rule: Constraint | None
    partitioned_by: tuple[str, ...] = ()
    problem: str = ""
    mentioned: frozenset[str] = frozenset()

    @property
    def uses(self) -> frozenset[str]:
        """The columns that the value is computed from."""
        from txlog.core.predicates.terms.tree import columns_of

        if self.value is None:
            return self.mentioned
        return frozenset(path[0] for _, path in columns_of(self.value))

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """The values for rows that have the columns `uses`.

        Raises:
            InvalidInputError: A row has no value, for example because of an overflow.
            UnsupportedFeatureError: txlog cannot compute it.
        """
        from txlog.core.predicates import evaluate

        if self.value is None:
            raise self.refused()
        try:
            return evaluate(self.value, self.stored(rows))
        except InvalidInputError as error:
            error.template = f"the generated column {self.name} ({self.sql}) cannot be computed: {error.template}"
            raise

    def refused(self, table: str | None = None) -> UnsupportedFeatureError:
        """The error for a write that must compute or check a value that txlog cannot compute."""
        return UnsupportedFeatureError(
            f"txlog cannot compute the generated column {self.name} ({self.sql}), which this write must:"
            f" {self.problem}. Nothing was committed. Use an engine that supports it, or drop the column",
            table=table,
            features=("generatedColumns",),
        )

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the values of `uses` that readers will see."""
        from txlog.core.row_rules._keys import with_stored_partition_values

        return with_stored_partition_values(rows, self.partitioned_by)


class DefaultColumn(msgspec.Struct, frozen=True):
    """``value`` is a constant of the column's type; None if txlog cannot evaluate it, for the reason ``problem``.

    If it ``is_of_now``, it depends on the time of writing, which `ComputedColumns.at` sets.
    """

    name: str
    sql: str
    value: Expression | None
    problem: str = ""
    is_of_now: bool = False


class Numbers(Protocol):
    """The numbers of a table's identity columns. Thread-safe; pickles to tasks."""

    def take(self, column: IdentityColumn, count: int) -> pa.Array:
        """``count`` numbers that no other row of the table has or gets. Raises what a commit raises."""


class NumbersOfPreview:
    """`Numbers` as new rows would get them, none of which is reserved."""

    def take(self, column: IdentityColumn, count: int) -> pa.Array:
        first = column.next(max(count, 1))[0]
        return pa.array(first + column.step * np.arange(count, dtype=np.int64))


class ComputedColumns(msgspec.Struct, frozen=True, eq=False):
    """The columns of one table that rows may lack. Pickles to tasks. ``numbers`` None: no new row is made."""

    schema: Struct
    table: str | None
    generated: tuple[GeneratedColumn, ...]
    defaults: tuple[DefaultColumn, ...]
    identity: tuple[IdentityColumn, ...] = ()
    numbers: Numbers | None = None
    zone: str = UTC
    now: datetime.datetime | None = None

    @property
    def is_of_now(self) -> bool:
        """Whether a default depends on the time of writing."""
        return any(each.is_of_now for each in self.defaults)

    def at(self, now: datetime.datetime) -> ComputedColumns:
        """The same for a write that begins ``now``."""
        return replace(self, defaults=_defaults(self.schema, now, self.zone), now=now)

    def in_zone(self, zone: str) -> ComputedColumns:
        """The same for a writer in another time zone."""
        partitioned_by = {name for each in self.generated for name in each.partitioned_by}
        found = computed_columns(self.schema, self.table, partitioned_by, zone=zone)
        assert found is not None
        defaults = _defaults(self.schema, self.now, zone) if self.defaults else ()
        return replace(self, generated=found.generated, defaults=defaults, zone=zone)

    def numbered_by(self, numbers: Numbers) -> ComputedColumns:
        """The same for a write whose new rows get their numbers from ``numbers``."""
        return replace(self, numbers=numbers) if self.identity else self

    def numbers_of(self, column: IdentityColumn, count: int) -> pa.Array:
        """New numbers of an identity column. Raises the errors of `Numbers.take`."""
        assert self.numbers is not None
        return self.numbers.take(column, count)

    def recomputed(self, assigned: Collection[str]) -> tuple[GeneratedColumn, ...]:
        """The generated columns that follow from columns with new values, except those that get one themselves."""
        is_new_row = all(name in assigned for name in without_computed(self.schema).names)
        names = {*assigned}
        return tuple(each for each in self.generated if each.name not in names and (is_new_row or each.uses & names))

    def names_from(self, known: Collection[str]) -> frozenset[str]:
        """The columns whose values follow from the columns ``known``, and the identity columns of new rows."""
        found = [each.name for each in self.generated if each.uses <= {*known}]
        return frozenset((*found, *(each.name for each in self.identity)))

    def given(self, names: Collection[str]) -> tuple[GeneratedColumn, ...]:
        """The generated columns among these columns."""
        return tuple(each for each in self.generated if each.name in names)

    def default_of(self, name: str) -> Expression | None:
        """The default of a column that a new row lacks; None if there is none.

        Raises:
            UnsupportedFeatureError: txlog cannot evaluate it.
        """
        found = next((each for each in self.defaults if each.name == name), None)
        if found is None:
            return None
        if found.value is None:
            raise UnsupportedFeatureError(
                f"txlog cannot evaluate the default of column {name} ({found.sql}): {found.problem}. Give the rows a"
                " value for it",
                table=self.table,
                features=("allowColumnDefaults",),
            )
        return found.value

    def check(
        self,
        columns: Iterable[GeneratedColumn],
        rows: pa.RecordBatch,
        first_row: int = 0,
        are_new: NDArray[np.bool_] | None = None,
    ) -> None:
        """Check the given values of generated columns.

        Args:
            columns: The columns to check.
            rows: The rows, with these columns and the columns that they use.
            first_row: The number of rows before these, for messages.
            are_new: Which rows are written; None means all.

        Raises:
            InvalidInputError: A row's value differs from the expression.
            UnsupportedFeatureError: txlog cannot compute one of them.
        """
        places = None if are_new is None or are_new.all() else are_new.nonzero()[0]
        checked = rows if places is None else rows.take(pa.array(places))
        for column in columns:
            if column.rule is None:
                raise column.refused(self.table)
            found = column.rule.violation(column.stored(checked))
            if found is not None:
                at, values = found
                row = first_row + (at if places is None else int(places[at]))
                raise InvalidInputError(
                    f"column {column.name} is generated as {column.sql}, but row {row} of the data, counting from 0,"
                    f" has another value, with {values}. Nothing was committed. Leave the column out, so that it is"
                    f" computed, or correct it; times are in {self.zone}",
                    table=self.table,
                    row=row,
                )


def computed_names(schema: Struct) -> frozenset[str]:
    """The columns of a table that it computes for rows that lack them."""
    return frozenset(field.name for field in schema.fields if is_computed(field))


def is_computed(field: Field) -> bool:
    """Whether rows may lack this table column, because it is generated, has a default or is an identity column."""
    return _GENERATED in field.metadata or _DEFAULT in field.metadata or is_identity(field)


def refuse_given_numbers(column: IdentityColumn, table: str | None = None) -> None:
    """Raises InvalidInputError if new rows may not bring their own numbers."""
    if not column.takes_values:
        raise InvalidInputError(
            f"column {column.name} is {column.kind}, but the rows have values for it: leave the column out, so that"
            " the table counts. Only a column that is GENERATED BY DEFAULT takes the values of new rows",
            table=table,
        )


def refuse_set_numbers(schema: Struct, names: Collection[str]) -> None:
    """Raises InvalidInputError if existing rows would get other values in an identity column, as Spark does."""
    found = [column for column in identity_columns(schema) if column.name in names]
    if found:
        raise InvalidInputError(
            f"column {found[0].name} is {found[0].kind}: existing rows keep their values. Leave it out, or delete the"
            " rows and append them again"
        )


def stored_generated(schema: Struct) -> dict[str, str]:
    """The SQL text of each generated column by name."""
    return {field.name: str(field.metadata[_GENERATED]) for field in schema.fields if _GENERATED in field.metadata}


def without_generated(schema: Struct) -> Struct:
    """The columns that a source of whole rows must have: without generated columns whose values follow from them."""
    generated = stored_generated(schema)
    return Struct(tuple(field for field in schema.fields if field.name not in generated)) if generated else schema


def without_computed(schema: Struct) -> Struct:
    """The columns that a source of whole rows must have, of a table with identity columns too."""
    return Struct(tuple(field for field in without_generated(schema).fields if not is_identity(field)))


def computed_columns(
    schema: Struct, table: str | None = None, partition_columns: Collection[str] = (), *, zone: str
) -> ComputedColumns | None:
    """The columns of a table with this schema that rows may lack; None if there are none. As in Spark, expressions are
    computed in the time zone of the writer.

    Raises:
        UnsupportedFeatureError: A part of a column is generated, so no row may be written.
    """
    # A loop, since this runs in every plan and most tables have no such column.
    for field in schema.fields:
        if is_computed(field) or isinstance(field.type, _NESTED):
            return _bound(schema, table, partition_columns, zone)
    return None


def generated_of(
    schema: Struct,
    table: str | None = None,
    partition_columns: Collection[str] = (),
    numbers: Numbers | None = None,
    *,
    zone: str,
) -> ComputedColumns | None:
    """The same for rows that replace others: they must have every column that is not generated.

    With ``numbers``, some of them may be new rows, which get the numbers of identity columns from there.
    """
    found = computed_columns(schema, table, partition_columns, zone=zone)
    if found is None:
        return None
    identity = () if numbers is None else found.identity
    return replace(found, defaults=(), identity=identity, numbers=numbers) if found.generated or identity else None


def _bound(schema: Struct, table: str | None, partition_columns: Collection[str], zone: str) -> ComputedColumns | None:
    nested = _first_nested(schema)
    if nested is not None:
        raise UnsupportedFeatureError(
            f"{nested}, a part of a column, is generated or has a default, which Delta does not describe: txlog cannot"
            " write rows to this table",
            table=table,
            features=("generatedColumns", "allowColumnDefaults", "identityColumns"),
        )
    if not any(map(is_computed, schema.fields)):
        return None
    generated = []
    for name, sql in stored_generated(schema).items():
        try:
            found = _generated(name, sql, schema, zone)
            partitioned_by = tuple(column for column in partition_columns if column in found.uses)
            generated.append(replace(found, partitioned_by=partitioned_by))
        except InvalidInputError as error:
            words = {*_WORD.findall(fold_name(sql))}
            mentioned = frozenset(each for each in schema.names if words.issuperset(_WORD.findall(fold_name(each))))
            if mentioned & stored_generated(schema).keys():  # whose values follow from other columns
                mentioned = frozenset(schema.names)
            why = error.message.rstrip(".")
            generated.append(GeneratedColumn(name, sql, None, None, problem=why, mentioned=mentioned))
    return ComputedColumns(
        schema, table, tuple(generated), _defaults(schema, None, zone), identity_columns(schema), zone=zone
    )


def check_added_are_plain(added: Iterable[tuple[str, Field]]) -> None:
    """Raises InvalidInputError if a column to add, given with its path, is generated or has a default."""
    computed = [path for path, field in added if is_computed(field)]
    if computed:
        raise InvalidInputError(
            f"cannot add {', '.join(computed)} as a generated or identity column or with a default, since existing rows"
            " have no value there: add it as a plain column. A new table may have such columns; alter_column"
            " gives later rows a default"
        )


def check_computed_columns(schema: Struct) -> None:
    """Check generated columns and defaults of a new definition, as Spark does.

    Raises:
        InvalidInputError: One does not fit the schema, or txlog cannot evaluate it.
    """
    nested = _first_nested(schema)
    if nested is not None:
        raise InvalidInputError(f"{nested} is a part of a column, so it can neither be generated nor have a default")
    for field in schema.fields:
        if _GENERATED in field.metadata:
            _check_generated(field, schema)
    for default in _defaults(schema, None, UTC):
        if default.value is None and not default.is_of_now:
            from txlog.core.predicates import as_string

            raise InvalidInputError(
                f"the default of column {default.name} ({default.sql}) cannot be evaluated: {default.problem}"
                f"{as_string(default.sql)}"
            )
        if default.value is not None:
            _check_length(default, default.value, schema)


def check_defaults_are_literals(schema: Struct, rule: str) -> None:
    """Raises InvalidInputError if a default is computed, where the property ``rule`` wants a value that is written
    down: Iceberg stores defaults as values."""
    from txlog.core.predicates.terms.tree import Value

    for default in _defaults(schema, None, UTC):
        if default.value is None or not isinstance(_parsed(default.sql, Struct(()), UTC), Value):
            raise InvalidInputError(
                f"the default of column {default.name} ({default.sql}) is computed, and {rule} = true requires a"
                " literal, such as 5, 'text' or DATE '2026-01-31': Iceberg stores defaults as values"
            )


def _check_length(default: DefaultColumn, constant: Expression, schema: Struct) -> None:
    from txlog.core.predicates import evaluate

    limits = limits_of(Struct(tuple(field for field in schema.fields if field.name == default.name)))
    if not limits:
        return
    row = pa.record_batch([pa.nulls(1)], names=[""])
    value = pa.record_batch([evaluate(constant, row)], names=[default.name])
    for limit in limits:
        if limit.too_long(value) is not None:
            raise InvalidInputError(f"the default of column {default.name} ({default.sql}) does not fit in {limit.sql}")


def _check_generated(field: Field, schema: Struct) -> None:
    sql = str(field.metadata[_GENERATED])
    if _DEFAULT in field.metadata:
        raise InvalidInputError(f"column {field.name} is generated, so it cannot have a default")
    try:
        _generated(field.name, sql, schema, UTC)
    except InvalidInputError as error:
        error.template = f"the generated column {field.name} ({sql}) does not fit the schema: {error.template}"
        raise
    written = _parsed(sql, schema, UTC).type
    if written != field.type:
        wanted = type_name(field.type)
        raise InvalidInputError(
            f"the generated column {field.name} is {wanted}, and {sql} is {type_name(written)}: write"
            f" CAST({sql} AS {wanted}), as Spark requires"
        )


def _first_nested(schema: Struct) -> str | None:
    """The path of a part of a column that is generated or has a default; None if there is none."""
    return next((path for field in schema.fields for path in _marked(field.type, field.name)), None)


def _generated(name: str, sql: str, schema: Struct, zone: str) -> GeneratedColumn:
    from txlog.core.predicates import as_condition, assigned, compare
    from txlog.core.predicates.terms.tree import Reference
    from txlog.core.predicates.terms.types import is_ordered
    from txlog.core.predicates.terms.zones import read_in

    field = schema.find(name)
    assert field is not None
    try:
        with read_in(zone):
            value = assigned(_parsed(sql, without_generated(schema), zone), field.type)
            if isinstance(field.type, Primitive) and not is_ordered(field.type):
                raise ValueError(
                    f"a column of type {type_name(field.type)} cannot be generated, since the values in the rows"
                    " cannot be compared with the computed ones"
                )
            rule = as_condition(compare("<=>", Reference((name,), field.type), value))
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    return GeneratedColumn(name, sql, value, Constraint(f"generated column {name}", sql, rule))


def _parsed(sql: str, schema: Struct, zone: str) -> Expression:
    from txlog.core.predicates import parse_stored_value

    return parse_stored_value(sql, schema, zone)


def _defaults(schema: Struct, now: datetime.datetime | None, zone: str) -> tuple[DefaultColumn, ...]:
    return tuple(_default(field, now, zone) for field in schema.fields if _DEFAULT in field.metadata)


def _default(field: Field, now: datetime.datetime | None, zone: str) -> DefaultColumn:
    import datetime

    from txlog.core.predicates import assigned, evaluate, parse_stored_value
    from txlog.core.predicates.terms.zones import read_in

    sql = str(field.metadata[_DEFAULT])
    at = now or datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
    try:
        with read_in(zone):
            value = assigned(parse_stored_value(sql, Struct(()), zone, now=at), field.type)
        evaluate(value, pa.record_batch([pa.nulls(1)], names=[""]))
    except (InvalidInputError, ValueError) as error:
        return DefaultColumn(field.name, sql, None, str(getattr(error, "message", error)))
    try:
        parse_stored_value(sql, Struct(()), zone)
    except InvalidInputError:
        problem = "it is the time of writing, which is not known here"
        return DefaultColumn(field.name, sql, None if now is None else value, problem, is_of_now=True)
    return DefaultColumn(field.name, sql, value)


def _marked(data_type: DataType, path: str) -> Iterable[str]:
    """The struct fields, at any depth, that are generated or have a default."""
    match data_type:
        case Struct(fields):
            for field in fields:
                if is_computed(field):
                    yield f"{path}.{field.name}"
                yield from _marked(field.type, f"{path}.{field.name}")
        case Array(element):
            yield from _marked(element, f"{path}.element")
        case Map(key, value):
            yield from _marked(key, f"{path}.key")
            yield from _marked(value, f"{path}.value")
