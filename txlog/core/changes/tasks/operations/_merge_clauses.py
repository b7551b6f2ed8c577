"""The clauses of a MERGE: which one applies to a table row and a source row, or to a row of one side alone.

In: clauses in the caller's words, and pairs of rows. Out: for each pair the number of the first clause that applies.
Several source rows may join one table row. That is ambiguous only if several of them change it, and not all of these
delete it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks.operations._assignments import Assignments, assigned_names
from txlog.core.changes.tasks.operations._merge_ranges import Pairs
from txlog.core.changes.tasks.operations._merge_source import MergeSource
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.arrow.take_rows import taken_batches
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.identity import IdentityColumn, identity_columns
from txlog.core.format.properties import path_text
from txlog.core.format.schema import Field, Struct, backquoted, fold_name
from txlog.core.format.schema_changes import column_path, field_at
from txlog.core.format.schema_merge import adds_members
from txlog.core.predicates import AnyCondition, Column, Context, Operand, Parameters, Sql, bind_predicate, evaluate
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.predicates.terms.tree import columns_of
from txlog.core.row_rules import (
    ComputedColumns,
    Numbers,
    computed_columns,
    refuse_given_numbers,
    refuse_set_numbers,
    without_computed,
)
from txlog.core.util import invalid
from txlog.core.wording import setting
from txlog.core.writing.write_intent import SchemaMode, check_adds_columns
from txlog.errors import InvalidInputError, SchemaMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SourceNumbers: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.bool_]]"
"""A number for each source row, and whether it has one yet."""

When: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Then: TypeAlias = Literal["update", "delete", "insert"]

NONE = -1
AMBIGUOUS = -2
"""The numbers for no clause, and for several clauses that would change a row in different ways."""

_WHENS: tuple[When, ...] = ("matched", "not matched", "not matched by source")


class MergeClause(msgspec.Struct, frozen=True):
    """What to do with matching rows; ``values`` None means all columns of the source without ``except_columns``, and
    nothing for a delete."""

    when: When
    then: Then
    values: Mapping[str, Any] | None
    predicate: AnyCondition | None
    except_columns: tuple[str, ...] = ()


class MergeOptions(msgspec.Struct, frozen=True):
    """``on`` is a condition, or the names of columns that both sides have and that must be equal.

    ``parameters`` are the values of ``:name`` in all SQL of the merge.
    """

    on: AnyCondition | Iterable[str]
    source_alias: str
    target_alias: str
    schema_mode: SchemaMode = "strict"
    parameters: Parameters | None = None

    def __post_init__(self) -> None:
        check_adds_columns(self.schema_mode)
        for name in ("source_alias", "target_alias"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise invalid(name, getattr(self, name), "the name of one side in conditions and values")
        if fold_name(self.source_alias) == fold_name(self.target_alias):
            hint = f"The table is called {self.target_alias} too"
            raise invalid("source_alias", self.source_alias, "another name than the table's", hint=hint)

    @property
    def condition(self) -> AnyCondition:
        if isinstance(self.on, str | Sql) and self.parameters:
            return (Sql(self.on) if isinstance(self.on, str) else self.on).with_parameters(self.parameters)
        if isinstance(self.on, str | Operand | Predicate):
            return self.on
        names = [backquoted(str(name)) for name in self.on]
        if not names:
            raise InvalidInputError('on is empty: pass a condition, such as "target.id = source.id", or column names')
        target, source = backquoted(self.target_alias), backquoted(self.source_alias)
        return " AND ".join(f"{target}.{name} = {source}.{name}" for name in names)


class BoundClause(msgspec.Struct, frozen=True):
    """A clause bound to the two schemas. ``number`` is unique in its merge."""

    number: int
    then: Then
    predicate: Predicate | None
    assignments: Assignments | None


class MergeClauses:
    """The clauses of one merge, bound to a source and to the table's schema.

    Attributes:
        bound: All clauses, indexed by number.
        of: The clauses for each kind of row, in order.
    """

    def __init__(
        self,
        clauses: Sequence[MergeClause],
        merge: MergeOptions,
        source: MergeSource,
        table: DefinedTable,
        now: datetime.datetime,
        numbers: Numbers | None = None,
    ) -> None:
        self._source = source
        self._schema = table.schema
        self._zone = table.time_zone
        self._takes_fewer = merge.schema_mode == "merge"
        found = computed_columns(table.schema, None, table.partition_columns, zone=table.time_zone)
        found = found.at(now) if found is not None and found.is_of_now else found
        self._computed = found if found is None or numbers is None else found.numbered_by(numbers)
        self._numbers_given: dict[str, SourceNumbers] = {}
        self.bound = [self._bound(number, clause, merge, now) for number, clause in enumerate(clauses)]
        self.of = {when: [b for b, c in zip(self.bound, clauses, strict=True) if c.when == when] for when in _WHENS}

    def _bound(self, number: int, clause: MergeClause, merge: MergeOptions, now: datetime.datetime) -> BoundClause:
        context: Context = {
            "zone": self._zone,
            "source": self._source.schema,
            "target_alias": merge.target_alias,
            "source_alias": merge.source_alias,
            "now": now,
            "parameters": merge.parameters,
        }
        predicate = None
        if clause.predicate is not None:
            predicate = bind_predicate(clause.predicate, self._schema, **context)
        try:
            assignments = self._assignments(clause, merge, context)
        except InvalidInputError as error:
            if not self._takes_fewer and self._sets_new(clause):
                error.template += f"; {setting('schema_mode', 'merge')} adds what the source has and the table lacks"
            raise
        bound = BoundClause(number, clause.then, predicate, assignments)
        _check_sides(clause, bound)
        return bound

    def _assignments(self, clause: MergeClause, merge: MergeOptions, context: Context) -> Assignments | None:
        values = clause.values
        if clause.then == "delete":
            return None
        if values is None:
            left_out = self._left_out(clause.except_columns)
            if clause.then == "update":  # existing rows keep their numbers
                left_out |= {column.name for column in identity_columns(self._schema)}
            values = _all_columns(
                self._schema, self._source.schema, merge.source_alias, left_out, may_lack=self._takes_fewer
            )
        if values is not None and clause.then == "update":
            refuse_set_numbers(self._schema, assigned_names(values, self._schema))
        if values is not None and clause.then == "insert":
            given = {self._whole_column(name) for name in values}
            for column in identity_columns(self._schema):
                if column.name in given:
                    refuse_given_numbers(column)
            values = {**_values_of_absent(self._schema, given, self._computed), **values}
        return None if values is None else Assignments(values, self._schema, self._computed, **context)

    def _sets_new(self, clause: MergeClause) -> bool:
        """Whether the clause sets a column or struct field that only the source has."""
        for name in self._schema.names if clause.values is None else clause.values:
            given, there = _found(self._source.schema, name), _found(self._schema, name)
            if given is not None and (there is None or adds_members(there, given)):
                return True
        return False

    def _left_out(self, names: Sequence[str]) -> set[str]:
        """The table's columns of these names. Raises ``InvalidInputError`` for a name that neither side has."""
        unknown = [name for name in names if self._schema.find(name) is None and self._source.schema.find(name) is None]
        if unknown:
            raise InvalidInputError(
                f"except_cols names {unknown[0]!r}, which neither side has: the table has"
                f" {', '.join(self._schema.names)}"
            )
        return {field.name for field in map(self._schema.find, names) if field is not None}

    def _whole_column(self, name: Any) -> str:
        path = column_path(name, self._schema)
        if len(path) > 1:
            raise InvalidInputError(
                f"an insert sets whole columns, not {path_text(path)}: write named_struct(...) for {path[0]}"
            )
        return path[0]

    def of_several(
        self,
        batch: pa.RecordBatch | None,
        rows: NDArray[np.int64],
        source_rows: NDArray[np.int64],
        pairs: Iterable[Pairs],
    ) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """For each of the ``rows``, which several source rows join: the source row that changes it, and its clause.

        ``source_rows`` has any one of them, ``pairs`` each of them with the place of its row in ``rows``. A source row
        to which no clause applies changes nothing. If several change a row and all of them delete it, any of them
        stands for the others; otherwise the clause is `AMBIGUOUS`.
        """
        matched = self.of["matched"]
        chosen, clauses = source_rows.copy(), np.full(len(rows), NONE, dtype=np.int16)
        if matched[0].predicate is None:  # all do the same
            clauses[:] = matched[0].number if matched[0].then == "delete" else AMBIGUOUS
            return chosen, clauses
        changes, deletes = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        is_delete = np.array([bound.then == "delete" for bound in self.bound])
        for places, sources in pairs:
            found = self.first(matched, batch, rows[places], sources)
            at = np.flatnonzero(found != NONE)
            chosen[places[at]], clauses[places[at]] = sources[at], found[at]
            changes += np.bincount(places[at], minlength=len(rows))
            deletes += np.bincount(places[at[is_delete[found[at]]]], minlength=len(rows))
        clauses[(changes > 1) & (deletes < changes)] = AMBIGUOUS
        return chosen, clauses

    def first(
        self,
        of: Sequence[BoundClause],
        batch: pa.RecordBatch | None,
        rows: NDArray[np.int64] | None,
        source_rows: NDArray[np.int64] | None,
    ) -> NDArray[np.int16]:
        """The number of the first clause that applies to each pair of a row of ``batch`` and a source row; -1 for none.
        Without ``rows`` or ``source_rows``, the clauses are for rows that only the other side has."""
        given = rows if rows is not None else source_rows
        assert given is not None
        clauses = np.full(len(given), NONE, dtype=np.int16)
        left = np.arange(len(given))
        for bound in of:
            if not len(left):
                break
            if bound.predicate is None:
                clauses[left] = bound.number
                break
            applies = np.empty(len(left), dtype=bool)
            for here, source in self.beside(None if source_rows is None else source_rows[left], len(left)):
                target = None if batch is None or rows is None else batch.take(pa.array(rows[left[here]]))
                applies[here] = flags_of(evaluate(bound.predicate, target, source))
            clauses[left[applies]] = bound.number
            left = left[~applies]
        return clauses

    def inserted(self, bound: BoundClause, source_rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The rows that a clause inserts for these source rows. A source row gets the same numbers each time."""
        assert bound.assignments is not None
        columns = [] if self._computed is None else self._computed.identity
        absent = [column for column in columns if column.name not in bound.assignments.names]
        for here, source in self.beside(source_rows, len(source_rows)):
            numbers = {each.name: self._numbers_of(each, source_rows[here]) for each in absent}
            yield bound.assignments.apply(None, source, len(source_rows[here]), numbers)

    def _numbers_of(self, column: IdentityColumn, source_rows: NDArray[np.int64]) -> pa.Array:
        assert self._computed is not None
        given = self._numbers_given.get(column.name)
        if given is None:
            num_rows = self._source.rows.num_rows
            given = self._numbers_given[column.name] = (np.zeros(num_rows, np.int64), np.zeros(num_rows, bool))
        numbers, are_given = given
        new = source_rows[~are_given[source_rows]]
        numbers[new] = self._computed.numbers_of(column, len(new)).to_numpy()
        are_given[new] = True
        return pa.array(numbers[source_rows])

    def beside(
        self, source_rows: NDArray[np.int64] | None, num_rows: int
    ) -> Iterator[tuple[slice, pa.RecordBatch | None]]:
        """The source rows joined to ``num_rows`` rows, some at a time; None if there is no source."""
        if source_rows is None:
            yield slice(0, num_rows), None
            return
        for first, batch in taken_batches(self._source.rows, source_rows):
            yield slice(first, first + batch.num_rows), batch


def _found(schema: Struct, name: Any) -> Field | None:
    try:
        return field_at(schema, column_path(name, schema))
    except InvalidInputError:
        return None


def _check_sides(clause: MergeClause, bound: BoundClause) -> None:
    """Raises ``InvalidInputError`` if a clause for rows of one side alone reads columns of the other side."""
    absent = {"matched": None, "not matched": "target", "not matched by source": "source"}[clause.when]
    read: set[str] = {side for side, _ in columns_of(bound.predicate)} if bound.predicate is not None else set()
    if bound.assignments is not None:
        read |= bound.assignments.sides
    if absent in read:
        raise InvalidInputError(
            f"a clause for rows that are {clause.when} reads columns of the {absent}, which has no such rows"
        )


def _all_columns(
    schema: Struct, source: Struct, alias: str, left_out: Collection[str], *, may_lack: bool
) -> dict[str, Column]:
    """The columns of a source for the table's columns of their names, but for those ``left_out``.

    Raises ``SchemaMismatchError`` if the source lacks some that are not generated and not counted by the table, unless
    it ``may_lack`` columns.
    """
    wanted = [name for name in schema.names if name not in left_out]
    absent = [name for name in without_computed(schema).names if name in wanted and source.find(name) is None]
    if absent and not may_lack:
        raise SchemaMismatchError(
            f"the source lacks {', '.join(absent)}, which a clause for all columns needs: name the columns and"
            " their values instead"
        )
    names = [name for name in wanted if source.find(name) is not None]
    return {name: Column((alias, name)) for name in names}


def _values_of_absent(schema: Struct, given: Collection[Any], computed: ComputedColumns | None) -> dict[str, Any]:
    """What an inserted row gets in columns that its clause does not name, but for identity columns: the default, or
    NULL.

    Raises ``UnsupportedFeatureError`` for a default that txlog cannot evaluate.
    """
    absent = [name for name in without_computed(schema).names if name not in given]
    return {name: None if computed is None else computed.default_of(name) for name in absent}
