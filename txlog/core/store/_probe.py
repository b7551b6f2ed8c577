"""Probes whether a store refuses to create an existing object. Every guarantee of txlog relies on that.

Some S3-compatible servers accept a conditional PUT and ignore the condition. On such a server two writers would
silently overwrite each other's commits. In: a table's stores. Out: a `ProbeReport`, or UnsupportedFeatureError.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from txlog.core import ambient
from txlog.core.parallel import Threads, can_start_threads
from txlog.core.store._base import LogStore, PutOutcome, last_answer
from txlog.core.store._local_store import LocalLogStore
from txlog.core.store._table_store import TableStore
from txlog.core.store._versions import Attempt, VersionLog
from txlog.errors import NotFoundError, StorageError, TxlogError, UnsupportedFeatureError

_RACERS = 16
_FIRST_PUTS = 3
_LANDED = (PutOutcome.WRITTEN, PutOutcome.NOT_DURABLE)


class ProbeReport(msgspec.Struct, frozen=True):
    """What a probe observed.

    Args:
        uri: The table that the probe ran next to.
        racers: The number of threads that raced to create one key.
        winners: How many of them the store told that they had created it.
        round_trip_s: The median time of a put, in seconds.
        problems: What the store or the catalog does wrong; empty for a store that two writers can share.
        notes: What could not be looked at, and what to look for.
    """

    uri: str
    racers: int
    winners: int
    round_trip_s: float
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        """Whether two writers can share the store."""
        return not self.problems

    def require_safe(self) -> None:
        """Return if the store is safe for two writers.

        Raises:
            UnsupportedFeatureError: The store is not safe. The message names every problem.
        """
        if self.problems:
            raise UnsupportedFeatureError(
                f"this store lets two writers overwrite each other's commits: {'; '.join(self.problems)}. No table can "
                "be written here safely: upgrade the server, or use one with conditional writes (If-None-Match).",
                table=self.uri,
                features=("conditional put",),
            )


def probe_store(
    store: TableStore | str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> ProbeReport:
    """Find out whether two writers can share a store: whether it refuses to create an existing object.

    The probe creates one key three times and lets 16 threads race to create another one, both next to the table's log.
    It then removes both keys and, on a local disk, the folders it made for them.

    Args:
        store: The URI of a table, which need not exist, or its stores.
        storage_options: Credentials and settings for a URI, as for ``Table.open``.

    Returns:
        A report that names every problem. Its ``require_safe()`` raises if there is one.

    Raises:
        StorageError: The store cannot be written to at all.
    """
    if not isinstance(store, TableStore):
        from txlog.core.store._open import open_store

        store = open_store(store, storage_options)
    name = f"_txlog_probe_{ambient.uuid4()}"
    try:
        problems = _create_again(store, f"{name}.again")
        winners, race_problems = _race(store.log, f"{name}.race")
    finally:
        for suffix in ("again", "race"):
            # Readers ignore a leftover probe, and the result matters more.
            with contextlib.suppress(TxlogError):
                store.log.delete(f"{name}.{suffix}")
        if isinstance(store.log, LocalLogStore):
            store.log.remove_new_directories()
    return ProbeReport(
        uri=store.uri,
        racers=_RACERS,
        winners=winners,
        round_trip_s=store.log.round_trip_s(),
        problems=(*problems, *race_problems),
    )


def probe_newest_commit(versions: VersionLog, newest: Attempt) -> bool:
    """Put the newest commit's own bytes as its own version: harmless even if the store ignores the condition.

    Returns True if the store refused the put, as it must, and False if the answer was lost. Raises
    UnsupportedFeatureError if the store accepted the put, and StorageError if it did not permit puts.
    """
    outcome, name = versions.put(newest), versions.name_of(newest.version)
    if outcome in _LANDED:
        raise UnsupportedFeatureError(
            f"this store accepted {name} a second time, so it would let two writers overwrite each other's commits "
            "(the same bytes were sent, so nothing was harmed; if the table was deleted meanwhile, delete this file "
            "too). Upgrade the server, or use one with conditional writes (If-None-Match).",
            path=name,
            features=("conditional put",),
        )
    return outcome is PutOutcome.ALREADY_EXISTS


def _create_again(store: TableStore, name: str) -> list[str]:
    last_answer.words = ""
    for puts in range(1, _FIRST_PUTS + 1):  # a busy store refuses some, or its answer is lost
        first = store.log.put_if_absent(name, b"first")
        if first not in (PutOutcome.UNKNOWN, PutOutcome.BLOCKED) or _exists(store.log, name):
            break
        ambient.sleep(0.1 * puts)
    else:
        said = f"; the store's last answer: {last_answer.words}" if last_answer.words else ""
        raise StorageError(f"the store could not be probed: {_FIRST_PUTS} puts did not land{said}", table=store.uri)
    if first is PutOutcome.ALREADY_EXISTS and puts == 1:  # else an earlier put may have landed late
        return ["it reports that a never used name already exists"]
    problems = []
    for body in (b"second", b"third"):
        if store.log.put_if_absent(name, body) in _LANDED:
            problems.append(f"it accepted a {body.decode()} create of the same name")
    if store.log.read(name) != b"first":
        problems.append("a create replaced an existing object")
    return problems


def _race(log: LogStore, name: str) -> tuple[int, list[str]]:
    bodies = [f"racer {number}".encode() for number in range(_RACERS)]
    start = threading.Barrier(_RACERS)

    def run(body: bytes) -> PutOutcome:
        with contextlib.suppress(threading.BrokenBarrierError):
            start.wait()
        return log.put_if_absent(name, body)

    if not can_start_threads():
        start.abort()  # at the end of the interpreter, one put follows the other
    with Threads(_RACERS) as workers:
        racers = [workers.submit(run, body) for body in bodies]
        outcomes = [racer.result() for racer in racers]
    landed = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome in _LANDED]
    unanswered = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome is PutOutcome.UNKNOWN]
    winners = len(landed)
    if winners > 1:
        return winners, [f"{winners} of {_RACERS} concurrent writers were told that they had created the same name"]
    if not _exists(log, name):
        return winners, ["a race left nothing behind"] if winners else []
    if log.read(name) not in (landed or unanswered):
        return winners, ["a race left bytes behind that are not the winner's"]
    return winners, []


def _exists(log: LogStore, name: str) -> bool:
    try:
        log.stat(name)
    except NotFoundError:
        return False
    return True
