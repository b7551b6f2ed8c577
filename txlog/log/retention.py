"""What the retentions of a table mean: how long what was seen of its log may be trusted, what a checkpoint keeps.

In: the table's properties, and the time now. Out: a bound in seconds, or the rows to keep. Expiry happens in
checkpoints only; commits are not touched, and a state knows every application that the log still tells of: the
retention is the shortest time, and a replay that is recognised for longer is not written twice.
PROTOCOL.md, "Action Reconciliation", "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from txlog.protocol.actions import SetTransaction
from txlog.protocol.properties import TableProperties

__all__ = ["retained_tombstones", "retained_transactions", "trusted_s"]


def trusted_s(properties: TableProperties, most_s: float) -> float:
    """How long an answer of the log may be relied on, ``most_s`` at most: a quarter of ``delta.logRetentionDuration``.

    A version that was absent when the log was asked can have been committed since. It can be absent again, cleaned up,
    only once the retention is over. A put at such a version would succeed and be lost to every reader.
    """
    return min(most_s, properties.log_retention_ms / 4000)


def retained_tombstones(tombstones: pa.Table, properties: TableProperties, *, now_ms: int) -> pa.Table:
    """Those removed less than ``delta.deletedFileRetentionDuration`` ago; one without a time counts as expired."""
    import pyarrow.compute as pc

    cutoff_ms = now_ms - properties.deleted_file_retention_ms
    return tombstones.filter(pc.fill_null(pc.greater(tombstones["deletionTimestamp"], cutoff_ms), False))


def retained_transactions(
    transactions: Iterable[SetTransaction], properties: TableProperties, *, now_ms: int
) -> list[SetTransaction]:
    """All of them, unless ``delta.setTransactionRetentionDuration`` is set: then those updated since, as Spark does."""
    retention_ms = properties.set_transaction_retention_ms
    if retention_ms is None:
        return list(transactions)
    cutoff_ms = now_ms - retention_ms
    return [txn for txn in transactions if txn.last_updated is not None and txn.last_updated > cutoff_ms]
