"""`MergeBuilder`: the clauses of a MERGE, put together as users of other Delta libraries know it.

In: calls that name what becomes of matched rows, of rows that only the source has, and of rows that only the table has.
Out: one commit, by `execute`. Clauses are tried in the order in which they were added; the first that applies counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txlog.commands.merge import Clause, MergeOptions, merge_rows
from txlog.commands.row_change.options import RowOptions
from txlog.commit.open_table import OpenTable
from txlog.result import WriteResult
from txlog.util.api_hints import explains_calls

__all__ = ["MergeBuilder"]


@explains_calls
class MergeBuilder:
    """Made by `Table.merge`. Each ``when_...`` adds a clause and returns the builder; `execute` merges.

    Conditions and values are SQL in which ``target.`` and ``source.`` (or the aliases given) name the two sides; values
    other than strings are themselves, None is null.
    """

    def __init__(self, open_table: OpenTable, source: Any, merge: MergeOptions, options: RowOptions) -> None:
        self._open_table = open_table
        self._source = source
        self._merge = merge
        self._options = options
        self._clauses: list[Clause] = []

    def when_matched_update(self, updates: Mapping[str, Any], predicate: str | None = None) -> MergeBuilder:
        """Set these columns of matched rows, where ``predicate`` (on both sides) is true."""
        return self._add("matched", "update", updates, predicate)

    def when_matched_update_all(self, predicate: str | None = None) -> MergeBuilder:
        """Give matched rows every column of the source, which must have all columns of the table."""
        return self._add("matched", "update", None, predicate)

    def when_matched_delete(self, predicate: str | None = None) -> MergeBuilder:
        """Delete matched rows."""
        return self._add("matched", "delete", None, predicate)

    def when_not_matched_insert(self, updates: Mapping[str, Any], predicate: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row of the table; columns that are not named become null."""
        return self._add("not matched", "insert", updates, predicate)

    def when_not_matched_insert_all(self, predicate: str | None = None) -> MergeBuilder:
        """Insert them with every column of the source, which must have all columns of the table."""
        return self._add("not matched", "insert", None, predicate)

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, Any], predicate: str | None = None
    ) -> MergeBuilder:
        """Set columns of rows that no row of the source matches. This looks into every file of the table."""
        return self._add("not matched by source", "update", updates, predicate)

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> MergeBuilder:
        """Delete rows that no row of the source matches. This looks into every file of the table."""
        return self._add("not matched by source", "delete", None, predicate)

    def execute(self) -> WriteResult:
        """Merge, as one new version; the source is read once.

        Raises ``InvalidInputError`` for a join that is no equality of key columns, for columns and values that do not
        fit, and where two rows of the source match one row of the table; and what `Table.upsert` raises.
        """
        return merge_rows(self._open_table, self._source, self._merge, tuple(self._clauses), self._options)

    def _add(self, when: Any, then: Any, values: Mapping[str, Any] | None, predicate: str | None) -> MergeBuilder:
        self._clauses.append(Clause(when, then, values, predicate))
        return self
