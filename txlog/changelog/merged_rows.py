"""UPSERT with a merge engine: a changelog's rows and the table's rows with the same keys become one row per key.

In: a `ChangelogSource` and a `MergeEngine`. Out: a `RowOperation`. If the table rows that it depends on have changed,
it merges again: after a lost race, the result is as if it had run alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.changelog_source import read_changelog
from txlog.changelog.merge_engines.engine import Merged, MergeEngine
from txlog.changelog.merge_engines.engines import engine_for
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.same_rows import without_same
from txlog.changelog.merge_engines.unfit_keys import keys_that_lack_values, unfit_keys
from txlog.changelog.mismatches import Mismatches
from txlog.changelog.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from txlog.changelog.tombstone_tasks import tombstone_rows
from txlog.core.changes.tasks import FileRows, MatchedFile
from txlog.core.changes.tasks.operations import KeyedChange, KnownKeys, UpsertOptions, UpsertSource, known_keys
from txlog.core.format import change_data
from txlog.core.format.properties import (
    CHANGELOG_PRODUCER,
    MERGE_ENGINE,
    PREFIX,
    ROW_DEDUPLICATE,
    merge_options,
    validate,
)
from txlog.core.format.schema import Field, Struct, to_arrow
from txlog.core.format.tombstones import retention_ms
from txlog.core.row_rules import key_columns
from txlog.core.util import invalid
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, call, setting
from txlog.core.writing import nullable
from txlog.core.writing.write_intent import USUAL
from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.changelog.staged_keys import StagedKeys

_WORDS = {
    INSERT: change_data.INSERT,
    UPDATE_BEFORE: change_data.UPDATE_PREIMAGE,
    UPDATE_AFTER: change_data.UPDATE_POSTIMAGE,
    DELETE: change_data.DELETE,
}
"""The feed's change types for row kinds."""


def merge_engine_of(state: TableState, upsert: UpsertOptions) -> MergeEngine | None:
    """An upsert's merge engine: the table's, or the requested one; None if there is neither.

    Rows with kinds need an engine; the default is "deduplicate". Raises ``InvalidInputError`` for options that do not
    fit the table's columns, or differ from the table's properties.
    """
    stored = merge_options(state.metadata.configuration)
    asked = _asked(upsert.merge_engine, stored)
    if not stored and not asked and upsert.row_kind is None:
        return None
    if upsert.on_duplicate == "first":
        raise InvalidInputError(
            f"{setting('on_duplicate', 'first')} contradicts a merge engine, which makes one row of several of one key:"
            f" leave it out, or use {setting('merge_engine', 'first-row')}"
        )
    if upsert.sequence_by is not None:
        if state.schema.find(upsert.sequence_by) is not None:
            asked = {**asked, "sequence.field": upsert.sequence_by}
        elif stored:
            raise InvalidInputError(
                f"{argument('sequence_by')} names {upsert.sequence_by!r}, which is not a column of the table, whose"
                " properties define the order in which its rows are merged: leave it out, or set txlog.sequence.field"
                " to a column of the table"
            )
    keys = [key.path[0] for key in key_columns(upsert.keys, state.schema)]
    if not stored:
        return engine_for(asked, state.schema, keys)
    found = engine_for(stored, state.schema, keys)
    if asked and not _is_equal_engine(found, {**stored, **asked}, state, keys):
        differing = sorted(f"{PREFIX}{name} = {value}" for name, value in asked.items() if stored.get(name) != value)
        raise InvalidInputError(
            f"the table's properties define how its rows are merged (merge-engine {found.name}), and differ from"
            f" {', '.join(differing)}: all its writers must merge alike. Set the properties, or leave it out"
        )
    return found


