"""What may be sealed, committed and recovered: decisions about staged checkpoints, without I/O.

In: a listing of the staging folder, and seals. Out: the attempts to seal, the checkpoints that must be committed first,
the age up to which a pending file is safe; and `Recovery`, which `Sink.recover` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from txlog.core.format.properties import TableProperties
from txlog.core.sink._staging import Manifest, StagedCheckpoint
from txlog.core.util import invalid, logger, whole_number
from txlog.errors import InvalidInputError
from txlog.result import WriteResult


class Recovery(msgspec.Struct, frozen=True):
    """What `Sink.recover` found and did.

    Attributes:
        results: The sealed checkpoints by ascending id: "committed" by this call, "already_committed" before, or
            "empty" (see `Sink.commit`).
        partial: The checkpoints after the last committed one that were never sealed, with the staged attempts of each
            task. Recovery never commits them: the source must send their rows again. They include a checkpoint whose
            removal was interrupted.
    """

    results: Mapping[int, WriteResult] = msgspec.field(default_factory=dict)
    partial: Mapping[int, Mapping[int, tuple[int, ...]]] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        parts = []
        for outcome in dict.fromkeys(result.outcome for result in self.results.values()):
            ids = (str(checkpoint_id) for checkpoint_id, result in self.results.items() if result.outcome == outcome)
            parts.append(f"{outcome.replace('_', ' ')}: {', '.join(ids)}")
        for checkpoint_id, attempts in self.partial.items():
            parts.append(f"partial: {checkpoint_id} (staged by {_tasks(attempts)})")
        return f"Recovery({'; '.join(parts) or 'nothing was left'})"

    __repr__ = __str__


def listed_tasks(tasks: Any, table: str) -> list[Any]:
    """The tasks that a caller passed. Raises ``InvalidInputError`` unless they are a list."""
    try:
        return list(tasks)
    except TypeError:
        raise invalid("tasks", tasks, "a list of task ids", table=table) from None


def attempts_to_seal(staged: StagedCheckpoint | None, tasks: Iterable[int] | Mapping[int, int]) -> dict[int, int]:
    """One attempt for each expected task: the one that ``tasks`` names, or the only staged one.

    If several attempts of a task are staged, one may come from an earlier run with other input, so the caller must
    choose. Raises InvalidInputError naming the tasks (and attempts) that did not stage, or staged several times.
    """
    found: Mapping[int, tuple[int, ...]] = staged.attempts if staged else {}
    wanted = [whole_number("a task", task_id) for task_id in tasks]
    attempts = tasks.values() if isinstance(tasks, Mapping) else ()
    named = dict(zip(wanted, (whole_number("an attempt", attempt) for attempt in attempts), strict=False))
    if len(set(wanted)) < len(wanted):
        raise InvalidInputError(f"a task is named twice: {wanted}")
    missing = [task_id for task_id in wanted if task_id not in found]
    missing += [task_id for task_id in named if task_id in found and named[task_id] not in found[task_id]]
    if missing:
        shown = ", ".join(f"{task} (attempt {named[task]})" if task in named else str(task) for task in missing[:20])
        raise InvalidInputError(
            f"not every task staged: {len(missing)} of {len(wanted)} are missing ({shown}). Nothing was sealed"
        )
    unclear = {task_id: found[task_id] for task_id in wanted if task_id not in named and len(found[task_id]) > 1}
    if unclear:
        shown = "; ".join(f"task {task}: {', '.join(map(str, unclear[task]))}" for task in list(unclear)[:20])
        raise InvalidInputError(
            f"more than one attempt staged ({shown}): pass the attempt to commit for every task, as"
            " {task_id: attempt}. Nothing was sealed"
        )
    return {task_id: named.get(task_id, found[task_id][-1]) for task_id in wanted}


def seal_difference(ours: Manifest, theirs: Manifest) -> str | None:
    """How the existing seal differs from the wanted one; None if they are equal."""
    if ours == theirs:
        return None
    if ours.app_id != theirs.app_id or ours.table_id != theirs.table_id:
        return f"for table {theirs.table_id} and {theirs.app_id!r}"
    if ours.intent != theirs.intent:
        return f"to {theirs.intent}, not to {ours.intent}"
    if ours.together != theirs.together:
        return f"together with other tables ({', '.join(theirs.together) or 'none'})"
    if ours.fingerprint != theirs.fingerprint:
        return f"made from other input (fingerprint {theirs.fingerprint!r} there, {ours.fingerprint!r} here)"
    if ours.attempts.keys() != theirs.attempts.keys():
        return f"with {_tasks(theirs.attempts)}, not {_tasks(ours.attempts)}"
    other = [task.task_id for task, mine in zip(theirs.tasks, ours.tasks, strict=True) if task != mine]
    return f"with other attempts of {_tasks(other)}"


def sealed_before(staged: Iterable[StagedCheckpoint], checkpoint_id: int) -> list[StagedCheckpoint]:
    """The sealed checkpoints that must be in the table before this one."""
    return [each for each in staged if each.is_sealed and each.checkpoint_id < checkpoint_id]


def stale(staged: Iterable[StagedCheckpoint], last_checkpoint_id: int | None) -> list[StagedCheckpoint]:
    """The staged checkpoints that were never sealed and can no longer be committed: the application is past them."""
    last = -1 if last_checkpoint_id is None else last_checkpoint_id
    return [each for each in staged if not each.is_sealed and each.checkpoint_id <= last]


def tell_sealed_meanwhile(table: str, app_id: str, checkpoint_id: int) -> None:
    """Warn that a discard left a checkpoint as it is."""
    logger.warning(
        "%s: checkpoint %d of %r stays: another process has sealed it since this one found it partial, and will commit"
        " it. Discard it once more if it must not be committed",
        table,
        checkpoint_id,
        app_id,
    )


def files_must_be_since_ms(
    properties: TableProperties, staged: Iterable[StagedCheckpoint], now_ms: int, *, at_least_ms: int = 0
) -> int:
    """The earliest modification time at which a pending file may still be committed.

    Another engine's vacuum deletes a file that no commit names once it is older than the table's
    ``delta.deletedFileRetentionDuration``. Half of that (at least ``at_least_ms``) allows for a running vacuum and
    differing clocks. A ``txn`` is kept for ``delta.setTransactionRetentionDuration``, if set: after that it is unknown
    whether the checkpoint was committed. The store's newest reported time counts as now too, since this machine's clock
    may be behind.
    """
    newest_ms = max((each.modified_ms for each in staged), default=now_ms)
    age_max_ms = max(properties.deleted_file_retention_ms // 2, at_least_ms)
    if properties.set_transaction_retention_ms is not None:
        age_max_ms = min(age_max_ms, properties.set_transaction_retention_ms)
    return max(now_ms, newest_ms) - age_max_ms


def _tasks(tasks: Iterable[int]) -> str:
    ids = sorted(tasks)
    shown = ", ".join(map(str, ids[:20])) + (", ..." if len(ids) > 20 else "")
    return f"task {shown}" if len(ids) == 1 else f"tasks {shown}" if ids else "no task"
