"""Does this store refuse to create what is there already? Everything txlog promises rests on that.

Some S3-compatible servers take a conditional PUT and ignore the condition; one of them would let two writers
overwrite each other in silence. In: a table's stores. Out: a `ProbeReport`, or the refusal to go on.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from txlog.errors import NotFoundError, StorageError, TxlogError, UnsupportedFeatureError
from txlog.store.base import LogStore, PutOutcome, TableStore
from txlog.store.local import LocalLogStore
from txlog.util import ambient

__all__ = ["ProbeReport", "probe_newest_commit", "probe_store"]

_RACERS = 16
_LANDED = (PutOutcome.WRITTEN, PutOutcome.NOT_DURABLE)


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a probe saw. ``problems`` is empty for a store that two writers can share; the round trip is in seconds."""

    uri: str
    racers: int
    winners: int
    round_trip_s: float
    problems: tuple[str, ...]

    @property
    def is_safe(self) -> bool:
        return not self.problems

    def require_safe(self) -> None:
        """Raise UnsupportedFeatureError, naming every problem, unless the store is safe."""
        if self.problems:
            raise UnsupportedFeatureError(
                f"this store does not keep two writers apart: {'; '.join(self.problems)}. No table can be written "
                "here safely: upgrade the server, or use one with conditional writes (If-None-Match).",
                table=self.uri,
                features=("conditional put",),
            )


def probe_store(
    store: TableStore | str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> ProbeReport:
    """Find out whether two writers can share a store: does it refuse to create what is there already?

    Creates one key three times and lets 16 threads race for another, beside the table's log, then removes both, on a
    disk also the folders that were made for it. ``store`` may be the URI of a table, which need not exist. The report
    names every problem; ``report.require_safe()`` raises them. Raises ``StorageError`` where the store cannot be
    written to at all.
    """
    if not isinstance(store, TableStore):
        from txlog.store.open import open_store

        store = open_store(store, storage_options)
    name = f"_txlog_probe_{ambient.uuid4()}"
    try:
        problems = _create_again(store, f"{name}.again")
        winners, race_problems = _race(store.log, f"{name}.race")
    finally:
        for suffix in ("again", "race"):
            # A probe that stays is ignored by every reader; what was learnt matters more.
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


def probe_newest_commit(log: LogStore, name: str, body: bytes) -> bool:
    """Put the head's own bytes onto the head: harmless even where the condition is ignored.

    True: refused, as it must be. False: the answer was lost, so nothing was learnt. Raises UnsupportedFeatureError
    where the put went through, StorageError where it was not allowed.
    """
    outcome = log.put_if_absent(name, body)
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
    first = store.log.put_if_absent(name, b"first")
    if first is PutOutcome.UNKNOWN and not _exists(store.log, name):
        raise StorageError("the store could not be probed: the answer to a first put was lost", table=store.uri)
    if first is PutOutcome.ALREADY_EXISTS:
        return ["it says that a name that was never used exists already"]
    problems = []
    for body in (b"second", b"third"):
        if store.log.put_if_absent(name, body) in _LANDED:
            problems.append(f"it accepted a {body.decode()} create of the same name")
    if store.log.read(name) != b"first":
        problems.append("a create replaced what was there")
    return problems


def _race(log: LogStore, name: str) -> tuple[int, list[str]]:
    bodies = [f"racer {number}".encode() for number in range(_RACERS)]
    start = threading.Barrier(_RACERS)

    def run(body: bytes) -> PutOutcome:
        start.wait()
        return log.put_if_absent(name, body)

    with ThreadPoolExecutor(_RACERS) as pool:
        racers = [pool.submit(contextvars.copy_context().run, run, body) for body in bodies]
        outcomes = [racer.result() for racer in racers]
    told = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome in _LANDED]
    unanswered = [body for body, outcome in zip(bodies, outcomes, strict=True) if outcome is PutOutcome.UNKNOWN]
    winners = len(told)
    if winners > 1:
        return winners, [f"{winners} of {_RACERS} racers were told that they had created the same name"]
    if not _exists(log, name):
        return winners, ["a race left nothing behind"] if winners else []
    if log.read(name) not in (told or unanswered):
        return winners, ["a race left bytes behind that are not the winner's"]
    return winners, []


def _exists(log: LogStore, name: str) -> bool:
    try:
        log.stat(name)
    except NotFoundError:
        return False
    return True
