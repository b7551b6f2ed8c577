"""`WriteExecution`: turns one checkpoint's files into a proposal for one version, and again for a newer one.

In: a `WriteJob`, the committables of its tasks, and a version of the table (None: the write creates it). Out: a
`Proposal` that adds the files, removes what they replace, and declares what the write depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from txlog.commands.replaced_files import RegionReplacement, Replaced, write_parameters
from txlog.commit.open_table import OpenTable
from txlog.commit.outcome import raise_conflict
from txlog.errors import ConflictError, ConflictReason
from txlog.log.proposal import Isolation, Proposal
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.result import WriteMetrics
from txlog.util import ambient
from txlog.writer.committable import Committable
from txlog.writer.unsent_files import UnsentFiles
from txlog.writer.write_job import WriteJob

if TYPE_CHECKING:
    from txlog.commands.row_change.change_files import ChangeFiles

__all__ = ["WriteExecution", "raise_conflict_since"]

_CLOSE_S = 0.005  # fixed time of every execution


class WriteExecution:
    """A `Plan`. ``owner`` deletes the files made here, such as copies of rows, if nothing is sent."""

    def __init__(
        self, open_table: OpenTable, job: WriteJob, committables: Sequence[Committable], owner: UnsentFiles
    ) -> None:
        self._open_table = open_table
        self._job = job
        self._files = [file for committable in committables for file in committable.files]
        self._owner = owner
        self._txn_id = ambient.uuid4()
        self._change_files: ChangeFiles | None = None
        self._region: RegionReplacement | None = None
        self._replaced = Replaced()
        self._metrics = WriteMetrics()

    @property
    def metrics(self) -> WriteMetrics:
        return self._metrics

    def remaining_work_s(self, state: TableState) -> float:
        region_s = 0.0 if self._region is None else self._region.remaining_work_s(state)
        return _CLOSE_S + region_s + (0.0 if self._change_files is None else self._change_files.seconds)

    def warn_of_dead_rows(self, version: int | None) -> None:
        """After the commit: warn about files that are now mostly dead rows."""
        if self._replaced.dead_fractions:
            from txlog.commands.row_change.dead_rows import warn_of_dead_rows

            warn_of_dead_rows(self._open_table, version, self._replaced.dead_fractions)

    def execute(self, state: TableState | None) -> Proposal:
        job = self._job
        builder = ProposalBuilder(state)
        if state is not None and job.is_reexecuted and job.new_metadata is not None and job.base_metadata is not None:
            from txlog.commands.table_definition import require_definition

            require_definition(self._open_table, state, job.base_metadata)
        builder.define(job.new_metadata, job.new_protocol)
        for domain in job.new_domains:
            builder.set_domain(domain)
        if job.commit.transaction is not None:
            builder.set_transaction(*job.commit.transaction)
        if self._change_files is not None:
            self._change_files.begin()
        self._replaced = self._replace(builder, state)
        builder.add(*[file.to_add() for file in self._files])
        self._metrics = self._replaced.metrics(self._files)
        if self._change_files is not None:
            self._metrics = replace(self._metrics, change_files=self._change_files.finish(builder))
        is_reexecutable = state is not None and job.is_reexecuted
        if is_reexecutable:
            builder.read_table()
        return builder.build(
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE if is_reexecutable else self._isolation(state),
            operation="WRITE",
            parameters=write_parameters(job),
            metrics=self._replaced.operation_metrics(job.intent, self._metrics),
            user_metadata=job.commit.user_metadata,
            fingerprint=job.commit.fingerprint,
            is_reexecutable=is_reexecutable,
        )

    def _isolation(self, state: TableState | None) -> Isolation:
        asked = self._job.commit.isolation
        return self._open_table.isolation(state, asked) if state else Isolation(asked or "WriteSerializable")

    def _replace(self, builder: ProposalBuilder, state: TableState | None) -> Replaced:
        job = self._job
        if state is None or job.intent.is_append:
            return Replaced()
        if self._region is None:
            from txlog.commands.row_change.change_files import ChangeFiles

            self._change_files = ChangeFiles.of(self._open_table, state, self._owner, job.new_metadata)
            self._region = RegionReplacement(self._open_table, state, job, self._owner, self._change_files)
        return self._region.replace(builder, state, self._files)


def raise_conflict_since(open_table: OpenTable, rule: str, state: TableState, detail: str) -> NoReturn:
    """Raise the conflict of ``rule`` with some commit up to ``state``, after calling the hooks."""
    reason = ConflictReason(rule, state.version, "or an earlier commit", detail)
    try:
        raise_conflict((reason,), open_table.uri)
    except ConflictError as error:
        open_table.report_conflict(error)
        raise
