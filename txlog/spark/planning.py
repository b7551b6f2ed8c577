"""The driver's two acts of a Spark write, on either side of the tasks: plan it, commit it.

In: the options and schema of the write; later the committables of its tasks. Out: a ``WriteJob``; later one
version of the table. Kept apart from ``source`` so that a task does not load what only the driver needs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from txlog.engine import Engine
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.log.state import TableHead
from txlog.protocol.schema import Struct, to_arrow
from txlog.result import WriteResult
from txlog.sink import planning
from txlog.sink.committable import Committable
from txlog.sink.global_committer import GlobalCommitter
from txlog.sink.write_job import WriteJob
from txlog.spark.open_tables import open_table
from txlog.spark.options import StreamOptions, WriteOptions
from txlog.spark.schema import as_nullable, frame_schema
from txlog.store.probe import probe_store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["answer_known", "commit", "commit_batch", "confirm_replay", "plan"]

logger = logging.getLogger("txlog")

_streams: set[str] = set()
"""The streams of which this process has committed a batch."""

_OTHER_INPUT = (
    "its checkpointLocation was rewound or replaced. Nothing was written. For a new source give the stream a new"
    " txnAppId; to drop the batches up to the last committed one, set skipCommittedBatches=true"
)


def plan(options: WriteOptions, spark_schema: StructType, *, overwrite: bool) -> tuple[WriteJob, bool]:
    """What this write will do, and whether the table holds it already (a rerun of ``txnAppId`` and ``txnVersion``).

    Raises, before any task runs: ``SchemaMismatchError``, ``InvalidInputError``, ``UnsupportedFeatureError``.
    """
    engine = open_table(options)
    with TxlogError.located(engine.uri):
        columns = frame_schema(spark_schema)
    head = engine.head_if_exists()
    if head is None:
        nullable = as_nullable(columns)
        assert isinstance(nullable, Struct)
        columns = nullable
        if not engine.store.log.checks_predecessor:  # a remote store may ignore the condition of a conditional put
            probe_store(engine.store).require_safe()
    else:
        _require_same_properties(engine, head, options)
    job = _planned(engine, columns, options, overwrite)
    return job, GlobalCommitter(engine).replay_of(job, quietly=True) is not None


def commit(
    options: WriteOptions, job: WriteJob, committables: Sequence[Committable], *, lives_on: bool = False
) -> WriteResult | None:
    """One version with the files of every task; None where no task had a row and ``skipEmpty`` is set.

    Waits for a Delta checkpoint that is due, unless this process ``lives_on``: Spark may end it.
    """
    if options.skip_empty and _adds_nothing(job, committables):
        return None
    engine = open_table(options)
    engine.head_if_exists()  # the job may have been planned, by another process, on a newer version than is known here
    try:
        return GlobalCommitter(engine).commit(job, committables)
    finally:
        if not lives_on:
            engine.post_commit.drain()


def commit_batch(options: StreamOptions, job: WriteJob, committables: Sequence[Committable]) -> WriteResult | None:
    """One version for one micro-batch of a stream; None where it has no row to append.

    Raises as `answer_known`, `commit`.
    """
    assert job.app_id is not None
    assert job.checkpoint_id is not None
    engine = open_table(options.write)
    known = answer_known(
        engine, job.app_id, job.checkpoint_id, job.fingerprint, skip_committed=options.skip_committed_batches
    )
    if known is not None:
        return known
    if _adds_nothing(job, committables):
        return None
    # A worker that Spark uses again is there for as long as the stream is: no batch need wait for what follows another.
    lives_on = job.app_id in _streams
    _streams.add(job.app_id)
    return commit(options.write, job, committables, lives_on=lives_on)


def answer_known(
    engine: Engine, app_id: str, batch_id: int, fingerprint: str | None, *, skip_committed: bool
) -> WriteResult | None:
    """The answer for a micro-batch that is not newer than its stream's last one in the table; None for a new one.

    The last one is Spark's replay after a crash, if it was made from the same input: its commit has the same
    ``fingerprint``. An older one, or other input, means that the stream's checkpoint folder was rewound or replaced
    under a name it had before: other rows under an old number. Raises ``InvalidInputError`` for that, unless
    ``skip_committed`` says that the user wants such batches dropped.
    """
    head = engine.head_if_exists()
    last = head.transaction_version(app_id) if head else None
    if head is None or last is None or batch_id > last:
        return None
    if batch_id == last:
        try:
            found = engine.replay_of(head, app_id, batch_id, None if skip_committed else fingerprint)
        except InvalidInputError as error:
            error.message += f": {_OTHER_INPUT}"
            raise
        return WriteResult(found.version if found else None, "already_committed", 0, "")
    if not skip_committed:
        raise InvalidInputError(
            f"micro-batch {batch_id} of stream {app_id!r} comes after its batch {last} was committed: {_OTHER_INPUT}",
            table=engine.uri,
            version=head.version,
        )
    logger.warning("%s: batch %d of stream %r is dropped as asked", engine.uri, batch_id, app_id)
    return WriteResult(None, "already_committed", 0, "")


def _adds_nothing(job: WriteJob, committables: Sequence[Committable]) -> bool:
    is_empty = not any(committable.files for committable in committables)
    return is_empty and job.mode == "append" and job.new_metadata is None


def confirm_replay(options: WriteOptions, job: WriteJob) -> WriteResult:
    """The end of a write whose tasks were told that the table holds it already, and so wrote nothing."""
    result = GlobalCommitter(open_table(options)).replay_of(job)
    if result is None:
        raise InvalidInputError(
            f"when this write was planned the table held transaction {job.checkpoint_id} of {job.app_id!r}, and now "
            "it does not: it was restored or created again meanwhile. Nothing was written; run the write again",
            table=job.plan.table,
        )
    return result


def _planned(engine: Engine, columns: Struct, options: WriteOptions, overwrite: bool) -> WriteJob:
    app_id, checkpoint_id = options.transaction or (None, None)
    asked = planning.WriteOptions(
        mode="overwrite" if overwrite else "append",
        schema_mode="merge" if options.merge_schema else "strict",
        app_id=app_id,
        checkpoint_id=checkpoint_id,
        fingerprint=options.fingerprint,
        isolation=options.isolation.value if options.isolation else None,
        create=True,
        partition_by=options.partition_by,
        properties=options.properties,
        target_file_size_bytes=options.target_file_size_bytes,
        max_records_per_file=options.max_records_per_file,
        compression=options.compression,
    )
    try:
        return planning.plan_write(engine, to_arrow(columns), asked)
    except SchemaMismatchError as error:
        error.message = error.message.replace('schema_mode="merge"', "the option mergeSchema=true")
        raise


def _require_same_properties(engine: Engine, head: TableHead, options: WriteOptions) -> None:
    """Properties are set when a table is created; on one that exists they may only state what it has."""
    have = head.metadata.configuration
    differing = [f"{key}={value}" for key, value in options.properties.items() if have.get(key) != value]
    if differing:
        raise InvalidInputError(
            f"a write does not change the properties of a table that exists ({', '.join(differing)}): "
            "use txlog.Table.open(path).set_properties({...}), or leave the options out",
            table=engine.uri,
            version=head.version,
        )
