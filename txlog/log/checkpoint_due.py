"""When the next checkpoint is due.

In: a head, and the size of the last checkpoint. Out: yes or no. Apart from what a checkpoint holds, since every append
asks. PROTOCOL.md, "Checkpoints"; ``delta.checkpointInterval``.
"""

from __future__ import annotations

from txlog.log.state import TableHead

__all__ = ["checkpoint_is_due"]

_COMMITS_MIN = 10
_COMMIT_COST_BYTES = 256 * 1024
_SHARE = 2


def checkpoint_is_due(head: TableHead, *, checkpoint_size_bytes: int) -> bool:
    """Whether to write a checkpoint at ``head``; ``checkpoint_size_bytes`` is the size of the last one, 0 without.

    ``delta.checkpointInterval`` decides where it is set. Otherwise one is due after ten commits or more, as soon
    as they cost a reader half of what the last checkpoint costs; a commit counts as 256 KiB, about a request's
    worth, beside its bytes. So the writing of checkpoints stays a fixed share of the bytes committed.
    """
    segment = head.segment
    commits = head.version - (segment.checkpoint.version if segment.checkpoint else 0)
    interval = head.properties.checkpoint_interval
    if interval is not None:
        return commits >= interval
    tail_cost = commits * _COMMIT_COST_BYTES + segment.tail_bytes
    return commits >= _COMMITS_MIN and tail_cost * _SHARE >= checkpoint_size_bytes
