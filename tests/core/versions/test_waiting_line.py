"""Commits that lost races wait in line in the store, and the line moves on whoever crashes in it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from txlog.core import ambient
from txlog.core.versions._waiting_line import PlaceInQueue, WaitingLine
from txlog.errors import StorageError
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryLogStore


class Scripted(ambient.Ambient):
    """A clock that moves by what is slept, and a moment in each sleep for something to happen."""

    def __init__(self) -> None:
        self.slept_s = 0.0
        self.meanwhile: Callable[[], object] = lambda: None

    def monotonic_s(self) -> float:
        return 1_000_000 + self.slept_s

    def now_ms(self) -> int:
        return 1_000_000_000 + int(1000 * self.slept_s)

    def uniform(self, low: float, high: float) -> float:
        return high

    def sleep(self, seconds: float) -> None:
        self.slept_s += max(seconds, 0.001)
        self.meanwhile()


@pytest.fixture
def clock() -> Iterator[Scripted]:
    with ambient.use(Scripted()) as scripted:
        assert isinstance(scripted, Scripted)
        yield scripted


@pytest.fixture
def marks() -> MemoryLogStore:
    return MemoryLogStore()


def handle(marks: object, round_trip_s: float = 0.0) -> WaitingLine:
    """What another process knows of the line."""
    return WaitingLine(marks, lambda: round_trip_s)  # type: ignore[arg-type]


def joined(marks: object, txn_id: str, clock: Scripted) -> PlaceInQueue:
    place = handle(marks).place(txn_id)
    place.join()
    clock.slept_s += 0.01
    return place


def settle() -> None:
    """Wait for the requests that were made in parallel."""
    for thread in threading.enumerate():
        if thread.name == "txlog-line":
            thread.join()


def test_a_commit_joins_the_line_after_two_lost_races(marks: MemoryLogStore, clock: Scripted) -> None:
    place = handle(marks).place("a")
    assert [place.is_needed(lost) for lost in (0, 1, 2, 3)] == [False, False, True, True]


def test_writers_that_came_first_go_first(marks: MemoryLogStore, clock: Scripted) -> None:
    first, second, third = (joined(marks, name, clock) for name in ("c", "b", "a"))
    assert [place.is_behind() for place in (first, second, third)] == [False, True, True]
    second.landed("c")
    third.landed("c")
    assert [place.is_behind() for place in (second, third)] == [False, True]
    third.landed("b")
    assert not third.is_behind()


def test_the_commits_of_others_move_nobody_ahead(marks: MemoryLogStore, clock: Scripted) -> None:
    joined(marks, "a", clock)
    second = joined(marks, "b", clock)
    second.landed("x")
    second.landed(None)
    assert second.is_behind()


def test_two_that_join_at_the_same_moment_never_wait_for_each_other(clock: Scripted) -> None:
    """In every order of their four requests: each puts its mark and looks, in either order."""
    for order in set(itertools.permutations(["put a", "put b", "look a", "look b"])):
        store = MemoryLogStore()
        behind: dict[str, list[str]] = {}
        for step in order:
            action, name = step.split()
            if action == "put":
                store.put(name, b"{}")
                clock.slept_s += 0.01
            else:
                behind[name] = handle(store).place(name)._others_before(store.list_from(""))
        assert behind != {"a": ["b"], "b": ["a"]}, order


def test_a_commit_leaves_no_mark_behind(marks: MemoryLogStore, clock: Scripted) -> None:
    place = joined(marks, "a", clock)
    assert list(marks.objects) == ["a"]
    place.leave()
    settle()
    assert not marks.objects


def test_a_writer_that_crashed_in_line_holds_nobody_up_for_long(marks: MemoryLogStore, clock: Scripted) -> None:
    joined(marks, "dead", clock)
    second, third = joined(marks, "b", clock), joined(marks, "c", clock)
    began_s = clock.slept_s
    while second.is_behind():
        second.pause()
    assert 1.9 < clock.slept_s - began_s < 3
    assert "dead" not in marks.objects
    third._look_again()
    assert third._ahead == ["b"], "the others see that it was passed by"


def test_after_one_that_crashed_the_next_ones_are_passed_by_sooner(marks: MemoryLogStore, clock: Scripted) -> None:
    for number in range(8):
        joined(marks, f"dead-{number}", clock)
    last = joined(marks, "z", clock)
    began_s = clock.slept_s
    while last.is_behind():
        last.pause()
    assert clock.slept_s - began_s < 2.5 + 8 * 0.7


def test_while_the_line_moves_nobody_is_passed_by(marks: MemoryLogStore, clock: Scripted) -> None:
    ahead = [f"{number:02}" for number in range(30)]
    for name in ahead:
        joined(marks, name, clock)
    last = joined(marks, "z", clock)
    for name in ahead:
        until_s = clock.slept_s + 1.5
        while clock.slept_s < until_s:
            last.pause()
            assert last._ahead[0] == name
        last.landed(name)
    assert not last.is_behind()


def test_nobody_waits_for_writers_that_gave_up(marks: MemoryLogStore, clock: Scripted) -> None:
    first, second = joined(marks, "a", clock), joined(marks, "b", clock)
    first.leave()
    settle()
    began_s = clock.slept_s
    while second.is_behind():
        second.pause()
    assert clock.slept_s - began_s < 1


def test_a_mark_that_was_left_long_ago_is_removed(marks: MemoryLogStore, clock: Scripted) -> None:
    joined(marks, "old", clock)
    clock.slept_s += 3600
    joined(marks, "now", clock)
    place = joined(marks, "new", clock)
    assert place._ahead == ["now"]
    assert "old" not in marks.objects


def test_a_handle_that_commits_back_to_back_sees_that_others_wait(marks: MemoryLogStore, clock: Scripted) -> None:
    line = handle(marks)
    line.place("first").leave()
    joined(marks, "waiting", clock)
    busy = line.place("second")
    assert not busy.is_needed(0)
    busy.look_beside()
    settle()
    busy.leave()
    assert line.place("third").is_needed(0)
    clock.slept_s += 10
    assert not line.place("much later").is_needed(0)


@pytest.mark.parametrize(("round_trip_s", "remembers_s"), [(0.01, 2.0), (0.05, 2.0), (0.2, 8.0)])
def test_what_a_handle_saw_of_others_counts_for_longer_on_a_slow_store(
    round_trip_s: float, remembers_s: float, clock: Scripted
) -> None:
    line = handle(MemoryLogStore(), round_trip_s)
    line.saw(["another"])
    clock.slept_s += remembers_s - 0.1
    assert line.place("soon").is_needed(0)
    clock.slept_s += 0.2
    assert not line.place("later").is_needed(0)


def test_a_handle_looks_for_marks_at_most_every_half_second_and_only_back_to_back(clock: Scripted) -> None:
    store = FaultyLogStore(MemoryLogStore())
    line = handle(store)
    line.place("first").look_beside()
    settle()
    assert store.calls == [], "it had committed nothing before"
    for number in range(20):
        clock.slept_s += 0.1
        place = line.place(str(number))
        place.look_beside()
        settle()
        place.leave()
    assert 3 <= len(store.calls) <= 5
    assert {operation for operation, _ in store.calls} == {"list_from"}


def test_a_folder_that_cannot_be_written_costs_one_attempt_a_minute(clock: Scripted) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("no permission")

    store = FaultyLogStore(MemoryLogStore(), lambda call: refuse if call.operation == "put" else None)
    line = handle(store)
    place = line.place("a")
    place.join()
    assert not place.is_behind()
    assert not line.place("b").is_needed(5)
    clock.slept_s += 61
    assert line.place("c").is_needed(5)
