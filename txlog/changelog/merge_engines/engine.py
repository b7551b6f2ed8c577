"""What a merge engine is: `MergeEngine`, which each engine derives from, and `Merged`, what its merge makes.

In: options with Apache Paimon's names, the columns of one table, and rows with the numbers of their keys. Out: a row
for each key that has one. Pure: the result depends only on the old rows and the changelog, so it can be repeated on a
newer version.

Order. A key's old rows come first, then the changelog as it arrived. A sequence sorts all of them; among equals, old
rows come before new ones. Without a sequence, a merge is a fold, so its result does not depend on how a changelog is
split into commits. With a sequence, a committed delete leaves no trace unless the table keeps tombstones (old rows of
the kind -D), so a row that arrives later counts even if it is older; and all values of a table row have its greatest
sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.merged_keys import KeyRuns
from txlog.changelog.merge_engines.options import EngineOptions, SequenceGroup
from txlog.changelog.merge_engines.runs import Runs
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.errors import InvalidInputError, TxlogError, UnsupportedFeatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


class Merged(msgspec.Struct, frozen=True):
    """The result for each key.

    Attributes:
        rows: A row for each key with a new one, by key number.
        has_row: Which keys these are.
        is_dead: Which keys no longer have a row. A key in neither keeps its row in the table.
        deletes: In an engine that takes the last row, the row that deleted each of these keys.
        is_odd: Which keys have a change that retracts a row that the table does not have, although it has another one;
            None: none.
    """

    rows: pa.Table
    has_row: NDArray[np.bool_]
    is_dead: NDArray[np.bool_]
    deletes: pa.Table | None = None
    is_odd: NDArray[np.bool_] | None = None

    def problem(self, schema: pa.Schema, num_keys: int) -> str | None:
        """Why it is not a merge of rows with this schema and this number of keys; None if it is one."""
        if not self.rows.schema.equals(schema):
            return f"its rows have the columns {self.rows.schema}, not {schema}".replace("\n", ", ")
        if not len(self.has_row) == len(self.is_dead) == num_keys or self.rows.num_rows != self.has_row.sum():
            return f"it has {self.rows.num_rows} rows, and says that {self.has_row.sum()} of {num_keys} keys have one"
        return "keys that have a row have none" if (self.has_row & self.is_dead).any() else None


class RowOrder(msgspec.Struct, frozen=True):
    """An order of some of a changelog's rows, on which a merge depends.

    Attributes:
        sequence: Columns; rows that are equal in all of them have no order.
        is_wanted: The rows that it applies to.
        by_last_alone: Only the last one of each key matters.
    """

    sequence: tuple[str, ...]
    is_wanted: NDArray[np.bool_]
    by_last_alone: bool


class MergeEngine(msgspec.Struct, frozen=True):
    """How rows with one key become one, for the columns of one table. It pickles, and goes to tasks.

    An engine derives from it, sets ``name``, and gives `column` or, if it does not merge column by column, `merged`.
    The other members describe it to what asks: their defaults suit an engine that reads the table's row, combines
    values, depends on the order of rows, and takes no -U and -D.

    Attributes:
        keys: The top-level columns that have the key.
        sequence: The columns that order rows with one key; without them, arrival does.
        ignores_deletes: Whether rows of the kinds -U and -D are left out.
    """

    keys: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()
    ignores_deletes: bool = False

    name: ClassVar[str]
    """As in the property ``txlog.merge-engine``: the name of its entry in the group ``txlog.merge_engines``."""
    takes_whole_rows: ClassVar[bool] = False
    """Whether the merged row is always one of the rows, never a combination."""
    takes_last_row: ClassVar[bool] = False
    """Whether the last change of a key alone decides: its row, a delete, or a retraction of the row that it carries."""
    replaces_rows: ClassVar[bool] = True
    """Whether a change may take the place of the table's row with its key."""
    leaves_absent_values: ClassVar[bool] = False
    """Whether a null, or a column that the changes lack, leaves the value as it is."""
    retracts: ClassVar[bool] = False
    """Whether it can take back the values of a row of the kind -U or -D."""
    leaves_rows: ClassVar[bool] = False
    """Whether a key of which all rows are taken back still has a row."""
    why_no_tombstones: ClassVar[str | None] = (
        "with another engine, an older row could still be merged into a row that came after the delete"
    )
    """Why a tombstone is not enough for it: new rows are merged with older ones, and it disappears once its key has a
    row again. None if it is."""

    @classmethod
    def of(cls, options: EngineOptions) -> Self:
        """The engine that a table's properties describe. An option that it does not ask for is refused.

        Raises:
            InvalidInputError: An option names no column, does not fit the engine or the column's type, or contradicts
                another one.
        """
        return cls(keys=options.keys, sequence=options.sequence(), ignores_deletes=options.is_true("ignore-delete"))

    def column(self, name: str, runs: Runs, rows: KeyRuns) -> pa.ChunkedArray:
        """One column of the merged rows: a value for each key number, in the column's type.

        Args:
            name: The column; it is neither a key nor part of the sequence.
            runs: The rows that count, by key and in order.
            rows: Has all columns, for ``runs``: ``rows.column(name)``.

        Raises:
            InvalidInputError: A result does not fit its column.
        """
        raise NotImplementedError(f"merge engine {self.name} has neither `column` nor `merged`")

    def merged(self, rows: KeyRuns) -> Merged:
        """What each key is left with, where the merge goes column by column. Raises what `column` raises."""
        left = rows.runs
        if self.removes_on_delete:
            left = left.after(left.last(rows.kinds[left.rows] == DELETE))
        is_changed = rows.runs.filter(rows.runs.rows >= rows.runs.num_old).has_row()
        counted = left if self.leaves_rows else left.filter(~left.retracts)
        has_row = is_changed & counted.has_row()
        columns = [self._column(name, left, counted, rows) for name in rows.new.schema.names]
        found = pa.table(columns, schema=rows.new.schema)
        return Merged(found.filter(pa.array(has_row)), has_row, is_changed & ~has_row)

    def _column(self, name: str, left: Runs, counted: Runs, rows: KeyRuns) -> pa.ChunkedArray:
        if name in self.sequence:
            return left.picked(rows.column(name), left.last(), nulls=False)
        if name in self.keys:
            return counted.picked(rows.column(name), counted.last(), nulls=False)
        return self.column(name, left, rows)

    def merge(self, num_keys: int, new: KeyedRows, old: KeyedRows | None = None) -> Merged:
        """One row for each key.

        Args:
            num_keys: Key numbers are lower.
            new: The rows to merge into the table, with all its columns; rows of the kinds -U and -D may have only the
                key.
            old: The table's rows for the keys, with at least `needed_columns`; None if there are none, or they do not
                matter. For `open_keys`, with all columns.

        Raises:
            InvalidInputError: A row has a kind that the engine cannot take, or a result does not fit its column.
            UnsupportedFeatureError: The engine of a package fails otherwise, or returns what no table could store.
        """
        if new.kinds is not None:
            self.check_kinds(new.kinds)
        rows = KeyRuns.of(num_keys, new, old, self.sequence, self.wanted_rows)
        try:
            found = self.merged(rows)
        except (TxlogError, MemoryError):
            raise
        except Exception as error:  # whatever a package does
            raise self._failed(f"{type(error).__name__}: {error}") from error
        if problem := found.problem(new.rows.schema, num_keys):
            raise self._failed(problem)
        return found

    def _failed(self, problem: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"merge-engine {self.name} could not merge the rows, so nothing was committed: {problem}. Install a"
            " release of its package that fits this txlog",
            features=(self.name,),
        )

    def check_kinds(self, kinds: NDArray[np.int8]) -> None:
        """Refuse rows of the kinds -U and -D that the engine cannot apply.

        Raises:
            InvalidInputError: There is such a row; the message names the options that allow it.
        """
        if not self.ignores_deletes and not self.retracts and np.isin(kinds, (UPDATE_BEFORE, DELETE)).any():
            raise InvalidInputError(
                f"the changelog has rows of the kinds -U and -D, which merge-engine {self.name} cannot retract: set"
                " txlog.ignore-delete = true"
            )

    def wanted_rows(self, kinds: NDArray[np.int8]) -> NDArray[np.bool_] | None:
        """The rows that the merge uses; None: all."""
        return ~np.isin(kinds, (UPDATE_BEFORE, DELETE)) if self.ignores_deletes else None

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The table's columns whose old values `merge` reads for every key; () if the result depends on none."""
        return tuple(columns)

    def open_keys(self, changes: KeyedRows, num_keys: int) -> NDArray[np.bool_] | None:
        """The keys whose merge depends on all columns of the table's rows, beside `needed_columns`; None: of none."""
        return None

    def is_commutative(self, columns: Sequence[str], *, retracts: bool = True, deletes: bool = True) -> bool:
        """Whether rows without a sequence may arrive in any order without affecting ``columns``.

        Args:
            columns: Columns that are not key columns.
            retracts: Rows of the kinds -U and -D may be among them.
            deletes: Rows of the kind -D may be.
        """
        return False

    def orders(self, changes: KeyedRows, kinds: NDArray[np.int8], columns: Sequence[str]) -> Iterator[RowOrder]:
        """The orders of a changelog's rows, for the ``columns`` whose values depend on one."""
        wanted = self.wanted_rows(kinds)
        is_wanted = np.ones(len(kinds), dtype=bool) if wanted is None else wanted
        deletes = bool(((kinds == DELETE) & is_wanted).any())
        retracts = deletes or bool(((kinds == UPDATE_BEFORE) & is_wanted).any())
        if not self.is_commutative(columns, retracts=retracts, deletes=deletes):
            yield RowOrder(self.sequence, is_wanted, self.takes_last_row)

    @property
    def removes_on_delete(self) -> bool:
        """Whether a row of the kind -D deletes the whole row; otherwise it retracts values column by column."""
        return False

    @property
    def groups(self) -> tuple[SequenceGroup, ...]:
        """The columns that come from one row, which has the greatest sequence of its own."""
        return ()

    @property
    def cancelling_kinds(self) -> tuple[int, ...]:
        """The kinds of rows that cancel an equal row that comes in the same version of a feed: none whose retraction is
        left out, as the row that comes counts then."""
        return () if self.ignores_deletes else (DELETE, UPDATE_BEFORE)

    def group_of(self, column: str) -> SequenceGroup | None:
        """A column's sequence group, whether the column is taken or compared."""
        return next((each for each in self.groups if column in each.columns or column in each.sequence), None)
