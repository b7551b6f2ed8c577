"""`write_once`: what is there after a conditional put, whatever the store answers."""

from __future__ import annotations

from typing import Any

import pytest

from txlog.core.store._base import LogStore, PutOutcome
from txlog.core.store._retry import RetryPolicy
from txlog.core.store._write_once import write_once
from txlog.errors import NotFoundError, StorageError
from txlog.testing.faults import FaultyLogStore


def lost_before_landing(real: Any, name: str, body: bytes) -> PutOutcome:
    return PutOutcome.UNKNOWN


def lost_after_landing(real: Any, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    return PutOutcome.UNKNOWN


def taken_by_nobody(real: Any, name: str, body: bytes) -> PutOutcome:
    """As S3 answers 409 to two puts at once."""
    return PutOutcome.ALREADY_EXISTS


def visible_only(real: Any, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    return PutOutcome.NOT_DURABLE


@pytest.mark.parametrize("answer", [None, lost_after_landing, lost_before_landing, taken_by_nobody])
def test_the_bytes_are_there_whatever_happens_to_the_first_answer(
    scripted_log: FaultyLogStore, clock: Any, answer: Any
) -> None:
    scripted_log.script["put_if_absent"] = [answer]
    assert write_once(scripted_log, "a", b"mine") == b"mine"
    assert scripted_log.read("a") == b"mine"


def test_the_bytes_of_whoever_was_first_stay_and_are_returned(scripted_log: FaultyLogStore, clock: Any) -> None:
    scripted_log.put("a", b"theirs")
    assert write_once(scripted_log, "a", b"mine") == b"theirs"
    scripted_log.script["put_if_absent"] = [lost_before_landing]
    assert write_once(scripted_log, "a", b"mine") == b"theirs"


@pytest.mark.parametrize("answer", [lost_after_landing, None])
def test_what_is_found_by_reading_is_made_durable(scripted_log: FaultyLogStore, clock: Any, answer: Any) -> None:
    if answer is None:
        scripted_log.put("a", b"theirs")
    scripted_log.script["put_if_absent"] = [answer]
    scripted_log.calls.clear()
    write_once(scripted_log, "a", b"mine")
    assert scripted_log.names("make_durable") == ["a"]


def test_what_is_visible_and_not_durable_is_an_error_and_is_not_synced_a_second_time(
    scripted_log: FaultyLogStore, clock: Any
) -> None:
    scripted_log.script["put_if_absent"] = [visible_only]
    with pytest.raises(StorageError, match="a is visible, but could not be synced to disk"):
        write_once(scripted_log, "a", b"mine")
    assert scripted_log.names("make_durable") == []
    assert scripted_log.names("put_if_absent") == ["a"]


def test_a_store_without_a_definite_answer_is_an_error_when_the_policy_ends(
    scripted_log: FaultyLogStore, clock: Any
) -> None:
    scripted_log.script["put_if_absent"] = [lost_before_landing] * 100
    with pytest.raises(StorageError, match="no definite answer to 3 puts"):
        write_once(scripted_log, "a", b"mine")
    with pytest.raises(StorageError, match="no definite answer"):
        write_once(scripted_log, "a", b"mine", RetryPolicy(total_timeout=2))
    assert sum(clock.slept_s) <= 2 + 1 + 1


def test_an_object_that_is_deleted_before_it_is_synced_is_written_again(
    scripted_log: FaultyLogStore, clock: Any
) -> None:
    scripted_log.put("a", b"theirs")

    def deleted(real: Any, name: str) -> None:
        scripted_log.inner.delete(name)
        raise NotFoundError("gone", path=name)

    scripted_log.script["make_durable"] = [deleted]
    assert write_once(scripted_log, "a", b"mine") == b"mine"


def test_a_store_that_refuses_the_put_is_not_asked_again(scripted_log: FaultyLogStore, clock: Any) -> None:
    def refused(real: Any, name: str, body: bytes) -> PutOutcome:
        raise StorageError("no permission", path=name)

    scripted_log.script["put_if_absent"] = [refused]
    log: LogStore = scripted_log
    with pytest.raises(StorageError, match="no permission"):
        write_once(log, "a", b"mine")
    assert scripted_log.names("put_if_absent") == ["a"]
