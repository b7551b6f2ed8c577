"""Durable staging: the finished work of a sink's tasks, kept in the table's own folder until it is committed.

In: committables of tasks, and seals. Out: the same, checked, in any process. It has no clock and decides nothing:
``_recovery`` decides what may be sealed or committed, and the `Sink` commits.

Layout. One flat folder next to the log, hidden from every vacuum by its underscore:

    _txlog/staging/<app>.<checkpoint>.task.<task>.<attempt>     the committable of one attempt of one task
    _txlog/staging/<app>.<checkpoint>.manifest                  the seal of the checkpoint
    _txlog/staging/<app>.<checkpoint>.<round>.manifest          the same after it was given up, from round 1
    _txlog/staging/<app>.<checkpoint>.<round>.void              the seal of this round is void
    _txlog/staging/<app>.<checkpoint>.<round>.over              the work that this round gave up is removed

``<app>`` is the readable start of the app_id and a hash of all of it, ``<checkpoint>`` its id in 20 digits. An object
is written once, by put-if-absent, durable when that returns (on a disk: synced, linked, its directory synced), and
starts with its format and checksum. It is never changed, only deleted.

The order of writes. A task writes its data files and makes them durable, then stages its committable. When all tasks
are done, the coordinator seals the checkpoint: the manifest lists its tasks, each with the one attempt to commit and
the checksum of its committable, and says whether the commit appends to the table or replaces its content. From then on
only this may be committed as that checkpoint, by any process. The committer commits it, then deletes first the
manifest, then the tasks' committables. This module never deletes data files: only a vacuum knows which are orphans.

What a crash leaves, and what `Sink.recover` does about it:

    while a data file is written      a hidden file: nothing; its task must run again
    before a task has staged          data files that nothing names: orphans for vacuum; its task must run again
    before the seal                   tasks' committables alone: reported as partial, never committed by recovery
    after the seal                    a manifest: its checkpoint is committed, in the order of checkpoint ids
    while or after it is committed    the table's ``txn`` proves the commit: it is not committed again
    while staging is deleted          leftovers of a checkpoint that the ``txn`` covers: deleted

If two processes seal one checkpoint, put-if-absent accepts one manifest, and the other process reads it. If two commit
it, the ``txn`` action lets one win, and the other finds that it is committed.

Who gives up a checkpoint that is not sealed puts a placeholder under the manifest's name, so either it is given up or
it is sealed; who gives up a sealed one puts ``void`` beside the seal. Both name the work that goes. It is deleted, then
``over`` is put, and from then on the checkpoint may be written and sealed again, under the names of the next round. If
the remover dies, the next one deletes what was named, and nothing else. What says that a round is over stays until the
application is past the checkpoint. So no name is used twice, and neither a remover nor a put that is late can meet the
seal of a later round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from txlog.core.format import sealed_json
from txlog.core.format.sealed_json import checksum
from txlog.core.format.wire import read_size, read_text
from txlog.core.parallel import parallel_map
from txlog.core.store import STAGING, LogStore, ObjectMeta, RetryPolicy, TableStore, write_once
from txlog.core.util import logger
from txlog.core.writing.committable import Committable
from txlog.core.writing.write_intent import WriteIntent, read_intent
from txlog.errors import InvalidInputError, NotFoundError, TxlogError, UnsupportedFeatureError
from txlog.result import counted, human_size

_REQUESTS_AT_ONCE = 16
_MANIFEST, _VOID, _OVER = "manifest", "void", "over"
_GIVEN_UP = b"txlog-given-up 1\n"
_IS_OVER = b"txlog-over 1\n"
_READABLE_KEY_CHARACTERS = 40
_NAME = re.compile(
    r"([A-Za-z0-9-]+)\.([0-9]{20})\.(?:task\.([0-9]{1,19})\.([0-9]{1,19})|(?:([0-9]{1,9})\.)?(manifest|void|over))"
)

In = TypeVar("In")
Out = TypeVar("Out")
Parsed = TypeVar("Parsed")


class SealedTask(msgspec.Struct, frozen=True):
    """The one attempt of a task that belongs to a checkpoint, and the ``checksum`` of its staged committable."""

    task_id: int
    attempt: int
    checksum: str
    num_files: int
    num_rows: int
    size_bytes: int
    num_keys: int = 0

    @classmethod
    def of(cls, committable: Committable, staged: bytes) -> SealedTask:
        return cls(
            committable.task_id,
            committable.attempt,
            checksum(staged),
            len(committable.files),
            committable.num_rows,
            committable.size_bytes,
            committable.num_keys,
        )


class Manifest(msgspec.Struct, frozen=True):
    """A sealed checkpoint: all of its tasks, by ascending id. Equal seals have equal bytes.

    ``intent`` is what its commit does to the table's existing rows. ``together`` are the ids of all tables that a
    `SinkGroup` sealed the checkpoint for, ascending; the seal of the first one decides for all.
    """

    app_id: str
    checkpoint_id: int
    table_id: str
    intent: WriteIntent
    fingerprint: str | None
    tasks: tuple[SealedTask, ...]
    together: tuple[str, ...] = ()

    @property
    def num_files(self) -> int:
        return sum(task.num_files for task in self.tasks)

    @property
    def is_empty(self) -> bool:
        """Whether no task wrote a file, or changes rows by their keys."""
        return not any(task.num_files or task.num_keys for task in self.tasks)

    @property
    def leaves_no_record(self) -> bool:
        """Whether its commit may make no version: it has no rows, and replaces none."""
        return self.is_empty and self.intent.kind in ("append", "upsert")

    @property
    def num_rows(self) -> int:
        return sum(task.num_rows for task in self.tasks)

    @property
    def size_bytes(self) -> int:
        return sum(task.size_bytes for task in self.tasks)

    @property
    def attempts(self) -> dict[int, int]:
        """The attempt to commit, by task_id."""
        return {task.task_id: task.attempt for task in self.tasks}

    def __repr__(self) -> str:
        counts = [counted(len(self.tasks), "task"), counted(self.num_files, "file"), counted(self.num_rows, "row")]
        counts.append(human_size(self.size_bytes))
        return f"Manifest(app_id={self.app_id!r}, checkpoint_id={self.checkpoint_id}, {', '.join(counts)})"

    def to_bytes(self) -> bytes:
        """Its bytes, with a checksum: see ``sealed_json``."""
        return sealed_json.to_bytes("manifest", self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest from its bytes. Raises InvalidInputError if a byte was changed or lost, UnsupportedFeatureError
        if a newer txlog wrote it."""
        return sealed_json.from_bytes("manifest", data, _manifest)


