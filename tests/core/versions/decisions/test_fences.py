"""Fences name transactions that will never land, and what others write into a commit names none by accident."""

from __future__ import annotations

from typing import Any

import pytest

from tests.offered import STATE, append
from txlog.core.format.actions import CommitInfo
from txlog.core.format.commit_file import Commit, parse_commit
from txlog.core.versions.decisions.conflicts import Conflict, Rebase, decide
from txlog.core.versions.decisions.fences import fence, fenced_off
from txlog.core.versions.decisions.proposal import commit_bytes


@pytest.mark.parametrize("ids", [("a",), ("a", "b", "c")])
def test_a_fence_names_transactions_and_does_nothing(ids: tuple[str, ...]) -> None:
    body = commit_bytes(fence(STATE, ids, txn_id="own", now_ms=5), timestamp_ms=5, engine_info="txlog")
    found = parse_commit(body, 8)
    assert (found.actions, found.operation, found.txn_id) == ((), "FENCE", "own")
    assert fenced_off(found) == frozenset(ids)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"operation": "FENCE", "operationParameters": {"txnId": "a"}}, {"a"}),
        ({"operation": "FENCE", "operationParameters": {"txnIds": '["a", 1, null, "b"]'}}, {"a", "b"}),
        ({"operation": "FENCE", "operationParameters": {"txnIds": "not JSON"}}, set()),
        ({"operation": "FENCE", "operationParameters": {"txnIds": "{}"}}, set()),
        ({"operation": "FENCE", "operationParameters": ["a"]}, set()),
        ({"operation": "FENCE"}, set()),
        ({"operation": "WRITE", "operationParameters": {"txnId": "a"}}, set()),
    ],
)
def test_only_a_fence_fences_off(info: dict[str, Any], expected: set[str]) -> None:
    assert fenced_off(Commit(8, (), CommitInfo(info), 1)) == expected
    assert fenced_off(Commit(8, (), None, 1)) == frozenset()


def test_a_fenced_off_writer_learns_it_and_others_continue() -> None:
    winner = Commit(8, (), CommitInfo({"operation": "FENCE", "operationParameters": {"txnId": "t"}}), 1)
    refused = decide(append(txn_id="t"), [winner])
    assert isinstance(refused, Conflict)
    assert refused.reasons[0].rule == "ConcurrentTransactionError"
    assert decide(append(txn_id="u"), [winner]) == Rebase(8)
