"""The version below the one that a commit puts: on disk before the put, and still a part of the log after it.

In: the state that a commit builds on. Out: nothing, or a `BrokenBase` that says why the commit would stand on nothing.
A power cut could otherwise leave a gap below it, and a table that was replaced, or a log that was cleaned up while this
process slept, would have a version that no reader sees.
"""

from __future__ import annotations

from functools import partial

from txlog.core.util import ambient
from txlog.core.versions._commit_context import CommitContext
from txlog.core.versions._patience import Patience
from txlog.core.versions.decisions.retention import trusted_s
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import FRESH_MAX_S
from txlog.errors import NotFoundError, StorageError

__all__ = ["BrokenBase", "make_predecessor_durable", "require_predecessor"]


class BrokenBase(Exception):
    """Why a commit cannot build on the version below it, or may not have."""


def make_predecessor_durable(
    context: CommitContext, state: TableState, patience: Patience, *, keeps_order: bool
) -> None:
    """Before we link N+1, a foreign N must be on disk: otherwise a power cut could leave a gap below our commit.

    If a check costs nothing, N must also exist: if the table was replaced meanwhile, N+1 would leave a gap.
    ``keeps_order`` is as in `CommitContext.make_version_durable`.
    """
    log = context.log
    if not log.still_has(state):
        return _require_checkpoint(context, state)
    if not log.versions.capabilities.needs_sync and log.state_is_fresh():
        return None  # it was seen within the last minute, and what can be seen is durable
    make = partial(context.make_version_durable, keeps_order=keeps_order)
    try:
        return patience.until_answered(partial(make, state.version, state.newest_foreign), state.version + 1)
    except NotFoundError:
        return _require_checkpoint(context, state)


def require_predecessor(context: CommitContext, state: TableState | None, confirmed_at: ambient.Instant | None) -> None:
    """The version after ``state`` is ours. Raise if the one below is gone, or if later ones were there first: no reader
    would see this commit. ``confirmed_at``: when the one below was the newest, if that is known."""
    versions = context.log.versions
    if versions.capabilities.remembers_versions:
        return
    was_free = (
        state is not None
        and confirmed_at is not None
        and ambient.age_s(confirmed_at) <= trusted_s(state.properties, FRESH_MAX_S)
    )
    if state is not None and (not was_free or versions.capabilities.has_cheap_calls):
        try:
            versions.stat(state.version)
        except NotFoundError:
            _require_checkpoint(context, state)
        except StorageError as error:
            raise BrokenBase(f"the version before it could not be read ({error.message})") from error
    if not was_free:
        _require_not_passed(context, 0 if state is None else state.version + 1)


def _require_not_passed(context: CommitContext, version: int) -> None:
    """Raise if other writers took this version, moved on and cleaned up, all while this process was suspended. The
    version before ours may be there again: another suspended writer may have put it."""
    try:
        is_stray = context.log.is_stray(version)
    except (NotFoundError, StorageError) as error:
        raise BrokenBase(f"the versions after it could not be read ({error.message})") from error
    if is_stray:
        raise BrokenBase("later versions were in the log before it, so that readers may not see it")


def _require_checkpoint(context: CommitContext, state: TableState) -> None:
    """A copied table may hold a version only as a checkpoint. Check that it exists: in a table that was dropped and
    created again, neither the commit nor the checkpoint is there."""
    checkpoint = state.segment.checkpoint
    try:
        if checkpoint is not None and checkpoint.version == state.version:
            for name in checkpoint.names:
                context.log.store.log.stat(name)
            return
    except NotFoundError:
        pass
    except StorageError as error:
        raise BrokenBase(f"the checkpoint at its version could not be read ({error.message})") from error
    raise BrokenBase(f"version {state.version}, which it builds on, is gone from the log")
