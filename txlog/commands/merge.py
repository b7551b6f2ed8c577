"""MERGE: clauses for rows that match a source, for rows that only the source has, and for rows that only the table has.

In: a source, a join by equal keys, and clauses. Out: a `RowOperation`. Which clause applies to a row of the table
depends only on its file and the source, so it is decided once for each file. Which rows of the source match nothing is
decided again at each execution, from all live files.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.taken import taken_batches
from txlog.commands.assignments import Assignments
from txlog.commands.merge_history import merge_metrics
from txlog.commands.merge_source import MergeSource, read_merge_source
from txlog.commands.new_columns import check_adds_columns, with_new_columns
from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import Hits, Images, RemembersFiles, Touched
from txlog.commands.row_change.options import RowOptions
from txlog.commands.row_change.run import replayed, run_prepared, state_to_change
from txlog.commands.upsert.known_keys import KnownKeys, KnownPart, known_keys
from txlog.commands.write_options import SchemaMode
from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.expressions.predicates import Predicate
from txlog.expressions.sql import Context, parse_predicate
from txlog.expressions.tree import columns_of
from txlog.log.proposal import operation_parameters
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.read.key_cache import Places
from txlog.result import WriteMetrics, WriteResult
from txlog.skipping.key_pruning import KeyPruner, key_range
from txlog.util import ambient
from txlog.writer.committable import PendingFile
from txlog.writer.input import open_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Clause", "MergeOptions", "MergeRows", "bound_merge", "merge_rows"]

When: TypeAlias = Literal["matched", "not matched", "not matched by source"]
Then: TypeAlias = Literal["update", "delete", "insert"]

_NONE = -1


@dataclass(frozen=True, slots=True)
class Clause:
    """What to do with matching rows; ``values`` None means all columns of the source (or nothing, for a delete)."""

    when: When
    then: Then
    values: Mapping[str, Any] | None
    predicate: str | None


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """``on`` is a condition, or the names of columns that both sides have and that must be equal."""

    on: str | Iterable[str]
    source_alias: str
    target_alias: str
    schema_mode: SchemaMode = "strict"

    def __post_init__(self) -> None:
        check_adds_columns(self.schema_mode)

    @property
    def condition(self) -> str:
        if isinstance(self.on, str):
            return self.on
        names = [f"`{str(name).replace('`', '``')}`" for name in self.on]
        if not names:
            raise InvalidInputError('on is empty: give a condition, such as "target.id = source.id", or column names')
        return " AND ".join(f"{self.target_alias}.{name} = {self.source_alias}.{name}" for name in names)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A clause bound to the two schemas. ``number`` is unique in its merge."""

    number: int
    then: Then
    predicate: Predicate | None
    assignments: Assignments | None


def merge_rows(
    open_table: OpenTable, data: Any, merge: MergeOptions, clauses: tuple[Clause, ...], options: RowOptions
) -> WriteResult:
    """Merge ``data`` by ``clauses``. Raises as `run_row_change`, and what `MergeBuilder.execute` documents."""
    state = state_to_change(open_table, options, "a merge")
    found = replayed(open_table, state, options)
    if found is not None:
        return found
    stream = open_data(data)
    definition = None
    if merge.schema_mode == "merge":
        takes_all = any(clause.values is None and clause.then != "delete" for clause in clauses)
        named = {name for clause in clauses for name in clause.values or () if isinstance(name, str)}
        with TxlogError.located(open_table.uri, state.version):
            definition = with_new_columns(state, stream.schema, None if takes_all else named)
    bound_to = state if definition is None else state.defined_as(definition.metadata, definition.protocol)
    operation = bound_merge(open_table, bound_to, stream, merge, clauses)
    return run_prepared(open_table, state, options, operation, definition)


def bound_merge(
    open_table: OpenTable, state: TableState, data: Any, merge: MergeOptions, clauses: tuple[Clause, ...]
) -> MergeRows:
    """Read the source and bind the merge to a version. Raises as `merge_rows`."""
    if not clauses:
        raise InvalidInputError("a merge without a clause does nothing: add .when_matched_update_all() or another")
    with TxlogError.located(open_table.uri, state.version):
        now = ambient.now()
        source = read_merge_source(
            data, merge.condition, state, now, merge.source_alias, merge.target_alias, table=open_table.uri
        )
        return MergeRows(source, merge, clauses, state, now, known_keys(open_table.key_cache, source.index, state))


