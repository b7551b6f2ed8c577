"""The errors of a commit that conflicts, or of which nobody knows whether it landed.

In: the reasons for a conflict, or the doubt. Out: the exception, with what its caller can do next.
"""

from __future__ import annotations

from typing import NoReturn

from txlog import errors
from txlog.core.store import TableStore
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.wording import setting
from txlog.errors import CommitStateUnknownError, ConflictError, ConflictReason

RUN_AGAIN = "run it again"
WRITE_AGAIN = "its files do not fit any more, so committing them again cannot help: write the checkpoint again"
READ_AGAIN = (
    "the rows were made from an older version, so running it again cannot help: read the table again, and make the"
    f" rows, or the change, from that version. If an overwrite's rows do not come from the table, pass"
    f" {setting('on_conflict', 'rerun')}"
)


def next_step_after_conflict(proposal: Proposal) -> str:
    """What the caller of a transaction that conflicts can do."""
    return READ_AGAIN if proposal.is_tied_to_version else RUN_AGAIN


def unknown_outcome(store: TableStore, txn_id: str, version: int, why: str) -> CommitStateUnknownError:
    """The error for a commit that may have landed as ``version``, or may still land there."""
    table = store.known_as or store.uri
    place = f"txlog.resolve({table!r}, " if version == 0 else "table.resolve("  # there may be no table to open
    return CommitStateUnknownError(
        f"commit {txn_id} may or may not be in the log: {why}. Do not run it again blindly:"
        f" {place}{txn_id!r}, {version}) finds out whether it is",
        table=table,
        version=version,
        txn_id=txn_id,
    )


def raise_conflict(reasons: tuple[ConflictReason, ...], table: str, next_step: str = RUN_AGAIN) -> NoReturn:
    """The exception for a lost race: the first reason gives its class, and the message lists all reasons.

    ``next_step`` is what its caller can do: `RUN_AGAIN`, `READ_AGAIN` for a change tied to a version, or
    `WRITE_AGAIN` for staged files.
    """
    kind: type[ConflictError] = getattr(errors, reasons[0].rule)
    text = "; ".join(str(reason) for reason in reasons)
    raise kind(f"{text}. Nothing landed; {next_step}.", table=table, reasons=reasons)
