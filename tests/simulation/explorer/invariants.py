"""The promises of a table as checks of its log, independent of the code that keeps them.

In: a `MemoryLogStore` after every step, and what each transaction declared and was answered. Out: nothing, or
`InvariantBroken`. The `Ledger` replays the raw JSON of each version once, when it becomes visible, and remembers the
result; later observations are compared with it. Nothing here uses `txlog.core.versions.decisions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

import orjson

from explorer.exports import ExportHistory
from explorer.rows import RowHistory
from explorer.versions import Attempt, InvariantBroken, State, Version, parsed_commit, replayed
from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.log_names import LogFileKind, parse_log_name
from txlog.core.store._versions import FolderVersions
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

__all__ = ["Ledger"]

_MANIFEST = ".manifest"
_file = FolderVersions.name_of


class Ledger:
    """Every version that ever became visible; ``syncs`` if visible and durable differ, as on a local disk."""

    def __init__(
        self,
        log: MemoryLogStore,
        files: MemoryFileStore,
        staging: MemoryLogStore,
        iceberg: MemoryLogStore,
        *,
        syncs: bool = True,
    ) -> None:
        self.log = log
        self.files = files
        self.staging = staging
        self.exports = ExportHistory(iceberg, files, syncs=syncs)
        self.syncs = syncs
        self.is_serializable = False
        self.rows: RowHistory | None = None
        """The rows of each version, in a story about rows."""
        self.versions: dict[int, Version] = {}
        self.states: dict[int, State] = {}
        self.attempts: dict[str, Attempt] = {}
        self.txn_ids: dict[str, int] = {}
        self.apps: dict[tuple[str, int], int] = {}
        self.acknowledged: set[int] = set()
        self.gone: set[int] = set()
        self.named: set[int] = set()
        """The versions that have a name, for good."""
        self.sealed: set[tuple[str, int]] = set()
        """The checkpoints that were reported as sealed."""
        self.discarded: set[tuple[str, int]] = set()
        self.abandoned: set[tuple[str, int]] = set()
        """The checkpoints that a commit gave up."""
        self.taken_back: set[str] = set()
        """The sealed files of which an operator was told that they are discarded."""
        self._staged: dict[str, tuple[bytes, tuple[str, int], tuple[str, ...]]] = {}
        self._staged_keys: dict[str, tuple[str, ...]] = {}
        self._seals: dict[tuple[str, int], set[tuple[str, ...]]] = {}
        self._kinds: dict[str, tuple[bool, int]] = {}
        self._seen: dict[str, bytes] = {}

    def copy(
        self, log: MemoryLogStore, files: MemoryFileStore, staging: MemoryLogStore, iceberg: MemoryLogStore
    ) -> Ledger:
        """The same history for copies of the stores."""
        copied = Ledger(log, files, staging, iceberg, syncs=self.syncs)
        for name in ("versions", "states", "txn_ids", "apps", "_kinds", "_seen", "_staged", "_staged_keys"):
            setattr(copied, name, dict(getattr(self, name)))
        copied._seals = {work: set(paths) for work, paths in self._seals.items()}
        copied.sealed = set(self.sealed)
        copied.rows = self.rows and self.rows.copy(files)
        copied.exports = self.exports.copy(iceberg, files)
        return copied

    @property
    def latest(self) -> int:
        return max(self.versions, default=-1)

    # --- after every step -------------------------------------------------------------------------------------

    def observe(self, *, oldest_retained_ms: int | None = None) -> None:
        """Check the log: new files are checked and remembered, known files must not have changed."""
        if self.staging.objects:
            self._look_at_staging()
        new: list[int] = []
        for name, (body, _) in self.log.objects.items():
            seen = self._seen.get(name)
            if seen is body:
                continue
            version = self._commit_version(name)
            if version is None:
                self._seen[name] = body
            elif seen is None:
                new.append(version)
            elif seen != body:
                raise InvariantBroken("versions are immutable", f"the bytes of v{version} changed")
        for version in sorted(new):
            self._appears(version)
        self.exports.observe(self.states)
        if len(self._seen) > len(self.log.objects):
            self._require_readable(oldest_retained_ms)

    def _look_at_staging(self) -> None:
        """Remember everything that was staged, and the files of everything that was sealed, from the stored bytes."""
        for name, (body, _) in sorted(self.staging.objects.items(), key=lambda found: found[0].endswith(_MANIFEST)):
            if name.startswith("prepared.") or (name in self._staged and self._staged[name][0] is body):
                continue
            if body.startswith((b"txlog-given-up", b"txlog-over")):
                continue
            staged = orjson.loads(body.partition(b"\n")[2])
            work = (staged["app_id"], staged["checkpoint_id"])
            if "files" in staged:
                self._require_durable_keys(staged)
                self._staged_keys[name] = tuple(file["path"] for file in staged.get("keys", ()))
                self._staged[name] = (body, work, tuple(file["path"] for file in staged["files"]))
                continue
            start = _checkpoint_of(name)
            tasks = [f"{start}.task.{task['task_id']}.{task['attempt']}" for task in staged["tasks"]]
            if not self._staged.keys() >= set(tasks):
                raise InvariantBroken("a seal names what is staged", f"{work} is sealed with {tasks}")
            paths = tuple(sorted(path for task in tasks for path in self._staged[task][2]))
            self._staged[name] = (body, work, paths)
            self._seals.setdefault(work, set()).add(paths)

    def require_files(self, retained_ms: int) -> None:
        """Check in stories with vacuums that all needed files exist: those of the newest version, of versions that were
        the newest at or after ``retained_ms``, of named versions, and of everything that is sealed and not committed
        yet.
        """
        for name, (_, work, paths) in self._staged.items():
            is_sealed = name.endswith(_MANIFEST) and name in self.staging.objects and not self._is_void(name)
            if is_sealed and work not in self.apps:
                tasks = (task for task in self._staged if task.startswith(f"{_checkpoint_of(name)}.task."))
                keys = [path for task in tasks for path in self._staged_keys.get(task, ())]
                self._require_there(f"the seal of {work}", (*paths, *keys))
        for version, state in self.states.items():
            after = self.versions.get(version + 1)
            if after is None or after.modified_ms >= retained_ms or version in self.named:
                self._require_there(f"v{version}", (path for add in state.live.values() for path in _paths_of(add)))

    def _is_void(self, seal: str) -> bool:
        in_round = seal.removesuffix(_MANIFEST).split(".")[2:] or ["0"]
        return f"{_checkpoint_of(seal)}.{in_round[0]}.void" in self.staging.objects

    def _require_there(self, needed_by: str, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self.files.objects:
                raise InvariantBroken(
                    "a vacuum deletes nothing that is needed", f"{path}, which {needed_by} needs, is gone"
                )

    def _require_durable_keys(self, staged: dict[str, Any]) -> None:
        """Keys must be durable: a commit of a later life reads what is staged."""
        for file in staged.get("keys", ()):
            if file["path"] in self.files.objects and file["path"] not in self.files.durable:
                raise InvariantBroken("keys are on disk before they are staged", f"{file['path']} is not durable")

    def _check_sealed(self, version: int, entry: Version) -> None:
        again = {action["remove"]["path"] for action in entry.actions if "remove" in action}  # with another vector
        added = {action["add"]["path"] for action in entry.actions if "add" in action}
        paths = tuple(sorted(added - again))
        # In a table without deletion vectors, row changes also add copies of files.
        may_copy = any(action.get("commitInfo", {}).get("operation") == "MERGE" for action in entry.actions)
        info: Mapping[str, Any] = next((each["commitInfo"] for each in entry.actions if "commitInfo" in each), {})
        gives_up = info.get("operation") == "ABANDON CHECKPOINT"
        if "heldBack" in info.get("operationParameters", {}):
            return  # a file with a row that is held back is copied without it
        for action in entry.actions:
            work = (action["txn"]["appId"], action["txn"]["version"]) if "txn" in action else None
            if work is not None and gives_up:
                self.abandoned.add(work)
            if work not in {work for _, work, _ in self._staged.values()} or gives_up:
                continue
            if not self.taken_back.isdisjoint(paths):
                raise InvariantBroken("what was discarded never appears", f"v{version} adds rows of {work}")
            sealed = self._seals.get(work, set())
            if paths not in sealed and not (may_copy and any(set(each) <= set(paths) for each in sealed)):
                raise InvariantBroken("only what was sealed is committed", f"v{version} is {work} with {paths}")

    def _check_abandoned(self, version: int, entry: Version) -> None:
        """Check that nothing of a checkpoint that was given up is in the table, neither then nor later."""
        added = {action["add"]["path"] for action in entry.actions if "add" in action}
        for _, work, paths in self._staged.values():
            if work in self.abandoned and not added.isdisjoint(paths):
                raise InvariantBroken("what is abandoned never appears", f"v{version} adds rows of {work}")

    def sealed_files(self, work: tuple[str, int]) -> set[str]:
        """All files that a seal of this checkpoint named."""
        return {path for paths in self._seals.get(work, ()) for path in paths}

    def has_rows_of(self, work: tuple[str, int]) -> bool:
        """Whether the newest version has files that were staged for this checkpoint."""
        live = self.states[self.latest].live
        return any(path in live for _, of, paths in self._staged.values() if of == work for path in paths)

    def app_ids_of_seals(self) -> set[str]:
        """The applications that have sealed anything."""
        return {app_id for app_id, _ in self._seals}

    def require_sealed_committed(self, excused: Collection[str] = ()) -> None:
        """Raise `InvariantBroken` if a checkpoint that was reported as sealed is neither committed nor discarded.

        Checkpoints of the applications ``excused`` may be neither.
        """
        missing = self.sealed - self.apps.keys() - self.discarded
        for work in sorted(work for work in missing if work[0] not in excused):
            raise InvariantBroken("what was sealed is recovered", f"{work} is not in the table after a recovery")

    def _commit_version(self, name: str) -> int | None:
        known = self._kinds.get(name)
        if known is None:
            parsed = parse_log_name(name)
            known = (parsed is not None and parsed.kind is LogFileKind.COMMIT, parsed.version if parsed else -1)
            self._kinds[name] = known
        return known[1] if known[0] else None

    def _appears(self, version: int) -> None:
        name = _file(version)
        body, modified_ms = self.log.objects[name]
        if version in self.gone:
            self._seen[name] = body  # it is below the first readable version, so no reader sees it
            return
        if version != self.latest + 1:
            raise InvariantBroken("versions are dense", f"v{version} appeared while the newest was v{self.latest}")
        actions = parsed_commit(version, body)
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        joined = info.get("txlog", {}).get("joined", ())
        txn_ids = tuple(each["txnId"] for each in (info, *joined) if "txnId" in each)
        # neither a withdrawal nor a range of numbers that is put aside is work
        of_work = () if info.get("operation") in ("FENCE", "RESERVE IDENTITY") else txn_ids
        attempts = {key: self.attempts[key] for key in (each[:8] for each in of_work) if key in self.attempts}
        entry = Version(body, modified_ms, txn_ids, actions, tuple(attempts.values()), is_foreign="txlog" not in info)
        if not entry.is_foreign:
            self._check_below_is_durable(version)
        self._check_unique(version, entry)
        _check_joined(version, entry, joined)
        if info.get("operationParameters", {}).get("isDynamicPartitionOverwrite") == "true":
            _check_replaced(version, entry, joined, self.states[version - 1].live)
        for attempt in entry.attempts:
            if attempt.answer in ("refused", "nothing to do"):
                raise InvariantBroken(
                    "a definite failure never appears", f"{attempt.actor} got {attempt.error!r}; it is v{version}"
                )
            if attempt.read_version is None:
                attempt.read_version = info.get("readVersion")
            if attempt.is_blind is None:
                attempt.is_blind = bool(info.get("isBlindAppend"))
            if attempt.changes_data and bool(info.get("isBlindAppend")) != attempt.is_blind:
                raise InvariantBroken("isBlindAppend follows the declared reads", f"v{version} of {attempt.actor}")
            self._check_serializable(version, attempt)
        self._check_files(version, entry)
        if self._staged:
            self._check_sealed(version, entry)
            self._check_abandoned(version, entry)
        self.states[version] = replayed(version, entry, self.states.get(version - 1))
        self.versions[version] = entry
        if self.rows is not None:
            makes, effect = (entry.attempts[0].makes, entry.attempts[0].effect) if entry.attempts else (None, None)
            self.rows.appears(version, actions, self.states[version].live, makes, effect)
            self.rows.require_values(version, orjson.loads(self.states[version].metadata["schemaString"]))
        self._seen[name] = body

    def _check_below_is_durable(self, version: int) -> None:
        """Check that a commit of txlog was linked after all earlier versions, also unsynced ones, were durable."""
        names = ((below, _file(below)) for below in range(version)) if self.syncs else ()
        for below, name in names:
            if name in self.log.objects and name not in self.log.durable:
                raise InvariantBroken(
                    "a power cut leaves no hole", f"v{version} was linked before v{below} was on disk"
                )

    def _check_unique(self, version: int, entry: Version) -> None:
        for txn_id in entry.txn_ids:
            if txn_id in self.txn_ids:
                raise InvariantBroken(
                    "a txnId lands at most once", f"v{self.txn_ids[txn_id]} and v{version} are the same commit"
                )
            self.txn_ids[txn_id] = version
        for attempt in entry.attempts:
            if any(attempt is each for earlier in self.versions.values() for each in earlier.attempts):
                raise InvariantBroken("a transaction lands at most once", f"{attempt.actor}, v{version}")
        for action in entry.actions:
            if "txn" in action:
                key = (action["txn"]["appId"], action["txn"]["version"])
                if key in self.apps:
                    raise InvariantBroken(
                        "an (app_id, checkpoint_id) lands at most once", f"{key} is v{self.apps[key]} and v{version}"
                    )
                self.apps[key] = version

    def _check_files(self, version: int, entry: Version) -> None:
        """Check that each added file exists and is durable, unless another engine wrote it without a sync."""
        before = self.states[version - 1].live if version else {}
        for action in entry.actions:
            if "add" in action:
                path, size = action["add"]["path"], action["add"]["size"]
                body = self.files.objects.get(path)
                is_safe = entry.is_foreign or path in self.files.durable or path in before
                if body is None or len(body[0]) != size or not is_safe:
                    state = "absent" if body is None else f"{len(body[0])} of {size} bytes, durable or not"
                    raise InvariantBroken("files exist before their commit", f"v{version} names {path}: {state}")

    def _check_serializable(self, version: int, attempt: Attempt) -> None:
        if attempt.read_version is None:
            return
        read, before = self.states[attempt.read_version], self.states[version - 1]
        # A definition that has changed back is the one that it read, and nobody reads how many numbers are put aside.
        has_same = read.protocol == before.protocol and _without_marks(read.metadata) == _without_marks(before.metadata)
        misses_nothing = attempt.is_serializable or self.is_serializable
        for between in range(attempt.read_version + 1, version):
            winner = self.versions.get(between)
            if winner is None:
                continue
            for action in winner.actions:
                if ("metaData" in action or "protocol" in action) and not has_same:
                    _not_serializable(version, between, attempt, "changed the table's definition")
                if "remove" in action and action["remove"].get("dataChange", True):
                    path = action["remove"]["path"]
                    if path in attempt.read_files or (path in read.live and _reads(attempt, path)):
                        _not_serializable(version, between, attempt, f"removed {path}, which it read")
                if "add" in action and action["add"]["dataChange"] and attempt.changes_data:
                    path = action["add"]["path"]
                    if _reads(attempt, path) and (misses_nothing or not winner.is_blind):
                        _not_serializable(version, between, attempt, f"added {path}, which it should have read")

    # --- answers ----------------------------------------------------------------------------------------------

    def check_answer(self, attempt: Attempt) -> None:
        """Check the answer of an attempt at the moment when the program gets it."""
        self.observe()
        if attempt.answer == "committed":
            self._check_acknowledged(attempt)
        elif attempt.answer in ("refused", "nothing to do"):
            for txn_id, version in self.txn_ids.items():
                if txn_id[:8] == attempt.key and attempt in self.versions[version].attempts:
                    raise InvariantBroken(
                        "a definite failure never appears",
                        f"{attempt.actor} got {attempt.error!r}; it is v{version}",
                    )

    def _check_acknowledged(self, attempt: Attempt) -> None:
        result = attempt.result
        version = result.version
        if result.outcome == "already_committed":
            if attempt.app is None or attempt.app not in self.apps:
                raise InvariantBroken(
                    "acknowledged implies present", f"{attempt.app} was reported as a replay and is in no version"
                )
            version = self.apps[attempt.app]
        elif self.txn_ids.get(result.txn_id) != version:
            raise InvariantBroken(
                "acknowledged implies present", f"{attempt.actor} got v{version}, which does not exist"
            )
        self.require_durable(version, attempt.actor)
        self.acknowledged.add(version)

    def require_durable(self, version: int, actor: str) -> None:
        """Raise `InvariantBroken` if a power cut could remove ``version``, which was acknowledged to ``actor``."""
        name = _file(version)
        if self.syncs and name in self.log.objects and name not in self.log.durable:
            raise InvariantBroken(
                "acknowledged survives a power cut", f"{actor} got v{version} acknowledged, which is not on disk"
            )

    # --- deletions and power cuts -----------------------------------------------------------------------------

    def _require_readable(self, oldest_retained_ms: int | None) -> None:
        """Check that the newest version and all retained ones can still be read from the files of the log."""
        objects = self.log.objects
        for name in [name for name in self._seen if name not in objects]:
            del self._seen[name]
            version = self._commit_version(name)
            if version is not None:
                self.gone.add(version)
        starts = [-1, *self.checkpoints(only_durable=self.syncs)]
        for version, entry in self.versions.items():
            if version < self.latest and (oldest_retained_ms is None or entry.modified_ms < oldest_retained_ms):
                continue
            reachable = (
                all(_file(each) in objects for each in range(start + 1, version + 1))
                for start in starts
                if start <= version
            )
            if not any(reachable):
                raise InvariantBroken("cleanup keeps what a retained version needs", f"v{version} cannot be read")

    def checkpoints(self, *, only_durable: bool = False) -> list[int]:
        """The versions that have a checkpoint."""
        names = self.log.durable.keys() & self.log.objects.keys() if only_durable else self.log.objects.keys()
        parsed = [parse_log_name(name) for name in names]
        return sorted(found.version for found in parsed if found is not None and found.kind.is_checkpoint)

    def power_was_cut(self) -> None:
        """Forget versions that were lost and never acknowledged; acknowledged ones must exist."""
        lost = [v for v in self.versions if _file(v) not in self.log.objects and v not in self.gone]
        for version in sorted(lost):
            if version in self.acknowledged:
                raise InvariantBroken("acknowledged survives a power cut", f"v{version} is gone")
            if any(later not in lost for later in self.versions if later > version):
                raise InvariantBroken("a power cut leaves no hole", f"v{version} is gone and a later one is there")
            entry = self.versions.pop(version)
            del self.states[version]
            if self.rows is not None:
                self.rows.forget(version)
            self.txn_ids = {txn_id: v for txn_id, v in self.txn_ids.items() if v != version}
            self.apps = {app: v for app, v in self.apps.items() if v != version}
            self.abandoned &= self.apps.keys()
            self._seen.pop(_file(version), None)
            for attempt in entry.attempts:
                attempt.answer = "open"
        self._seen = {name: body for name, body in self._seen.items() if name in self.log.objects}
        self.gone = {version for version in self.gone if _file(version) not in self.log.objects}
        for version in self.versions.keys() - self.gone:
            self._seen[_file(version)] = self.versions[version].body
        self.exports.power_was_cut(self.states)

    # --- at the end -------------------------------------------------------------------------------------------

    def check_reader(self, version: int, seen: State, *, not_before: int = -1) -> None:
        """Compare what a reader saw of ``version`` with the replay."""
        if version < not_before:
            raise InvariantBroken("a reader never goes back", f"it saw v{not_before}, then v{version}")
        state = self.states.get(version)
        if state is None:
            raise InvariantBroken("a snapshot is the fold of the log", f"a reader saw v{version}, which never existed")
        for what, found, expected in (
            ("files", set(seen.live), set(state.live)),
            ("metadata", seen.metadata, state.metadata),
            ("protocol", seen.protocol, state.protocol),
            ("application versions", seen.transactions, state.transactions),
            ("metadata domains", seen.domains, state.domains),
        ):
            if found != expected:
                raise InvariantBroken(
                    "a snapshot is the fold of the log",
                    f"{what} of v{version}: a reader saw {found}, the fold is {expected}",
                )


def _checkpoint_of(staged: str) -> str:
    """How the names of everything begin that is staged for the same checkpoint."""
    return ".".join(staged.split(".")[:2])


def _without_marks(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The ``metaData`` action without the high-water marks of identity columns."""
    schema = orjson.loads(metadata["schemaString"])
    for field in schema["fields"]:
        field["metadata"].pop("delta.identity.highWaterMark", None)
    return {**metadata, "schemaString": schema}


