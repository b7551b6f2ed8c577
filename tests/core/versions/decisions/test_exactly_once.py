"""Whether a checkpoint of an application is in the table already, judged before its commit."""

from __future__ import annotations

import pytest

from txlog.core.format.actions import CommitInfo, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.exactly_once import (
    AlreadyCommitted,
    FingerprintMismatch,
    Fresh,
    Rewound,
    Unproven,
    check_replay,
)
from txlog.core.wording import in_python, spelled


def commit(version: int, checkpoint_id: int, *, app_id: str = "orders", fingerprint: str | None = None) -> Commit:
    own = {"actions": 2} | ({} if fingerprint is None else {"fingerprint": fingerprint})
    return Commit(version, (SetTransaction(app_id, checkpoint_id, 1),), CommitInfo({"txlog": own}), 1)


RETAINED = [commit(10, 5), commit(11, 6), commit(12, 99, app_id="clicks"), commit(13, 7)]


@pytest.mark.parametrize(
    ("checkpoint_id", "last", "retained", "answer"),
    [
        (0, None, (), Fresh()),
        (8, 7, (), Fresh()),
        (8, 7, RETAINED, Fresh()),
        (7, 7, RETAINED, AlreadyCommitted(13)),
        (7, 7, (), AlreadyCommitted(None)),
        (6, 7, RETAINED, AlreadyCommitted(11)),
        (5, 7, RETAINED, AlreadyCommitted(10)),
        (4, 7, RETAINED, Rewound("orders", 4, 7)),
        (6, 7, (), Rewound("orders", 6, 7)),
        (99, 100, RETAINED, Rewound("orders", 99, 100)),
    ],
)
def test_check_replay_tells_new_checkpoints_from_replays(
    checkpoint_id: int, last: int | None, retained: list[Commit], answer: object
) -> None:
    last_transaction = None if last is None else SetTransaction("orders", last, 1)
    assert check_replay("orders", checkpoint_id, None, last_transaction, retained) == answer


@pytest.mark.parametrize(("ours", "theirs"), [("o1", "o1"), ("o1", None), (None, "o1")])
def test_fingerprints_matter_only_where_both_are_known(ours: str | None, theirs: str | None) -> None:
    retained = [commit(13, 7, fingerprint=theirs)]
    assert check_replay("orders", 7, ours, SetTransaction("orders", 7, 1), retained) == AlreadyCommitted(13)


@pytest.mark.parametrize("checkpoint_id", [6, 7])
def test_the_same_checkpoint_made_from_other_input_is_detected(checkpoint_id: int) -> None:
    retained = [commit(12, 6, fingerprint="o1"), commit(13, 7, fingerprint="o1")]
    answer = check_replay("orders", checkpoint_id, "o2", SetTransaction("orders", 7, 1), retained)
    assert answer == FingerprintMismatch("orders", checkpoint_id, checkpoint_id + 6, "o2", "o1")
    assert isinstance(answer, FingerprintMismatch)
    assert "one id stands for different rows" in answer.message


def test_the_last_checkpoint_is_not_taken_for_a_replay_if_nothing_confirms_its_fingerprint() -> None:
    last = SetTransaction("orders", 7, 1)
    assert check_replay("orders", 7, "o1", last, RETAINED[:3]) == Unproven("orders", 7, "o1")
    assert check_replay("orders", 6, "o1", last, ()) == Rewound("orders", 6, 7)
    assert check_replay("orders", 8, "o1", last, ()) == Fresh()
    reported = spelled(Unproven("orders", 7, "o1").message, in_python)
    assert reported.startswith("checkpoint 7 of 'orders' is the last one committed, but its commit was cleaned up")
    assert "without fingerprint" in reported
    assert "new app_id" in reported


def test_a_checkpoint_from_before_a_deliberate_reset_proves_nothing() -> None:
    retained = [commit(10, 5), commit(11, 7), commit(12, 3), commit(13, 6)]
    last = SetTransaction("orders", 6, 1)
    assert check_replay("orders", 5, None, last, retained) == Rewound("orders", 5, 6)
    assert check_replay("orders", 3, None, last, retained) == AlreadyCommitted(12)
    assert check_replay("orders", 7, None, last, retained) == Fresh()


def test_the_first_checkpoint_behind_a_deliberate_reset_proves_nothing_either() -> None:
    retained = [commit(10, 5), commit(11, 3), commit(12, 6)]
    assert check_replay("orders", 5, None, SetTransaction("orders", 6, 1), retained) == Rewound("orders", 5, 6)


def test_a_checkpoint_that_another_writer_committed_twice_is_no_reset() -> None:
    retained = [commit(10, 5), commit(11, 6), commit(12, 6)]
    assert check_replay("orders", 5, None, SetTransaction("orders", 6, 1), retained) == AlreadyCommitted(10)


def test_a_rewound_checkpoint_says_what_to_do() -> None:
    reported = spelled(Rewound("orders", 4, 7).message, in_python)
    assert "checkpoint 4" in reported
    assert "7" in reported
    assert "new app_id" in reported
