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

    Of many writers one begins: whose version is a multiple of the interval. Where that one did not, any of them does
    once twice as much has gathered.
    """
    segment, interval = head.segment, head.properties.checkpoint_interval
    commits = head.version - (segment.checkpoint.version if segment.checkpoint else 0)
    if interval is not None:
        gathered = commits / interval
    else:
        tail_cost = commits * _COMMIT_COST_BYTES + segment.tail_bytes
        gathered = min(commits / _COMMITS_MIN, tail_cost * _SHARE / max(checkpoint_size_bytes, 1))
        interval = max(_COMMITS_MIN, checkpoint_size_bytes // (_COMMIT_COST_BYTES * _SHARE))
    return gathered >= 2 or (gathered >= 1 and head.version % interval == 0)
