"""What properties mean for the log: how long a state may be trusted, what a checkpoint keeps, and when one is due.

In: the table's properties, the time now, a state and the size of its last checkpoint. Out: a bound in seconds, the rows
to keep, yes or no. Entries expire only when a checkpoint is written. Commits stay, and a state knows every application
that the log still names: the retention is a minimum, and recognizing a replay for longer does no harm.
PROTOCOL.md, "Action Reconciliation", "Transaction Identifiers", "Checkpoints".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from txlog.core.format.actions import SetTransaction
from txlog.core.format.properties import TableProperties
from txlog.core.versions.decisions.state import TableState


def trusted_s(properties: TableProperties, most_s: float) -> float:
    """How long an answer of the log may be trusted, at most ``most_s``: a quarter of ``delta.logRetentionDuration``.

    A version that was absent when the log was read may have been committed since, and cleaned up once the retention is
    over. A put at such a version would succeed, but no reader would see it.
    """
    return min(most_s, properties.log_retention_ms / 4000)


def retained_tombstones(tombstones: pa.Table, properties: TableProperties, *, now_ms: int) -> pa.Table:
    """The tombstones of files removed less than ``delta.deletedFileRetentionDuration`` ago; one without a time
    counts as expired."""
    from txlog.core.format.arrow.compute import pc

    cutoff_ms = now_ms - properties.deleted_file_retention_ms
    return tombstones.filter(pc.fill_null(pc.greater(tombstones["deletionTimestamp"], cutoff_ms), False))


def retained_transactions(
    transactions: Iterable[SetTransaction], properties: TableProperties, *, now_ms: int
) -> list[SetTransaction]:
    """All of them. If ``delta.setTransactionRetentionDuration`` is set, only those updated within it, as in Spark."""
    retention_ms = properties.set_transaction_retention_ms
    if retention_ms is None:
        return list(transactions)
    cutoff_ms = now_ms - retention_ms
    return [txn for txn in transactions if txn.last_updated is not None and txn.last_updated > cutoff_ms]


# --- when the next checkpoint is due -------------------------------------------------------------------------------


_COMMITS_MIN = 10
_TAIL_BYTES_MIN = 64 << 20
_SHARE = 2


class ReadingCost(msgspec.Struct, frozen=True):
    """Reading costs, as checkpoint bytes that take as long: of each commit besides its own bytes, and of the smallest
    checkpoint."""

    commit_bytes: int
    checkpoint_bytes_min: int


BY_REQUEST = ReadingCost(256 * 1024, 1)
"""Reading a file is a request to a store."""
BY_FILE = ReadingCost(8 * 1024, 100 * _SHARE * 8 * 1024)
"""On a local disk a commit is opened and parsed in less than a tenth of a millisecond, and writing a checkpoint
takes as long as a dozen appends, so one follows a hundred of them."""


def checkpoint_is_due(
    state: TableState, *, checkpoint_size_bytes: int, reading: ReadingCost = BY_REQUEST, is_first: bool = False
) -> bool:
    """Whether to write a checkpoint at ``state``; ``checkpoint_size_bytes`` is the size of the last one, 0 if there is
    none. ``is_first`` states that this is the first commit of its writer.

    If ``delta.checkpointInterval`` is set, it decides. Otherwise a checkpoint is due after at least ten commits, or 64
    MiB of them, such as the first one of a clone, as soon as reading them costs half as much as reading the last
    checkpoint. So checkpoint writing stays a fixed share of the committed bytes.

    Among many writers, the one whose version is a multiple of the interval writes the checkpoint. If it does not, the
    next writer that starts does with its first commit, and any writer once twice as many commits have gathered.
    """
    gathered, interval = _gathered(state, checkpoint_size_bytes, reading)
    return gathered >= 2 or (gathered >= 1 and (is_first or state.version % interval == 0))


def checkpoint_is_overdue(state: TableState, *, checkpoint_size_bytes: int, reading: ReadingCost = BY_REQUEST) -> bool:
    """Whether so many commits have gathered that each writer must have ended before it could write the checkpoint."""
    return _gathered(state, checkpoint_size_bytes, reading)[0] >= 3


def _gathered(state: TableState, checkpoint_size_bytes: int, reading: ReadingCost) -> tuple[float, int]:
    """How many intervals of commits follow the last checkpoint, and the interval in commits."""
    segment, interval = state.segment, state.properties.checkpoint_interval
    commits = state.version - (segment.checkpoint.version if segment.checkpoint else 0)
    if interval is not None:
        return commits / interval, interval
    checkpoint_cost = max(checkpoint_size_bytes, reading.checkpoint_bytes_min)
    tail_cost = commits * reading.commit_bytes + segment.tail_bytes
    enough = max(commits / _COMMITS_MIN, segment.tail_bytes / _TAIL_BYTES_MIN)
    gathered = min(enough, tail_cost * _SHARE / checkpoint_cost)
    return gathered, max(_COMMITS_MIN, checkpoint_cost // (reading.commit_bytes * _SHARE))