class StagedCheckpoint(msgspec.Struct, frozen=True):
    """What a listing shows of one checkpoint of one application.

    ``attempts`` are the staged ones, ascending, by task_id; ``modified_ms`` is the newest object's time, by the store's
    clock. ``names`` are all objects in the order of deletion: manifests first. ``round`` is the one in which it is
    sealed or given up next; ``is_void``: its seal was given up, and what it names may not be removed yet.
    """

    key: str
    checkpoint_id: int
    is_sealed: bool
    attempts: dict[int, tuple[int, ...]]
    modified_ms: int
    size_bytes: int
    names: tuple[str, ...]
    round: int = 0
    is_void: bool = False

    @property
    def has_work(self) -> bool:
        """Whether more is left than what says that earlier rounds are over."""
        return bool(self.attempts or self.is_sealed or self.is_void)


class Staging:
    """The staging folder of one table. Thread-safe; keeps no state."""

    def __init__(self, store: TableStore, retry: RetryPolicy) -> None:
        self._table = store.uri
        self._store = store.staging
        self._retry = retry

    def stage(self, *committables: Committable) -> None:
        """Store committables; durable when this returns. Storing the same again does nothing.

        Raises InvalidInputError if an attempt already staged other files, StorageError.
        """
        self._each(self._stage, committables)

    def seal(self, manifest: Manifest, in_round: int = 0) -> Manifest:
        """Write the manifest of this round if there is none. Returns the round's manifest.

        Raises NotFoundError if the staged work was given up, StorageError.
        """
        name = _decision(key_of(manifest.app_id), manifest.checkpoint_id, in_round, _MANIFEST)
        body = manifest.to_bytes()
        found = self._create(name, body)
        if found.startswith(_GIVEN_UP):
            raise self.removed(manifest.app_id, manifest.checkpoint_id)
        return manifest if found == body else self._parsed(Manifest.from_bytes, found, name)

    def check_sealed(self, manifest: Manifest, in_round: int = 0) -> None:
        """Make the seal void if staged work was removed after the listing. Raises NotFoundError, StorageError."""
        key = key_of(manifest.app_id)
        named = {_task_name(key, manifest.checkpoint_id, task.task_id, task.attempt) for task in manifest.tasks}
        listed = {meta.name for meta in self._required().list_from(min(named))} if named else set()
        try:
            self._each(self._required().stat, sorted(named - listed))  # a changing directory may hide a name
        except NotFoundError:
            sealed = StagedCheckpoint(key, manifest.checkpoint_id, True, {}, 0, 0, tuple(sorted(named)), in_round)
            self.give_up(sealed, sealed_too=True)
            raise self.removed(manifest.app_id, manifest.checkpoint_id) from None

    def nothing(self, app_id: str, checkpoint_id: int) -> StagedCheckpoint:
        """A checkpoint of which nothing is staged."""
        return StagedCheckpoint(key_of(app_id), checkpoint_id, False, {}, 0, 0, ())

    def removed(self, app_id: str, checkpoint_id: int) -> NotFoundError:
        """The error for a checkpoint whose work goes while it is sealed."""
        return NotFoundError(
            f"the staged work of checkpoint {checkpoint_id} of {app_id!r} was removed, or is being removed. Nothing was"
            f" sealed: call sink.discard({checkpoint_id}) and write it again",
            table=self._table,
        )

    def checkpoints(self, app_id: str | None = None) -> tuple[StagedCheckpoint, ...]:
        """An application's staged checkpoints (None: all applications'), by ascending id. Raises StorageError."""
        if self._store is None:
            return ()
        start = "" if app_id is None else f"{key_of(app_id)}."
        found = checkpoints_of(meta for meta in self._store.list_from(start) if meta.name.startswith(start))
        if self._store.capabilities.lists_completely or not any(each.is_sealed for each in found):
            return found
        # A listing of a changing directory can show a seal and miss an earlier one. A second listing has it.
        shown = {each.key: each.checkpoint_id for each in found}
        again = checkpoints_of(meta for meta in self._store.list_from(start) if meta.name.startswith(start))
        return tuple(each for each in again if each.checkpoint_id <= shown.get(each.key, -1))

    def manifest(self, staged: StagedCheckpoint) -> Manifest:
        """The seal of a checkpoint. Raises NotFoundError if it was deleted, InvalidInputError, StorageError."""
        name = _decision(staged.key, staged.checkpoint_id, staged.round, _MANIFEST)
        body = self._required().read(name)
        if body.startswith(_GIVEN_UP):
            raise NotFoundError("this checkpoint was given up before it was sealed", table=self._table, path=name)
        found = self._parsed(Manifest.from_bytes, body, name)
        if key_of(found.app_id) != staged.key or found.checkpoint_id != staged.checkpoint_id:
            raise InvalidInputError("this manifest belongs to another checkpoint", table=self._table, path=name)
        return found

    def is_sealed(self, staged: StagedCheckpoint) -> bool:
        """Whether the checkpoint is sealed by now, in the round of ``staged``. Raises StorageError."""
        body = self._found(staged, _MANIFEST)
        return body is not None and not body.startswith(_GIVEN_UP) and self._found(staged, _VOID) is None

    def is_given_up(self, staged: StagedCheckpoint) -> bool:
        """Whether a removal of this unsealed checkpoint has begun but not finished. Raises StorageError."""
        body = self._found(staged, _MANIFEST)
        return body is not None and body.startswith(_GIVEN_UP) and self._found(staged, _OVER) is None

    def open_round(self, app_id: str, staged: StagedCheckpoint | None) -> int:
        """The round in which the checkpoint may be sealed. Raises NotFoundError while its work is being removed."""
        if staged is None:
            return 0
        if staged.is_void:
            raise self.removed(app_id, staged.checkpoint_id)
        return staged.round

    def give_up(self, staged: StagedCheckpoint, *, sealed_too: bool = False) -> bool:
        """Remove a checkpoint's staged work; False if it is sealed by now, unless ``sealed_too``. Raises StorageError.

        A process that listed the work before cannot seal it any more.
        """
        names = self.begin_to_give_up(staged, sealed_too=sealed_too)
        if names is not None:
            self.end_giving_up(staged, names)
        return names is not None

    def begin_to_give_up(self, staged: StagedCheckpoint, *, sealed_too: bool = False) -> list[str] | None:
        """The first half of `give_up`: from now on this round is not sealed any more, and the next one cannot be.

        Returns the names to remove; None if the checkpoint is sealed and stays so.
        """
        identity = staged.key, staged.checkpoint_id, staged.round
        named = [name for name in staged.names if _is_task(name)]
        found = self._create(_decision(*identity, _MANIFEST), _given_up(named))
        if not found.startswith(_GIVEN_UP):
            if not sealed_too and not staged.is_void and self._found(staged, _VOID) is None:
                return None
            found = self._create(_decision(*identity, _VOID), _given_up(named))
        return _names_in(found) or named

    def end_giving_up(self, staged: StagedCheckpoint, names: Sequence[str]) -> None:
        """The second half: remove what was given up; then the checkpoint may be sealed again, in the next round."""
        self._each(self._required().delete, names)
        self._create(_decision(staged.key, staged.checkpoint_id, staged.round, _OVER), _IS_OVER)

    def _found(self, staged: StagedCheckpoint, kind: str) -> bytes | None:
        try:
            return self._required().read(_decision(staged.key, staged.checkpoint_id, staged.round, kind))
        except NotFoundError:
            return None

    def tasks(self, staged: StagedCheckpoint, attempts: dict[int, int]) -> list[tuple[SealedTask, Committable]]:
        """The committables of these attempts, by task_id. Raises NotFoundError, InvalidInputError, StorageError."""
        chosen = sorted(attempts.items())
        names = [_task_name(staged.key, staged.checkpoint_id, task_id, attempt) for task_id, attempt in chosen]
        found = []
        for (task_id, attempt), name, body in zip(chosen, names, self._each(self._required().read, names), strict=True):
            committable = self._parsed(Committable.from_bytes, body, name)
            expected = (staged.key, staged.checkpoint_id, task_id, attempt)
            of_app = key_of(committable.app_id or "")
            if (of_app, committable.checkpoint_id, committable.task_id, committable.attempt) != expected:
                raise InvalidInputError("this committable belongs to another task", table=self._table, path=name)
            found.append((SealedTask.of(committable, body), committable))
        return found

    def committables(self, staged: StagedCheckpoint, manifest: Manifest) -> list[Committable]:
        """The committables that a seal names, unchanged. Raises NotFoundError, InvalidInputError, StorageError."""
        found = self.tasks(staged, manifest.attempts)
        if [task for task, _ in found] != list(manifest.tasks):
            raise InvalidInputError(
                f"the staged work of checkpoint {staged.checkpoint_id} of {manifest.app_id!r} is not what was sealed:"
                f" another program changed {STAGING}",
                table=self._table,
            )
        return [committable for _, committable in found]

    def named_paths(self) -> set[str]:
        """The files that staged work names, although no commit may name them yet: paths relative to the table, decoded.

        Unsealed attempts count, since they may be sealed later. Raises InvalidInputError, StorageError.
        """
        if self._store is None:
            return set()
        looks = 1 if self._store.capabilities.lists_completely else 2  # a changing folder may hide a name
        listed = {meta.name for _ in range(looks) for meta in self._store.list_from("")}
        return set().union(*self._each(self._paths_in, [*filter(_is_task, listed)]))

    def _paths_in(self, name: str) -> set[str]:
        try:
            body = self._required().read(name)
        except NotFoundError:  # committed or discarded meanwhile
            return set()
        return self._parsed(Committable.from_bytes, body, name).named_paths()

    def remove(self, names: Iterable[str]) -> None:
        """Delete staged objects, manifests first; missing ones are fine. Raises StorageError."""
        store = self._required()
        found = list(names)
        self._each(store.delete, [name for name in found if name.endswith(f".{_MANIFEST}")])
        self._each(store.delete, [name for name in found if not name.endswith(f".{_MANIFEST}")])

    def remove_quietly(self, names: Iterable[str]) -> bool:
        """Delete the staging of committed work; False if some is left. Never raises: the next call deletes the rest."""
        try:
            self.remove(names)
        except TxlogError as error:
            logger.warning("%s: committed work could not be deleted from %s: %s", self._table, STAGING, error)
            return False
        return True

    def _required(self) -> LogStore:
        if self._store is None:
            raise UnsupportedFeatureError(
                "this store does not support staging", table=self._table, features=("staging",)
            )
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
                f" of {committable.app_id!r} already staged other files. Each run of a task needs a higher attempt"
                f" number; sink.discard({committable.checkpoint_id}) removes the staging of an earlier run",
                table=self._table,
                path=f"{STAGING}/{name}",
            )

    def _create(self, name: str, body: bytes) -> bytes:
        """Write ``body`` as ``name`` if absent. Returns the object's content: ``body``, or another writer's bytes."""
        with TxlogError.located(self._table):
            return write_once(self._required(), name, body, self._retry)

    def _each(self, call: Callable[[In], Out], items: Sequence[In]) -> list[Out]:
        """The results, in order. Calls run in parallel if each is a request."""
        if self._required().capabilities.has_cheap_calls or len(items) < 4:
            return [call(item) for item in items]
        return list(parallel_map(call, items, threads=_REQUESTS_AT_ONCE))

    def _parsed(self, parse: Callable[[bytes], Parsed], body: bytes, name: str) -> Parsed:
        try:
            return parse(body)
        except TxlogError as error:
            error.table, error.path = self._table, f"{STAGING}/{name}"
            raise


