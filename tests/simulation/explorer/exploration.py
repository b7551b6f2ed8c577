"""The schedule explorer: it runs txlog's own code in every order of its store calls and under every fault.

In: a `Scenario`, which defines the actors and what may go wrong. Out: how many schedules were run (`Report`), or the
first broken promise with the shortest schedule that breaks it and the line that replays it (`Failure`). Each actor runs
the real transaction, committer and sink code in its own greenlet. The explorer provides the store, the clock and the
random numbers, so a schedule is exactly the sequence of answers of `Choices.choose`.

The explorer suspends an actor before every call whose answer, or whose effect on others, depends on the order of the
actors. A read of a name that can no longer change commutes with all other calls, so it is answered at once. An
exhaustive run does not explore a state twice, since what an actor does next depends only on the answers it got. A state
is the log, the histories of all actors, and the faults that may still happen.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from explorer.read_once import reading_once
from explorer.run import Pruned, Run, Scenario, StoryTooLong
from explorer.schedule import Choices, every_schedule, from_line, shortened, to_line
from explorer.versions import InvariantBroken

__all__ = ["Failure", "Report", "explore_all", "explore_random", "replay"]

Make = Callable[[Choices], Scenario]
"""A scenario, or a family of them from which the first choices pick one."""

_SHRINKING_S = 20.0
TOLD_EVERY_S = 60.0
_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000


class Failure(msgspec.Struct, frozen=True):
    """A broken promise. ``line`` replays the shortest schedule found that breaks it."""

    scenario: str
    invariant: str
    detail: str
    line: str
    story: tuple[str, ...]
    seed: str | None = None

    def __str__(self) -> str:
        seed = f"\n  found by seed {self.seed}" if self.seed else ""
        story = "".join(f"\n    {line}" for line in self.story)
        return (
            f"{self.invariant}: {self.detail}\n  scenario {self.scenario}, shortest schedule that breaks it:"
            f"{story}{seed}\n  replay: {self.line}"
        )


class Report(msgspec.Struct):
    """What was explored. ``is_exhaustive`` is true if every schedule was run."""

    scenario: str
    schedules: int = 0
    pruned: int = 0
    steps: int = 0
    faults: int = 0
    crashes: int = 0
    seconds: float = 0.0
    is_exhaustive: bool = False
    failure: Failure | None = None
    outcomes: dict[str, int] = msgspec.field(default_factory=dict)

    def count(self, run: Run) -> None:
        self.steps += run.steps
        self.faults += run.scenario.faults - run.faults_left
        self.crashes += run.scenario.crashes - run.crashes_left
        for attempt in run.ledger.attempts.values():
            self.outcomes[attempt.answer] = self.outcomes.get(attempt.answer, 0) + 1

    def __str__(self) -> str:
        kind = "exhaustive" if self.is_exhaustive else "sampled"
        pruned = f" ({self.pruned:,} more ended in a state that was seen before)" if self.pruned else ""
        rate = (self.schedules + self.pruned) / max(self.seconds, 1e-9)
        return (
            f"{self.scenario}: {kind}, {self.schedules:,} schedules{pruned}, {self.steps:,} steps,"
            f" {self.faults:,} faults, {self.crashes:,} crashes in {self.seconds:.1f} s, {rate:,.0f} schedules/s"
        )


@contextlib.contextmanager
def _with_rare_collections() -> Iterator[None]:
    """Let the garbage collector run once in some stories, and never again look at what was there before.

    Every run leaves cycles of greenlets and sessions, and hardly anything of it lives on.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        with reading_once():
            yield
    finally:
        gc.set_threshold(*before)  # what is frozen stays: the tests froze all that they had loaded


@_with_rare_collections()
def explore_all(name: str, make: Make, *, seconds: float | None = None) -> Report:
    """Run every schedule of a scenario, without those that lead to a state that was seen before.

    Args:
        name: The scenario's name, for the report and for the line that replays a failure.
        make: Makes the scenario.
        seconds: Stop after this time; None means no limit.
    """
    report = Report(name)
    visited: set[int] = set()
    read_before: set[int] = set()
    begin = time.perf_counter()

    def run(choices: Choices) -> None:
        story = Run(make(choices), choices, visited=visited, read_before=read_before)
        try:
            story.run()
        except Pruned:
            report.pruned += 1
        except (InvariantBroken, StoryTooLong) as broken:
            report.failure = _failure(name, make, choices, broken, None)
        else:
            report.schedules += 1
        report.count(story)
        story.let_go()

    for _ in every_schedule(run):
        report.seconds = time.perf_counter() - begin
        if report.failure or (seconds is not None and report.seconds > seconds):
            return report
    report.is_exhaustive = True
    return report


@_with_rare_collections()
def explore_random(
    name: str,
    make: Make,
    *,
    seed: int,
    seconds: float | None = None,
    schedules: int | None = None,
    tell: Callable[[Report], None] | None = None,
) -> Report:
    """Run random schedules. Schedule number n depends only on ``seed`` and n.

    Args:
        name: The scenario's name, for the report and for the line that replays a failure.
        make: Makes the scenario.
        seed: The seed of all schedules.
        seconds: Stop after this time; None means no limit.
        schedules: Stop after this many schedules; None means no limit.
        tell: Called with the report so far, once a minute.
    """
    report = Report(name)
    told_s = 0.0
    read_before: set[int] = set()
    begin = time.perf_counter()
    number = 0
    while (seconds is None or report.seconds < seconds) and (schedules is None or number < schedules):
        choices = Choices.seeded(f"{seed}/{number}")
        story = Run(make(choices), choices, read_before=read_before)
        try:
            story.run()
        except (InvariantBroken, StoryTooLong) as broken:
            report.failure = _failure(name, make, choices, broken, f"{seed}/{number}")
        report.schedules += 1
        report.count(story)
        story.let_go()
        report.seconds = time.perf_counter() - begin
        if report.failure:
            return report
        number += 1
        if tell is not None and report.seconds >= told_s + TOLD_EVERY_S:
            told_s = report.seconds
            tell(report)
    return report


def replay(make: Make, line: str) -> Run:
    """Run one schedule again from its line, and record its story.

    Raises:
        InvariantBroken: The schedule breaks a promise, as it did before.
    """
    choices = Choices(from_line(line.rpartition(":")[2]))
    story = Run(make(choices), choices, keeps_story=True)
    story.run()
    return story


def _failure(name: str, make: Make, choices: Choices, broken: Exception, seed: str | None) -> Failure:
    invariant = getattr(broken, "invariant", "every story ends")
    deadline_s = time.perf_counter() + _SHRINKING_S

    def run(given: Sequence[int]) -> tuple[Run, Exception | None]:
        taken = Choices(given)
        story = Run(make(taken), taken, keeps_story=True)
        try:
            story.run()
        except (InvariantBroken, StoryTooLong) as error:
            return story, error
        return story, None

    def still_fails(given: Sequence[int]) -> bool:
        if time.perf_counter() > deadline_s:
            return False
        error = run(given)[1]
        return error is not None and getattr(error, "invariant", "every story ends") == invariant

    shortest = shortened(choices.taken, still_fails)
    story, error = run(shortest)
    detail = getattr(error, "detail", str(error))
    return Failure(story.scenario.name, invariant, detail, f"{name}:{to_line(shortest)}", tuple(story.story), seed)
