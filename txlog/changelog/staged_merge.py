"""Commits a checkpoint to a table with a merge engine: merges the rows that tasks staged with the table's rows.

In: a job with the intent "upsert" and its tasks' committables, whose files hold a changelog's rows as they arrived.
Out: the source of an upsert with a merge engine. Two tasks may stage rows with one key only if the engine does not
depend on their order, or a sequence orders them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.changelog_source import ChangelogSource, numbered, ordered_changes
from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merged_rows import MergedRows
from txlog.changelog.mismatches import HeldBack, Mismatches, QuarantineRows
from txlog.changelog.retractions import compared_columns
from txlog.changelog.row_kinds import DELETE, KINDS, TAKEN_BACK, UPDATE_BEFORE
from txlog.changelog.staged_rows_reader import gather_rows
from txlog.changelog.task_order import ONE_TASK_FOR_EACH_KEY, first_unclear, is_order_free
from txlog.core.changes.plan import RowOptions, prepared_steps
from txlog.core.changes.tasks.operations import known_keys
from txlog.core.format.arrow.wide_years import python_value
from txlog.core.format.schema import Struct
from txlog.core.row_rules import KeyColumn, key_text
from txlog.core.versions import OpenTable, Steps
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.core.writing.committable import Committable
from txlog.errors import InvalidInputError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_staged_rows(
    open_table: OpenTable,
    committables: Sequence[Committable],
    schema: Struct,
    keys: Sequence[KeyColumn],
    engine: MergeEngine,
) -> None:
    """Refuse changes that no commit could apply, before they are sealed. Raises what `merge_steps` raises."""
    if sum(bool(each.keys) for each in committables) > 1 and not is_order_free(engine, schema.names, keys):
        _source(open_table, committables, schema, keys, engine)


def merge_steps(
    open_table: OpenTable,
    state: TableState,
    options: RowOptions,
    committables: Sequence[Committable],
    keys: Sequence[KeyColumn],
    engine: MergeEngine,
    held: HeldBack,
    unsent: UnsentFiles,
) -> Steps[WriteResult]:
    """Merge a checkpoint with the table, and commit it.

    Raises ``InvalidInputError`` if two tasks have rows with one key and nothing says which came later, or if the files
    are not what the tasks wrote; ``NotFoundError``, ``StorageError``; and what `prepared_steps` raises.
    """
    source = _source(open_table, committables, state.schema, keys, engine)

    def rows(cases: NDArray[np.int8]) -> Iterator[QuarantineRows]:
        of_row = cases[source.changes.keys]
        kinds = source.changes.kinds
        assert kinds is not None
        found = source.changes.rows.filter(pa.array(of_row > 0)).combine_chunks()
        for batch in found.to_batches():
            yield batch, [KINDS[kind] for kind in kinds[of_row > 0].tolist()], of_row[of_row > 0]

    def attempt(mismatches: Mismatches) -> Steps[WriteResult]:
        known = known_keys(open_table.key_cache, source.keys.index, state)
        bound = source.keys, source.changes, engine, known, mismatches
        merge = MergedRows(open_table, state, *bound, more_parameters=held.parameters)
        return prepared_steps(open_table, state, options, merge, unsent=unsent)

    def text_of(key: int) -> str:
        return key_text(keys, source.keys.index.columns, key)

    return held.steps(source.keys.num_rows, attempt, state.schema, rows, text_of)


def _source(
    open_table: OpenTable,
    committables: Sequence[Committable],
    schema: Struct,
    keys: Sequence[KeyColumn],
    engine: MergeEngine,
) -> ChangelogSource:
    in_order = sorted(committables, key=lambda each: each.task_id)
    for each in in_order:
        if each.files:
            raise InvalidInputError(
                f"the data file {each.files[0].path} was written while the table had no merge engine, but it has one"
                f" now ({engine.name}): nothing was committed. Write the checkpoint again",
                table=open_table.uri,
            )
    parts = [(each.task_id, file) for each in in_order for file in each.keys]
    staged = gather_rows(open_table.store.files, parts, schema, keys, open_table.uri)
    kinds = staged.kinds
    source = numbered(staged.rows, kinds, keys, compared_columns(schema, keys, engine.sequence))
    changes = source.changes
    if (kinds == TAKEN_BACK).any():
        merged_as = np.where(kinds == TAKEN_BACK, np.int8(UPDATE_BEFORE), kinds)
        came_as = np.where(kinds == TAKEN_BACK, np.int8(DELETE), kinds)
        changes = replace(changes, kinds=merged_as, came_as=came_as)
    if staged.feed_order is not None:
        changes = ordered_changes(changes, staged.feed_order, engine, of_feed=True)
    source = replace(source, changes=changes)
    is_clear = staged.feed_order is not None or len(np.unique(staged.tasks)) < 2
    if not is_clear and not is_order_free(engine, schema.names, keys):
        _refuse_unclear(open_table, source, staged.tasks, keys, engine)
    return source


def _refuse_unclear(
    open_table: OpenTable,
    source: ChangelogSource,
    tasks: NDArray[np.int64],
    keys: Sequence[KeyColumn],
    engine: MergeEngine,
) -> None:
    unclear = first_unclear(engine, source.changes, tasks, keys)
    if unclear is None:
        return
    first, second = unclear.rows
    key = key_text(keys, source.keys.index.columns, int(source.changes.keys[first]))
    values = [f"{name}={python_value(source.changes.rows.column(name)[first])!s:.60}" for name in unclear.sequence]
    raise InvalidInputError(
        f"tasks {tasks[first]} and {tasks[second]} both have rows with {key}"
        + (f", with one sequence, {', '.join(values)}" if values else "")
        + f", and merge-engine {engine.name} must know which came later: nothing was committed."
        f" {ONE_TASK_FOR_EACH_KEY}" + ("" if values else ", or set txlog.sequence.field"),
        table=open_table.uri,
    )
