"""When each version was committed, and which version was current at a given time.

In: a table state and a moment. Out: versions and times. A commit's time is its in-commit timestamp if the table still
keeps these, otherwise its file's modification time. As in Spark, file times are adjusted to increase strictly, since
clocks and table copies can put them out of order. PROTOCOL.md, "In-Commit Timestamps", "Recommendations for Readers of
Tables".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from numbers import Number
from types import MappingProxyType
from typing import Any

import msgspec

from txlog.core.format.actions import CommitInfo
from txlog.core.format.commit_file import Commit
from txlog.core.store import TableStore
from txlog.core.util import UTC, invalid, whole_number
from txlog.core.versions.decisions.segment import LogListing
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files._commits import CommitReader
from txlog.core.versions.files._listing import list_log
from txlog.errors import InvalidInputError, NotFoundError

_EPOCH = datetime.fromtimestamp(0, timezone.utc)


class CommitSummary(msgspec.Struct, frozen=True):
    """One line of a table's history."""

    version: int
    timestamp_ms: int
    commit_info: CommitInfo | None


class CommitTimes:
    """Reads the times of one table's commits. Thread-safe: it keeps no state."""

    def __init__(self, store: TableStore, commits: CommitReader) -> None:
        self._store = store
        self._commits = commits

    def of_version(self, version: int, state: TableState) -> int:
        """The time of one commit in ms, as `history` of ``state`` reports it.

        Raises ``NotFoundError``, ``CorruptLogError``.
        """
        own_ms = _in_commit_ms(self._commits.read(version, files=False), state)
        if own_ms is not None:
            return own_ms
        times = self._file_times(self._list(), version)
        return times[version] if version in times else self._commits.versions.stat(version).modified_ms

    def of_commits(
        self, commits: Sequence[Commit], state: TableState, seen: dict[int, int] | None = None
    ) -> dict[int, int]:
        """The times of consecutive commits, in ms by version, as `history` of ``state`` reports them.

        ``seen`` keeps the times of files for the calls of one reader, so that each lists only what is newer.
        """
        found = {each.version: _in_commit_ms(each, state) for each in commits}
        times = {} if seen is None else seen
        if None in found.values() and not found.keys() <= times.keys():
            if times and commits[0].version < max(times):
                times.clear()
            listing = list_log(self._store, max(times) + 1 if times else 0)
            times.update(self._file_times(listing, max(state.version, commits[-1].version), times))
            if not found.keys() <= times.keys():  # a commit between them is not in the log
                times.update(self._file_times(listing, commits[-1].version, times))
        return {version: times[version] if time is None else time for version, time in found.items()}

    def version_at(self, timestamp_ms: int, state: TableState) -> int:
        """The newest version at or before the moment. Raises ``NotFoundError`` if the log starts after it."""
        times, low, high = self._searched(timestamp_ms, state)
        if state.version not in times:
            raise NotFoundError("the log has no commit left to date a version", table=self._store.uri)
        earliest_ms = self._time(low, times, state)
        if timestamp_ms < earliest_ms:
            raise NotFoundError(
                f"{_utc(timestamp_ms)} is earlier than version {low} ({_utc(earliest_ms)}), the oldest that can be"
                " read: use a later time",
                table=self._store.uri,
                version=low,
            )
        return self._newest(timestamp_ms, times, state, low, high)

    def newest_until(self, timestamp_ms: int, state: TableState, listing: LogListing | None = None) -> int | None:
        """The newest readable version at or before the moment (which may be in the future); None if there is none."""
        times, low, high = self._searched(timestamp_ms, state, listing)
        if state.version not in times or self._time(low, times, state) > timestamp_ms:
            return None
        return self._newest(timestamp_ms, times, state, low, high)

    def first_from(self, timestamp_ms: int, state: TableState) -> int:
        """The first readable version at or after the moment; the one after ``state`` if there is none yet.

        Raises ``NotFoundError`` if the log has no times.
        """
        times, low, high = self._searched(timestamp_ms - 1, state)
        if state.version not in times:
            raise NotFoundError("the log has no commit left to date a version", table=self._store.uri)
        if self._time(low, times, state) >= timestamp_ms:
            return low
        return self._newest(timestamp_ms - 1, times, state, low, high) + 1

    def _searched(
        self, timestamp_ms: int, state: TableState, listing: LogListing | None = None
    ) -> tuple[dict[int, int], int, int]:
        """The times of files, and the range of versions to search for the moment.

        In a copied table, times before and after the enablement of in-commit timestamps are not comparable. The time of
        enablement decides which side to search.
        """
        listing = listing or self._list()
        times = self._file_times(listing, state.version)
        low, high = _first_readable(listing, min(times, default=0)), state.version
        properties = state.properties
        since, enabled_ms = (
            properties.in_commit_timestamp_enablement_version,
            properties.in_commit_timestamp_enablement_timestamp,
        )
        if properties.in_commit_timestamps and since is not None and enabled_ms is not None and low < since <= high:
            if timestamp_ms >= enabled_ms:
                low = since
            else:
                high = since - 1
        return times, low, high

    def _newest(self, timestamp_ms: int, times: Mapping[int, int], state: TableState, low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) // 2
            if self._time(middle, times, state) <= timestamp_ms:
                low = middle
            else:
                high = middle - 1
        return low

    def history(self, state: TableState, limit: int | None) -> list[CommitSummary]:
        """The commits still in the log, newest first, at most ``limit`` of them."""
        return [*self.oldest_first(state, limit)[1]][::-1]

    def oldest_first(self, state: TableState, limit: int | None) -> tuple[int, Iterator[CommitSummary]]:
        """How many commits `history` has, and the same commits one after another, oldest first."""
        limit = None if limit is None else whole_number("limit", limit, table=self._store.uri)
        times = self._file_times(self._list(), state.version)
        count = len(times) if limit is None else max(0, min(limit, len(times)))
        commits = self._commits.read_range(state.version - count + 1, state.version, files=False)
        dated = ((commit, _in_commit_ms(commit, state)) for commit in commits)
        summaries = (
            CommitSummary(commit.version, times[commit.version] if own_ms is None else own_ms, commit.commit_info)
            for commit, own_ms in dated
        )
        return count, summaries

    def _time(self, version: int, times: Mapping[int, int], state: TableState) -> int:
        own_ms = _in_commit_ms(self._commits.read(version, files=False), state) if _keeps(version, state) else None
        return times[version] if own_ms is None else own_ms

    def _file_times(
        self, listing: LogListing, last: int, seen: Mapping[int, int] = MappingProxyType({})
    ) -> dict[int, int]:
        """Adjusted modification times of the dense run of commits that ends at ``last``; empty if ``last`` is
        missing. Those of the versions in ``seen`` are known."""
        found: list[int] = []
        version = last
        while version >= 0 and version not in seen:
            file = listing.commits.get(version)
            try:
                # A listing may be incomplete: a missing name is requested directly.
                found.append((file or self._commits.versions.stat(version)).modified_ms)
            except NotFoundError:
                break
            version -= 1
        times = dict(seen)
        for modified_ms in reversed(found):
            version += 1
            times[version] = max(modified_ms, times.get(version - 1, modified_ms - 1) + 1)
        return times

    def _list(self) -> LogListing:
        return list_log(self._store)


