"""`TaskPlaces`: where the tasks of a verification run, and the table's data files as tasks get them.

In: a table's files, and the caller's workers. Out: workers for each of the checks.
"""

from __future__ import annotations

import msgspec

from txlog.core.changes.tasks import TaskStore
from txlog.core.store import TableFiles
from txlog.core.workers import GivenWorkers, ThreadWorkers, Workers, given_workers, require_openable


class TaskPlaces(msgspec.Struct, frozen=True):
    """``given`` None: each check has its own number of threads."""

    store: TaskStore
    given: Workers | None = None

    @classmethod
    def of(cls, store: TableFiles, tasks: TaskStore | None, workers: GivenWorkers | None) -> TaskPlaces:
        """``tasks`` None: ``store`` was opened without options. Raises ``InvalidInputError`` for unusable workers."""
        found = TaskPlaces(tasks or TaskStore.at(store), None if workers is None else given_workers(workers, store.uri))
        if found.given is not None:
            require_openable(found.given, found.store)
        return found

    def workers(self, slots: int) -> Workers:
        """The given workers, else this many threads."""
        return self.given or ThreadWorkers(slots)
