"""A write on one machine: data in, one commit out. One task, one committable, one checkpoint.

In: an engine, data and `WriteOptions`. Out: a ``WriteResult``. The plan, the task and the commit are those that Spark
distributes over processes; here they run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from txlog.commands.global_committer import GlobalCommitter
from txlog.commands.write_options import WriteOptions
from txlog.commands.write_planning import plan_write
from txlog.commit.open_table import OpenTable
from txlog.errors import SchemaMismatchError, TxlogError
from txlog.log.state import TableState
from txlog.protocol.schema import to_arrow
from txlog.result import WriteResult
from txlog.util.arguments import invalid
from txlog.util.parallel import begin
from txlog.writer.input import DataStream, can_be_read_again, open_data
from txlog.writer.task_committer import write_task
from txlog.writer.unsent_files import UnsentFiles

__all__ = ["OnProgress", "write_batch"]

OnProgress: TypeAlias = Callable[[int], None]
"""Called with the number of rows taken so far, after each batch."""


def write_batch(
    open_table: OpenTable, data: Any, options: WriteOptions, on_progress: OnProgress | None = None
) -> WriteResult:
    """Write ``data`` and commit it.

    For a checkpoint that is in the table already, the answer comes before any row is read. A write that fails before
    its first put leaves nothing behind; after that put no file is deleted, whatever is raised.
    """
    known = open_table.log.known_state
    if known is not None and _can_write_beside_look(open_table, data, options) and on_progress is None:
        result = _write_beside_look(open_table, data, options, known)
        if result is not None:
            return result
    stream = open_data(data)
    if not stream.schema.names:  # an iterator without a batch has no schema: any schema will do
        state = open_table.state_if_exists()
        stream = DataStream(to_arrow(state.schema), stream.batches) if state else stream
    job = plan_write(open_table, stream.schema, options)
    committer = GlobalCommitter(open_table)
    replayed = committer.replay_of(job, refresh=False)
    if replayed is not None:
        return replayed
    if on_progress is not None:
        if not callable(on_progress):
            raise invalid("on_progress", on_progress, "a function of the number of rows so far")
        stream = DataStream(stream.schema, _counted(stream.batches, on_progress))
    try:
        committable = write_task(open_table.store.files, job.plan, job.task(), stream)
    except SchemaMismatchError as error:
        if options.schema_mode == "merge":
            error.template += "\n(if data comes in pieces, the columns of the first one decide which are added)"
        raise
    with UnsentFiles(open_table.store.files) as unsent:
        unsent.own(file.path for file in committable.files)
        return committer.commit(job, [committable], unsent)


def _can_write_beside_look(open_table: OpenTable, data: Any, options: WriteOptions) -> bool:
    """Whether the rows may be written before it is known which version is the newest.

    Where a look costs a request, and for appends that depend on nothing but the definition of the table. The rows are
    written again if that has changed, so it must be possible to read them again.
    """
    return (
        not open_table.store.log.capabilities.has_cheap_calls
        and open_table.log.state_is_fresh()
        and options.mode == "append"
        and options.schema_mode == "strict"
        and options.commit.transaction is None
        and options.commit.read_version is None
        and can_be_read_again(data)
    )


def _write_beside_look(
    open_table: OpenTable, data: Any, options: WriteOptions, known: TableState
) -> WriteResult | None:
    """Write the rows for the ``known`` version while the store is asked for the newest one: a round trip less.

    None, and no file is left behind, if the newest version has another definition.
    """
    look = begin(lambda: open_table.look_ahead(known))
    with UnsentFiles(open_table.store.files) as unsent:
        try:
            stream = open_data(data)
            if not stream.schema.names:
                return None
            job = plan_write(open_table, stream.schema, options, known)
            committable = write_task(open_table.store.files, job.plan, job.task(), stream)
        except TxlogError:
            if _is_defined_alike(look(), known):
                raise
            return None
        unsent.own(file.path for file in committable.files)
        if not _is_defined_alike(look(), known):
            return None
        return GlobalCommitter(open_table).commit(job, [committable], unsent)


def _is_defined_alike(state: TableState, known: TableState) -> bool:
    return (state.protocol, state.metadata) == (known.protocol, known.metadata)


def _counted(batches: Iterator[pa.RecordBatch], on_progress: OnProgress) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        on_progress(rows)