class MergeRows(RemembersFiles):
    """The `RowOperation` of a merge."""

    name = "MERGE"
    writes_every_source_row = False

    def __init__(
        self,
        source: MergeSource,
        merge: MergeOptions,
        clauses: Sequence[Clause],
        state: TableState,
        now: datetime.datetime,
        known: KnownKeys | None = None,
    ) -> None:
        self._source = source
        self.num_source_rows: int = source.rows.num_rows
        self._clauses = clauses
        self._condition = merge.condition
        self._takes_fewer_columns = merge.schema_mode == "merge"
        self._schema = state.schema
        bound = [self._bound(number, clause, merge, now) for number, clause in enumerate(clauses)]
        self._of = {when: [b for b, c in zip(bound, clauses, strict=True) if c.when == when] for when in _WHENS}
        self._by_number = bound
        updates = [b.assignments for b in bound if b.then == "update" and b.assignments is not None]
        needed = {name for each in updates for name in each.needed}
        self.makes_images = self.replaces_rows = bool(updates)
        self.image_fields = tuple(field for field in state.schema.fields if field.name in needed)
        paths = [key.path for key in source.keys]
        self._pruner = KeyPruner(paths, source.index.columns, state.schema, state.partition_columns)
        self._range = key_range(paths, source.index.columns, state.schema)
        conditions = self._conditions_on_target()
        looked_at = conditions | {path[0] for path in paths}
        self._fields = tuple(field for field in state.schema.fields if field.name in looked_at)
        self._known = None if self._of["not matched by source"] else known
        self._keys_decide = not conditions
        self._places: dict[str, Places] = {}

    def _bound(self, number: int, clause: Clause, merge: MergeOptions, now: datetime.datetime) -> _Bound:
        context: Context = {
            "source": self._source.schema,
            "target_alias": merge.target_alias,
            "source_alias": merge.source_alias,
            "now": now,
        }
        predicate = None
        if clause.predicate is not None:
            predicate = parse_predicate(clause.predicate, self._schema, **context)
        values = clause.values
        if clause.then == "delete":
            values = None
        elif values is None:
            values = self._all_columns(merge.source_alias)
        if values is not None and clause.then == "insert":
            given = {self._column(name) for name in values}
            values = {**{name: None for name in self._schema.names if name not in given}, **values}
        assignments = None
        if values is not None:
            assignments = Assignments(values, self._schema, **context)
        bound = _Bound(number, clause.then, predicate, assignments)
        _check_sides(clause, bound)
        return bound

    def _column(self, name: Any) -> Any:
        field = self._schema.find(name) if isinstance(name, str) else None
        return name if field is None else field.name

    def _all_columns(self, alias: str) -> dict[str, str]:
        absent = [name for name in self._schema.names if self._source.schema.find(name) is None]
        if absent and self._takes_fewer_columns:
            names = [name for name in self._schema.names if name not in absent]
            return {name: f"{alias}.`{name.replace('`', '``')}`" for name in names}
        if absent:
            raise SchemaMismatchError(
                f"the source lacks {', '.join(absent)}, which a clause for all columns needs: name the columns and"
                " their values instead"
            )
        return {name: f"{alias}.`{name.replace('`', '``')}`" for name in self._schema.names}

    def _conditions_on_target(self) -> set[str]:
        """The columns of the table that decide, besides the key, which clause applies to a row of it."""
        conditions = [self._source.target_term]
        conditions += [b.predicate for when in ("matched", "not matched by source") for b in self._of[when]]
        found = [columns_of(condition) for condition in conditions if condition is not None]
        return {path[0] for columns in found for side, path in columns if side == "target"}

    # --- for history ----------------------------------------------------------------------------------------

    def declare_reads(self, builder: ProposalBuilder, files: Sequence[str]) -> None:
        if self._range is None or self._of["not matched by source"]:
            builder.read_table()
        else:
            builder.read_where(self._range, files)

    def parameters(self) -> dict[str, str]:
        def history_of(when: When) -> list[dict[str, str]]:
            clauses = [clause for clause in self._clauses if clause.when == when]
            return [
                {**({} if c.predicate is None else {"predicate": c.predicate}), "actionType": c.then} for c in clauses
            ]

        return operation_parameters(
            predicate=[f"({self._condition})"],
            matchedPredicates=history_of("matched"),
            notMatchedPredicates=history_of("not matched"),
            notMatchedBySourcePredicates=history_of("not matched by source"),
        )

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        return merge_metrics(self.num_source_rows, done)

    # --- look-up --------------------------------------------------------------------------------------------

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        import numpy as np

        if self._of["not matched by source"]:
            return np.ones(files.num_rows, dtype=bool)
        return self._pruner.mask_of_table(files)

    def matches_whole_file(self, add: AddFile) -> bool:
        return False

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:

        places = self._places.get(add.path)
        if places is not None:
            batches: Iterator[tuple[NDArray[Any], pa.RecordBatch]] = rows.at(add, places.positions, self._fields)
            return _joined([self._hits(positions, batch) for positions, batch in batches])
        parts: list[KnownPart] | None = [] if self._known is not None and self._known.is_wanted(add) else None
        is_narrow = (
            parts is None
            and not self._of["not matched by source"]
            and self._pruner.of_one_file.holds_others(add.partition_values, add.stats)
        )
        found = []
        batches = rows.reader(self._fields, self._range if is_narrow else None).batches(add, with_dead_rows=True)
        for positions, batch in batches:
            found.append(self._hits(positions, batch))
            if parts is not None and self._known is not None:
                parts.append(self._known.part_of(self._source.keys_of(batch), positions))
        if parts is not None and self._known is not None:
            self._known.offer(add, parts)
        return _joined(found)

    def recall(self, files: pa.Table, *, are_all_live: bool) -> dict[str, Hits]:
        """If more than keys decides, rows with a key of the source are only recorded: `look_up` reads them."""
        import numpy as np

        if self._known is None:
            return {}
        places = self._known.recall(files, are_all_live=are_all_live)
        self._places = {} if self._keys_decide else {path: at for path, at in places.items() if len(at.positions)}
        return {
            path: self._decided(at.positions.astype(np.int64), self._source.indexed[at.keys], None)
            for path, at in places.items()
            if path not in self._places
        }

    def keep(self) -> None:
        if self._known is not None:
            self._known.keep()

    def keep_written(self, files: Sequence[PendingFile], is_written: NDArray[np.bool_]) -> None:
        """Does nothing: a clause may give an inserted row another key than the source's, so the next merge reads it."""

    def _hits(self, positions: NDArray[Any], batch: pa.RecordBatch) -> Hits:
        return self._decided(positions, self._source.rows_of(batch), batch)

    def _decided(self, positions: NDArray[Any], source_rows: NDArray[np.int64], batch: pa.RecordBatch | None) -> Hits:
        """The rows at ``positions`` that a row of the source joins or a clause changes. ``batch`` has their `_fields`;
        None if keys alone decide."""
        import numpy as np

        clauses = np.full(len(positions), _NONE, dtype=np.int16)
        self._decide(self._of["matched"], clauses, np.flatnonzero(source_rows >= 0), batch, source_rows)
        self._decide(self._of["not matched by source"], clauses, np.flatnonzero(source_rows < 0), batch, None)
        at = np.flatnonzero((source_rows >= 0) | (clauses != _NONE))
        return Hits(positions[at].astype(np.uint64), source_rows[at], clauses[at] != _NONE, clauses[at])

    def _decide(
        self,
        of: Sequence[_Bound],
        clauses: NDArray[np.int16],
        left: NDArray[np.int64],
        batch: pa.RecordBatch | None,
        source_rows: NDArray[np.int64] | None,
    ) -> None:
        """Find the first clause that applies to each of the rows at ``left``."""
        import numpy as np

        for bound in of:
            if not len(left):
                return
            if bound.predicate is None:
                clauses[left] = bound.number
                return
            applies = np.empty(len(left), dtype=bool)
            for here, source in self._beside(None if source_rows is None else source_rows[left], len(left)):
                target = None if batch is None else batch.take(pa.array(left[here]))
                applies[here] = _is_true(bound.predicate.evaluate(target, source))
            clauses[left[applies]] = bound.number
            left = left[~applies]

    # --- rows -----------------------------------------------------------------------------------------------

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> Iterator[Images]:
        import numpy as np

        assert hits.clauses is not None
        assert hits.source_rows is not None
        for bound in self._by_number:
            at = np.flatnonzero(hits.clauses == bound.number)
            if bound.then != "update" or not len(at):
                continue
            assert bound.assignments is not None
            source_rows = hits.source_rows[at]
            for here, source in self._beside(source_rows if (source_rows >= 0).all() else None, len(at)):
                old = None if rows is None else rows.take(pa.array(at[here]))
                yield bound.assignments.apply(old, source, len(at[here])), at[here]

    def _beside(
        self, source_rows: NDArray[np.int64] | None, num_rows: int
    ) -> Iterator[tuple[slice, pa.RecordBatch | None]]:
        """The rows of the source that are joined to so many rows, some at a time; None for those of no source."""
        if source_rows is None:
            yield slice(0, num_rows), None
            return
        for first, batch in taken_batches(self._source.rows, source_rows):
            yield slice(first, first + batch.num_rows), batch

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        matched = [rows[rows >= 0] for rows in (each.live_source_rows for each in touched)]
        if self._of["matched"]:
            self._source.refuse_repeated(matched)
        is_written: NDArray[np.bool_] = (self._insert_clauses() != _NONE) & ~self._source.is_matched(matched)
        return is_written

    def _insert_clauses(self) -> NDArray[np.int16]:
        """The clause that would insert each row of the source; -1 for none."""
        import numpy as np

        clauses = np.full(self._source.rows.num_rows, _NONE, dtype=np.int16)
        left = np.arange(len(clauses))
        for bound in self._of["not matched"]:
            if bound.predicate is None:
                clauses[left] = bound.number
                break
            applies = np.empty(len(left), dtype=bool)
            for here, source in self._beside(left, len(left)):
                applies[here] = _is_true(bound.predicate.evaluate(None, source))
            clauses[left[applies]] = bound.number
            left = left[~applies]
        return clauses

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        import numpy as np

        updates = [bound.number for bound in self._by_number if bound.then == "update"]
        found = []
        for each in touched:
            hits = each.hits.at(np.searchsorted(each.hits.positions, each.replaced))
            assert hits.clauses is not None
            found.append(np.isin(hits.clauses, updates))
        return found, np.zeros(self._source.rows.num_rows, bool)

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        import numpy as np

        clauses = self._insert_clauses()
        for bound in self._of["not matched"]:
            assert bound.assignments is not None
            at = np.flatnonzero(is_written & (clauses == bound.number))
            for _, rows in self._beside(at, len(at)):
                assert rows is not None
                yield bound.assignments.apply(None, rows, rows.num_rows)

    def counts(self, touched: Sequence[Touched], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        import numpy as np

        assert is_written is not None
        updates = [bound.number for bound in self._by_number if bound.then == "update"]
        updated = deleted = 0
        for each in touched:
            assert each.hits.clauses is not None
            clauses = each.hits.clauses[each.live]
            updated += int(np.isin(clauses, updates).sum())
            deleted += int(((clauses != _NONE) & ~np.isin(clauses, updates)).sum())
        return int(is_written.sum()), updated, deleted


def _joined(found: Sequence[Hits]) -> Hits:
    import numpy as np

    empty = Hits(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, bool), np.empty(0, np.int16))
    columns = zip(*((h.positions, h.source_rows, h.is_replaced, h.clauses) for h in [empty, *found]), strict=True)
    return Hits(*(np.concatenate(each) for each in columns))


def _check_sides(clause: Clause, bound: _Bound) -> None:
    """Raises ``InvalidInputError`` if a clause for rows of one side only reads columns of the other side."""
    absent = {"matched": None, "not matched": "target", "not matched by source": "source"}[clause.when]
    read: set[str] = {side for side, _ in columns_of(bound.predicate)} if bound.predicate is not None else set()
    if bound.assignments is not None:
        read |= bound.assignments.sides
    if absent in read:
        raise InvalidInputError(
            f"a clause for rows that are {clause.when} reads columns of the {absent}, which has no such rows"
        )


def _is_true(values: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return found


_WHENS: tuple[When, ...] = ("matched", "not matched", "not matched by source")
