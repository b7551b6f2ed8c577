"""The commits of a table as facts: what each did, and all of them as a timeline.

In: history entries as txlog, Spark or deltalake wrote them, oldest first. Out: `CommitFacts`, each a few hundred bytes
however large the entry is; a `Timeline` with at most `BINS_MAX` bins however many commits there are. Pure.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from txlog.core.format.properties import DAY_MS
from txlog.core.operations import history_row
from txlog.result import moment

Kind: TypeAlias = Literal["rows added", "rows changed", "files rewritten", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)

BINS_MAX = 120
_LINES_SHOWN = 15
_GROUPS_SHOWN = 8
_NOTES_OF_A_BIN = 3
_TEXT_MAX = 160
_NAME_MAX = 60
_STEPS_MS = (
    *(
        10,
        20,
        50,
        100,
        200,
        500,
        1_000,
        2_000,
        5_000,
        10_000,
        15_000,
        30_000,
        60_000,
        120_000,
        300_000,
        600_000,
        900_000,
        1_800_000,
    ),
    *(DAY_MS // 24, DAY_MS // 12, DAY_MS // 8, DAY_MS // 4, DAY_MS // 2, DAY_MS, 2 * DAY_MS, 7 * DAY_MS),
)

_ADD = frozenset(("WRITE", "STREAMING UPDATE", "ADD FILES", "COPY INTO"))
_CHANGE = frozenset(("DELETE", "UPDATE", "UPSERT", "MERGE", "TRUNCATE", "RESTORE", "REPLACE TABLE AS SELECT"))
_REWRITE = frozenset(("OPTIMIZE", "REORG", "AUTO COMPACT"))


class CommitFacts(msgspec.Struct, frozen=True):
    """One commit. ``appends`` is how many appends of callers it holds. ``lost`` counts versions that other writers took
    while it was tried, ``waited_ms`` the time until its turn; both are 0 if its writer did not record them."""

    version: int
    timestamp_ms: int
    kind: Kind
    operation: str
    writer: str
    appends: int
    lost: int
    waited_ms: int
    note: str


class CommitLine(msgspec.Struct, frozen=True):
    """One commit in words, in the columns of `HISTORY_COLUMNS`, and how many races it lost."""

    cells: tuple[str, ...]
    lost: int
    waited_ms: int


class TimeBin(msgspec.Struct, frozen=True):
    """The commits from ``from_ms`` up to, but not including, ``to_ms``; ``kinds`` counts them in `KINDS`' order."""

    from_ms: int
    to_ms: int
    kinds: tuple[int, ...]
    operations: tuple[tuple[str, int], ...]
    writers: tuple[tuple[str, int], ...]
    lost: int
    notes: tuple[str, ...]


class Tally(msgspec.Struct, frozen=True):
    """The commits of one writer or one operation."""

    name: str
    commits: int
    lost: int
    last_ms: int


class Timeline(msgspec.Struct, frozen=True):
    """The commits that the log still has, or the newest ones that were asked for.

    ``races`` is how many commits lost at least one race, ``lost`` how many versions they lost together; ``waits_ms`` is
    the median and the 99th percentile of what these waited, None if no commit recorded a wait.
    """

    commits: int
    appends: int
    first_version: int
    last_version: int
    from_ms: int
    to_ms: int
    step_ms: int
    bins: tuple[TimeBin, ...]
    writers: tuple[Tally, ...]
    operations: tuple[Tally, ...]
    races: int
    lost: int
    waits_ms: tuple[int, int] | None
    newest: tuple[CommitLine, ...]


def commit_facts(version: int, timestamp_ms: int, info: Mapping[str, Any]) -> CommitFacts:
    """The facts of one commit; ``info`` is its ``commitInfo``, which any writer may have filled with anything."""
    own = info.get("txlog")
    own = own if isinstance(own, Mapping) else {}
    joined = own.get("joined")
    lost_to = own.get("lostTo")
    operation = str(info.get("operation") or "unknown")
    return CommitFacts(
        version,
        timestamp_ms,
        _kind(operation, info.get("operationParameters")),
        sys.intern(shortened(operation, _NAME_MAX)),
        sys.intern(shortened(str(info.get("engineInfo") or "unknown"), _NAME_MAX)),
        max(1, len(joined)) if isinstance(joined, list) else 1,
        sum(map(_count, lost_to.values())) if isinstance(lost_to, Mapping) else 0,
        _count(own.get("waitedMs")),
        shortened(str(info.get("userMetadata") or ""), _TEXT_MAX),
    )