def _in_commit_ms(commit: Commit, state: TableState) -> int | None:
    """The commit's in-commit timestamp, if it counts: Spark compares times of files once the table keeps no others."""
    return commit.in_commit_timestamp_ms if _keeps(commit.version, state) else None


def _keeps(version: int, state: TableState) -> bool:
    """Whether in-commit timestamps are the times of this version; a later one than ``state`` tells for itself."""
    properties = state.properties
    return version > state.version or (
        properties.in_commit_timestamps and version >= (properties.in_commit_timestamp_enablement_version or 0)
    )


def milliseconds(timestamp: Any, zone: str) -> int:
    """A ``datetime``, ``date`` (its first moment) or ISO 8601 string as ms since the epoch, by a clock in ``zone``.

    One with a zone has its own. An integer means ms since the epoch. Raises InvalidInputError for anything else, and
    for an integer that must be in seconds, microseconds or nanoseconds.
    """
    from txlog.core.format.scalars import plain

    try:
        timestamp = plain(timestamp)
    except ValueError as error:
        raise invalid("timestamp", timestamp, f"a moment in milliseconds ({error})") from None
    is_day = False
    if isinstance(timestamp, str):
        try:
            # Python 3.10 reads no "Z".
            timestamp = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
        except ValueError:
            raise invalid("timestamp", timestamp, "ISO 8601, such as 2026-11-20T18:30:00Z") from None
    elif isinstance(timestamp, date) and not isinstance(timestamp, datetime):
        is_day = True
        timestamp = datetime(timestamp.year, timestamp.month, timestamp.day)
    elif isinstance(timestamp, Number):
        return _checked_unit(whole_number("timestamp (in ms since the epoch)", timestamp))
    if not isinstance(timestamp, datetime):
        expected = "a datetime, a date, an ISO 8601 string or an integer (ms since the epoch)"
        raise invalid("timestamp", timestamp, expected)
    if timestamp.tzinfo is not None or zone == UTC:
        moment = timestamp.replace(tzinfo=timestamp.tzinfo or timezone.utc)
        return int((moment - _EPOCH) // timedelta(milliseconds=1))
    from txlog.core.format.time_zones import instant

    clock_us = (timestamp.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    return instant(clock_us, zone, starts_days=is_day) // 1000


def _checked_unit(moment_ms: int) -> int:
    """The number itself, unless it is in this century only in another unit: no table is from January 1970."""
    for unit, low, high, advice in (
        ("seconds", 10**9, 10**11, "multiply it by 1000"),
        ("microseconds", 10**14, 10**17, "divide it by 1000"),
        ("nanoseconds", 10**17, 1 << 63, "divide it by 1000000"),
    ):
        if low <= moment_ms < high:
            raise InvalidInputError(
                f"a numeric timestamp is in ms since the epoch, and {moment_ms} would be {_utc(moment_ms)}."
                f" If it is in {unit}, {advice}; or pass a datetime or an ISO 8601 string"
            )
    return moment_ms


def _first_readable(listing: LogListing, first: int) -> int:
    """The first version in the dense run from commit ``first`` whose state can be loaded."""
    if first == 0:
        return 0
    return min((max(c.version, first) for c in listing.checkpoints if c.version >= first - 1), default=first)


def _utc(moment_ms: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
    except OverflowError:
        return f"{moment_ms} ms"
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
