"""Exactly once: decides whether an application's checkpoint is already in the table.

In: what the caller is about to commit (app_id, checkpoint_id, fingerprint), the application's last ``txn`` and retained
commits. Out: one of five values; the caller decides which of them is an error. The proof is a retained commit with this
(app_id, checkpoint_id). It is valid if every writer of the app_id checks here first, and while the table keeps its
``txn``. PROTOCOL.md, "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Reversible
from typing import TypeAlias

import msgspec

from txlog.core.format.actions import SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.joined_appends import fingerprint_of
from txlog.core.wording import advice, argument, batch


class Fresh(msgspec.Struct, frozen=True):
    """Not in the table: commit it."""


class AlreadyCommitted(msgspec.Struct, frozen=True):
    """In the table: commit nothing. ``version`` is the commit that holds it, None if that is no longer retained."""

    version: int | None


class Rewound(msgspec.Struct, frozen=True):
    """Lower than the application's last checkpoint, and no retained commit proves that it was ever committed."""

    app_id: str
    checkpoint_id: int
    last_checkpoint_id: int

    @property
    def message(self) -> str:
        """For an error, in words that each interface spells."""
        return (
            f"{batch(self.app_id, self.checkpoint_id)} is older than the last one committed,"
            f" {self.last_checkpoint_id}, and no retained commit has it: dropping it could lose its rows, committing"
            " it could write them twice. Was the application's own state rewound or replaced? Use a new"
            f" {argument('app_id')} for a new source"
        )


class FingerprintMismatch(msgspec.Struct, frozen=True):
    """``version`` holds this checkpoint, made from other source offsets: one id stands for different rows."""

    app_id: str
    checkpoint_id: int
    version: int
    ours: str
    theirs: str

    @property
    def message(self) -> str:
        """For an error, in words that each interface spells."""
        return (
            f"{batch(self.app_id, self.checkpoint_id)} is already in version {self.version}, made from"
            f" other input ({argument('fingerprint')} {self.theirs!r} there, {self.ours!r} here): one id"
            f" stands for different rows"
        )


class Unproven(msgspec.Struct, frozen=True):
    """The application's last checkpoint, but no retained commit shows whether it was made from the caller's input."""

    app_id: str
    checkpoint_id: int
    fingerprint: str

    @property
    def message(self) -> str:
        """For an error, in words that each interface spells."""
        fingerprint = argument("fingerprint")
        way_out = advice(
            "replay that nothing confirms",
            f"Nothing was written. To drop it as a replay, run it again without {fingerprint}; if it has other rows,"
            f" use a new {argument('app_id')}",
        )
        return (
            f"{batch(self.app_id, self.checkpoint_id)} is the last one committed, but its commit was cleaned up from"
            f" the log, so nothing shows whether it was made from the same input ({fingerprint}"
            f" {self.fingerprint!r} here): dropping it could lose its rows, committing it could write them twice."
            f" {way_out}"
        )


ReplayCheck: TypeAlias = Fresh | AlreadyCommitted | Rewound | FingerprintMismatch | Unproven


def check_replay(
    app_id: str,
    checkpoint_id: int,
    fingerprint: str | None,
    last: SetTransaction | None,
    retained: Reversible[Commit],
) -> ReplayCheck:
    """Check one checkpoint before its commit.

    ``last`` is the application's ``txn`` in the snapshot. ``retained`` are any number of commits up to that snapshot,
    in ascending order; they are read from the newest until one decides (a checkpoint above the last one needs none;
    ``files=False`` is enough).
    """
    if last is None or checkpoint_id > last.version:
        return Fresh()
    proof = _find(app_id, checkpoint_id, retained)
    if proof is not None:
        theirs = fingerprints_differ(fingerprint, proof, app_id, checkpoint_id)
        if fingerprint is not None and theirs is not None:
            return FingerprintMismatch(app_id, checkpoint_id, proof.version, fingerprint, theirs)
        return AlreadyCommitted(proof.version)
    if checkpoint_id == last.version:
        # The `txn` outlives its commit. It says that the number was committed, and not from which input.
        return AlreadyCommitted(None) if fingerprint is None else Unproven(app_id, checkpoint_id, fingerprint)
    return Rewound(app_id, checkpoint_id, last.version)


def fingerprints_differ(ours: str | None, commit: Commit, app_id: str, checkpoint_id: int) -> str | None:
    """The fingerprint of this checkpoint in the commit if both are known and differ, else None."""
    theirs = fingerprint_of(commit, app_id, checkpoint_id)
    return theirs if ours is not None and theirs is not None and theirs != ours else None


def _find(app_id: str, checkpoint_id: int, retained: Reversible[Commit]) -> Commit | None:
    """The newest commit of this checkpoint, without looking past a reset of the application to a lower id.

    Resetting an application's version means that higher checkpoints will be committed again.
    """
    lowest_since: int | None = None
    for commit in reversed(retained):
        for action in reversed(commit.actions):
            if type(action) is SetTransaction and action.app_id == app_id:
                if lowest_since is not None and action.version > lowest_since:
                    return None
                if action.version == checkpoint_id:
                    return commit
                lowest_since = action.version
    return None
