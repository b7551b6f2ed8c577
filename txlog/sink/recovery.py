"""What may be sealed, committed and recovered: decisions about staged checkpoints, without any I/O.

In: what a listing of the staging folder shows, and seals. Out: the attempts to seal, the checkpoints in the way of a
commit, the age up to which a pending file is safe; and `Recovery`, which `Sink.recover` hands back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from txlog.errors import InvalidInputError
from txlog.protocol.properties import TableProperties
from txlog.result import WriteResult
from txlog.sink.staging import Manifest, StagedCheckpoint
from txlog.util.arguments import whole_number

__all__ = ["Recovery", "attempts_to_seal", "files_must_be_since_ms", "seal_difference", "sealed_before", "stale"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What `Sink.recover` found and did.

    ``results`` are the sealed checkpoints by ascending id: "committed" by this call, "already_committed" before, or
    "empty" (see `Sink.commit`). ``partial`` are those after the last committed that were never sealed, with the
    attempts of each task that did stage: recovery never commits them, their rows have to come from the source again.
    One whose removal was cut short is among them.
    """

    results: Mapping[int, WriteResult] = field(default_factory=dict)
    partial: Mapping[int, Mapping[int, tuple[int, ...]]] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = []
        for outcome in dict.fromkeys(result.outcome for result in self.results.values()):
            ids = (str(checkpoint_id) for checkpoint_id, result in self.results.items() if result.outcome == outcome)
            parts.append(f"{outcome.replace('_', ' ')}: {', '.join(ids)}")
        for checkpoint_id, attempts in self.partial.items():
            parts.append(f"partial: {checkpoint_id} (staged by {_tasks(attempts)})")
        return f"Recovery({'; '.join(parts) or 'nothing was left'})"

    __repr__ = __str__


def attempts_to_seal(staged: StagedCheckpoint | None, tasks: Iterable[int] | Mapping[int, int]) -> dict[int, int]:
    """One attempt for each expected task: the one that ``tasks`` names, else the only one that was staged.

    Of two that nobody chose between, one may be of an earlier run, which read other input. Raises InvalidInputError
    naming the tasks (and attempts) that have not staged, or the tasks that staged more than once.
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
            f"not every task has staged: {len(missing)} of {len(wanted)} are missing ({shown}). Nothing was sealed"
        )
    unclear = {task_id: found[task_id] for task_id in wanted if task_id not in named and len(found[task_id]) > 1}
    if unclear:
        shown = "; ".join(f"task {task}: {', '.join(map(str, unclear[task]))}" for task in list(unclear)[:20])
        raise InvalidInputError(
            f"more than one attempt has staged ({shown}): name the one that counts for every task, as"
            " {task_id: attempt}. Nothing was sealed"
        )
    return {task_id: named.get(task_id, found[task_id][-1]) for task_id in wanted}


def seal_difference(ours: Manifest, theirs: Manifest) -> str | None:
    """How what we would have sealed differs from what is sealed; None where it does not."""
    if ours == theirs:
        return None
    if ours.app_id != theirs.app_id or ours.table_id != theirs.table_id:
        return f"for table {theirs.table_id} and {theirs.app_id!r}"
    if ours.intent != theirs.intent:
        return f"to {theirs.intent}, not to {ours.intent}"
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
    """What was staged, never sealed, and can no longer be committed: the application is past it."""
    last = -1 if last_checkpoint_id is None else last_checkpoint_id
    return [each for each in staged if not each.is_sealed and each.checkpoint_id <= last]


def files_must_be_since_ms(
    properties: TableProperties, staged: Iterable[StagedCheckpoint], now_ms: int, *, at_least_ms: int = 0
) -> int:
    """The modification time from which on a pending file may still be committed.

    Another engine's vacuum takes a file that no commit names for an orphan once it is older than the table's
    ``delta.deletedFileRetentionDuration``: half of it (``at_least_ms`` at least) leaves room for the vacuum that is
    running now and for clocks that differ. A ``txn`` is believed for ``delta.setTransactionRetentionDuration``, where
    set: after it nobody could tell whether the checkpoint landed. What the store says it wrote last also counts as
    now, since this machine's clock may be behind.
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
