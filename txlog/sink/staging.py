"""Durable staging: what the tasks of a sink have finished, kept in the table's own folder until it is committed.

In: committables of tasks, and seals. Out: the same again, checked, in whatever process asks. No clock, no decision:
what may be sealed or committed is judged in ``recovery``, and committing is the `Sink`'s.

Layout. One flat folder beside the log, hidden from every vacuum by its underscore:

    _txlog/staging/<app>.<checkpoint>.task.<task>.<attempt>     what one attempt of one task finished
    _txlog/staging/<app>.<checkpoint>.manifest                  the seal of the checkpoint

``<app>`` is the readable start of the app_id and a hash of all of it, ``<checkpoint>`` its id in 20 digits. An object
is written once, by put-if-absent, durable when that returns (on a disk: synced, linked, its directory synced), and
opens with its format and checksum. It is never changed, only deleted.

Who writes what, when. A task writes its data files and makes them durable, then stages its committable. The
coordinator, told that all tasks are done, seals: the manifest lists the tasks that the checkpoint has, and for each
the one attempt that counts, with the checksum of what that attempt staged, and whether they are added to the table or
replace it. From then on only this may be committed as that checkpoint, and it can be committed by anybody. The
committer commits it, then deletes first the manifest, then the tasks' committables. Data files are never deleted here:
which of them are orphans only a vacuum can tell.

What a crash leaves, and what `Sink.recover` does about it:

    while a data file is written      a hidden file: nothing; its task has to run again
    before a task has staged          data files that nobody names: orphans, vacuum's; its task has to run again
    before the seal                   tasks' committables alone: reported as partial, never committed by recovery
    after the seal                    a manifest: its checkpoint is committed, in the order of checkpoint ids
    while or after it is committed    the table's ``txn`` tells that it landed: it is not committed again
    while staging is deleted          leftovers of a checkpoint that the ``txn`` covers: deleted

Two that seal one checkpoint: put-if-absent lets one manifest be, and the other is told what it says. Two that commit
it: the ``txn`` action lets one of them win, and the other learns that it is committed. Who removes what is not sealed
takes the manifest's name first, and leaves it last: a seal is then refused, or finds that what it names is gone and
undoes itself. A remover that dies leaves that name taken, which the next one ends.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from txlog.errors import InvalidInputError, NotFoundError, StorageError, TxlogError, UnsupportedFeatureError
from txlog.protocol.wire import read_size, read_text
from txlog.store.base import STAGING, LogStore, ObjectMeta, PutOutcome, TableStore
from txlog.store.retry import RetryPolicy
from txlog.util.logs import logger
from txlog.writer import sealed_json
from txlog.writer.committable import Committable
from txlog.writer.sealed_json import checksum
from txlog.writer.write_intent import WriteIntent, read_intent

__all__ = ["Manifest", "SealedTask", "StagedCheckpoint", "Staging", "checkpoints_of", "key_of"]

_REQUESTS_AT_ONCE = 16
_MANIFEST = ".manifest"
_GIVEN_UP = b"txlog-given-up 1\n"
_READABLE_KEY_CHARACTERS = 40
_NAME = re.compile(r"([A-Za-z0-9-]+)\.([0-9]{20})\.(?:manifest|task\.([0-9]{1,19})\.([0-9]{1,19}))")

In = TypeVar("In")
Out = TypeVar("Out")
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class SealedTask:
    """The one attempt of a task that its checkpoint consists of; ``checksum`` is of the bytes which that staged."""

    task_id: int
    attempt: int
    checksum: str
    num_files: int
    num_rows: int
    size_bytes: int
    num_replaced: int = 0

    @classmethod
    def of(cls, committable: Committable, staged: bytes) -> SealedTask:
        return cls(
            committable.task_id,
            committable.attempt,
            checksum(staged),
            len(committable.files),
            committable.num_rows,
            committable.size_bytes,
            len(committable.replaced),
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """A sealed checkpoint: all of its tasks, by ascending id. Equal seals have equal bytes.

    ``intent`` is what its commit does with the rows that are in the table before it.
    """

    app_id: str
    checkpoint_id: int
    table_id: str
    intent: WriteIntent
    fingerprint: str | None
    tasks: tuple[SealedTask, ...]

    @property
    def num_files(self) -> int:
        return sum(task.num_files for task in self.tasks)

    @property
    def is_empty(self) -> bool:
        """Whether no task wrote a file, or replaced one."""
        return not any(task.num_files or task.num_replaced for task in self.tasks)

    @property
    def num_rows(self) -> int:
        return sum(task.num_rows for task in self.tasks)

    @property
    def size_bytes(self) -> int:
        return sum(task.size_bytes for task in self.tasks)

    @property
    def attempts(self) -> dict[int, int]:
        """The attempt that counts, by task_id."""
        return {task.task_id: task.attempt for task in self.tasks}

    def to_bytes(self) -> bytes:
        """Its bytes, with a checksum: see ``sealed_json``."""
        return sealed_json.to_bytes("manifest", self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest again. Raises InvalidInputError where a byte was changed or lost, UnsupportedFeatureError where
        a newer txlog wrote it."""
        return sealed_json.from_bytes("manifest", data, _manifest)


