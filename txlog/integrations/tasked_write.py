"""A write whose rows come from an engine's tasks: planned here, written there, committed here as one version.

In: a table, and what the write is. Out: a `TaskedWrite`, plain data that an engine sends to its tasks, and the result.
A task that runs twice writes files with other names, and the commit names those of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from txlog.core.changes.tasks import TaskStore
from txlog.core.format.identity import without_counted
from txlog.core.format.schema import to_arrow
from txlog.core.operations import GlobalCommitter, WriteOptions, check_mode, plan_write
from txlog.core.sink import Sink, SinkTask
from txlog.core.wording import argument
from txlog.core.writing import Changelog, WriteJob, changelog_of
from txlog.core.writing.commit_options import PLAIN_COMMIT, CommitOptions
from txlog.core.writing.committable import Committable
from txlog.errors import InvalidInputError
from txlog.extend import open_table_of
from txlog.result import WriteResult
from txlog.table import Table

__all__ = ["Target", "TargetMode", "TaskedWrite"]

TargetMode: TypeAlias = Literal["append", "overwrite", "upsert"]


class TaskedWrite(msgspec.Struct, frozen=True):
    """A planned write. Its tasks need txlog and access to the table's location."""

    store: TaskStore
    job: WriteJob
    changelog: Changelog | None

    def run(self, task_id: int, pieces: Iterable[Any]) -> bytes:
        """One task: writes its rows, and returns what the commit needs. Raises what ``SinkTask`` raises."""
        with SinkTask(self.store.files.files, self.job, task_id, 0, self.changelog) as task:
            for piece in pieces:
                task.write(piece)
        return task.committable.to_bytes()


class Target(msgspec.Struct, frozen=True):
    """A table, and how rows are written to it: the arguments that engines' functions share.

    ``mode`` is "append", "overwrite" (all rows) or "upsert" with ``keys``. ``app_id`` and ``key`` make the write happen
    once, as `Sink.once`.
    """

    table: Table
    mode: TargetMode = "append"
    keys: str | Sequence[str] | None = None
    app_id: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        check_mode(self.mode, get_args(TargetMode))
        if (self.app_id is None) != (self.key is None):
            raise InvalidInputError(
                f"a write that happens once needs both {argument('app_id')}, the job, and {argument('key')}, the run"
            )

    def sink(self) -> Sink | None:
        """The sink of the write's key, if it has one."""
        if self.app_id is None or self.key is None:
            return None
        return Sink(self.table, self.app_id, mode=self.mode, keys=self.keys).for_key(self.key)

    def write(self, work: Callable[[TaskedWrite], Sequence[bytes]]) -> WriteResult:
        """Plan the write, have ``work`` run its tasks, and commit what they return.

        ``work`` is not called if the table has the key. Raises what `Table.append` and `Sink.commit` raise.
        """
        sink = self.sink()
        known = None if sink is None else sink.committed(0)
        if known is not None:
            return known
        planned = self.plan(sink)
        return self.commit(planned, work(planned))

    def plan(self, sink: Sink | None) -> TaskedWrite:
        open_table = open_table_of(self.table)
        changelog = changelog_of(self.mode, self.keys)
        state = open_table.writable_state()
        options = WriteOptions(
            mode=self.mode,
            keys=() if changelog is None else changelog.keys,
            commit=PLAIN_COMMIT if sink is None else CommitOptions(sink.app_id, 0),
        )
        job = plan_write(open_table, to_arrow(without_counted(state.schema)), options, state)
        return TaskedWrite(open_table.task_store(), job, changelog)

    def commit(self, planned: TaskedWrite, written: Sequence[bytes]) -> WriteResult:
        committer = GlobalCommitter(open_table_of(self.table))
        committables = [Committable.from_bytes(each) for each in written]
        result = committer.commit(planned.job, committables)
        committer.remove_keys(committables)
        return result
