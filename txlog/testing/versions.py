"""What a story's table is at each version, folded from the raw JSON of its commits; and what each writer was told.

In: the bytes of a commit and the state before it. Out: a `State`, or `InvariantBroken` where the commit breaks a rule
of its own. Nothing here is computed by ``txlog.log``: the `Ledger` of ``invariants`` holds txlog against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

__all__ = ["Attempt", "InvariantBroken", "State", "Version", "folded", "parsed_commit", "vector_of"]


class InvariantBroken(AssertionError):
    """A promise was not kept. ``invariant`` is which, ``detail`` what was seen."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


@dataclass
class Attempt:
    """One logical transaction: what it declared, and what it was told.

    ``key`` is what all its ``txnId``s begin with. ``answer`` is "open" (also for good, after a crash), "committed",
    "refused" (a definite failure), "unknown", or "nothing to do" where no commit was asked for.
    ``makes`` is what its operation makes of all rows, where a story has rows.
    ``reads`` are partitions, None standing for the whole table. ``read_version`` is what its commit says where the
    program cannot know it. ``is_blind`` is None until it lands where that depends on what others did first.
    """

    key: str
    actor: str
    read_version: int | None = None
    reads: set[str | None] = field(default_factory=set)
    read_files: set[str] = field(default_factory=set)
    is_blind: bool | None = True
    changes_data: bool = True
    changes_definition: bool = False
    makes: Callable[[list[Any]], list[Any]] | None = None
    is_serializable: bool = False
    app: tuple[str, int] | None = None
    answer: str = "open"
    error: BaseException | None = None
    result: Any = None


@dataclass(frozen=True)
class State:
    """One version as the fold of all before it; ``last_row_id`` and ``timestamp_ms`` are -1 where there are none.

    Everything else is as JSON: ``live`` by path, ``transactions`` by application, ``domains`` by name.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    live: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[str, Any] = field(default_factory=dict)
    domains: Mapping[str, Any] = field(default_factory=dict)
    last_row_id: int = -1
    timestamp_ms: int = -1


@dataclass(frozen=True)
class Version:
    """One commit as it became visible. ``is_foreign`` where it does not say that txlog wrote it."""

    body: bytes
    modified_ms: int
    txn_id: str | None
    actions: tuple[dict[str, Any], ...]
    attempt: Attempt | None
    is_foreign: bool = False

    @property
    def is_blind(self) -> bool:
        """As its program declared; where it belongs to none (a recovery has several), as it says itself."""
        if self.attempt is not None:
            return bool(self.attempt.is_blind)
        return any(action.get("commitInfo", {}).get("isBlindAppend", False) for action in self.actions)


def parsed_commit(version: int, body: bytes) -> tuple[dict[str, Any], ...]:
    """The lines of a commit. Raises `InvariantBroken` where it is torn, empty or lacks a line that it declares."""
    try:
        actions = tuple(orjson.loads(line) for line in body.splitlines())
    except orjson.JSONDecodeError as error:
        raise InvariantBroken("visible commits are complete", f"v{version} does not parse: {error}") from None
    declared = actions[0].get("commitInfo", {}).get("txlog", {}).get("actions") if actions else 0
    if not actions or declared not in (None, len(actions)):
        raise InvariantBroken("visible commits are complete", f"v{version} has {len(actions)} of {declared} lines")
    return actions


def folded(version: int, entry: Version, before: State | None) -> State:
    """The state at ``version``. Raises `InvariantBroken` where its commit does not fit on the state ``before`` it."""
    before = before or State()
    live, transactions, domains = dict(before.live), dict(before.transactions), dict(before.domains)
    metadata, protocol = before.metadata, before.protocol
    last_row_id, timestamp_ms = before.last_row_id, before.timestamp_ms
    for action in entry.actions:
        if "remove" in action:
            removed, was_live = action["remove"], live.pop(action["remove"]["path"], None)
            if was_live is None or vector_of(was_live) != vector_of(removed):
                raise InvariantBroken(
                    "only live files are removed", f"v{version} removes {removed['path']} {vector_of(removed)}"
                )
    for action in entry.actions:
        if "add" in action:
            if action["add"]["path"] in live:
                raise InvariantBroken("a file is added once", f"v{version} adds {action['add']['path']} again")
            live[action["add"]["path"]] = action["add"]
            last_row_id = _last_row_id(version, action["add"], last_row_id)
        elif "txn" in action:
            transactions[action["txn"]["appId"]] = action["txn"]
        elif "domainMetadata" in action:
            domains[action["domainMetadata"]["domain"]] = action["domainMetadata"]
        elif "metaData" in action:
            metadata = action["metaData"]
        elif "protocol" in action:
            protocol = action["protocol"]
        elif "inCommitTimestamp" in action.get("commitInfo", ()):
            told_ms = action["commitInfo"]["inCommitTimestamp"]
            if told_ms <= timestamp_ms:
                raise InvariantBroken("in-commit timestamps ascend", f"v{version} has {told_ms} after {timestamp_ms}")
            timestamp_ms = told_ms
    left = {name: domain for name, domain in domains.items() if not domain["removed"]}
    return State(metadata, protocol, live, transactions, left, last_row_id, timestamp_ms)


def vector_of(file: Mapping[str, Any]) -> tuple[str, int] | None:
    """Which vector an ``add`` or a ``remove`` names, by its file and the place in it."""
    vector = file.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset", 0)) if vector else None


def _last_row_id(version: int, add: dict[str, Any], last_row_id: int) -> int:
    first = add.get("baseRowId")
    if first is None:
        return last_row_id
    if first <= last_row_id:
        raise InvariantBroken("a row id is given once", f"v{version} gives {first} again; {last_row_id} was the last")
    last: int = first + orjson.loads(add["stats"])["numRecords"] - 1
    return last
