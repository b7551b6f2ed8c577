"""The result that writes return, as data and as one readable line; ``maintenance`` has the other results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import asdict

__all__ = [
    "Outcome",
    "WriteMetrics",
    "WriteResult",
    "counted",
    "human_size",
    "in_milliseconds",
    "moment",
    "sum_if_known",
    "utc_text",
    "whole_size",
    "with_milliseconds",
]

Outcome: TypeAlias = Literal["committed", "already_committed", "empty", "ignored", "dry_run"]


class WriteMetrics(msgspec.Struct, frozen=True):
    """What one write did.

    Attributes:
        rows: Rows written.
        files: Data files added.
        bytes: Total size of the added files, in bytes.
        files_removed: Data files removed from the table.
        lost_races: Commits of other writers that took a version this write tried to commit. The write was then rebased
            on them.
        waited_s: Time spent waiting between attempts, in seconds.
        lost_to: ``lost_races`` by the winners' operations, such as ``{"WRITE": 2, "OPTIMIZE": 1}``.
        rows_inserted: Rows that a row-level change inserted.
        rows_updated: Rows that a row-level change updated.
        rows_deleted: Rows that a row-level change deleted. A file removed as a whole adds nothing if the log does not
            record its row count.
        rows_copied: Rows copied unchanged because their file was rewritten.
        vectors: Deletion vectors written.
        dead_fraction: The largest fraction of a file's rows that one of these deletion vectors marks.
        reexecutions: How often the change reran on a newer version.
        change_files: Change data feed files written.
    """

    rows: int = 0
    files: int = 0
    bytes: int = 0
    files_removed: int = 0
    lost_races: int = 0
    waited_s: float = 0.0
    lost_to: Mapping[str, int] = msgspec.field(default_factory=dict)
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_copied: int = 0
    vectors: int = 0
    dead_fraction: float = 0.0
    reexecutions: int = 0
    change_files: int = 0

    def operation_metrics(self) -> dict[str, str]:
        """``commitInfo.operationMetrics`` of a WRITE, with Spark's names.

        Returns:
            The values by name. Every value is a string.
        """
        metrics = {"numFiles": self.files, "numOutputRows": self.rows, "numOutputBytes": self.bytes}
        if self.files_removed:
            metrics["numRemovedFiles"] = self.files_removed
        return {key: str(value) for key, value in metrics.items()}


class WriteResult(msgspec.Struct, frozen=True):
    """The acknowledgement of a write: it is in the log at ``version``, durably and exactly once.

    Attributes:
        version: The version that holds the write, perhaps with appends of other callers. None if no version was made,
            or if a replay's commit is no longer retained.
        outcome: ``"committed"``; ``"already_committed"`` if the table already holds this ``app_id`` and
            ``checkpoint_id`` (a replay: nothing was written again); ``"empty"`` for a sink's checkpoint without rows,
            which makes no version; ``"ignored"`` if ``txlog.write(mode="ignore")`` found an existing table;
            ``"dry_run"`` if nothing was written: ``metrics`` then say what would change at ``version``.
        attempts: The number of commits sent.
        txn_id: The id of this write: the commit's ``commitInfo.txnId``, or one of those that
            ``commitInfo.txlog.joined`` lists if the version holds several appends.
        metrics: What was written, and how long the write waited.
        notes: What else follows from the write, as sentences: which readers an upgrade of the protocol shuts out,
            which rules of columns a new schema dropped, or, once for each handle, that a change copied many rows.
    """

    version: int | None
    outcome: Outcome
    attempts: int
    txn_id: str
    metrics: WriteMetrics = msgspec.field(default_factory=WriteMetrics)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return {
            "version": self.version,
            "outcome": self.outcome,
            "attempts": self.attempts,
            "txn_id": self.txn_id,
            **asdict(self.metrics),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def __str__(self) -> str:
        parts = [f"version={self.version}", self.outcome.replace("_", " ")]
        did = self.metrics
        if self.outcome == "committed" and not self.attempts:
            parts[1] = "nothing to change"
        elif self.outcome in ("committed", "dry_run"):
            changes = {"inserted": did.rows_inserted, "updated": did.rows_updated, "deleted": did.rows_deleted}
            done = [f"{counted(number, 'row')} {what}" for what, number in changes.items() if number]
            written = did.rows - did.rows_inserted - did.rows_updated
            if not done:
                done = [counted(written, "row")]
            elif written > 0:
                done.insert(0, f"{counted(written, 'row')} written")
            parts += done
        if self.outcome == "dry_run":
            parts.append(f"in {counted(did.files_removed + did.vectors, 'file')}")
        elif self.outcome == "committed" and self.attempts:
            parts += [counted(did.files, "file"), human_size(did.bytes)]
        if self.outcome != "dry_run":
            parts.append(counted(self.attempts, "attempt"))
        return "\n  ".join([f"WriteResult({', '.join(parts)})", *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from txlog.core.util import html_facts

        did = self.metrics
        counts = {"written": did.rows, "inserted": did.rows_inserted, "updated": did.rows_updated}
        counts |= {"deleted": did.rows_deleted, "copied": did.rows_copied}
        rows = [f"{number:,} {what}" for what, number in counts.items() if number]
        removed = f", {did.files_removed:,} removed" if did.files_removed else ""
        vectors = f", {counted(did.vectors, 'deletion vector')}" if did.vectors else ""
        lost = f", {counted(did.lost_races, 'lost race')}, waited {did.waited_s:.3g} s" if did.lost_races else ""
        facts = {
            "version": "none" if self.version is None else str(self.version),
            "rows": ", ".join(rows) or "none",
            "files": f"{did.files:,} added, {human_size(did.bytes)}{removed}{vectors}",
            "commits sent": f"{self.attempts:,}{lost}",
            "transaction": self.txn_id,
            **{f"note {number}": note for number, note in enumerate(self.notes, 1)},
        }
        return html_facts(f"WriteResult: {self.outcome.replace('_', ' ')}", facts)


def counted(number: int, noun: str) -> str:
    """``1 row``, ``336,776 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sum_if_known(counts: Sequence[int | None]) -> int | None:
    """The sum; None if one of the counts is unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def moment(timestamp_ms: int) -> datetime:
    """The time in UTC, of ms since the epoch. One that no ``datetime`` can be is the nearest that can."""
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return (datetime.max if timestamp_ms > 0 else datetime.min).replace(tzinfo=timezone.utc)


def in_milliseconds(time: datetime) -> int:
    """The time in ms since the epoch."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def with_milliseconds(facts: Mapping[str, object]) -> dict[str, object]:
    """Facts for logs and JSON: times in ms since the epoch, under names that say so."""
    return {
        f"{name}_ms" if name in _TIMES else name: in_milliseconds(value) if isinstance(value, datetime) else value
        for name, value in facts.items()
    }


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIMES = {"created", "kept_until", "timestamp", "until"}


def utc_text(timestamp_ms: int) -> str:
    """``2026-11-20 21:00:00`` in UTC, from ms since the epoch; the number itself if it is out of range for a date."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{timestamp_ms} ms"


def human_size(size_bytes: int) -> str:
    """Decimal units with one digit: ``21.4 MB``."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def whole_size(size_bytes: int) -> str:
    """`human_size` of a round number: ``32 MB`` for 32.0 MB."""
    return human_size(size_bytes).replace(".0 ", " ")
