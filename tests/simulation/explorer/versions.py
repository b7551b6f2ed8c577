"""The state of a story's table at each version, replayed from the raw JSON of its commits, and the writers' attempts.

In: the bytes of a commit and the state before it. Out: a `State`, or `InvariantBroken` if the commit breaks a rule by
itself. This module does not use ``txlog.core.versions.decisions``, so the `Ledger` of ``invariants`` can compare txlog
with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

__all__ = [
    "Attempt",
    "InvariantBroken",
    "State",
    "Version",
    "parsed_commit",
    "replayed",
    "require_distinct",
    "vector_of",
]


class InvariantBroken(AssertionError):
    """A promise was broken: ``invariant`` names the promise, ``detail`` says what was observed."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class Attempt(msgspec.Struct):
    """One logical transaction: what it declared, and the answer that it got.

    Attributes:
        key: The prefix of all its ``txnId``s.
        actor: The actor's name.
        read_version: The version that it read; taken from its commit if the program cannot know it.
        reads: The partitions that it read; None in the set means the whole table.
        read_files: The paths of the files that it read.
        is_blind: Whether it is a blind append; None until it is committed if that depends on other actors.
        changes_data: Whether it changes rows.
        changes_definition: Whether it changes the table's definition.
        makes: Its operation on rows, if the story is about rows.
        effect: Its operation, if that is more than a function of the rows before: `HoldsBack` or `InSequence`.
        is_serializable: Whether it asks for serializable isolation.
        app: Its application and checkpoint id, if any.
        answer: "open" (after a crash, forever), "committed", "refused" (a definite failure), "unknown", or "nothing to
            do" (no commit was necessary).
        error: The error that it got, if any.
        result: The ``WriteResult`` that it got, if any.
    """

    key: str
    actor: str
    read_version: int | None = None
    reads: set[str | None] = msgspec.field(default_factory=set)
    read_files: set[str] = msgspec.field(default_factory=set)
    is_blind: bool | None = True
    changes_data: bool = True
    changes_definition: bool = False
    makes: Callable[[list[Any]], list[Any]] | None = None
    effect: Any = None
    is_serializable: bool = False
    app: tuple[str, int] | None = None
    answer: str = "open"
    error: BaseException | None = None
    result: Any = None


