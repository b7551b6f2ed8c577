"""One commit for the waiting batches of a table: their rows as one version, with where each stream stands by then.

In: batches that do the same to the table, in order. Out: what became of each. The numbers of streams are application
transactions of the same version as the rows (PROTOCOL.md, "Transaction Identifiers"), so a batch lands once, whichever
service commits it, and if two do at the same time, one of them loses and looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

import txlog
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConflictError,
    InvalidInputError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.serve.batches import Answer, Batch, StreamOrderError, application_of

_CONFLICTS_MAX = 50
"""Lost races to other services for the same streams, in one commit, after which the batches are refused for now."""


class Landing:
    """Commits batches to one table.

    Args:
        table: The table.
        journal: The application under which the journal's places are in the table's log; None without a journal.
        streams_max: How many streams a table may have that does not let them expire.
        settled: Called with batches and the answer to each, or the error.
    """

    def __init__(
        self,
        table: txlog.Table,
        journal: str | None,
        streams_max: int,
        settled: Callable[[Sequence[tuple[Batch, Answer | TxlogError]]], None],
    ) -> None:
        self._table = table
        self._journal = journal
        self._streams_max = streams_max
        self._settled = settled
        self._counted: tuple[txlog.Snapshot, int] | None = None  # the streams of a version
        self.snapshot = table.snapshot()
        """A version of the table, not older than the commit before the last one."""

    def land(self, batches: Sequence[Batch]) -> None:
        """Commit the batches, and settle each that landed or can never land.

        Raises:
            TxlogError: The store failed. What was not settled did not land, unless it is a
                ``CommitStateUnknownError``: this may be tried again, and lands what has a stream or a place once.
        """
        last: TxlogError | None = None
        is_fresh = False  # at first, on the version that is known: nobody else may have written since
        for _ in range(_CONFLICTS_MAX):
            batches = [each for each in batches if not each.is_settled]
            try:
                if self._is_done(batches, is_fresh):
                    return None
            except ConflictError as error:  # another service has moved a stream, or changed rows with these keys
                last = error
            except CommitStateUnknownError as error:
                if self._table.resolve(error.txn_id, error.version):
                    return self._settle(batches, error.version)
                last = error
            except (InvalidInputError, UnsupportedFeatureError) as error:
                if is_fresh and len(batches) == 1:
                    return self._settled([(batches[0], error)])
                if is_fresh:
                    middle = len(batches) // 2  # the others are not refused for it
                    self.land(batches[:middle])
                    return self.land(batches[middle:])
            is_fresh = True
        raise last or CommitRetriesExhaustedError("other services land the same batches all the time")

    def _settle(self, batches: Sequence[Batch], version: int | None) -> None:
        self._settled([(each, Answer("committed", version, each.rows.num_rows, each.quarantined)) for each in batches])

    def _is_done(self, batches: Sequence[Batch], is_fresh: bool) -> bool:
        """Commit the batches that the table lacks. False if that needs a look at the newest version first."""
        with self._table.transaction(refresh=is_fresh) as txn:
            self.snapshot = txn.snapshot
            fresh, streams, place, others = self._sorted(batches)
            if not is_fresh and any(isinstance(outcome, TxlogError) for _, outcome in others):
                return False
            self._settled(others)
            if not fresh:
                return True
            rows = _joined(fresh)
            how = fresh[0].how
            if how.empties:
                txn.delete(all=True)
            if how.mode == "append":
                txn.append(rows)
            elif rows.num_rows or not how.empties:
                kind, sequence = how.row_kind, how.sequence_by
                txn.upsert(rows, how.keys, row_kind=kind, sequence_by=sequence, on_duplicate="last")
            for stream, number in streams.items():
                txn.set_transaction(application_of(stream), number)
            if place is not None and self._journal is not None:
                txn.set_transaction(self._journal, place)
        if txn.result.outcome == "already_committed":  # another service has all of these streams, but not the rest
            return False
        self._settle(fresh, txn.result.version)
        return True

    def _sorted(
        self, batches: Sequence[Batch]
    ) -> tuple[list[Batch], dict[str, int], int | None, list[tuple[Batch, Answer | TxlogError]]]:
        """The batches that the table lacks, where their streams stand after them, and the last place in the journal;
        and what becomes of the others: the table has them, or they do not follow what it has."""
        fresh: list[Batch] = []
        others: list[tuple[Batch, Answer | TxlogError]] = []
        streams: dict[str, int] = {}
        kept = None if self._journal is None else self.snapshot.transaction_version(self._journal)
        place: int | None = None
        for each in batches:
            stands_at = None
            if each.stream is not None:
                stands_at = streams.get(each.stream, self.position(each.stream))
            outcome = self._outcome(each, stands_at, kept, len(streams))
            if outcome is not None:
                others.append((each, outcome))
                continue
            if each.stream is not None and each.number is not None:
                streams[each.stream] = each.number
            place = each.place if each.place is not None else place
            fresh.append(each)
        return fresh, streams, place, others

    def _outcome(
        self, batch: Batch, stands_at: int | None, kept: int | None, more_streams: int
    ) -> Answer | TxlogError | None:
        """What becomes of a batch whose stream stands at a number, without a commit; None if it is to be committed."""
        if batch.place is not None and kept is not None and batch.place <= kept:
            return Answer("already_committed", rows=batch.rows.num_rows)
        if batch.stream is None or batch.number is None or stands_at is None:
            return None
        if batch.number <= stands_at:
            return Answer("already_committed", rows=batch.rows.num_rows)
        if batch.number != stands_at + 1 and not batch.may_skip:
            return out_of_order(self._table.uri, batch.stream, batch.number, stands_at)
        return self._too_many(more_streams) if stands_at < 0 else None

    def position(self, stream: str) -> int:
        """The stream's last batch in the snapshot; -1 if there is none."""
        found = self.snapshot.transaction_version(application_of(stream))
        return -1 if found is None else found

    def _too_many(self, more: int) -> InvalidInputError | None:
        """Each stream is a record in every checkpoint of the table, so their number needs a bound."""
        if "delta.setTransactionRetentionDuration" in self.snapshot.properties:
            return None
        if self._counted is None or self._counted[0] is not self.snapshot:
            prefix = application_of("")
            self._counted = self.snapshot, sum(name.startswith(prefix) for name in self.snapshot.transactions)
        known = self._counted[1] + more
        if known < self._streams_max:
            return None
        return InvalidInputError(
            f"the table has {known:,} streams, and keeps a record of each for good, so no new one is taken. Use a"
            " stream again, or let the table forget those that are idle: set_properties("
            '{"delta.setTransactionRetentionDuration": "interval 30 days"})',
            table=self._table.uri,
        )


def out_of_order(table: str, stream: str, number: int, stands_at: int) -> StreamOrderError:
    """The error for a batch that does not follow the stream's last one."""
    where = f"stands at batch {stands_at}" if stands_at >= 0 else "has no batch in the table"
    error = StreamOrderError(
        f"batch {number} of stream {stream!r} came, but the stream {where}: send batch {stands_at + 1}. If a service"
        " answered for the batches between, they are in its journal, and come when it runs again",
        table=table,
    )
    error.expected = stands_at + 1
    return error


def _joined(batches: Sequence[Batch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0].rows
    return pa.concat_batches([each.rows for each in batches])