def checkpoints_of(listed: Iterable[ObjectMeta]) -> tuple[StagedCheckpoint, ...]:
    """The checkpoints in a listing, by application and ascending checkpoint_id. Unknown names are ignored."""
    groups: dict[tuple[str, int], list[tuple[re.Match[str], ObjectMeta]]] = {}
    for meta in listed:
        match = _NAME.fullmatch(meta.name)
        if match is not None:
            groups.setdefault((match[1], int(match[2])), []).append((match, meta))
    return tuple(_checkpoint(key, checkpoint_id, groups[key, checkpoint_id]) for key, checkpoint_id in sorted(groups))


def key_of(app_id: str) -> str:
    """The prefix of an application's object names: short and unique, for any app_id."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", app_id)[:_READABLE_KEY_CHARACTERS].strip("-")
    return f"{readable or 'app'}-{checksum(app_id.encode())[:16]}"


def _checkpoint(key: str, checkpoint_id: int, found: list[tuple[re.Match[str], ObjectMeta]]) -> StagedCheckpoint:
    attempts: dict[int, list[int]] = {}
    rounds: dict[int, set[str]] = {}
    for match, _ in found:
        if match[3] is not None:
            attempts.setdefault(int(match[3]), []).append(int(match[4]))
        else:
            rounds.setdefault(int(match[5] or 0), set()).add(match[6])
    last = max(rounds, default=0)
    is_over = _OVER in rounds.get(last, ())
    now = set() if is_over else rounds.get(last, set())
    is_manifest = {meta.name: match[6] == _MANIFEST for match, meta in found}
    return StagedCheckpoint(
        key=key,
        checkpoint_id=checkpoint_id,
        is_sealed=_MANIFEST in now and _VOID not in now,
        attempts={task_id: tuple(sorted(attempts[task_id])) for task_id in sorted(attempts)},
        modified_ms=max(meta.modified_ms for _, meta in found),
        size_bytes=sum(meta.size for _, meta in found),
        names=tuple(sorted(is_manifest, key=lambda name: (not is_manifest[name], name))),
        round=last + is_over,
        is_void=_VOID in now,
    )


def _is_task(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[3] is not None


def _given_up(names: Iterable[str]) -> bytes:
    return _GIVEN_UP + "".join(f"{name}\n" for name in sorted(names)).encode()


def _names_in(given_up: bytes) -> list[str]:
    """The tasks that were given up. Who can write here can delete it as well."""
    return [name for name in given_up.decode("ascii", "replace").split("\n")[1:] if _is_task(name)]


def _task_name(key: str, checkpoint_id: int, task_id: int, attempt: int) -> str:
    return f"{key}.{checkpoint_id:020d}.task.{task_id}.{attempt}"


def _decision(key: str, checkpoint_id: int, in_round: int, kind: str) -> str:
    number = f"{in_round}." if in_round or kind != _MANIFEST else ""
    return f"{key}.{checkpoint_id:020d}.{number}{kind}"


def _manifest(value: dict[str, Any]) -> Manifest:
    """Read a manifest. Every field is checked, since a program that can write a manifest can write its checksum."""
    sizes = ("task_id", "attempt", "num_files", "num_rows", "size_bytes", "num_keys")
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
        intent=read_intent(value["intent"]),
        fingerprint=None if value["fingerprint"] is None else read_text(value["fingerprint"]),
        tasks=tasks,
        together=tuple(read_text(each) for each in value["together"]),
    )
