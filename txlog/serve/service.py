"""The service behind the doors: tables by name, their intakes, the journal, and what bounds them all.

In: batches with their terms, from any door. Out: answers. A door checks who asks (`access`) and turns requests into
batches; nothing here knows about Flight or HTTP.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
import pyarrow as pa

import txlog
from txlog.errors import (
    InvalidInputError,
    SchemaMismatchError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.extend.catalogs import RetryPolicy, logger
from txlog.serve.batches import Answer, Batch, StoppingError, Terms, TooLargeError
from txlog.serve.checks import QUARANTINE, RowChecks, contents_of, quarantined
from txlog.serve.counts import Counts, Number, Room, Tick, to_text
from txlog.serve.intake import Intake, Pace
from txlog.serve.journal import Journal

COLUMNS_MAX = 10_000
"""Each column of a batch takes some kilobytes, whatever is in it."""
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RECOVERY_WAIT_S = 86_400.0
"""How long a start waits while the rows of a large journal are committed."""


class Limits(msgspec.Struct, frozen=True):
    """What bounds a service.

    Args:
        batch_bytes: The largest batch, as it comes and as rows in memory.
        waiting_bytes: The rows that may wait in memory, of all tables together.
        wait_s: How long a client waits for room before it is told to come back.
        commit_s: How long a commit keeps trying if the store does not answer.
        connections: The clients that are served at a time, at each door.
    """

    batch_bytes: int = 64 << 20
    waiting_bytes: int = 512 << 20
    wait_s: float = 10.0
    commit_s: float = 60.0
    connections: int = 1000


class Lines(msgspec.Struct, frozen=True):
    """Lines of text of which some are no rows: the number of the line of each row, and the reason and the text of each
    other line, by its number. Numbers begin with 0."""

    numbers: Sequence[int]
    refused: Mapping[int, tuple[str, str]]


class _Served(msgspec.Struct, frozen=True):
    intake: Intake
    checks: RowChecks


class Service:
    """Gathers rows for the tables of a folder, a bucket or a catalog, or for one table. Thread-safe.

    Args:
        uri: The catalog's address, or a table's location: the table then goes by the last part of it.
        storage_options: The options of the store, as for `Table.open`.
        pace: How rows are gathered.
        limits: What bounds it.
        journal: The journal, which the service closes; None: no answer comes before the commit.
        on_tick: Called after each commit.

    Raises:
        InvalidInputError: The address cannot be used.
    """

    def __init__(
        self,
        uri: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        pace: Pace | None = None,
        limits: Limits | None = None,
        journal: Journal | None = None,
        on_tick: Callable[[Tick], None] | None = None,
    ) -> None:
        self.pace, self.limits = pace or Pace(), limits or Limits()
        self.counts = Counts()
        self.room = Room(self.limits.waiting_bytes, self.limits.wait_s)
        self.journal = journal
        self._on_tick = on_tick
        self._options = storage_options
        self._retry = RetryPolicy(total_timeout=self.limits.commit_s)
        self._lock = threading.Lock()
        self._served: dict[str, _Served] = {}
        self._names: dict[str, str] = {}  # the name that each location was first served by: there are other spellings
        self._is_closing = False
        self._only: tuple[str, txlog.Table] | None = None
        self._catalog: txlog.Catalog | None = None
        try:
            table = txlog.Table.open(uri, storage_options=storage_options, retry=self._retry)
            self._only = uri.rstrip("/").rpartition("/")[2], table
        except (TableNotFoundError, InvalidInputError) as error:
            try:
                self._catalog = txlog.Catalog(uri, storage_options=storage_options)
            except (InvalidInputError, UnsupportedFeatureError):
                raise error from None
        self.uri = self._only[1].uri if self._only is not None else self._catalog.uri if self._catalog else uri

    def recover(self) -> int:
        """Take what an earlier process left in the journal. Called once, before any door opens.

        Returns:
            How many batches it left; those that are in their tables by now are not committed again.

        Raises:
            TxlogError: The journal is damaged, or a table cannot be opened. Nothing is lost.
        """
        count = 0
        for kept, rows in self.journal.left() if self.journal is not None else ():
            batch = Batch(rows, kept.how, kept.stream, kept.number, may_skip=kept.may_skip)
            batch.place = kept.place
            self.room.take(batch.size_bytes, waits=_RECOVERY_WAIT_S)
            self._of(kept.table).intake.take_back(batch)
            count += 1
        return count

    def close(self) -> None:
        """Take no more batches, commit those that wait, and end. What cannot be committed stays in the journal."""
        with self._lock:
            if self._is_closing:
                return
            self._is_closing = True
            served = [*self._served.values()]
        for each in served:
            each.intake.close()
        if self.journal is not None:
            self.journal.close()

    # --- for the doors ------------------------------------------------------------------------------------------

    def put(
        self,
        terms: Terms,
        rows: pa.RecordBatch,
        number: int | None = None,
        *,
        lines: Lines | None = None,
        existing: Mapping[str, pa.Array] | None = None,
        waits: bool = True,
    ) -> Future[Answer]:
        """Take one batch. Waits while there is no room, but not for the commit.

        Args:
            terms: What its client says about it.
            rows: Its rows.
            number: Its number in the stream, from 0; given if the terms name a stream.
            lines: The lines that the rows come from, if some of them are no rows.
            existing: What rows get that are in the table by now, in columns that it gets: by name, one value each.
            waits: Whether to wait for room.

        Returns:
            The answer to come.

        Raises:
            InvalidInputError: The batch is refused; the message names the column, the row and the reason.
            TableNotFoundError: There is no such table.
            BusyError: There is no room, or the service is stopping.
        """
        self.check(terms, number)
        served = self._of(terms.table)
        try:
            rows, bad = self._accepted(served, terms, rows, number, lines, existing)
        except InvalidInputError:
            self.counts.add("batches", served.intake.name, outcome="refused")
            raise
        is_durable = terms.answer == "durable"
        aside = 0 if bad is None else bad.num_rows
        if bad is not None:
            batch = Batch(bad, terms.how, terms.stream, number, may_skip=True)
            intake = self._of(str(terms.quarantine), creates=True).intake
            self._put(intake, batch, is_durable, waits).result()  # before the stream's number says that all is done
        return self._put(served.intake, Batch(rows, terms.how, terms.stream, number, aside), is_durable, waits)

    def position(self, table: str, stream: str) -> tuple[int, int]:
        """A stream's last batch in the table, by its newest version, and its last one that was taken here; -1 for none.

        Raises TableNotFoundError and what opening a table raises.
        """
        intake = self._of(table).intake
        intake.look()
        return intake.position(stream)

    def table(self, name: str) -> txlog.Table:
        """The table of a name. Raises TableNotFoundError and what opening a table raises."""
        return self._of(name).intake.table

    def tables(self) -> list[str]:
        """The names of all tables."""
        return (
            [self._only[0]] if self._only is not None else self._catalog.tables() if self._catalog is not None else []
        )

    def health(self, *, in_full: bool = True) -> dict[str, Any]:
        """What an operator needs to know: whether batches are taken, and for each table what waits and what failed. If
        not ``in_full``, only the status, which anybody may know."""
        with self._lock:
            served, is_closing = dict(self._served), self._is_closing
        tables: dict[str, dict[str, Any]] = {}
        for name, each in sorted(served.items()):
            batches, size_bytes, age_s = each.intake.waiting
            error = each.intake.last_error
            tables[name] = {"waiting_batches": batches, "waiting_bytes": size_bytes, "oldest_s": round(age_s, 3)}
            tables[name] |= {} if error is None else {"error": error.kind}
        failing = any("error" in each for each in tables.values())
        status = "stopping" if is_closing else "failing" if failing else "ok"
        if not in_full:
            return {"status": status}
        refused = [] if self.journal is None else self.journal.refused()
        return {
            "status": status,
            "tables": tables,
            "waiting_bytes": self.room.used_bytes,
            "refused_files": len(refused),
        }

    def numbers(self) -> Iterator[Number]:
        """All numbers: what was counted, and what waits now."""
        yield from self.counts.numbers()
        with self._lock:
            served = sorted(self._served.items())
        for name, each in served:
            batches, size_bytes, _ = each.intake.waiting
            yield Number("waiting_batches", {"table": name}, batches)
            yield Number("waiting_bytes", {"table": name}, size_bytes)

    def metrics(self) -> str:
        """All numbers, in the text format of Prometheus."""
        return to_text(self.numbers())

    # --- inside -------------------------------------------------------------------------------------------------

    def _put(self, intake: Intake, batch: Batch, is_durable: bool, waits: bool) -> Future[Answer]:
        self.room.take(batch.size_bytes, waits=waits)
        try:
            return intake.put(batch, is_durable=is_durable)
        except TxlogError:
            self.room.give_back(batch.size_bytes)
            raise

    def check(self, terms: Terms, number: int | None) -> None:
        """Raises InvalidInputError for terms that this service cannot keep, and for a number without a stream."""
        if (terms.stream is None) != (number is None):
            raise InvalidInputError(
                "a stream numbers its batches from 0: give both the stream and the batch's number, or neither"
            )
        if number is not None and not 0 <= number < 1 << 62:
            raise InvalidInputError(f"a batch's number is 0 or more, not {number}")
        if terms.answer == "durable" and self.journal is None:
            raise InvalidInputError(
                "this service has no journal, so it cannot answer before the commit: start it with --journal FOLDER, or"
                " leave answer=durable out"
            )

    def _accepted(
        self,
        served: _Served,
        terms: Terms,
        rows: pa.RecordBatch,
        number: int | None,
        lines: Lines | None,
        existing: Mapping[str, pa.Array] | None,
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows to commit, and those for the other table."""
        if rows.nbytes > self.limits.batch_bytes:
            raise TooLargeError(
                f"the batch has {rows.nbytes:,} bytes, and the service takes {self.limits.batch_bytes:,}: send several"
            )
        if rows.num_columns > COLUMNS_MAX:
            raise TooLargeError(f"the batch has {rows.num_columns:,} columns, and the service takes {COLUMNS_MAX:,}")
        try:
            rows.validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError) as error:  # a name may be no text
            raise InvalidInputError(f"the Arrow data is damaged: {error}") from None
        merges: Mapping[str, pa.Array] | None = existing or {} if terms.schema_mode == "merge" else None
        if terms.quarantine is None:
            return served.checks.taken(rows, terms.how, merges, tries=terms.answer == "durable"), None
        refused: dict[int, str] = {}
        try:
            taken = served.checks.taken(rows, terms.how, merges)
        except InvalidInputError as error:
            if isinstance(error, SchemaMismatchError):
                raise
            good, refused = served.checks.parted(rows)
            taken = served.checks.taken(good, terms.how)
        reasons = {row if lines is None else lines.numbers[row]: why for row, why in refused.items()}
        contents = contents_of(rows, [*refused])
        if lines is not None:
            reasons |= {line: why for line, (why, _) in lines.refused.items()}
            contents += [content for _, content in lines.refused.values()]
        if not reasons:
            return taken, None
        return taken, quarantined(terms.table, terms.stream, number, reasons, contents)

    def _of(self, name: str, *, creates: bool = False) -> _Served:
        """The intake of a table, which begins when it is first asked for."""
        found = self._served.get(name)
        if found is not None:
            return found
        table = self._opened(name, creates=creates)
        with self._lock:
            if self._is_closing:
                raise StoppingError("the service is stopping: send the batch to another one, or later")
            name = self._names.setdefault(table.uri, name)
            found = self._served.get(name)
            if found is None:
                intake = Intake(name, table, self.pace, self.room, self.counts, self.journal, self._on_tick)
                found = self._served[name] = _Served(intake, RowChecks(table))
                logger.info("%s is served as %s", table.uri, name)
            return found

    def _opened(self, name: str, *, creates: bool) -> txlog.Table:
        if self._only is not None:
            if name != self._only[0]:
                raise TableNotFoundError(f"this service has one table, {self._only[0]!r}, and not {name!r}")
            return self._only[1]
        assert self._catalog is not None
        if creates:
            return self._catalog.create(name, QUARANTINE, exist_ok=True, retry=self._retry)
        base, at, branch = name.partition("@")
        if at and not _BRANCH.fullmatch(branch):  # which could lead out of the catalog, or to the table itself
            raise TableNotFoundError(f"there is no table {name!r}: a branch has a name, as in {base}@nightly")
        try:
            table = self._catalog.table(base, retry=self._retry)
            if not at:
                return table
            return txlog.Table.open(f"{table.uri}@{branch}", storage_options=self._options, retry=self._retry)
        except TableNotFoundError:  # which says where the service's folder is
            hint = f": a name without a schema is of the schema default, default.{base}" if "." not in base else ""
            raise TableNotFoundError(f"there is no table {name!r}{hint}") from None