@dataclass(frozen=True, slots=True)
class StagedCheckpoint:
    """What a listing shows of one checkpoint of one application.

    ``attempts`` are those staged, ascending, by task_id; ``modified_ms`` is the time of the newest object, by the
    store's clock. ``names`` are all objects, the manifest first: the order in which they are to be deleted.
    """

    key: str
    checkpoint_id: int
    is_sealed: bool
    attempts: dict[int, tuple[int, ...]]
    modified_ms: int
    size_bytes: int
    names: tuple[str, ...]


class Staging:
    """The staging folder of one table. Thread-safe; keeps no state."""

    def __init__(self, store: TableStore, retry: RetryPolicy) -> None:
        self._table = store.uri
        self._store = store.staging
        self._retry = retry

    def stage(self, *committables: Committable) -> None:
        """Keep what attempts of tasks finished; durable when this returns. The same again does nothing.

        Raises InvalidInputError where an attempt has staged other files already, StorageError.
        """
        self._each(self._stage, committables)

    def seal(self, manifest: Manifest) -> Manifest:
        """Put the manifest there, if the checkpoint has none; the one that it has, for ever.

        Raises NotFoundError where what was staged is given up, StorageError.
        """
        name = _manifest_name(key_of(manifest.app_id), manifest.checkpoint_id)
        body = manifest.to_bytes()
        found = self._create(name, body)
        if found == _GIVEN_UP:
            raise self._removed(manifest)
        return manifest if found == body else self._parsed(Manifest.from_bytes, found, name)

    def check_sealed(self, manifest: Manifest) -> None:
        """Undo a seal of what was removed between the look at it and the seal. Raises NotFoundError, StorageError."""
        key = key_of(manifest.app_id)
        named = {_task_name(key, manifest.checkpoint_id, task.task_id, task.attempt) for task in manifest.tasks}
        listed = {meta.name for meta in self._required().list_from(min(named))} if named else set()
        try:
            self._each(self._required().stat, sorted(named - listed))  # a directory that changes may hide a name
        except NotFoundError:
            self._required().delete(_manifest_name(key, manifest.checkpoint_id))
            raise self._removed(manifest) from None

    def _removed(self, manifest: Manifest) -> NotFoundError:
        return NotFoundError(
            f"what was staged for checkpoint {manifest.checkpoint_id} of {manifest.app_id!r} is removed, or is about to"
            f" be. Nothing was sealed: sink.discard({manifest.checkpoint_id}) and write it again",
            table=self._table,
        )

    def checkpoints(self, app_id: str | None = None) -> tuple[StagedCheckpoint, ...]:
        """What is staged of an application (None: of all), by ascending checkpoint_id. Raises StorageError."""
        if self._store is None:
            return ()
        start = "" if app_id is None else f"{key_of(app_id)}."
        found = checkpoints_of(meta for meta in self._store.list_from(start) if meta.name.startswith(start))
        if self._store.capabilities.lists_completely or not any(each.is_sealed for each in found):
            return found
        # A directory that changes while it is listed can show a seal and miss an earlier one. By now that is there.
        shown = {each.key: each.checkpoint_id for each in found}
        again = checkpoints_of(meta for meta in self._store.list_from(start) if meta.name.startswith(start))
        return tuple(each for each in again if each.checkpoint_id <= shown.get(each.key, -1))

    def manifest(self, staged: StagedCheckpoint) -> Manifest:
        """The seal of a checkpoint. Raises NotFoundError where somebody deleted it, InvalidInputError, StorageError."""
        name = _manifest_name(staged.key, staged.checkpoint_id)
        body = self._required().read(name)
        if body == _GIVEN_UP:
            raise NotFoundError("this checkpoint was given up before it was sealed", table=self._table, path=name)
        found = self._parsed(Manifest.from_bytes, body, name)
        if key_of(found.app_id) != staged.key or found.checkpoint_id != staged.checkpoint_id:
            raise InvalidInputError("this manifest is of another checkpoint", table=self._table, path=name)
        return found

    def is_sealed(self, staged: StagedCheckpoint) -> bool:
        """Whether there is a seal by now. Raises StorageError."""
        try:
            return self._required().read(_manifest_name(staged.key, staged.checkpoint_id)) != _GIVEN_UP
        except NotFoundError:
            return False

    def is_given_up(self, staged: StagedCheckpoint) -> bool:
        """Whether somebody began to remove it before it was sealed, and did not end that yet. Raises StorageError."""
        try:
            return self._required().read(_manifest_name(staged.key, staged.checkpoint_id)) == _GIVEN_UP
        except NotFoundError:
            return False

    def give_up(self, staged: StagedCheckpoint) -> bool:
        """Remove what was staged and not sealed; False where it is sealed by now. Raises StorageError.

        The place of the seal is taken while that goes on: who looked before could else seal what is gone after.
        """
        name = _manifest_name(staged.key, staged.checkpoint_id)
        if self._create(name, _GIVEN_UP) != _GIVEN_UP:
            return False
        self._each(self._required().delete, [each for each in staged.names if each != name])
        self._required().delete(name)
        return True

    def discard(self, staged: StagedCheckpoint) -> None:
        """Remove what was staged, sealed or not, and let nobody seal it who looked before. Raises StorageError."""
        while not self.give_up(staged):
            self._required().delete(_manifest_name(staged.key, staged.checkpoint_id))

    def tasks(self, staged: StagedCheckpoint, attempts: dict[int, int]) -> list[tuple[SealedTask, Committable]]:
        """What those attempts staged, by ascending task_id. Raises NotFoundError, InvalidInputError, StorageError."""
        chosen = sorted(attempts.items())
        names = [_task_name(staged.key, staged.checkpoint_id, task_id, attempt) for task_id, attempt in chosen]
        found = []
        for (task_id, attempt), name, body in zip(chosen, names, self._each(self._required().read, names), strict=True):
            committable = self._parsed(Committable.from_bytes, body, name)
            expected = (staged.key, staged.checkpoint_id, task_id, attempt)
            of_app = key_of(committable.app_id or "")
            if (of_app, committable.checkpoint_id, committable.task_id, committable.attempt) != expected:
                raise InvalidInputError("this committable is of another task", table=self._table, path=name)
            found.append((SealedTask.of(committable, body), committable))
        return found

    def committables(self, staged: StagedCheckpoint, manifest: Manifest) -> list[Committable]:
        """What a seal names, to the byte. Raises NotFoundError, InvalidInputError, StorageError."""
        found = self.tasks(staged, manifest.attempts)
        if [task for task, _ in found] != list(manifest.tasks):
            raise InvalidInputError(
                f"what is staged for checkpoint {staged.checkpoint_id} of {manifest.app_id!r} is not what was sealed:"
                f" somebody changed {STAGING}",
                table=self._table,
            )
        return [committable for _, committable in found]

    def remove(self, names: Iterable[str]) -> None:
        """Delete staged objects, manifests before all others; absent is fine. Raises StorageError."""
        store = self._required()
        found = list(names)
        self._each(store.delete, [name for name in found if name.endswith(_MANIFEST)])
        self._each(store.delete, [name for name in found if not name.endswith(_MANIFEST)])

    def remove_quietly(self, names: Iterable[str]) -> None:
        """Delete what is committed. Never raises: whatever stays is found, and known as committed, by the next."""
        try:
            self.remove(names)
        except TxlogError as error:
            logger.warning("%s: what is committed stays in %s for now: %s", self._table, STAGING, error)

    def _required(self) -> LogStore:
        if self._store is None:
            raise UnsupportedFeatureError("this store has no staging", table=self._table, features=("staging",))
        return self._store

    def _stage(self, committable: Committable) -> None:
        assert committable.app_id is not None
        assert committable.checkpoint_id is not None
        name = _task_name(
            key_of(committable.app_id), committable.checkpoint_id, committable.task_id, committable.attempt
        )
        body = committable.to_bytes()
        if self._create(name, body) != body:
            raise InvalidInputError(
                f"attempt {committable.attempt} of task {committable.task_id} of checkpoint {committable.checkpoint_id}"
                f" of {committable.app_id!r} has staged other files already. Each run of a task needs an attempt number"
                f" above those before it; sink.discard({committable.checkpoint_id}) drops what an earlier run staged",
                table=self._table,
                path=f"{STAGING}/{name}",
            )

    def _create(self, name: str, body: bytes) -> bytes:
        """What ``name`` holds from now on: ``body``, or what somebody else put there first."""
        store = self._required()
        pacing = self._retry.pacing(store.round_trip_s)
        while True:
            outcome = store.put_if_absent(name, body)
            if outcome is PutOutcome.WRITTEN:
                return body
            if outcome is PutOutcome.NOT_DURABLE:
                why = "it is visible, but could not be synced to disk"
            else:
                try:
                    found = store.read(name)
                    store.make_durable(name)
                    return found
                except NotFoundError:
                    if pacing.pause():
                        continue
                why = "no readable answer came before the retry policy ended"
            raise StorageError(f"could not stage {name}: {why}. Stage it again", table=self._table, path=name)

    def _each(self, call: Callable[[In], Out], items: Sequence[In]) -> list[Out]:
        """The answers in order; many at once where each is a request."""
        if self._required().capabilities.has_cheap_calls or len(items) < 4:
            return [call(item) for item in items]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="txlog-staging") as pool:
            # Each runs in a copy of the caller's context, which carries its clock.
            running = [pool.submit(contextvars.copy_context().run, call, item) for item in items]
            return [each.result() for each in running]

    def _parsed(self, parse: Callable[[bytes], Parsed], body: bytes, name: str) -> Parsed:
        try:
            return parse(body)
        except TxlogError as error:
            error.table, error.path = self._table, f"{STAGING}/{name}"
            raise


