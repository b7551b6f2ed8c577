"""What may be sealed and recovered, decided over plain values."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from staging_contract import committable, sealed

import txlog
from txlog.core.format.properties import TableProperties
from txlog.core.sink._recovery import (
    Recovery,
    attempts_to_seal,
    files_must_be_since_ms,
    seal_difference,
    sealed_before,
    stale,
)
from txlog.core.sink._staging import StagedCheckpoint
from txlog.core.writing.write_intent import OVERWRITE
from txlog.result import WriteResult

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def staged(checkpoint_id: int, attempts: Any = (), *, is_sealed: bool = False, at_ms: int = 0) -> StagedCheckpoint:
    return StagedCheckpoint("app", checkpoint_id, is_sealed, dict(attempts), at_ms, 1, ())


@pytest.mark.parametrize(
    ("attempts", "tasks", "chosen"),
    [
        ({}, [], {}),
        ({0: (0,), 1: (0, 2), 2: (2,)}, [0, 2], {0: 0, 2: 2}),
        ({0: (0,), 1: (0, 2)}, {1: 2}, {1: 2}),
        ({0: (0,), 1: (0, 2)}, {0: 0, 1: 0}, {0: 0, 1: 0}),
        ({2**63 - 1: (10,)}, [2**63 - 1], {2**63 - 1: 10}),
    ],
)
def test_each_expected_task_is_sealed_from_one_attempt(attempts: Any, tasks: Any, chosen: dict[int, int]) -> None:
    assert attempts_to_seal(staged(1, attempts), tasks) == chosen


@pytest.mark.parametrize(
    ("attempts", "tasks", "named"),
    [
        ({}, [0], "1 of 1"),
        ({0: (0,)}, [0, 1, 2], r"2 of 3 are missing \(1, 2\)"),
        ({0: (0,)}, {0: 1}, r"0 \(attempt 1\)"),
        ({0: (0,), 1: (0, 2)}, [0, 1], "task 1: 0, 2"),
        ({0: (0,)}, [0, 0], "twice"),
        ({0: (0,)}, ["0"], "whole number"),
        ({0: (0,)}, {0: "0"}, "whole number"),
        ({0: (0,)}, [True], "whole number"),
    ],
)
def test_the_error_names_each_task_without_exactly_one_staged_attempt(attempts: Any, tasks: Any, named: str) -> None:
    with pytest.raises(txlog.InvalidInputError, match=named):
        attempts_to_seal(staged(1, attempts), tasks)


def test_a_seal_without_tasks_is_valid_if_nothing_is_staged() -> None:
    assert attempts_to_seal(None, []) == {}
    with pytest.raises(txlog.InvalidInputError, match="1 of 1"):
        attempts_to_seal(None, [3])


OURS = sealed(committable(task_id=0), committable(task_id=1), fingerprint="0-10")


@pytest.mark.parametrize(
    ("theirs", "reported"),
    [
        (OURS, None),
        (sealed(committable(task_id=0), committable(task_id=1), fingerprint="0-12"), "'0-12' there, '0-10' here"),
        (sealed(committable(task_id=0), committable(task_id=1)), "None there"),
        (sealed(committable(task_id=0), fingerprint="0-10"), "with task 0, not tasks 0, 1"),
        (sealed(committable(task_id=0), committable(task_id=1, attempt=1), fingerprint="0-10"), "attempts of task 1"),
        (replace(OURS, table_id="another"), "table another"),
        (replace(OURS, intent=OVERWRITE), "to overwrite, not to append"),
        (replace(OURS, app_id="another"), "'another'"),
    ],
)
def test_the_difference_between_two_seals_is_described(theirs: Any, reported: str | None) -> None:
    found = seal_difference(OURS, theirs)
    assert (found is None) if reported is None else (found is not None and reported in found)


def test_earlier_sealed_checkpoints_must_be_committed_first() -> None:
    listed = [staged(1, is_sealed=True), staged(2), staged(3, is_sealed=True), staged(4, is_sealed=True)]
    assert sealed_before(listed, 4) == [listed[0], listed[2]]
    assert sealed_before(listed, 1) == []


def test_unsealed_checkpoints_that_the_application_has_passed_are_stale() -> None:
    listed = [staged(0), staged(1, is_sealed=True), staged(2), staged(3)]
    assert stale(listed, 2) == [listed[0], listed[2]]
    assert stale(listed, None) == []


NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("properties", "arguments", "age_ms"),
    [
        ({}, {}, 84 * HOUR_MS),
        ({"delta.deletedFileRetentionDuration": "interval 1 hour"}, {}, HOUR_MS // 2),
        ({"delta.deletedFileRetentionDuration": "interval 1 hour"}, {"at_least_ms": HOUR_MS}, HOUR_MS),
        ({"delta.deletedFileRetentionDuration": "interval 0 hours"}, {}, 0),
        ({"delta.setTransactionRetentionDuration": "interval 1 days"}, {}, DAY_MS),
        ({"delta.setTransactionRetentionDuration": "interval 90 days"}, {}, 84 * HOUR_MS),
    ],
)
def test_a_file_may_be_committed_for_half_of_the_vacuum_retention(properties: Any, arguments: Any, age_ms: int) -> None:
    found = files_must_be_since_ms(TableProperties.of(properties), [], NOW_MS, **arguments)
    assert found == NOW_MS - age_ms


def test_a_clock_behind_the_stores_does_not_make_a_file_look_young() -> None:
    listed = [staged(1, at_ms=NOW_MS + 3 * DAY_MS), staged(2, at_ms=NOW_MS)]
    assert files_must_be_since_ms(TableProperties.of({}), listed, NOW_MS) == NOW_MS + 3 * DAY_MS - 84 * HOUR_MS


def test_a_recovery_reads_as_a_sentence() -> None:
    results = {1: WriteResult(4, "already_committed", 0, "a"), 2: WriteResult(5, "committed", 1, "b")}
    found = Recovery({**results, 3: WriteResult(6, "committed", 1, "c")}, {7: {0: (0,), 2: (1, 2)}})
    assert str(found) == "Recovery(already committed: 1; committed: 2, 3; partial: 7 (staged by tasks 0, 2))"
    assert str(Recovery()) == "Recovery(nothing was left)"
