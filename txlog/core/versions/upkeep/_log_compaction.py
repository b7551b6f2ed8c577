"""Log compaction: writes one file that readers can use in place of all commits since the last checkpoint.

In: a table's log and its state. Out: ``X.Y.compacted.json`` next to the commits, which stay, and a ``LogCompaction``.
An existing file is never overwritten: commits do not change, so it has the same content. PROTOCOL.md, "Log Compaction
Files".
"""

from __future__ import annotations

from txlog.core.format.commit_file import Commit
from txlog.core.format.features import check_can_write
from txlog.core.format.log_names import compacted_name
from txlog.core.progress import OnDone
from txlog.core.store import PutOutcome
from txlog.core.versions.decisions.compaction import compacted_bytes
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import CommitReader, DeltaLog
from txlog.errors import StorageError, TxlogError
from txlog.result.maintenance import LogCompaction

_LANDED = (PutOutcome.WRITTEN, PutOutcome.ALREADY_EXISTS)


def compact_log(log: DeltaLog, state: TableState, *, on_progress: OnDone | None = None) -> LogCompaction | None:
    """Compact the commits after the last checkpoint, up to ``state``; None if there are fewer than two.

    Raises ``UnsupportedFeatureError`` for a table this release may not write, ``NotFoundError`` if a commit was
    cleaned up, ``StorageError``.
    """
    with TxlogError.located(log.uri, state.version):
        check_can_write(state.protocol, state.metadata)
    first, last = state.segment.first_commit, state.version
    if last <= first:
        return None
    commits: list[Commit] = []
    for commit in CommitReader(log.store, log.limits).read_range(first, last, files=True):
        commits.append(commit)
        if on_progress is not None:
            on_progress(len(commits), last + 1 - first)
    log.make_durable(state)
    body, actions = compacted_bytes(commits)
    name = compacted_name(first, last)
    if log.store.log.put_if_absent(name, body) not in _LANDED:
        raise StorageError(f"the answer to the write of {name} was lost: write it again", table=log.uri, path=name)
    return LogCompaction(
        name, first, last, actions, len(body), replaced_bytes=sum(commit.size_bytes for commit in commits)
    )