class State(msgspec.Struct, frozen=True):
    """The replay of all commits up to a version. ``row_ids`` are the first and the last row id of each file that has
    been live, by path; ``timestamp_ms`` is -1 if there is none.

    Everything else is JSON: ``live`` by path, ``transactions`` by application, ``domains`` by name.
    """

    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)
    protocol: Mapping[str, Any] = msgspec.field(default_factory=dict)
    live: Mapping[str, Any] = msgspec.field(default_factory=dict)
    transactions: Mapping[str, Any] = msgspec.field(default_factory=dict)
    domains: Mapping[str, Any] = msgspec.field(default_factory=dict)
    row_ids: Mapping[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    timestamp_ms: int = -1


class Version(msgspec.Struct, frozen=True):
    """One commit as it became visible, with the transactions in it, known ones as attempts. ``is_foreign`` is true if
    txlog did not write it."""

    body: bytes
    modified_ms: int
    txn_ids: tuple[str, ...]
    actions: tuple[dict[str, Any], ...]
    attempts: tuple[Attempt, ...]
    is_foreign: bool = False

    @property
    def is_blind(self) -> bool:
        """What its program declared; for a commit without one program (a recovery), what the commit itself says."""
        if self.attempts:
            return all(attempt.is_blind for attempt in self.attempts)
        return any(action.get("commitInfo", {}).get("isBlindAppend", False) for action in self.actions)


def parsed_commit(version: int, body: bytes) -> tuple[dict[str, Any], ...]:
    """Parse the lines of a commit.

    Raises:
        InvariantBroken: The commit is torn, empty, or has fewer lines than it declares.
    """
    try:
        actions = tuple(orjson.loads(line) for line in body.splitlines())
    except orjson.JSONDecodeError as error:
        raise InvariantBroken("visible commits are complete", f"v{version} does not parse: {error}") from None
    declared = actions[0].get("commitInfo", {}).get("txlog", {}).get("actions") if actions else 0
    if not actions or declared not in (None, len(actions)):
        raise InvariantBroken("visible commits are complete", f"v{version} has {len(actions)} of {declared} lines")
    return actions


def replayed(version: int, entry: Version, before: State | None) -> State:
    """Apply a commit to the state before it.

    Args:
        version: The commit's version.
        entry: The commit.
        before: The state at the version before; None for version 0.

    Raises:
        InvariantBroken: The commit contradicts the state before it.
    """
    before = before or State()
    live, transactions, domains = dict(before.live), dict(before.transactions), dict(before.domains)
    metadata, protocol = before.metadata, before.protocol
    row_ids, timestamp_ms = before.row_ids, before.timestamp_ms
    for action in entry.actions:
        if "remove" in action:
            removed, was_live = action["remove"], live.pop(action["remove"]["path"], None)
            if was_live is None or vector_of(was_live) != vector_of(removed):
                raise InvariantBroken(
                    "only live files are removed", f"v{version} removes {removed['path']} {vector_of(removed)}"
                )
    for action in entry.actions:
        if "add" in action:
            there = live.get(action["add"]["path"])
            if there is not None and not _is_renumbered(there, action["add"]):
                raise InvariantBroken("a file is added once", f"v{version} adds {action['add']['path']} again")
            live[action["add"]["path"]] = action["add"]
            row_ids = _with_row_ids(version, action["add"], row_ids)
        elif "txn" in action:
            transactions[action["txn"]["appId"]] = action["txn"]
        elif "domainMetadata" in action:
            domains[action["domainMetadata"]["domain"]] = action["domainMetadata"]
        elif "metaData" in action:
            metadata = action["metaData"]
        elif "protocol" in action:
            protocol = action["protocol"]
        elif "inCommitTimestamp" in action.get("commitInfo", ()):
            own_ms = action["commitInfo"]["inCommitTimestamp"]
            if own_ms <= timestamp_ms:
                raise InvariantBroken("in-commit timestamps ascend", f"v{version} has {own_ms} after {timestamp_ms}")
            timestamp_ms = own_ms
    left = {name: domain for name, domain in domains.items() if not domain["removed"]}
    if row_ids is not before.row_ids:
        _check_mark(version, left, before.domains, row_ids)
    return State(metadata, protocol, live, transactions, left, row_ids, timestamp_ms)


def vector_of(file: Mapping[str, Any]) -> tuple[str, int] | None:
    """The deletion vector of an ``add`` or ``remove``, identified by its file and offset; None if it has none."""
    vector = file.get("deletionVector")
    return (vector["pathOrInlineDv"], vector.get("offset", 0)) if vector else None


def _is_renumbered(before: Mapping[str, Any], add: Mapping[str, Any]) -> bool:
    """Whether the log only says of the same rows that they are of another version: that of the table that took over the
    file of a branch."""
    of_row_ids = ("defaultRowCommitVersion", "dataChange")
    return {**before, **dict.fromkeys(of_row_ids)} == {**add, **dict.fromkeys(of_row_ids)} and "baseRowId" in add


def _with_row_ids(
    version: int, add: dict[str, Any], row_ids: Mapping[str, tuple[int, int]]
) -> Mapping[str, tuple[int, int]]:
    """The row ids that files have, with those of a file that is added: no other file has had one of them."""
    path, first = add["path"], add.get("baseRowId")
    if first is None:
        return row_ids
    own = first, first + orjson.loads(add["stats"])["numRecords"] - 1
    known = row_ids.get(path)
    if known is not None and known != own:
        raise InvariantBroken("a row keeps its id", f"v{version} gives {path} {own}, and it had {known}")
    require_distinct({**row_ids, path: own}, f"v{version}")
    return row_ids if known is not None else {**row_ids, path: own}


def require_distinct(row_ids: Mapping[str, tuple[int, int]], where: str) -> None:
    """Raises InvariantBroken if two files have the same row id."""
    ordered = sorted((ids, path) for path, ids in row_ids.items())
    for (before, one), (after, other) in itertools.pairwise(ordered):
        if after[0] <= before[1]:
            raise InvariantBroken("a row id is given once", f"{where} has {after} for {other}, and {before} for {one}")


def _check_mark(
    version: int, domains: Mapping[str, Any], before: Mapping[str, Any], row_ids: Mapping[str, tuple[int, int]]
) -> None:
    """The high-water mark of row ids is at or above all that were given, and does not go back."""
    mark, last = (
        orjson.loads(each["delta.rowTracking"]["configuration"])["rowIdHighWaterMark"]
        if "delta.rowTracking" in each
        else -1
        for each in (domains, before)
    )
    if mark < max(last, *(ids[1] for ids in row_ids.values())):
        raise InvariantBroken("a row id is given once", f"v{version} has the mark {mark}, after {last} and {row_ids}")
