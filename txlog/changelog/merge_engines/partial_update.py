"""The engine ``partial-update``: the last value of each column that is not null, or of its sequence group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from txlog.changelog.merge_engines.aggregation import Aggregating
from txlog.changelog.merge_engines.engine import Merged, RowOrder
from txlog.changelog.merge_engines.field_functions import FieldFunction
from txlog.changelog.merge_engines.functions import aggregated
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.merged_keys import KeyRuns
from txlog.changelog.merge_engines.options import EngineOptions, SequenceGroup
from txlog.changelog.merge_engines.runs import Runs, ranks
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

_LAST = FieldFunction("last_value")
_LAST_NON_NULL = FieldFunction("last_non_null_value")


class PartialUpdate(Aggregating, frozen=True):
    """A null leaves a value as it is, except in a sequence group, whose columns come from one row."""

    groups: tuple[SequenceGroup, ...] = ()

    name: ClassVar[str] = "partial-update"
    leaves_absent_values: ClassVar[bool] = True
    why_no_tombstones: ClassVar[str | None] = (
        "in a partial-update, an older row could still fill nulls of a row that came after the delete;"
        " a sequence group retracts values and keeps its sequence"
    )

    @classmethod
    def of(cls, options: EngineOptions) -> Self:
        groups, sequence = options.groups(), options.sequence()
        grouped = {column for group in groups for column in group.columns}
        ordering = (*sequence, *(column for group in groups for column in group.sequence))
        found = cls(
            keys=options.keys,
            sequence=sequence,
            ignores_deletes=options.is_true("ignore-delete"),
            removes_on_delete=options.is_true(f"{cls.name}.remove-record-on-delete"),
            functions=options.functions(grouped.__contains__, ordering),
            groups=groups,
        )
        if groups and sequence:
            raise InvalidInputError(
                "set sequence groups or sequence.field, not both: each defines which row of a key is the last"
            )
        found.refuse_both()
        if groups and found.removes_on_delete:
            raise InvalidInputError(
                "set sequence groups or remove-record-on-delete, not both: a delete retracts a group, or the row"
            )
        outside = [column for column in found.functions if column not in grouped]
        if outside:
            raise InvalidInputError(
                f"{', '.join(outside)} has an aggregate function but is in no sequence group, which would order its"
                " values: put it into one, or use merge-engine aggregation"
            )
        return found

    def merged(self, rows: KeyRuns) -> Merged:
        if self.removes_on_delete:
            _refuse_unpaired(rows, [ranks(rows.column(name)) for name in self.sequence])
        return super().merged(rows)

    def column(self, name: str, runs: Runs, rows: KeyRuns) -> pa.ChunkedArray:
        group, values = self.group_of(name), rows.column(name)
        if group is None:
            return aggregated(runs.filter(~runs.retracts), values, name, _LAST_NON_NULL)
        in_order = rows.by_sequence(runs, group.sequence)
        if name in group.sequence:
            return in_order.picked(values, in_order.last(), nulls=False)
        return aggregated(in_order, values, name, self.functions.get(name, _LAST))

    def check_kinds(self, kinds: NDArray[np.int8]) -> None:
        if self.ignores_deletes or self.removes_on_delete or not np.isin(kinds, (UPDATE_BEFORE, DELETE)).any():
            return
        refused = [
            f"{column} ({self.functions[column].name})"
            for group in self.groups
            for column in group.columns
            if column in self.functions and self.functions[column].refuses_retracts
        ]
        if refused or not self.groups:
            of = f" of {', '.join(refused)}" if refused else ""
            raise InvalidInputError(
                f"the changelog has rows of the kinds -U and -D, which merge-engine {self.name} cannot retract{of}: set"
                f" txlog.ignore-delete = true, txlog.{self.name}.remove-record-on-delete, or sequence groups"
            )

    def wanted_rows(self, kinds: NDArray[np.int8]) -> NDArray[np.bool_] | None:
        return kinds != UPDATE_BEFORE if self.removes_on_delete else super().wanted_rows(kinds)

    def orders(self, changes: KeyedRows, kinds: NDArray[np.int8], columns: Sequence[str]) -> Iterator[RowOrder]:
        if not self.groups:
            yield from super().orders(changes, kinds, columns)
            return
        wanted = self.wanted_rows(kinds)
        is_wanted = np.ones(len(kinds), dtype=bool) if wanted is None else wanted
        retracted = np.isin(kinds, (UPDATE_BEFORE, DELETE)) & is_wanted
        has_value = {name: changes.rows.column(name).is_valid().to_numpy() for name in changes.rows.schema.names}
        for group in self.groups:
            if not all(self.commutes(column, retracts=bool(retracted.any())) for column in group.columns):
                has_sequence = np.logical_or.reduce([has_value[name] for name in group.sequence])
                has_functions = any(column in self.functions for column in group.columns)
                yield RowOrder(group.sequence, is_wanted & has_sequence, not has_functions)
        for column in columns:
            if self.group_of(column) is None:  # keeps the last value that is not null
                yield RowOrder((), is_wanted & ~retracted & has_value[column], False)


def _refuse_unpaired(rows: KeyRuns, order_by: Sequence[NDArray[np.int64]]) -> None:
    """Refuse a -U after which the key gets no new row: the row that it retracts may be gone, or its new version may
    come in a later commit, and would then lack the columns of a deleted row."""
    order = np.lexsort((*reversed(order_by), rows.keys))
    last = np.full(rows.runs.num_keys, -1, dtype=np.int64)
    last[rows.keys[order]] = order
    last = last[last >= 0]
    if (rows.kinds[last] == UPDATE_BEFORE).any():
        raise InvalidInputError(
            "a -U has no +U with its key after it, and merge-engine partial-update cannot tell whether the row is gone,"
            " or gets its new columns in a later commit: write the -U and the +U in one commit, send a -D if the row is"
            " gone, or leave rows of the kind -U out"
        )