def require_merge_engine(open_table: OpenTable, keys: Sequence[str], given: str | Mapping[str, Any]) -> None:
    """Raises ``InvalidInputError`` unless the table's properties have the same meaning as ``given``."""
    state = open_table.log.newest_state(refresh=False)
    with TxlogError.located(open_table.uri, state.version):
        if not keys:
            raise InvalidInputError(
                f'{argument("merge_engine")} is for row changes: pass mode="upsert" or "retract", and keys'
            )
        stored = merge_options(state.metadata.configuration)
        asked = {PREFIX + name: value for name, value in _asked(given, stored).items()}
        if not stored:
            raise InvalidInputError(
                f"the table's properties do not define how its rows are merged: run"
                f" {call('set_properties', asked)} first"
            )
        merge_engine_of(state, UpsertOptions(keys, merge_engine=asked))


def _is_equal_engine(engine: MergeEngine, options: Mapping[str, str], state: TableState, keys: Sequence[str]) -> bool:
    try:
        return engine_for(options, state.schema, keys) == engine
    except InvalidInputError:
        return False


def _asked(given: str | Mapping[str, Any] | None, stored: Mapping[str, str]) -> dict[str, str]:
    """The options that a call names, by Paimon's names. Those of the engine that a table has ``stored`` count too."""
    if given is None:
        return {}
    if isinstance(given, str):
        given = {"merge-engine": given}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise invalid("merge_engine", given, "an engine's name or a mapping of options")
    named = {name if name.lower().startswith(PREFIX) else f"{PREFIX}{name}": value for name, value in given.items()}
    found = validate(named)
    own = MERGE_ENGINE.removeprefix(PREFIX)
    options = merge_options({**({MERGE_ENGINE: stored[own]} if own in stored else {}), **found})
    options = {name: value for name, value in options.items() if PREFIX + name in found}
    if unknown := sorted(name for name in found if name[len(PREFIX) :] not in options):
        raise InvalidInputError(f"{argument('merge_engine')} has no option {unknown[0].removeprefix(PREFIX)!r}")
    return options


def bound_merged_rows(
    open_table: OpenTable, state: TableState, data: Any, upsert: UpsertOptions, engine: MergeEngine
) -> MergedRows:
    """Read the changelog and bind its merge to a version. Raises what `read_changelog` raises."""
    with TxlogError.located(open_table.uri, state.version):
        _refuse_choices(upsert, engine)
        keys = key_columns(upsert.keys, state.schema, state.partition_columns)
        source = read_changelog(
            data,
            state.schema,
            keys,
            engine,
            partition_columns=state.partition_columns,
            zone=state.time_zone,
            row_kind=upsert.row_kind,
            row_kinds=upsert.row_kinds,
            sequence_by=upsert.sequence_by,
            table=open_table.uri,
        )
        known = known_keys(open_table.key_cache, source.keys.index, state)
        mismatches = Mismatches(USUAL, source.keys.num_rows)
        return MergedRows(open_table, state, source.keys, source.changes, engine, known, mismatches)


def _refuse_choices(upsert: UpsertOptions, engine: MergeEngine) -> None:
    plain = UpsertOptions(upsert.keys)
    for name in ("when_matched", "when_not_matched", "update_columns", "missing_columns"):
        if getattr(upsert, name) != getattr(plain, name):
            raise InvalidInputError(
                f"{argument(name)} is for upserts without a merge engine; this one has merge-engine"
                f" {engine.name}, which decides"
                " what happens to rows with one key"
            )


