"""Fences: versions without actions that say which transactions will never land.

In: the transactions to settle. Out: the proposal of a fence; and from a commit that was read, the transactions that it
fences off. A put that is still on its way to a fence's version is refused there. A writer that could commit one of its
transactions as a later version must read the fence first, and leaves the transaction out. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal

if TYPE_CHECKING:
    from txlog.core.format.commit_file import Commit
    from txlog.core.versions.decisions.state import TableState

_OPERATION = "FENCE"
_ONE, _MANY = "txnId", "txnIds"


def fence(state: TableState, txn_ids: Sequence[str], *, txn_id: str, now_ms: int) -> Proposal:
    """The version after ``state`` as a fence for ``txn_ids``, under the id ``txn_id``."""
    from txlog.core.versions.decisions.proposal_builder import ProposalBuilder  # not imported for an append

    named = {_ONE: txn_ids[0]} if len(txn_ids) == 1 else {_MANY: orjson.dumps([*txn_ids]).decode()}
    isolation = Isolation.WRITE_SERIALIZABLE
    return ProposalBuilder(state).build(
        OperationInfo(_OPERATION, named),
        txn_id=txn_id,
        now_ms=now_ms,
        isolation=isolation,
    )


def is_fence(proposal: Proposal) -> bool:
    """Whether a proposal changes nothing, and only says what never lands."""
    return proposal.operation == _OPERATION and not proposal.actions


def fenced_off(commit: Commit) -> frozenset[str]:
    """The transactions that a commit fences off; none if it is not a fence, or malformed."""
    info = commit.commit_info
    if info is None or info.operation != _OPERATION:
        return frozenset()
    named = info.fields.get("operationParameters")
    if type(named) is not dict:
        return frozenset()
    one, many = named.get(_ONE), named.get(_MANY)
    try:
        listed = orjson.loads(many) if type(many) is str else []
    except orjson.JSONDecodeError:
        listed = []
    ids = [one, *listed] if type(listed) is list else [one]
    return frozenset(each for each in ids if type(each) is str)
