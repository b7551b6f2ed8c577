"""The state of a table's sinks, for operators: which applications write, what is staged, what may be removed.

In: an ``OpenTable``. Out: plain values, for the command line and for programs. Only `clean_staging` changes anything,
and it never removes a sealed checkpoint that may still need its commit.
"""

from __future__ import annotations

import msgspec

from txlog.core import ambient
from txlog.core.format.actions import SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.sink._checkpoint_commits import VOID
from txlog.core.sink._staging import StagedCheckpoint, Staging
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.joined_appends import member_of_checkpoint
from txlog.core.versions.decisions.state import PREPARED, TableState
from txlog.errors import InvalidInputError, NotFoundError, StorageError, TxlogError

COMMITS_LOOKED_AT = 1000
AGE_MIN_MS = 60 * 60 * 1000


class Application(msgspec.Struct, frozen=True):
    """An application that wrote to the table with an app_id, and its last checkpoint.

    ``updated_ms`` is the commit time of that checkpoint, None if its writer did not record it. ``version`` and ``rows``
    come from its commit; None if it is not among the newest commits (``COMMITS_LOOKED_AT``) or does not record them.
    """

    app_id: str
    checkpoint_id: int
    updated_ms: int | None
    version: int | None
    rows: int | None


class StagedState(msgspec.Struct, frozen=True):
    """One staged checkpoint. ``state`` is

    - "sealed": waits for its commit, by `Sink.commit` or `Sink.recover`; never cleaned
    - "passed": sealed, but the application is at or past it: a leftover, if the log proves its commit
    - "partial": not sealed yet
    - "stale": not sealed, and the application is past it

    ``mode`` is what the commit does with the existing rows: "append" or "overwrite"; None before it is sealed.
    ``app_id``, ``mode`` and a seal's numbers are None if they cannot be read. ``modified_ms`` is the newest object's
    time.
    """

    app_id: str | None
    checkpoint_id: int
    state: str
    mode: str | None
    tasks: int
    rows: int | None
    files: int | None
    size_bytes: int | None
    modified_ms: int
    staged: StagedCheckpoint


def applications(open_table: OpenTable) -> list[Application]:
    """The applications, by app_id. Raises what opening the table and reading its log raises."""
    state = open_table.log.newest_state()
    commits = _last_commits(open_table, state)
    found = []
    for app_id, transaction in sorted(state.transactions.items()):
        if app_id.startswith(VOID) or app_id == PREPARED:
            continue
        version, rows = commits.get(app_id, (None, None))
        found.append(Application(app_id, transaction.version, transaction.last_updated, version, rows))
    return found


def staged_states(open_table: OpenTable) -> list[StagedState]:
    """Everything in the table's staging folder, by application and checkpoint_id. Raises StorageError."""
    staging = Staging(open_table.store, open_table.retry)
    state = open_table.log.newest_state()
    found = [_state(staging, each, state) for each in staging.checkpoints() if each.has_work]
    return sorted(found, key=lambda state: (state.app_id or "", state.staged.key, state.checkpoint_id))


def clean_staging(open_table: OpenTable, older_than_ms: int, *, dry_run: bool = False) -> list[StagedState]:
    """Remove old staged checkpoints that were never sealed or provably committed; return what was removed.

    A checkpoint is as old as its newest object. Data files stay: a vacuum removes those that no commit names. With
    ``dry_run``, nothing is removed. Raises InvalidInputError for an age below an hour, since a task may still be
    waiting for its seal; StorageError.
    """
    if older_than_ms < AGE_MIN_MS:
        raise InvalidInputError("staging cleanup needs an age of at least one hour: tasks may still be using it")
    before_ms = ambient.now_ms() - older_than_ms
    old = [state for state in staged_states(open_table) if state.modified_ms <= before_ms]
    gone = [state for state in old if _is_over(open_table, state)]
    if not dry_run:
        staging = Staging(open_table.store, open_table.retry)
        gone = [state for state in gone if _removed(staging, state)]
        if open_table.store.staging is not None:
            open_table.store.staging.remove_stale_temporaries()
    return gone


def _removed(staging: Staging, state: StagedState) -> bool:
    if state.state == "partial":
        return staging.give_up(state.staged)
    staging.remove(state.staged.names)
    return True


def _last_commits(open_table: OpenTable, state: TableState) -> dict[str, tuple[int, int | None]]:
    """The (version, rows) of the commit of each application's last checkpoint, among the newest commits."""
    wanted = {(transaction.app_id, transaction.version) for transaction in state.transactions.values()}
    found: dict[str, tuple[int, int | None]] = {}
    for version in range(state.version, max(-1, state.version - COMMITS_LOOKED_AT), -1):
        if len(found) == len(wanted):
            break
        try:
            commit = open_table.log.read_commit(version, files=False)
        except NotFoundError:
            break
        for action in commit.actions:
            if isinstance(action, SetTransaction) and (action.app_id, action.version) in wanted:
                found.setdefault(action.app_id, (version, _rows_of(commit, action)))
    return found


def _rows_of(commit: Commit, transaction: SetTransaction) -> int | None:
    """How many rows the commit wrote for this checkpoint; None if it does not say."""
    member = member_of_checkpoint(commit, transaction.app_id, transaction.version)
    if member is not None:
        return member.rows
    metrics = commit.commit_info.fields.get("operationMetrics") if commit.commit_info else None
    rows = metrics.get("numOutputRows") if isinstance(metrics, dict) else None
    return int(rows) if isinstance(rows, (str, int)) and str(rows).isdecimal() else None


def _state(staging: Staging, staged: StagedCheckpoint, state: TableState) -> StagedState:
    app_id, mode, rows, files, size_bytes = None, None, None, None, None
    tasks = len(staged.attempts)
    is_sealed = staged.is_sealed and staging.is_sealed(staged)
    try:
        if is_sealed:
            manifest = staging.manifest(staged)
            app_id, mode, tasks = manifest.app_id, manifest.intent.kind, len(manifest.tasks)
            rows, files, size_bytes = manifest.num_rows, manifest.num_files, manifest.size_bytes
        elif staged.attempts:
            task_id, attempts = next(iter(staged.attempts.items()))
            app_id = staging.tasks(staged, {task_id: attempts[0]})[0][1].app_id
    except StorageError:
        raise
    except TxlogError:
        pass  # damaged, from a newer release, or removed meanwhile: listed without the unknown values
    last = state.transaction_version(app_id) if app_id is not None else None
    is_past = last is not None and staged.checkpoint_id <= last
    words = ("sealed", "passed") if is_sealed else ("partial", "stale")
    return StagedState(
        app_id, staged.checkpoint_id, words[is_past], mode, tasks, rows, files, size_bytes, staged.modified_ms, staged
    )


def _is_over(open_table: OpenTable, state: StagedState) -> bool:
    """Whether nothing in this checkpoint can or must still be committed."""
    if state.state != "passed":
        return state.state != "sealed"
    assert state.app_id is not None
    try:
        return (
            open_table.replay_of(open_table.log.newest_state(refresh=False), state.app_id, state.checkpoint_id)
            is not None
        )
    except InvalidInputError:
        return False
