"""Checks a table's rows against a constraint, as the work of tasks.

In: for each task a `ScanPlan` of some files of the table. Out: a row that violates the constraint, if there is one.
"""

from __future__ import annotations

import msgspec

from txlog.core.changes.tasks._task_table import TaskTable
from txlog.core.reading import ScanPlan
from txlog.core.row_rules import Constraint
from txlog.errors import TxlogError


class FindViolation(msgspec.Struct, frozen=True):
    """The work of a task: look for a row that violates a constraint. Can be pickled."""

    table: TaskTable
    constraint: Constraint

    def __call__(self, scan: ScanPlan) -> str | None:
        """The first such row's values of the condition's columns, as text; None if all rows meet it.

        Raises:
            InvalidInputError: The condition has no value for some row.
            TxlogError: A file cannot be read.
        """
        for batch in scan.batches(self.table.files):
            with TxlogError.located(self.table.uri, self.table.version):
                found = self.constraint.violation(batch)
            if found is not None:
                return found[1] or "any value"
        return None
