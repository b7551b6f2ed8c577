"""Adds a CHECK constraint to a table, or drops one, as Spark's ALTER TABLE ... ADD CONSTRAINT does.

In: an open table, a name and a condition. Out: a commit of the table's definition. All rows of the table are checked
first. The check is a plan: rows that others add in the meantime are checked too, and no other rows twice.
PROTOCOL.md, "CHECK Constraints".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from txlog.commands.table_definition import Definition, commit_definition
from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, TxlogError
from txlog.log.proposal import Isolation, Proposal
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import operation_parameters
from txlog.protocol.features import upgraded_for
from txlog.protocol.properties import CONSTRAINT_PREFIX
from txlog.read.scan_plan import ScanPlan, select
from txlog.result import WriteMetrics, WriteResult
from txlog.tasks.check_rows import FindViolation
from txlog.tasks.task_table import TaskTable
from txlog.util import ambient
from txlog.util.arguments import invalid
from txlog.workers.threads import ThreadWorkers
from txlog.writer.constraints import Constraint

__all__ = ["add_constraint", "drop_constraint"]

_FILE_S = 0.002
_BYTES_PER_S = 200e6
_PART_BYTES = 32 << 20
_SCANS_AT_ONCE = 2


def add_constraint(open_table: OpenTable, name: Any, condition: Any, user_metadata: str | None) -> WriteResult:
    """As `Table.add_constraint`."""
    state = open_table.writable_state()
    key = CONSTRAINT_PREFIX + _checked_name(name, open_table.uri)
    if not isinstance(condition, str):
        raise invalid("condition", condition, "SQL, such as 'amount > 0'", table=open_table.uri)
    with TxlogError.located(open_table.uri, state.version):
        found = _stored_key(state, key)
        if found is not None:
            raise InvalidInputError(
                f"the table has a constraint of this name, {found.removeprefix(CONSTRAINT_PREFIX)}"
                f" ({state.metadata.configuration[found]}): drop it first, by table.drop_constraint, or choose another"
                " name"
            )
        plan = _Addition(open_table, state, key, condition, user_metadata)
    return open_table.commit_plan(plan, state)


def drop_constraint(
    open_table: OpenTable, name: Any, user_metadata: str | None, *, is_optional: bool = False
) -> WriteResult:
    """As `Table.drop_constraint`."""
    state = open_table.log.newest_state()
    open_table.check_maintainable(state)
    key = _stored_key(state, CONSTRAINT_PREFIX + _checked_name(name, open_table.uri))
    configuration = dict(state.metadata.configuration)
    if key is None:
        if is_optional:
            return WriteResult(state.version, "committed", 0, "")
        names = [each.removeprefix(CONSTRAINT_PREFIX) for each in configuration if each.startswith(CONSTRAINT_PREFIX)]
        known = f"it has {', '.join(sorted(names))}" if names else "it has none"
        raise InvalidInputError(
            f"the table has no constraint {name!r}: {known}", table=open_table.uri, version=state.version
        )
    condition = configuration.pop(key)
    definition = Definition(replace(state.metadata, configuration=configuration))
    parameters = operation_parameters(name=key.removeprefix(CONSTRAINT_PREFIX), expr=condition, existed=True)
    return commit_definition(open_table, state, definition, "DROP CONSTRAINT", parameters, user_metadata)


def _checked_name(name: Any, table: str) -> str:
    """The name in lower case, as Delta stores it."""
    if not isinstance(name, str) or not name.strip() or name != name.strip():
        raise invalid("name", name, "the name of a constraint, such as 'positive_amount'", table=table)
    return name.lower()


def _stored_key(state: TableState, key: str) -> str | None:
    """The property of this constraint in the table's spelling; None if there is none."""
    return next((each for each in state.metadata.configuration if each.lower() == key.lower()), None)


class _Addition:
    """The `Plan`: checks the rows of files that it has not seen, and sets the property."""

    def __init__(
        self, open_table: OpenTable, state: TableState, key: str, condition: str, user_metadata: str | None
    ) -> None:
        from txlog.expressions.sql import parse_predicate

        self._open_table = open_table
        self._key = key
        self._name = key.removeprefix(CONSTRAINT_PREFIX)
        self._constraint = Constraint(f"constraint {self._name}", condition, parse_predicate(condition, state.schema))
        self._user_metadata = user_metadata
        self._txn_id = ambient.uuid4()
        self._checked: set[tuple[str, str | None]] = set()
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        """Raises InvalidInputError if a row of ``state`` violates the condition."""
        files = self._unchecked(state)
        selection = select(self._open_table.uri, state, sorted(self._constraint.condition.columns()))
        work = FindViolation(TaskTable.of(self._open_table.store, state), self._constraint)
        scans = [ScanPlan(selection, part) for part in _parts_of(files)]
        for _, values in ThreadWorkers(_SCANS_AT_ONCE).map(work, scans):
            if values is not None:
                raise self._violated(values, state)
        self._checked.update(_keys_of(files))
        metadata = replace(
            state.metadata, configuration={**state.metadata.configuration, self._key: self._constraint.sql}
        )
        builder = ProposalBuilder(state)
        builder.define(metadata, upgraded_for(state.protocol, state.schema, metadata.configuration))
        builder.read_table()
        return builder.build(
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            operation="ADD CONSTRAINT",
            parameters=operation_parameters(name=self._name, expr=self._constraint.sql),
            user_metadata=self._user_metadata,
            is_reexecutable=True,
        )

    def remaining_work_s(self, state: TableState) -> float:
        files = self._unchecked(state)
        return float(files.num_rows * _FILE_S + sum(files["size"].to_pylist()) / _BYTES_PER_S)

    def _unchecked(self, state: TableState) -> pa.Table:
        files = self._open_table.log.files(state)
        return files.filter(pa.array([key not in self._checked for key in _keys_of(files)], pa.bool_()))

    def _violated(self, values: str, state: TableState) -> InvalidInputError:
        return InvalidInputError(
            f"rows of the table violate the constraint {self._name} ({self._constraint.sql}), such as one with"
            f" {values}: nothing was changed. A condition that is NULL is violated too. Find the rows by"
            " table.to_arrow(where=...), correct or delete them, and add it again",
            table=self._open_table.uri,
            version=state.version,
        )


def _parts_of(files: pa.Table) -> list[pa.Table]:
    """The files in their order, in parts of about equal size."""
    parts: list[pa.Table] = []
    first = size_bytes = 0
    for row, size in enumerate(files["size"].to_pylist()):
        size_bytes += size
        if size_bytes >= _PART_BYTES or row + 1 == files.num_rows:
            parts.append(files.slice(first, row + 1 - first))
            first, size_bytes = row + 1, 0
    return parts


def _keys_of(files: pa.Table) -> list[tuple[str, str | None]]:
    """The path of each file, and its deletion vector: rows come back if a vector goes."""
    vectors = files["deletionVector"].to_pylist()
    return [
        (path, None if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector['offset']}")
        for path, vector in zip(files["path"].to_pylist(), vectors, strict=True)
    ]
