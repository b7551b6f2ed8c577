"""What the retention settings of a table mean: how long a loaded state may be trusted, and what a checkpoint keeps.

In: the table's properties, and the time now. Out: a bound in seconds, or the rows to keep. Entries expire only when a
checkpoint is written. Commits stay, and a state knows every application that the log still names: the retention is a
minimum, and recognizing a replay for longer does no harm. PROTOCOL.md, "Action Reconciliation", "Transaction
Identifiers".
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from txlog.protocol.actions import SetTransaction
from txlog.protocol.properties import TableProperties

__all__ = ["retained_tombstones", "retained_transactions", "trusted_s"]


def trusted_s(properties: TableProperties, most_s: float) -> float:
    """How long an answer of the log may be trusted, at most ``most_s``: a quarter of ``delta.logRetentionDuration``.

    A version that was absent when the log was read may have been committed since, and cleaned up once the retention is
    over. A put at such a version would succeed, but no reader would see it.
    """
    return min(most_s, properties.log_retention_ms / 4000)


def retained_tombstones(tombstones: pa.Table, properties: TableProperties, *, now_ms: int) -> pa.Table:
    """The tombstones of files removed less than ``delta.deletedFileRetentionDuration`` ago; one without a time
    counts as expired."""
    from txlog.arrow.compute import pc

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