def commit_line(version: int, timestamp_ms: int, info: Mapping[str, Any]) -> CommitLine:
    """The same commit in words."""
    facts = commit_facts(version, timestamp_ms, info)
    row = history_row({**info, "version": version, "timestamp": moment(timestamp_ms)})
    return CommitLine(tuple(shortened(cell, _TEXT_MAX) for cell in row), facts.lost, facts.waited_ms)


def timeline_of(commits: Sequence[CommitFacts], newest: Iterable[CommitLine] = ()) -> Timeline | None:
    """The timeline of ``commits``, oldest first; None if there are none. ``newest`` are lines to show, oldest first."""
    if not commits:
        return None
    times = [each.timestamp_ms for each in commits]
    first_ms, last_ms = min(times), max(times)
    step_ms = _step(last_ms - first_ms, len(commits))
    binned: dict[int, list[CommitFacts]] = {}
    for each in commits:
        binned.setdefault(each.timestamp_ms // step_ms, []).append(each)
    waits = sorted(each.waited_ms for each in commits if each.lost)
    return Timeline(
        commits=len(commits),
        appends=sum(each.appends for each in commits),
        first_version=commits[0].version,
        last_version=commits[-1].version,
        from_ms=first_ms // step_ms * step_ms,
        to_ms=(last_ms // step_ms + 1) * step_ms,
        step_ms=step_ms,
        bins=tuple(_bin(number * step_ms, step_ms, found) for number, found in sorted(binned.items())),
        writers=_tallies(commits, lambda each: each.writer),
        operations=_tallies(commits, lambda each: each.operation),
        races=len(waits),
        lost=sum(each.lost for each in commits),
        waits_ms=(_share(waits, 0.5), _share(waits, 0.99)) if waits else None,
        newest=(*newest,)[-_LINES_SHOWN:][::-1],
    )


def shortened(text: str, most: int = _TEXT_MAX) -> str:
    """One line of at most ``most`` characters."""
    one_line = " ".join(text[: 4 * most].split())
    return one_line if len(one_line) <= most and len(text) <= 4 * most else f"{one_line[: most - 1]}…"


def _kind(operation: str, parameters: Any) -> Kind:
    name = operation.upper().partition(" (")[0]
    if name in _ADD or name.startswith("CREATE TABLE AS"):
        mode = parameters.get("mode") if isinstance(parameters, Mapping) else None
        return "rows changed" if str(mode).strip('"').lower() == "overwrite" else "rows added"
    if name in _CHANGE:
        return "rows changed"
    return "files rewritten" if name in _REWRITE else "other"


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**53 else 0


def _step(span_ms: int, commits: int) -> int:
    """The width of a bin: at most `BINS_MAX` of them, and fewer for few commits, so that bars stay visible."""
    bins = min(BINS_MAX, max(24, 4 * commits)) - 1
    step_ms = next((step for step in _STEPS_MS if span_ms <= step * bins), None)
    return step_ms or -(-span_ms // (bins * _STEPS_MS[-1])) * _STEPS_MS[-1]


def _bin(from_ms: int, step_ms: int, commits: Sequence[CommitFacts]) -> TimeBin:
    kinds = Counter(each.kind for each in commits)
    notes = dict.fromkeys(each.note for each in reversed(commits) if each.note)
    return TimeBin(
        from_ms,
        from_ms + step_ms,
        tuple(kinds[kind] for kind in KINDS),
        tuple(Counter(each.operation for each in commits).most_common(_GROUPS_SHOWN)),
        tuple(Counter(each.writer for each in commits).most_common(_GROUPS_SHOWN)),
        sum(each.lost for each in commits),
        (*notes,)[:_NOTES_OF_A_BIN],
    )


def _tallies(commits: Sequence[CommitFacts], key: Callable[[CommitFacts], str]) -> tuple[Tally, ...]:
    groups: dict[str, list[CommitFacts]] = {}
    for each in commits:
        groups.setdefault(key(each), []).append(each)
    found = sorted(groups.items(), key=lambda item: -len(item[1]))
    shown, rest = found[:_GROUPS_SHOWN], found[_GROUPS_SHOWN:]
    if rest:
        shown.append((f"{len(rest):,} others", [each for _, commits in rest for each in commits]))
    return tuple(
        Tally(name, len(of), sum(each.lost for each in of), max(each.timestamp_ms for each in of)) for name, of in shown
    )


def _share(ascending: Sequence[int], share: float) -> int:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
