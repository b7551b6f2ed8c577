"""When the next checkpoint is due.

In: a table state, and the size of the last checkpoint. Out: yes or no. This module is separate from checkpoint contents
since every append imports it. PROTOCOL.md, "Checkpoints"; ``delta.checkpointInterval``.
"""

from __future__ import annotations

from dataclasses import dataclass

from txlog.log.state import TableState

__all__ = ["BY_FILE", "BY_REQUEST", "ReadingCost", "checkpoint_is_due"]

_COMMITS_MIN = 10
_SHARE = 2


@dataclass(frozen=True, slots=True)
class ReadingCost:
    """What reading takes, in bytes of a checkpoint that cost as much: each commit, beside its own bytes; a checkpoint
    at least, however small it is."""

    commit_bytes: int
    checkpoint_bytes_min: int


BY_REQUEST = ReadingCost(256 * 1024, 1)
"""Each of them is a request to a store."""
BY_FILE = ReadingCost(8 * 1024, 100 * _SHARE * 8 * 1024)
"""On a local disk a commit is opened and parsed in less than a tenth of a millisecond; to write a checkpoint takes as
long as a dozen appends, so that one follows a hundred of them."""


def checkpoint_is_due(state: TableState, *, checkpoint_size_bytes: int, reading: ReadingCost = BY_REQUEST) -> bool:
    """Whether to write a checkpoint at ``state``; ``checkpoint_size_bytes`` is the size of the last one, 0 without.

    ``delta.checkpointInterval`` decides where it is set. Otherwise one is due after ten commits or more, as soon
    as they cost a reader half of what the last checkpoint costs. So the writing of checkpoints stays a fixed share of
    the bytes committed.

    Of many writers one begins: whose version is a multiple of the interval. Where that one did not, any of them does
    once twice as much has gathered.
    """
    segment, interval = state.segment, state.properties.checkpoint_interval
    commits = state.version - (segment.checkpoint.version if segment.checkpoint else 0)
    if interval is not None:
        gathered = commits / interval
    else:
        checkpoint_cost = max(checkpoint_size_bytes, reading.checkpoint_bytes_min)
        tail_cost = commits * reading.commit_bytes + segment.tail_bytes
        gathered = min(commits / _COMMITS_MIN, tail_cost * _SHARE / checkpoint_cost)
        interval = max(_COMMITS_MIN, checkpoint_cost // (reading.commit_bytes * _SHARE))
    return gathered >= 2 or (gathered >= 1 and state.version % interval == 0)
