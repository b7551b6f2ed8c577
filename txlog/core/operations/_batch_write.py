"""A write on one machine: data in, one commit out. One task, one committable, one checkpoint.

In: an open table, data and `WriteOptions`. Out: `Steps`, which end in a ``WriteResult``. The plan, the task and the
commit are those that Spark distributes over processes; here they run one after the other.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.core.format.schema import to_arrow
from txlog.core.operations._global_committer import GlobalCommitter
from txlog.core.operations._write_options import WriteOptions
from txlog.core.operations._write_planning import plan_for_rows
from txlog.core.parallel import begin
from txlog.core.versions import OpenTable, Steps
from txlog.core.versions.decisions.definition_changes import is_same_definition
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, open_data, write_task
from txlog.errors import SchemaMismatchError, TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from txlog.core.progress import OnDone, OnProgress

KEPT_BYTES = 8 << 20
"""Rows of so many bytes are written before it is known that the table is still as it was; larger data waits."""


def write_steps(
    open_table: OpenTable, data: Any, options: WriteOptions, on_progress: OnProgress | None = None
) -> Steps[WriteResult]:
    """Write ``data``, which `OpenTable.run` commits.

    For a checkpoint that the table is known to have, the answer comes before any row is read. A write that fails before
    its first put leaves nothing behind; after that put no file is deleted, whatever is raised.
    """
    stream = open_data(data)
    if on_progress is not None:
        from txlog.core.progress import step

        stream = DataStream(stream.schema, _counted(stream.batches, step(on_progress, "taking rows")))
    if options.dry_run:
        from txlog.core.operations._overwrite_preview import preview_overwrite

        return preview_overwrite(open_table, stream, options)
    known = open_table.log.known_state
    if known is None or not _can_write_beside_look(open_table, options):
        with contextlib.nullcontext() if options.mode == "append" else open_table.log.files_ahead():
            return (yield from _write(open_table, stream, options))
    look = _Look(open_table, known, options, stream)
    try:
        return (yield from _write(open_table, DataStream(stream.schema, look.rows()), options, known, look))
    except _Outdated:
        return (yield from _write(open_table, look.all_rows(), options, look.newest()))


def _write(
    open_table: OpenTable,
    stream: DataStream,
    options: WriteOptions,
    known: TableState | None = None,
    look: _Look | None = None,
) -> Steps[WriteResult]:
    """Write for the ``known`` version, or for the newest one.

    Raises `_Outdated`, and leaves no file behind, if ``look`` shows that the table is not as it was known to be.
    """
    with open_table.unsent_files() as unsent:
        try:
            if not stream.schema.names:  # an iterator without a batch has no schema: any schema will do
                state = known or open_table.state_if_exists()
                stream = DataStream(_columns_of(state), stream.batches) if state else stream
            with open_table.timed("plan"):
                job, stream = plan_for_rows(open_table, stream, options, known)
            committer = GlobalCommitter(open_table)
            replayed = committer.replay_of(job, refresh=False)
            if replayed is not None:
                return replayed
            if look is not None:
                look.begin()
            with open_table.timed("write"):
                committable = write_task(open_table.store.files, job.plan, job.task(), stream)
            unsent.own(file.path for file in committable.files)
        except TxlogError as error:
            if look is not None:
                look.confirm()
            if isinstance(error, SchemaMismatchError) and options.schema_mode == "merge":
                error.template += "\n(if data comes in pieces, the columns of the first one decide which are added)"
            raise
        if look is not None:
            look.confirm()
        return (yield from committer.steps(job, [committable], unsent))


def _columns_of(state: TableState) -> pa.Schema:
    from txlog.core.format.identity import without_counted

    return to_arrow(without_counted(state.schema))


def _can_write_beside_look(open_table: OpenTable, options: WriteOptions) -> bool:
    """Whether the rows may be written before it is known which version is the newest.

    Where a look costs a request, and for appends that depend on nothing but the definition of the table.
    """
    return (
        not open_table.store.log.capabilities.has_cheap_calls
        and open_table.log.state_is_fresh()
        and options.mode == "append"
        and options.schema_mode == "strict"
        and options.commit.read_version is None
    )


class _Outdated(Exception):
    """The table has another definition than it was known to have, or it has the checkpoint already."""


class _Look:
    """Asks for the newest version while the first rows are written for the ``known`` one: a round trip less.

    The rows that are taken before the answer came are kept, since they are written again if they were written for
    another definition. Once they are many, the next ones wait for the answer.
    """

    def __init__(self, open_table: OpenTable, known: TableState, options: WriteOptions, stream: DataStream) -> None:
        self._open_table = open_table
        self._known = known
        self._commit = options.commit
        self._stream = stream
        self._kept: list[pa.RecordBatch] = []
        self._answer: Callable[[], TableState] | None = None
        self._is_confirmed = False

    def begin(self) -> None:
        self._answer = begin(lambda: self._open_table.look_ahead(self._known))

    def newest(self) -> TableState:
        """The newest version, as it was answered. Raises the errors of `OpenTable.look_ahead`."""
        if self._answer is None:
            self.begin()
        assert self._answer is not None
        return self._answer()

    def confirm(self) -> None:
        """Wait for the answer. Raises `_Outdated`, and as `OpenTable.look_ahead`."""
        if self._is_confirmed:
            return
        newest = self.newest()
        known = self._known
        is_alike = newest.protocol == known.protocol and is_same_definition(known.metadata, newest.metadata)
        if not is_alike or self._is_replay(newest):
            raise _Outdated
        self._is_confirmed = True
        self._kept.clear()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows, for the known version."""
        kept_bytes = 0
        for batch in self._stream.batches:
            if not self._is_confirmed:
                self._kept.append(batch)
                kept_bytes += batch.nbytes
            yield batch
            if kept_bytes > KEPT_BYTES:
                self.confirm()

    def all_rows(self) -> DataStream:
        """The same rows from the first one on. After `_Outdated`."""
        return DataStream(self._stream.schema, itertools.chain(self._kept, self._stream.batches))

    def _is_replay(self, newest: TableState) -> bool:
        if self._commit.transaction is None:
            return False
        fingerprint = self._commit.fingerprint
        return self._open_table.replay_of(newest, *self._commit.transaction, fingerprint, quietly=True) is not None


def _counted(batches: Iterator[pa.RecordBatch], on_rows: OnDone) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        on_rows(rows, None)
