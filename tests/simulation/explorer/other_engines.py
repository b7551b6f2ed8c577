"""Programs of other engines in a story: they sync nothing, and clean up without regard to open handles.

In: a `Session`. Out: nothing; their commits are in the log beside those of txlog, which must handle them. They know
neither txlog's ``commitInfo`` nor row ids, so their tables have neither row ids nor in-commit timestamps.
"""

from __future__ import annotations

import orjson

from explorer.session import Session
from txlog.core.format.log_names import LogFileKind, parse_log_name
from txlog.core.store._versions import FolderVersions
from txlog.testing.faults import StoreCall

__all__ = ["append_unsynced", "clean_up_in_time", "clean_up_now", "link_unsynced", "move_on_and_clean_up"]


def append_unsynced(session: Session, *, times: int = 2) -> None:
    """Commit without a sync, so that only the kernel writes to the disk, as deltalake and Spark do locally."""
    for _ in range(times):
        _append(session)


def clean_up_now(session: Session) -> None:
    """Write a checkpoint, and delete older log files that the retention does not keep."""
    session.table(fresh=True).create_checkpoint()
    _clean_up(session)


def clean_up_in_time(session: Session) -> None:
    """Write a checkpoint, wait until the retention is over, and delete all older log files."""
    session.table(fresh=True).create_checkpoint()
    session.let_pass(session.run.retention_ms + 1)
    _clean_up(session)


def move_on_and_clean_up(session: Session) -> None:
    """Commit, then clean up, so that a version that another writer still tries to put is among the deleted ones."""
    append_unsynced(session)
    clean_up_in_time(session)


def _clean_up(session: Session) -> None:
    """Delete names below the newest checkpoint that is not younger than the retention, one by one, oldest first."""
    oldest_ms = session.clock.now_ms() - session.run.retention_ms
    found = [
        (parsed, modified_ms)
        for name, (_, modified_ms) in session.run.world.log.objects.items()
        if (parsed := parse_log_name(name)) is not None
    ]
    expired = max(
        (each.version for each, modified_ms in found if each.kind is LogFileKind.COMMIT and modified_ms < oldest_ms),
        default=-1,
    )
    kept = max((version for version in session.run.ledger.checkpoints() if version <= expired), default=0)
    for each, _ in found:
        if each.version == kept and each.kind.is_checkpoint:
            session.run.world.log.make_durable(each.name)  # it is so old that the kernel has written it
    for name in sorted(each.name for each, _ in found if each.version < kept):
        session.log.delete(name)


def _append(session: Session) -> None:
    """Append a file as the next free version. Other actors may act before, but not between choice and link."""
    add = session.new_file()
    session.run.suspend(session, StoreCall("link", 1, "the next version"))
    version = session.run.ledger.latest + 1
    info = {"commitInfo": {"operation": "WRITE", "isBlindAppend": True, "engineInfo": "another engine"}}
    body = b"".join(orjson.dumps(line) + b"\n" for line in (info, {"add": add.to_json()}))
    link_unsynced(session, version, body)


def link_unsynced(session: Session, version: int, body: bytes) -> None:
    """Make the next version visible without a sync, so that the kernel decides when it reaches the disk."""
    name = FolderVersions.name_of(version)
    session.run.world.log.objects[name] = (body, session.run.now_ms())
    if session.run.scenario.store == "object":
        session.run.world.log.make_durable(name)  # an object store answers once it is durable
    else:
        session.run.left_to_kernel.add(name)
    session.history = hash((session.history, version))
    session.run.record(f"{session.actor.name}: links v{version}, and syncs nothing")
