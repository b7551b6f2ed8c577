"""One write, planned: plain data that travels from the driver to its tasks and back to the one commit.

In: the result of ``write_planning.plan_write``. Out: the ``WritePlan`` and ``TaskIdentity`` of each task, and what the
`GlobalCommitter` commits besides the files. This module imports nothing that can reach the log, since jobs are
unpickled on executors.
"""

from __future__ import annotations

import msgspec

from txlog.protocol.actions import DomainMetadata, Metadata, Protocol
from txlog.writer.changelog.mismatch import USUAL, MismatchPolicy
from txlog.writer.commit_options import PLAIN_COMMIT, CommitOptions
from txlog.writer.write_intent import RowMode, WriteIntent
from txlog.writer.write_plan import TaskIdentity, WritePlan

__all__ = ["WriteJob"]


class WriteJob(msgspec.Struct, frozen=True):
    """A planned write of one checkpoint (or of one batch without an application).

    ``intent`` decides what happens to existing rows. ``read_version`` is the version that it was planned on, -1 if it
    creates the table; ``base_metadata`` and ``base_protocol`` are that version's. ``new_metadata`` and ``new_protocol``
    are committed too if the write creates the table or changes its schema, as ``schema_mode`` ("strict", "merge",
    "overwrite") allows, and so are ``new_domains``. With ``must_create``, an existing table is an error. ``commit``
    holds the caller's commit options. ``rows_of_version`` is the version that an overwrite's rows come from, if known,
    and ``unseen_versions`` are other writers' versions after it, up to ``read_version``. ``row_mode`` decides how to
    remove rows from files that keep other rows; None leaves it to the table. ``mismatch`` decides what happens to
    changes that do not fit the table's rows. ``notes`` are for the commit's result.
    """

    job_id: str
    intent: WriteIntent
    plan: WritePlan
    read_version: int
    base_metadata: Metadata | None
    base_protocol: Protocol | None
    new_metadata: Metadata | None = None
    new_protocol: Protocol | None = None
    new_domains: tuple[DomainMetadata, ...] = ()
    commit: CommitOptions = PLAIN_COMMIT
    schema_mode: str = "strict"
    must_create: bool = False
    rows_of_version: int | None = None
    unseen_versions: tuple[int, ...] = ()
    row_mode: RowMode | None = None
    mismatch: MismatchPolicy = USUAL
    notes: tuple[str, ...] = ()

    @property
    def creates_table(self) -> bool:
        return self.base_metadata is None

    @property
    def is_reexecuted(self) -> bool:
        """Whether the write is an overwrite that, after a lost race, replaces what the newest version has."""
        return self.intent.is_overwrite and self.commit.is_reexecuted("fail")

    def task(self, task_id: int = 0, attempt: int = 0) -> TaskIdentity:
        return TaskIdentity(self.job_id, task_id, attempt, self.commit.app_id, self.commit.checkpoint_id)