def _check_joined(version: int, entry: Version, joined: Collection[Mapping[str, Any]]) -> None:
    """Check that a commit of several appends has what it says of each, and nothing else."""
    if not joined:
        return
    added = sum("add" in action for action in entry.actions)
    set_to = {(action["txn"]["appId"], action["txn"]["version"]) for action in entry.actions if "txn" in action}
    named = {(each["appId"], each["version"]) for each in joined if "appId" in each}
    if sum(each["files"] for each in joined) != added or named != set_to:
        raise InvariantBroken("a joined commit says what it holds", f"v{version} lists {joined}")


def _check_replaced(
    version: int, entry: Version, joined: Collection[Mapping[str, Any]], before: Collection[str]
) -> None:
    """Check that overwrites of partitions remove all that these held, once, and nothing else, and do so each in
    partitions of its own."""
    added = [_partition(action["add"]["path"]) for action in entry.actions if "add" in action]
    removed = [action["remove"]["path"] for action in entry.actions if "remove" in action]
    held = [path for path in before if _partition(path) in added]
    if sorted(removed) != sorted(held):
        raise InvariantBroken("an overwrite replaces its partitions", f"v{version} removes {removed} of {held}")
    if not joined:
        return
    ends = [0, *accumulate(each["files"] for each in joined)]
    theirs = [set(added[first:end]) for first, end in pairwise(ends)]
    if sum(map(len, theirs)) > len(set(added)):
        raise InvariantBroken("overwrites of one partition take their turns", f"v{version} lists {joined}")
    if sum(each.get("removed", 0) for each in joined) != len(removed):
        raise InvariantBroken("a joined commit says what it holds", f"v{version} lists {joined}")


def _paths_of(add: Mapping[str, Any]) -> Iterator[str]:
    yield add["path"]
    vector = add.get("deletionVector")
    path = vector_path(DeletionVectorDescriptor.from_json(vector)) if vector else None
    if path is not None:
        yield path.path


def _partition(path: str) -> str:
    return path.partition("/")[0].partition("=")[2]


def _reads(attempt: Attempt, path: str) -> bool:
    return None in attempt.reads or _partition(path) in attempt.reads


def _not_serializable(version: int, between: int, attempt: Attempt, did: str) -> None:
    raise InvariantBroken(
        "commits are serializable",
        f"{attempt.actor} read v{attempt.read_version} and committed v{version}, although v{between} {did}",
    )
