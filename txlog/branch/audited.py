"""``with table.audit(checks) as staged``: a branch that is published if its rows pass the checks, and discarded if not.

In: an open table and checks. Out: the branch, for the block; then one version of the table, or an error with the rows
that fail. If others changed what the branch read meanwhile, it is rebased and checked again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import txlog
from txlog.branch.creation import make_branch
from txlog.errors import ChecksFailedError, ConflictError, InvalidInputError, TxlogError
from txlog.extend import OpenTable
from txlog.extend.commits import ambient, logger

_REBASES_MAX: Final = 10


@contextlib.contextmanager
def audit(
    open_table: OpenTable, *, checks: Sequence[str] | str, name: str | None, user_metadata: str | None
) -> Iterator[txlog.Table]:
    """The branch of the block. Raises what `Table.audit` raises."""
    staged = txlog.Table(make_branch(open_table, name=name or f"audit-{ambient.uuid4()}"))
    try:
        yield staged
    except BaseException:
        _discard(staged)
        raise
    for rebases in range(_REBASES_MAX + 1):
        try:
            _require_passed(staged, checks)
        except TxlogError:
            _discard(staged)
            raise
        try:
            staged.publish(user_metadata=user_metadata)
            return
        except ConflictError:
            if rebases == _REBASES_MAX:
                raise
        _rebase(staged)


def _require_passed(staged: txlog.Table, checks: Sequence[str] | str) -> None:
    found = staged.check(checks)
    if not found.passed:
        raise ChecksFailedError(
            f"nothing was published, since {'; '.join(map(str, found.failures))}. The first of these rows:"
            f" {found.failures[0].rows.slice(0, 3).to_pylist()}; the error's `check` has all that was found",
            table=staged.uri,
            version=found.version,
            check=found,
        )


def _rebase(staged: txlog.Table) -> None:
    try:
        staged.rebase()
    except (ConflictError, InvalidInputError):
        _discard(staged)
        raise


def _discard(staged: txlog.Table) -> None:
    """Discard the branch after an error, which is what its caller is to see."""
    try:
        staged.discard()
    except TxlogError as error:
        logger.warning("%s stays until somebody discards it: %s", staged.uri, error.message)
