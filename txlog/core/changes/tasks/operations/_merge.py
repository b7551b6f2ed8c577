"""MERGE: clauses for rows that match a source, for rows that only the source has, and for rows that only the table has.

In: a source, a join, and clauses. Out: a `RowOperation`. Which clause applies to a table row depends only on its file
and the source, so this is decided once for each file. Which source rows match nothing is decided again at each
execution, from all live files.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks import FileRows, Images, MatchedFile, MatchedRows
from txlog.core.changes.tasks.operations._keyed_change import CachesKeys
from txlog.core.changes.tasks.operations._known_keys import KnownKeys
from txlog.core.changes.tasks.operations._merge_clauses import (
    AMBIGUOUS,
    NONE,
    MergeClause,
    MergeClauses,
    MergeOptions,
    When,
)
from txlog.core.changes.tasks.operations._merge_history import merge_metrics
from txlog.core.changes.tasks.operations._merge_ranges import Pairs
from txlog.core.changes.tasks.operations._merge_source import MergeSource
from txlog.core.format.actions import AddFile, FileId, operation_parameters
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import Field
from txlog.core.predicates.skipping import KeyPruner, prune_files
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.predicates.terms.tree import columns_of
from txlog.core.reading import KeyPlaces
from txlog.errors import InvalidInputError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.row_rules import Numbers

PAIRS_MAX = 1 << 26  # 16 bytes each, kept where a row of the table matches several source rows


class MergeRows(CachesKeys):
    """The `RowOperation` of a merge.

    It does not keep the keys of files that it wrote: a clause may give an inserted row another key than the source's.
    """

    def __init__(
        self,
        source: MergeSource,
        merge: MergeOptions,
        clauses: Sequence[MergeClause],
        table: DefinedTable,
        now: datetime.datetime,
        known: KnownKeys | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        self.known = None if source.computed else known
        self._source = source
        self.num_source_rows: int = source.rows.num_rows
        self._given = clauses
        self._condition = merge.condition
        self._clauses = MergeClauses(clauses, merge, source, table, now, numbers)
        updates = [b.assignments for b in self._clauses.bound if b.then == "update" and b.assignments is not None]
        needed = {name for each in updates for name in each.needed}
        self.makes_images = self.replaces_rows = bool(updates)
        self.image_fields = tuple(field for field in table.schema.fields if field.name in needed)
        if all(each.changes_alone for each in updates):
            changed = {name for each in updates for name in each.names}
            read = changed.union(*(each.needed_to_change for each in updates))
            self.changed_fields = tuple(field for field in table.schema.fields if field.name in changed)
            self.fields_for_changes = tuple(field for field in table.schema.fields if field.name in read)
        paths = [key.path for key in source.keys]
        self._pruner = KeyPruner(paths, source.key_values, table.schema, table.partition_columns) if paths else None
        self._range = source.condition_on_target(table.schema)
        self._excludes_more_than_keys = not paths or source.target_term is not None or bool(source.ranges)
        self._schema, self._partition_columns = table.schema, table.partition_columns
        conditions = self._conditions_on_target()
        looked_at = conditions | source.target_columns
        self._fields = tuple(field for field in table.schema.fields if field.name in looked_at)
        if self._clauses.of["not matched by source"]:
            self.known = None
        self._keys_decide = source.is_by_keys and source.target_term is None and not conditions
        self._pairs_left = PAIRS_MAX
        self._places: dict[FileId, KeyPlaces] = {}

    def _conditions_on_target(self) -> set[str]:
        """The columns of the table that decide, besides the join, which clause applies to a row of it."""
        conditions = [b.predicate for when in ("matched", "not matched by source") for b in self._clauses.of[when]]
        found = [columns_of(condition) for condition in conditions if condition is not None]
        return {path[0] for columns in found for side, path in columns if side == "target"}

    # --- for history ----------------------------------------------------------------------------------------

    @property
    def reads(self) -> Predicate | None:
        return None if self._clauses.of["not matched by source"] else self._range

    def parameters(self) -> dict[str, str]:
        def history_of(when: When) -> list[dict[str, str]]:
            pairs = zip(self._given, self._clauses.bound, strict=True)
            return [
                {
                    **({} if given.predicate is None else {"predicate": _text_of(given.predicate, bound.predicate)}),
                    "actionType": given.then,
                }
                for given, bound in pairs
                if given.when == when
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
        if self._clauses.of["not matched by source"]:
            return np.ones(files.num_rows, dtype=bool)
        mask = np.ones(files.num_rows, dtype=bool) if self._pruner is None else self._pruner.mask_of_table(files)
        if self._range is None or not self._excludes_more_than_keys:
            return mask
        return mask & flags_of(prune_files(files, self._range, self._schema, self._partition_columns))

    def look_up(self, rows: FileRows, add: AddFile) -> MatchedRows:
        places = self._places.pop(add.file_id, None)
        if places is not None:
            batches: Iterator[tuple[NDArray[Any], pa.RecordBatch]] = rows.at(add, places.positions, self._fields)
            return _joined([self._hits(positions, batch) for positions, batch in batches])
        kept = None if self.known is None else self.known.keys_of(add)
        is_narrow = (
            kept is None
            and not self._clauses.of["not matched by source"]
            and (self._pruner is None or self._pruner.of_one_file.holds_others(add.partition_values, add.stats))
        )
        found = []
        batches = rows.reader(self._fields, self._range if is_narrow else None).batches(add, with_dead_rows=True)
        for positions, batch in batches:
            found.append(self._hits(positions, batch))
            if kept is not None:
                kept.note(self._source.keys_of(batch), positions)
        if kept is not None:
            kept.offer()
        return _joined(found)

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> Iterator[MatchedRows]:
        if not self._places.keys().isdisjoint(add.file_id for add in adds):
            yield from super().look_up_all(rows, adds)
            return
        for joined in rows.joined(adds, self._fields):
            if joined.rows is None:
                yield self.look_up(rows, joined.adds[0])
                continue
            if self.known is not None:
                self.note_keys(joined.adds, joined.counts, self._source.keys_of(joined.rows))
            found = self._hits(np.arange(joined.rows.num_rows), joined.rows)
            yield from found.in_files(joined.counts)

    def hits_at(self, places: Mapping[FileId, KeyPlaces]) -> dict[FileId, MatchedRows]:
        """If not just keys decide, rows with a source key are only recorded: `look_up` reads them."""
        if not self._keys_decide:
            self._places |= {file: at for file, at in places.items() if len(at.positions)}
        return {
            file: self._decided(at.positions.astype(np.int64), self._source.indexed[at.keys], None)
            for file, at in places.items()
            if file not in self._places
        }

    def _hits(self, positions: NDArray[Any], batch: pa.RecordBatch) -> MatchedRows:
        if self._source.is_by_keys:
            return self._decided(positions, self._source.rows_of(batch), batch)
        pairs = self._source.pairs_of(batch, self._pairs_left)
        source_rows = np.full(len(positions), -1, dtype=np.int64)
        source_rows[pairs[0]] = pairs[1]
        return self._decided(positions, source_rows, batch, pairs)

    def _decided(
        self,
        positions: NDArray[Any],
        source_rows: NDArray[np.int64],
        batch: pa.RecordBatch | None,
        pairs: Pairs | None = None,
    ) -> MatchedRows:
        """The rows at ``positions`` that a source row joins or a clause changes. ``batch`` has their `_fields`;
        None if keys alone decide. Of several source rows that join a row, ``source_rows`` has any one. ``pairs`` are
        all of them; None if they are those with the same key."""
        clauses = np.full(len(positions), NONE, dtype=np.int16)
        joined, alone = np.flatnonzero(source_rows >= 0), np.flatnonzero(source_rows < 0)
        if pairs is None:
            is_repeated = self._source.is_repeated(source_rows[joined])
        else:
            is_repeated = np.bincount(pairs[0], minlength=len(positions))[joined] > 1
            pairs = _of_rows(joined[is_repeated], pairs)
            self._pairs_left -= len(pairs[0])
        if self._clauses.of["matched"]:
            several, single = joined[is_repeated], joined[~is_repeated]
            clauses[single] = self._clauses.first(self._clauses.of["matched"], batch, single, source_rows[single])
            if len(several):
                source_rows = source_rows.copy()
                of_several = self._source.all_of_key(source_rows[several]) if pairs is None else [pairs]
                source_rows[several], clauses[several] = self._clauses.of_several(
                    batch, several, source_rows[several], of_several
                )
        clauses[alone] = self._clauses.first(self._clauses.of["not matched by source"], batch, alone, None)
        at = np.flatnonzero((source_rows >= 0) | (clauses != NONE))
        if pairs is not None:
            pairs = np.searchsorted(at, joined[is_repeated])[pairs[0]], pairs[1]
        return MatchedRows(
            positions[at].astype(np.uint64), source_rows[at], clauses[at] != NONE, clauses[at], pairs=pairs
        )

    # --- rows -----------------------------------------------------------------------------------------------

    def images(self, rows: pa.RecordBatch | None, hits: MatchedRows) -> Iterator[Images]:
        return self._images(rows, hits, None)

    def changes(self, rows: pa.RecordBatch, hits: MatchedRows) -> Iterator[Images]:
        return self._images(rows, hits, self.changed_fields)

    def _images(self, rows: pa.RecordBatch | None, hits: MatchedRows, only: Sequence[Field] | None) -> Iterator[Images]:
        assert hits.clauses is not None
        assert hits.source_rows is not None
        for bound in self._clauses.bound:
            at = np.flatnonzero(hits.clauses == bound.number)
            if bound.then != "update" or not len(at):
                continue
            assert bound.assignments is not None
            source_rows = hits.source_rows[at]
            for here, source in self._clauses.beside(source_rows if (source_rows >= 0).all() else None, len(at)):
                old = None if rows is None else rows.take(pa.array(at[here]))
                yield bound.assignments.apply(old, source, len(at[here]), only=only), at[here]

    def matched(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        return self._source.is_matched([rows[rows >= 0] for rows in (each.live_source_rows for each in touched)])

    def inserted(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        self._refuse_ambiguous(touched)
        is_written: NDArray[np.bool_] = (self._insert_clauses() != NONE) & ~self.matched(touched)
        return is_written

    def _refuse_ambiguous(self, touched: Sequence[MatchedFile]) -> None:
        """Raises ``InvalidInputError`` if several source rows change one live row, and not all of them delete it."""
        for each in touched:
            assert each.hits.clauses is not None
            assert each.hits.source_rows is not None
            bad = np.flatnonzero(each.live & (each.hits.clauses == AMBIGUOUS))
            if len(bad):
                row, source_row = int(each.hits.positions[bad[0]]), int(each.hits.source_rows[bad[0]])
                raise InvalidInputError(
                    "two source rows match the same row of the table, by"
                    f" {self._source.key_of(source_row)} (row {row} of {each.add.path}, counting from 0), and do not"
                    " both delete it. Keep one source row for each key, or give the clauses conditions that only one"
                    " of them meets"
                )

    def _insert_clauses(self) -> NDArray[np.int16]:
        """The clause that would insert each source row; -1 for none."""
        return self._clauses.first(self._clauses.of["not matched"], None, None, np.arange(self._source.rows.num_rows))

    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        updates = [bound.number for bound in self._clauses.bound if bound.then == "update"]
        found = []
        for each in touched:
            hits = each.hits.at(np.searchsorted(each.hits.positions, each.replaced))
            assert hits.clauses is not None
            found.append(np.isin(hits.clauses, updates))
        return found, np.zeros(self._source.rows.num_rows, bool)

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        clauses = self._insert_clauses()
        for bound in self._clauses.of["not matched"]:
            at = np.flatnonzero(is_written & (clauses == bound.number))
            yield from self._clauses.inserted(bound, at)

    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        assert is_written is not None
        updates = [bound.number for bound in self._clauses.bound if bound.then == "update"]
        of_rows = [np.empty(0, np.int16)]
        for each in touched:
            assert each.hits.clauses is not None
            of_rows.append(each.hits.clauses[each.live])
        clauses = np.concatenate(of_rows)
        updated = int(np.isin(clauses, updates).sum())
        return int(is_written.sum()), updated, int((clauses != NONE).sum()) - updated


def _text_of(given: object, bound: Predicate | None) -> str:
    """A condition for the history: as its author wrote it, or as SQL."""
    return given if isinstance(given, str) else str(bound)


def _of_rows(rows: NDArray[np.int64], pairs: Pairs) -> Pairs:
    """The pairs of these rows, which ascend, with the places of the rows instead of their numbers."""
    places = np.searchsorted(rows, pairs[0])
    is_there = places < len(rows)
    is_there[is_there] = rows[places[is_there]] == pairs[0][is_there]
    return places[is_there], pairs[1][is_there]


def _joined(found: Sequence[MatchedRows]) -> MatchedRows:
    empty = MatchedRows(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, bool), np.empty(0, np.int16))
    columns = zip(*((h.positions, h.source_rows, h.is_replaced, h.clauses) for h in [empty, *found]), strict=True)
    positions, source_rows, is_replaced, clauses = (np.concatenate(each) for each in columns)
    begins = np.cumsum([0, *(len(hits.positions) for hits in found)])[:-1]
    pairs = [(begin + hits.pairs[0], hits.pairs[1]) for begin, hits in zip(begins, found, strict=True) if hits.pairs]
    several = None
    if pairs:
        several = np.concatenate([places for places, _ in pairs]), np.concatenate([sources for _, sources in pairs])
    return MatchedRows(positions, source_rows, is_replaced, clauses, pairs=several)
