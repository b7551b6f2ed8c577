"""Checks the rows that a publication would add, before it does.

In: an open branch, and conditions. Out: a `BranchCheck`. The rows are those of the branch's new files, less those that
were only copied there from files of the table. They are checked against the table's constraints as they are now, and
against conditions and queries of the caller. One read of the new files finds that all is well; each condition that
fails takes another one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

import txlog
from txlog.branch.branch_work import BranchWork, work_of
from txlog.branch.redefinition import obstacle
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of, adds_to_batch, live_rows
from txlog.core.format.properties import CONSTRAINT_PREFIX
from txlog.errors import InvalidInputError, NotFoundError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import Predicate, ScanPlan, invalid, is_same_definition, parse_predicate, select
from txlog.result.branches import BranchCheck, FailedCheck

_ROWS_SHOWN: Final = 20
_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)


def check(open_table: OpenTable, *, checks: Sequence[str] | str = ()) -> BranchCheck:
    """Check what a publication would add. Raises what `Table.check` raises."""
    given = [checks] if isinstance(checks, str) else list(checks)
    for each in given:
        if not isinstance(each, str) or not each.strip():
            raise invalid("checks", each, "conditions or queries in SQL", table=open_table.uri)
    work = work_of(open_table)
    constraints = [
        text for key, text in work.newest.metadata.configuration.items() if key.startswith(CONSTRAINT_PREFIX)
    ]
    conditions = [each for each in given if not _QUERY.match(each)]
    queries = [each for each in given if _QUERY.match(each)]
    rows = RowsToPublish(work)
    if rows.are_as_in(work.newest):
        failures = rows.failures([*constraints, *conditions])
    else:  # constraints name columns as the table has them by now
        failures = [*rows.failures(constraints, work.newest), *rows.failures(conditions)]
    for query in queries:
        if (found := _rows_of(query, work.table, open_table)).num_rows:
            failures.append(FailedCheck(query, found.num_rows, found.slice(0, _ROWS_SHOWN)))
    return BranchCheck(
        version=work.state.version,
        num_rows=sum(map(live_rows, work.changes.added.values())),
        checks=(*constraints, *conditions, *queries),
        failures=tuple(failures),
    )


class RowsToPublish:
    """The rows that a branch has, and the version of its table with which it began has not."""

    def __init__(self, work: BranchWork) -> None:
        self._work = work

    def are_as_in(self, state: TableState) -> bool:
        """Whether the branch has the columns of a version of its table, or has columns that this version cannot
        have."""
        work = self._work
        return (
            is_same_definition(work.metadata_in_table(state), state.metadata)
            or obstacle(work, state, is_rebased=True) is not None
        )

    def failures(self, conditions: Sequence[str], seen_as: TableState | None = None) -> list[FailedCheck]:
        """The conditions that a new row does not meet; null is no more than false, as in Delta's constraints.
        They name the columns of the branch, or those of ``seen_as``, a version of its table.

        Raises InvalidInputError for a condition that does not fit the table, and what reading a file raises.
        """
        if not conditions:
            return []
        rows = _SeenRows(self._work, None if seen_as is None or self.are_as_in(seen_as) else seen_as)
        return rows.failures(conditions)


class _SeenRows:
    """The new rows, with the columns of the branch or of a version of its table."""

    def __init__(self, work: BranchWork, seen_as: TableState | None) -> None:
        self._work = work
        self._changes = work.changes
        self._seen_as = seen_as

    def failures(self, conditions: Sequence[str]) -> list[FailedCheck]:
        """See `RowsToPublish.failures`."""
        for each in conditions:  # an error shows the caller's text, not what is made of it
            self._predicate(self._work.branch, self._seen(self._work.state), each)
        failing = {each: f"NOT coalesce(({each}), false)" for each in conditions}
        if not self._failing(" OR ".join(failing.values())).num_rows:
            return []
        found = {each: self._without_copies(where) for each, where in failing.items()}
        return [
            FailedCheck(each, rows.num_rows, rows.slice(0, _ROWS_SHOWN))
            for each, rows in found.items()
            if rows.num_rows
        ]

    def _seen(self, state: TableState) -> TableState:
        return state if self._seen_as is None else state.defined_as(self._seen_as.metadata, self._seen_as.protocol)

    def _failing(self, where: str) -> pa.Table:
        return self._read(self._work.branch, self._work.state, [*self._changes.added.values()], where)

    def _without_copies(self, where: str) -> pa.Table:
        """The new rows for which a condition is true, but for those that the branch copied from files it rewrote."""
        rows = self._failing(where)
        if not rows.num_rows or not self._changes.touched:
            return rows
        copied = Counter(map(_key, self._gone(where)))
        kept = []
        for number, row in enumerate(rows.to_pylist()):
            key = _key(row)
            if copied[key]:
                copied[key] -= 1
            else:
                kept.append(number)
        return rows.take(pa.array(kept, pa.int64()))

    def _gone(self, where: str) -> list[dict[str, Any]]:
        """The rows for which a condition is true that the table's files had, and that the branch took away."""
        paths = [touched.path for touched in self._changes.touched]
        try:
            base = self._work.table.log.state_at(self._work.origin.base_version)
            before = add_files_of(self._work.table.log.named_files(base, paths)[0])
        except NotFoundError:  # cleaned up: then copies count as new rows
            return []
        after = [touched.after for touched in self._changes.touched if touched.after is not None]
        left = Counter(map(_key, self._read(self._work.branch, self._work.state, after, where).to_pylist()))
        found = []
        for row in self._read(self._work.table, base, before, where).to_pylist():
            if left[key := _key(row)]:
                left[key] -= 1
            else:
                found.append(row)
        return found

    def _read(self, table: OpenTable, state: TableState, files: Sequence[AddFile], where: str) -> pa.Table:
        seen = self._seen(state)
        predicate = self._predicate(table, seen, where)
        batch = pa.Table.from_batches([adds_to_batch(files)])
        return ScanPlan(select(table.uri, seen, None, predicate), batch).to_arrow(table.store)

    @staticmethod
    def _predicate(table: OpenTable, state: TableState, where: str) -> Predicate:
        with txlog.TxlogError.located(table.uri, state.version):
            return parse_predicate(where, state.schema, zone=state.time_zone)


def _key(row: dict[str, Any]) -> str:
    return repr(row)


def _rows_of(query: str, table: OpenTable, branch: OpenTable) -> pa.Table:
    """The rows of a query, in which ``{branch}`` and ``{table}`` stand for the two tables."""
    if "{branch}" not in query:
        raise InvalidInputError(
            f"the query {query!r} does not read the branch: write {{branch}} where the table's name would stand, and"
            " {table} for the table itself",
            table=branch.uri,
        )
    names = {"{branch}": branch.uri, "{table}": table.uri}
    for name, uri in names.items():
        query = query.replace(name, f"delta.`{str(uri).replace('`', '``')}`")
    options = branch.storage_options
    found: pa.Table = txlog.sql(query, storage_options=options, time_zone=branch.time_zone).read_all()
    return found
