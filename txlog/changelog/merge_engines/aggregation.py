"""The engine ``aggregation``: for each column, its function over the values of all rows of a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merge_engines.field_functions import COMMUTATIVE, FieldFunction
from txlog.changelog.merge_engines.functions import aggregated
from txlog.changelog.merge_engines.merged_keys import KeyRuns
from txlog.changelog.merge_engines.options import EngineOptions
from txlog.changelog.merge_engines.runs import Runs
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


class Aggregating(MergeEngine, frozen=True):
    """What engines with functions of columns share.

    Attributes:
        removes_on_delete: Whether a row of the kind -D deletes the whole row; otherwise it retracts values column by
            column.
        functions: The functions of columns, by name.
    """

    removes_on_delete: bool = False
    functions: Mapping[str, FieldFunction] = msgspec.field(default_factory=dict)

    def commutes(self, column: str, *, retracts: bool) -> bool:
        """Whether a column's function has the same result for any order of values, even if some are retracted."""
        function = self.functions.get(column)
        if function is None or function.name not in COMMUTATIVE:
            return False
        # A factor can be retracted only from an existing product.
        keeps_all = not retracts or self.ignores_deletes or function.ignores_retracts
        return keeps_all or function.name != "product"

    @property
    def cancelling_kinds(self) -> tuple[int, ...]:
        if self.ignores_deletes:
            return ()
        if not any(function.ignores_retracts for function in self.functions.values()):
            return (DELETE, UPDATE_BEFORE)
        return (DELETE,) if self.removes_on_delete else ()

    def refuse_both(self) -> None:
        """Refuse deletes that are left out and remove rows."""
        if self.ignores_deletes and self.removes_on_delete:
            raise InvalidInputError(
                "set ignore-delete or remove-record-on-delete, not both: deletes are left out, or they count"
            )


class Aggregation(Aggregating, frozen=True):
    """Each column but those of the key and the sequence has a function: the last value that is not null, by default."""

    name: ClassVar[str] = "aggregation"
    leaves_rows: ClassVar[bool] = True
    why_no_tombstones: ClassVar[str | None] = (
        "in an aggregation, an older row could still be added to a row that came after the delete;"
        " last_value retracts values and keeps the row with its sequence"
    )

    @classmethod
    def of(cls, options: EngineOptions) -> Self:
        sequence = options.sequence()
        found = cls(
            keys=options.keys,
            sequence=sequence,
            ignores_deletes=options.is_true("ignore-delete"),
            removes_on_delete=options.is_true(f"{cls.name}.remove-record-on-delete"),
            functions=options.functions(lambda name: not options.is_key(name), sequence, "last_non_null_value"),
        )
        found.refuse_both()
        return found

    def column(self, name: str, runs: Runs, rows: KeyRuns) -> pa.ChunkedArray:
        return aggregated(runs, rows.column(name), name, self.functions[name])

    def check_kinds(self, kinds: NDArray[np.int8]) -> None:
        counted = (UPDATE_BEFORE,) if self.removes_on_delete else (UPDATE_BEFORE, DELETE)
        refused = [f"{name} ({each.name})" for name, each in self.functions.items() if each.refuses_retracts]
        if not self.ignores_deletes and refused and np.isin(kinds, counted).any():
            raise InvalidInputError(
                "the changelog retracts rows (-U or -D), which these columns' functions cannot do:"
                f" {', '.join(refused)}. Set txlog.fields.<column>.ignore-retract = true, or txlog.ignore-delete"
            )

    def is_commutative(self, columns: Sequence[str], *, retracts: bool = True, deletes: bool = True) -> bool:
        if deletes and self.removes_on_delete:
            return False
        return all(self.commutes(column, retracts=retracts) for column in columns if column not in self.sequence)
