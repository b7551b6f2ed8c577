"""When the next checkpoint is due.

In: a table state, and the size of the last checkpoint. Out: yes or no. This module is separate from checkpoint contents
since every append imports it. PROTOCOL.md, "Checkpoints"; ``delta.checkpointInterval``.
"""

from __future__ import annotations

import msgspec

from txlog.log.state import TableState

__all__ = ["BY_FILE", "BY_REQUEST", "ReadingCost", "checkpoint_is_due"]

_COMMITS_MIN = 10
_SHARE = 2


class ReadingCost(msgspec.Struct, frozen=True):
    """Reading costs, as checkpoint bytes that take as long: of each commit besides its own bytes, and of the smallest
    checkpoint."""

    commit_bytes: int
    checkpoint_bytes_min: int


BY_REQUEST = ReadingCost(256 * 1024, 1)
"""Reading a file is a request to a store."""
BY_FILE = ReadingCost(8 * 1024, 100 * _SHARE * 8 * 1024)
"""On a local disk a commit is opened and parsed in less than a tenth of a millisecond, and writing a checkpoint
takes as long as a dozen appends, so one follows a hundred of them."""


def checkpoint_is_due(
    state: TableState, *, checkpoint_size_bytes: int, reading: ReadingCost = BY_REQUEST, is_first: bool = False
) -> bool:
    """Whether to write a checkpoint at ``state``; ``checkpoint_size_bytes`` is the size of the last one, 0 if there is
    none. ``is_first`` states that this is the first commit of its writer.

    If ``delta.checkpointInterval`` is set, it decides. Otherwise a checkpoint is due after at least ten commits, as
    soon as reading them costs half as much as reading the last checkpoint. So checkpoint writing stays a fixed share of
    the committed bytes.

    Among many writers, the one whose version is a multiple of the interval writes the checkpoint. If it does not, the
    next writer that starts does with its first commit, and any writer once twice as many commits have gathered.
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
    return gathered >= 2 or (gathered >= 1 and (is_first or state.version % interval == 0))
