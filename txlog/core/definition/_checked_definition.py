"""Commits a change of a table's definition; if the change adds a rule, checks it on every row of the table first.

In: an open table, and a function that makes the change for a version. Out: the ``WriteResult`` of a version that
changes no data file. A change that depends on the rows is a plan: it also looks at rows that others add meanwhile, and
at no row twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core import ambient
from txlog.core.changes.tasks import FindViolation
from txlog.core.definition._table_definition import Definition, commit_definition, define
from txlog.core.reading import ScanPlan, select
from txlog.core.row_rules import Constraint
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import advice
from txlog.core.workers import GivenWorkers
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteMetrics, WriteResult

_FILE_S = 0.002
_BYTES_PER_S = 200e6
_PART_BYTES = 32 << 20
_PARTS_MAX = 10_000
_SCANS_AT_ONCE = 2


CheckFiles: TypeAlias = "Callable[[pa.Table], None]"
"""Raises ``InvalidInputError`` if these live files do not fit a new definition."""


class DefinitionChange(msgspec.Struct, frozen=True):
    """A change of a definition, with its words for the history. ``definition`` None: nothing would change. ``rule`` is
    a condition that every row of the table must meet first, and ``check_files`` raises if its live files do not fit.
    The change depends on all rows if it ``reads_table``.
    """

    definition: Definition | None
    operation: str
    parameters: dict[str, str]
    rule: Constraint | None = None
    reads_table: bool = False
    check_files: CheckFiles | None = None

    @property
    def depends_on_files(self) -> bool:
        """Whether files that others add or change meanwhile matter to it."""
        return self.reads_table or self.rule is not None or self.check_files is not None


MakeChange: TypeAlias = "Callable[[TableState], DefinitionChange]"


def commit_definition_change(
    open_table: OpenTable,
    state: TableState,
    make: MakeChange,
    user_metadata: str | None = None,
    workers: GivenWorkers | None = None,
) -> WriteResult:
    """Commit the change that ``make`` returns for a version. ``workers`` check rows.

    Raises the errors of ``make``, and ``InvalidInputError`` for a row that violates the new rule.
    """
    with TxlogError.located(open_table.uri, state.version):
        change = make(state)
    if change.definition is None or not change.depends_on_files:
        return commit_definition(
            open_table, state, change.definition, change.operation, change.parameters, user_metadata
        )
    return open_table.commit_plan(_CheckedChange(open_table, make, user_metadata, workers), state)


def require_met(
    open_table: OpenTable,
    state: TableState,
    change: DefinitionChange,
    files: pa.Table,
    workers: GivenWorkers | None = None,
) -> None:
    """Raise ``InvalidInputError`` if these files of ``state``, or a row in them, do not fit the change."""
    if change.check_files is not None:
        with TxlogError.located(open_table.uri, state.version):
            change.check_files(files)
    if change.rule is not None:
        _require_rule(open_table, state, change.rule, files, workers)


def _require_rule(
    open_table: OpenTable, state: TableState, rule: Constraint, files: pa.Table, workers: GivenWorkers | None
) -> None:
    places = open_table.workers(workers, _SCANS_AT_ONCE)
    selection = select(open_table.uri, state, sorted(rule.condition.columns()))
    work = FindViolation(open_table.task_table(state), rule)
    scans = [ScanPlan(selection, part) for part in _parts_of(files)]
    for _, values in places.map(work, scans):
        if values is not None:
            raise InvalidInputError(
                f"rows of the table violate the {rule.name} ({rule.sql}), such as one with {values}: nothing was"
                " changed. A condition that is NULL is violated too. Find the rows with"
                f" {advice('find rows', 'table.to_arrow(where=...)')}, correct or delete them, and add it again",
                table=open_table.uri,
                version=state.version,
            )


class _CheckedChange:
    """The `Plan`: checks the rows of files that it has not seen, and changes the definition."""

    def __init__(
        self, open_table: OpenTable, make: MakeChange, user_metadata: str | None, workers: GivenWorkers | None
    ) -> None:
        self._workers = workers
        self._open_table = open_table
        self._make = make
        self._user_metadata = user_metadata
        self._txn_id = ambient.uuid4()
        self._checked: set[tuple[str, str | None]] = set()
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        """Raises InvalidInputError if a row of ``state`` violates the rule."""
        with TxlogError.located(self._open_table.uri, state.version):
            change = self._make(state)
        files = self._unchecked(state)
        require_met(self._open_table, state, change, files, self._workers)
        self._checked.update(keys_of(files))
        builder = ProposalBuilder(state)
        if change.definition is not None:  # if another commit made the change in between, this one is empty
            define(builder, change.definition)
        builder.read_table()
        return builder.build(
            OperationInfo(change.operation, change.parameters, user_metadata=self._user_metadata),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            is_reexecutable=True,
        )

    def remaining_work_s(self, state: TableState) -> float:
        files = self._unchecked(state)
        return float(files.num_rows * _FILE_S + sum(files["size"].to_pylist()) / _BYTES_PER_S)

    def _unchecked(self, state: TableState) -> pa.Table:
        files = self._open_table.log.files(state)
        return files.filter(pa.array([key not in self._checked for key in keys_of(files)], pa.bool_()))


def _parts_of(files: pa.Table) -> list[pa.Table]:
    """The files in order, in parts of about equal size."""
    part_bytes = max(_PART_BYTES, (pc.sum(files["size"]).as_py() or 0) // _PARTS_MAX)
    parts: list[pa.Table] = []
    first = size_bytes = 0
    for row, size in enumerate(files["size"].to_pylist()):
        size_bytes += size
        if size_bytes >= part_bytes or row + 1 == files.num_rows:
            parts.append(files.slice(first, row + 1 - first))
            first, size_bytes = row + 1, 0
    return parts


def keys_of(files: pa.Table) -> list[tuple[str, str | None]]:
    """The path and deletion vector of each file: without its vector, deleted rows are back."""
    vectors = files["deletionVector"].to_pylist()
    return [
        (path, None if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector['offset']}")
        for path, vector in zip(files["path"].to_pylist(), vectors, strict=True)
    ]
