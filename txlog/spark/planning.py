"""The driver's two acts of a Spark write, on either side of the tasks: plan it, commit it.

In: the options and schema of the write; later the committables of its tasks. Out: a ``WriteJob``; later one
version of the table. Kept apart from ``source`` so that a task does not load what only the driver needs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from txlog.commands import write_planning
from txlog.commands.global_committer import GlobalCommitter
from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.log.state import TableState
from txlog.protocol.schema import Struct, to_arrow
from txlog.result import WriteResult
from txlog.spark.open_tables import process_table
from txlog.spark.options import StreamOptions, WriteOptions
from txlog.spark.schema import as_nullable, frame_schema
from txlog.store.probe import probe_store
from txlog.util.logs import logger
from txlog.writer.committable import Committable
from txlog.writer.write_job import WriteJob

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["answer_known", "commit", "commit_batch", "confirm_replay", "plan"]

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
    open_table = process_table(options)
    with TxlogError.located(open_table.uri):
        columns = frame_schema(spark_schema)
    state = open_table.state_if_exists()
    if state is None or options.overwrite_schema:
        nullable = as_nullable(columns)
        assert isinstance(nullable, Struct)
        columns = nullable
    if state is None:
        if not open_table.store.log.capabilities.refuses_taken_names:
            probe_store(open_table.store).require_safe()
    else:
        _require_same_properties(open_table, state, options)
    job = _planned(open_table, columns, options, overwrite)
    with _in_words_of_spark(_BATCH):
        return job, GlobalCommitter(open_table).replay_of(job, quietly=True) is not None


def commit(
    options: WriteOptions, job: WriteJob, committables: Sequence[Committable], *, lives_on: bool = False
) -> WriteResult | None:
    """One version with the files of every task; None where no task had a row and ``skipEmpty`` is set.

    Waits for a Delta checkpoint that is due, unless this process ``lives_on``: Spark may end it.
    """
    if options.skip_empty and _adds_nothing(job, committables):
        return None
    open_table = process_table(options)
    open_table.state_if_exists()  # another process may have planned the job on a newer version than is known here
    try:
        with _in_words_of_spark(_BATCH):
            return GlobalCommitter(open_table).commit(job, committables)
    finally:
        if not lives_on:
            open_table.post_commit.drain()


def commit_batch(options: StreamOptions, job: WriteJob, committables: Sequence[Committable]) -> WriteResult | None:
    """One version for one micro-batch of a stream; None where it has no row to append.

    Raises as `answer_known`, `commit`.
    """
    assert job.app_id is not None
    assert job.checkpoint_id is not None
    open_table = process_table(options.write)
    known = answer_known(
        open_table, job.app_id, job.checkpoint_id, job.fingerprint, skip_committed=options.skip_committed_batches
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
    open_table: OpenTable, app_id: str, batch_id: int, fingerprint: str | None, *, skip_committed: bool
) -> WriteResult | None:
    """The answer for a micro-batch that is not newer than its stream's last one in the table; None for a new one.

    The last one is Spark's replay after a crash, if it was made from the same input: its commit has the same
    ``fingerprint``. An older one, or other input, means that the stream's checkpoint folder was rewound or replaced
    under a name it had before: other rows under an old number. Raises ``InvalidInputError`` for that, unless
    ``skip_committed`` says that the user wants such batches dropped.
    """
    state = open_table.state_if_exists()
    last = state.transaction_version(app_id) if state else None
    if state is None or last is None or batch_id > last:
        return None
    if batch_id == last:
        try:
            with _in_words_of_spark(_MICRO_BATCH):
                found = open_table.replay_of(state, app_id, batch_id, None if skip_committed else fingerprint)
        except InvalidInputError as error:
            error.message += f": {_OTHER_INPUT}"
            raise
        return WriteResult(found.version if found else None, "already_committed", 0, "")
    if not skip_committed:
        raise InvalidInputError(
            f"micro-batch {batch_id} of stream {app_id!r} comes after its batch {last} was committed: {_OTHER_INPUT}",
            table=open_table.uri,
            version=state.version,
        )
    logger.warning("%s: batch %d of stream %r is dropped as asked", open_table.uri, batch_id, app_id)
    return WriteResult(None, "already_committed", 0, "")


def _adds_nothing(job: WriteJob, committables: Sequence[Committable]) -> bool:
    is_empty = all(committable.is_empty for committable in committables)
    return is_empty and job.intent.is_append and job.new_metadata is None


def confirm_replay(options: WriteOptions, job: WriteJob) -> WriteResult:
    """The end of a write whose tasks were told that the table holds it already, and so wrote nothing."""
    with _in_words_of_spark(_BATCH):
        result = GlobalCommitter(process_table(options)).replay_of(job)
    if result is None:
        raise InvalidInputError(
            f"when this write was planned the table held txnVersion {job.checkpoint_id} of txnAppId {job.app_id!r}, and"
            " now it does not: it was restored or created again meanwhile. Nothing was written; run the write again",
            table=job.plan.table,
        )
    return result


_BATCH = {
    r"\bcheckpoint (\d+) of (?=['\"])": r"txnVersion \1 of txnAppId ",
    r"\bapp_id\b": "txnAppId",
    r"\bcheckpoint_id\b": "txnVersion",
    r"\(fingerprint\b": "(txnFingerprint",
}
_MICRO_BATCH = {r"\bcheckpoint (\d+) of (?=['\"])": r"micro-batch \1 of stream ", r"\bapp_id\b": "txnAppId"}


@contextlib.contextmanager
def _in_words_of_spark(words: Mapping[str, str]) -> Iterator[None]:
    """What the user set is called here as the user called it: Python's names are replaced in what is raised."""
    try:
        yield
    except InvalidInputError as error:
        for pattern, word in words.items():
            error.message = re.sub(pattern, word, error.message)
        raise