def checkpoints_of(listed: Iterable[ObjectMeta]) -> tuple[StagedCheckpoint, ...]:
    """What a listing shows, by application and ascending checkpoint_id. Names of no known form are passed over."""
    groups: dict[tuple[str, int], list[tuple[re.Match[str], ObjectMeta]]] = {}
    for meta in listed:
        match = _NAME.fullmatch(meta.name)
        if match is not None:
            groups.setdefault((match[1], int(match[2])), []).append((match, meta))
    return tuple(_checkpoint(key, checkpoint_id, groups[key, checkpoint_id]) for key, checkpoint_id in sorted(groups))


def key_of(app_id: str) -> str:
    """What the names of an application's objects begin with: of any text, short, and its alone."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", app_id)[:_READABLE_KEY_CHARACTERS].strip("-")
    return f"{readable or 'app'}-{checksum(app_id.encode())[:16]}"


def _checkpoint(key: str, checkpoint_id: int, found: list[tuple[re.Match[str], ObjectMeta]]) -> StagedCheckpoint:
    attempts: dict[int, list[int]] = {}
    for match, _ in found:
        if match[3] is not None:
            attempts.setdefault(int(match[3]), []).append(int(match[4]))
    is_manifest = {meta.name: match[3] is None for match, meta in found}
    return StagedCheckpoint(
        key=key,
        checkpoint_id=checkpoint_id,
        is_sealed=any(is_manifest.values()),
        attempts={task_id: tuple(sorted(attempts[task_id])) for task_id in sorted(attempts)},
        modified_ms=max(meta.modified_ms for _, meta in found),
        size_bytes=sum(meta.size for _, meta in found),
        names=tuple(sorted(is_manifest, key=lambda name: (not is_manifest[name], name))),
    )


def _task_name(key: str, checkpoint_id: int, task_id: int, attempt: int) -> str:
    return f"{key}.{checkpoint_id:020d}.task.{task_id}.{attempt}"


def _manifest_name(key: str, checkpoint_id: int) -> str:
    return f"{key}.{checkpoint_id:020d}{_MANIFEST}"


def _manifest(value: dict[str, Any], version: int) -> Manifest:
    """Whoever can write a manifest can write its checksum, so every field is looked at."""
    sizes = ("task_id", "attempt", "num_files", "num_rows", "size_bytes", *(("num_replaced",) if version > 1 else ()))
    tasks = tuple(
        SealedTask(checksum=read_text(task["checksum"]), **{name: read_size(task[name]) for name in sizes})
        for task in value["tasks"]
    )
    if [task.task_id for task in tasks] != sorted({task.task_id for task in tasks}):
        raise ValueError("a task appears twice, or out of order")
    return Manifest(
        app_id=read_text(value["app_id"]),
        checkpoint_id=read_size(value["checkpoint_id"]),
        table_id=read_text(value["table_id"]),
        intent=_intent_of_mode(value["mode"]) if version == 1 else read_intent(value["intent"]),
        fingerprint=None if value["fingerprint"] is None else read_text(value["fingerprint"]),
        tasks=tasks,
    )


def _intent_of_mode(mode: Any) -> WriteIntent:
    if mode not in ("append", "overwrite"):
        raise ValueError(f"mode {mode!r} is unknown")
    return WriteIntent(mode)