class MergedRows(KeyedChange):
    """The `RowOperation` of an upsert with a merge engine, which decides by the values of existing rows. Its source has
    one row for each key.

    Args:
        open_table: The table.
        state: The version that it is bound to.
        source: The keys of the changes.
        changes: The changes, by the rows of ``source``.
        engine: What merges them.
        known: What the table's handle knows of these keys.
        mismatches: Judges which keys are held back; their changes are left out.
        properties: The table's, which say what else a merge does; None: those of ``state``.
        more_parameters: Beside those of a merge in the history.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        source: UpsertSource | StagedKeys,
        changes: KeyedRows,
        engine: MergeEngine,
        known: KnownKeys | None,
        mismatches: Mismatches,
        properties: Mapping[str, str] | None = None,
        more_parameters: Callable[[], dict[str, str]] = dict,
    ) -> None:
        super().__init__(source, state, known, replaces_rows=engine.replaces_rows)
        self.num_decisions = 0
        self._engine = engine
        self._mismatches = mismatches
        self._more_parameters = more_parameters
        self._changes = changes.of_keys(mismatches.held == 0)
        self._retracted = mismatches.only_retracted(self._changes, engine)
        self._uri = open_table.uri
        self._files = FileRows(open_table.store, state)
        self._schema = state.schema
        configuration = state.metadata.configuration if properties is None else properties
        self._brings_changes = configuration.get(CHANGELOG_PRODUCER) == "input"
        self._leaves_same = configuration.get(ROW_DEDUPLICATE) == "true" and engine.replaces_rows
        is_open = engine.open_keys(self._changes, self.num_source_rows)
        has_open = is_open is not None and bool(is_open.any())
        needed = engine.needed_columns(state.schema.names)
        reads_every_key = self._leaves_same or bool(needed)
        self._reads_old = reads_every_key or has_open
        self._is_read = None if reads_every_key else is_open
        if self._leaves_same or has_open:
            needed = state.schema.names
        columns = nullable(state.schema)  # as those of the changelog, with which they are merged
        self._old_fields: tuple[Field, ...] = tuple(field for field in columns.fields if field.name in needed)
        self._keeps_tombstones = retention_ms(configuration) is not None
        self._basis: bytes | None = None
        self._merged: Merged | None = None
        if not self._reads_old:
            self._merged = self._merged_with(None)
        is_plain = self._merged is not None and bool(self._merged.has_row.all())
        self.writes_every_source_row = is_plain and engine.replaces_rows and self.num_source_rows > 0

    def parameters(self) -> dict[str, str]:
        kinds = self._changes.kinds
        deletes = kinds is not None and (kinds == DELETE).any() and not self._engine.ignores_deletes
        matched = ["update"] if self.replaces_rows else []
        return self.history([*matched, "delete"] if deletes else matched, **self._more_parameters())

    def decided(self, touched: Sequence[MatchedFile], tombstones: Sequence[MatchedFile]) -> list[MatchedFile]:
        """The rows of keys that the merge replaces or deletes; a key's tombstones count as its delete."""
        if not self._engine.replaces_rows:
            return list(touched)
        self._mismatches.judge(touched, self._retracted)
        merged = self._merged
        if self._reads_old:
            merged = self._merge(_by_path(touched), _by_path(tombstones))
        assert merged is not None
        self._mismatches.judge_odd(merged.is_odd)
        goes = self._goes(merged)
        if goes.all():
            return list(touched)
        return [
            replace(each, replaced=each.hits.positions[each.live & goes[each.hits.source_rows]]) for each in touched
        ]

    def _goes(self, merged: Merged) -> NDArray[np.bool_]:
        """Which keys lose the rows that they have in the table: none that is held back."""
        return merged.has_row | merged.is_dead

    def tombstones(self) -> pa.RecordBatch | None:
        deletes = None if self._merged is None else self._merged.deletes
        if deletes is None or not self._keeps_tombstones:
            return None
        return tombstone_rows(self._schema, self._index.keys, self._engine.sequence, deletes)

    def _merge(self, touched: Sequence[MatchedFile], tombstones: Sequence[MatchedFile]) -> Merged:
        """The merge with the table's rows; the last result if the same rows of the same files match again."""

        digest = hashlib.sha256()
        live = [(each, each.live) for each in touched]
        dead = [(each, ~each.live) for each in tombstones]
        for each, counts in (*live, *dead):
            positions = each.hits.positions[counts]
            digest.update(repr((each.add.path, len(positions))).encode() + positions.tobytes())
        if self._merged is not None and self._basis == digest.digest():
            return self._merged
        old = self._old_rows(live)
        buried = self._old_rows(dead)
        merged = self._judged(_with_deletes(old, buried) if len(buried.keys) else old)
        self._merged = without_same(merged, old) if self._leaves_same else merged
        self._basis = digest.digest()
        self.num_decisions += 1
        return self._merged

    def _old_rows(self, files: Sequence[tuple[MatchedFile, NDArray[np.bool_]]]) -> KeyedRows:
        """The matching rows of files that matter."""
        schema = to_arrow(Struct(self._old_fields))
        batches: list[pa.RecordBatch] = []
        keys = [np.empty(0, np.int64)]
        for each, counts in files:
            assert each.hits.source_rows is not None
            hits = each.hits.at(counts if self._is_read is None else counts & self._is_read[each.hits.source_rows])
            assert hits.source_rows is not None
            if not len(hits.positions):
                continue
            for here, rows in self._files.at(each.add, hits.positions, self._old_fields):
                batches.append(pa.RecordBatch.from_arrays(rows.columns, names=schema.names))
                keys.append(hits.source_rows[np.searchsorted(hits.positions, here)])
        return KeyedRows(pa.Table.from_batches(batches, None if batches else schema), np.concatenate(keys))

    def _judged(self, old: KeyedRows) -> Merged:
        """Raises `MismatchFound` for rows that cannot be stored, unless the policy is to fail."""
        holds_unfit = self._mismatches.policy.unfit != "fail"
        try:
            merged = self._merged_with(old)
        except InvalidInputError:
            if holds_unfit:
                self._mismatches.hold_unfit(unfit_keys(self._engine, self.num_source_rows, self._changes, old))
            raise
        if holds_unfit:
            self._mismatches.hold_unfit(keys_that_lack_values(merged, self._schema))
        return merged

    def _merged_with(self, old: KeyedRows | None) -> Merged:
        if len(self._changes.keys):
            return self._engine.merge(self.num_source_rows, self._changes, old)
        none = np.zeros(self.num_source_rows, dtype=bool)
        return Merged(self._changes.rows, none, none)

    def report(self) -> None:
        self._mismatches.report_odd(self._uri)

    def inserted(self, touched: Sequence[MatchedFile]) -> NDArray[np.bool_]:
        has_row = self.has_row()
        return has_row if self._engine.replaces_rows else has_row & ~self.matched(touched)

    def changelog(self) -> Iterator[tuple[str, pa.RecordBatch]] | None:
        return self._as_they_came() if self._brings_changes else None

    def _as_they_came(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The changelog's rows, without ignored deletes."""
        rows, kinds = self._changes.rows, self._changes.came_as
        kinds = self._changes.kinds if kinds is None else kinds
        if kinds is None:
            kinds = np.full(rows.num_rows, INSERT, dtype=np.int8)
        if self._engine.ignores_deletes:
            stays = (kinds != UPDATE_BEFORE) & (kinds != DELETE)
            rows, kinds = rows.filter(pa.array(stays)), kinds[stays]
        starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1])) if len(kinds) else np.empty(0, np.int64)
        for start, end in itertools.pairwise([*starts.tolist(), len(kinds)]):
            for batch in rows.slice(start, end - start).to_batches():
                yield _WORDS[int(kinds[start])], batch

    def has_row(self) -> NDArray[np.bool_]:
        assert self._merged is not None
        return self._merged.has_row

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        merged = self._merged
        assert merged is not None
        rows = merged.rows.filter(pa.array(is_written[merged.has_row]))
        yield from rows.to_batches(max_chunksize=1 << 17)


def _by_path(touched: Sequence[MatchedFile]) -> list[MatchedFile]:
    return sorted(touched, key=lambda each: each.add.path)


def _with_deletes(old: KeyedRows, deletes: KeyedRows) -> KeyedRows:
    """The table's rows, and the tombstones of other keys."""
    kinds = np.repeat(np.array([INSERT, DELETE], dtype=np.int8), [len(old.keys), len(deletes.keys)])
    rows = pa.concat_tables([old.rows.cast(deletes.rows.schema), deletes.rows])
    return KeyedRows(rows, np.concatenate([old.keys, deletes.keys]), kinds)