def _planned(open_table: OpenTable, columns: Struct, options: WriteOptions, overwrite: bool) -> WriteJob:
    app_id, checkpoint_id = options.transaction or (None, None)
    if not overwrite:
        for name, is_given in (("replaceWhere", options.replace_where), ("overwriteSchema", options.overwrite_schema)):
            if is_given:
                raise InvalidInputError(f"option {name} is of overwrites: use .mode('overwrite'), or leave it out")
    partition_by = options.partition_by
    if overwrite and options.overwrite_schema:
        partition_by = partition_by or ()  # as Spark's Delta: a write that names no partitioning ends that of the table
    asked = write_planning.WriteOptions(
        mode="overwrite" if overwrite else "append",
        where=options.replace_where,
        schema_mode="overwrite" if options.overwrite_schema else "merge" if options.merge_schema else "strict",
        app_id=app_id,
        checkpoint_id=checkpoint_id,
        fingerprint=options.fingerprint,
        isolation=options.isolation.value if options.isolation else None,
        create=True,
        partition_by=partition_by,
        properties=options.properties,
        target_file_size_bytes=options.target_file_size_bytes,
        max_records_per_file=options.max_records_per_file,
        compression=options.compression,
    )
    try:
        return write_planning.plan_write(open_table, to_arrow(columns), asked)
    except SchemaMismatchError as error:
        error.message = error.message.replace('schema_mode="merge"', "the option mergeSchema=true")
        raise


def _require_same_properties(open_table: OpenTable, state: TableState, options: WriteOptions) -> None:
    """Properties are set when a table is created; on one that exists they may only state what it has."""
    have = state.metadata.configuration
    differing = [f"{key}={value}" for key, value in options.properties.items() if have.get(key) != value]
    if differing:
        raise InvalidInputError(
            f"a write does not change the properties of a table that exists ({', '.join(differing)}): "
            "use txlog.Table.open(path).set_properties({...}), or leave the options out",
            table=open_table.uri,
            version=state.version,
        )
