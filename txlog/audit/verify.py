"""Checks a whole table against its invariants: its log, its checkpoints, its data files.

In: a table's stores. Out: a ``Verification`` that lists every ``Finding`` with file and line. It reads the log file by
file instead of using txlog's reader, which stops at defects. In memory it keeps a path and three numbers for each live
file, and one commit or piece of a checkpoint at a time. It changes nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from txlog.audit.checks import CHECKS, CheckProblem
from txlog.audit.live_files import LiveFileSet, PartitionKey
from txlog.audit.log_rules import Breach, LogState
from txlog.audit.task_places import TaskPlaces
from txlog.core.changes.tasks import CheckFiles, FileProblem, ListFiles, NamedFile, TaskStore, ranges_of
from txlog.core.format.actions import Action, CommitInfo, FileKey
from txlog.core.format.arrow.arrays import are_among, array_of, flags_of
from txlog.core.format.commit_file import DEFAULT_LIMITS, LogLimits, parse_actions, parse_commit
from txlog.core.format.features import check_can_read
from txlog.core.format.log_names import (
    LAST_CHECKPOINT,
    LogFileKind,
    checksum_name,
    parse_log_name,
    version_prefix,
)
from txlog.core.format.paths import canonical_paths, resolve_data_path
from txlog.core.format.properties import SYMLINK_MANIFESTS, unknown_own_keys
from txlog.core.progress import OnProgress, progress_of
from txlog.core.store import ObjectMeta, TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions.checkpoint.hint import parse_last_checkpoint
from txlog.core.versions.decisions.checksum import parse_checksum
from txlog.core.versions.decisions.joined_appends import holds
from txlog.core.versions.decisions.segment import CheckpointFiles, LogListing
from txlog.core.versions.files import CheckpointReader, list_log
from txlog.core.workers import GivenWorkers, Workers, shares
from txlog.errors import (
    CorruptLogError,
    NotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from txlog.result import counted
from txlog.result.audits import Finding, KeyCheck, Verification

EXAMPLES_MAX = 20
"""If many files break one rule of one checkpoint, this many are named and the others counted."""
DATA_FILES_MAX = 1000
"""If many data files are missing or have another size, this many are named and the others counted."""
_PARALLEL = 16
_FILES_MAX = 256  # for each task
_FILES_AT_ONCE = 1024  # for each worker
NAMES_AT_ONCE = 65_536
LISTED_MIN = 1000  # files, about as many as a request lists


def verify_table(
    store: TableStore,
    *,
    data_files: bool = True,
    footers: bool = False,
    keys: Sequence[str] | None = None,
    txn_ids: Mapping[int, str] | None = None,
    limits: LogLimits = DEFAULT_LIMITS,
    on_progress: OnProgress | None = None,
    tasks: TaskStore | None = None,
    workers: GivenWorkers | None = None,
) -> Verification:
    """Check the table in ``store``.

    ``data_files=False`` skips the check that each live file exists at its full size; ``footers`` reads the footer of
    each. ``keys`` are columns that should
    identify a row: they are read whether or not ``data_files`` is set. ``txn_ids`` are acknowledged transactions by
    version, from ``WriteResult``: if a version now holds another transaction, a writer without conditional puts
    overwrote it; a version after the newest one was lost. ``workers`` look at data files, which they open as ``tasks``;
    None: ``store`` was opened without options. Raises ``TableNotFoundError``, ``InvalidInputError`` for columns that
    cannot be a key and for unusable workers, and ``StorageError`` if the log cannot be read; an unreadable data file is
    a finding.
    """
    places = TaskPlaces.of(store, tasks, workers)
    verifier = _Verifier(store, places, limits, txn_ids or {}, progress_of(on_progress))
    if keys is not None:
        from txlog.audit.keys import require_keys

        require_keys(store, keys)
    return verifier.run(data_files, footers, keys)


class _Verifier:
    def __init__(
        self,
        store: TableStore,
        places: TaskPlaces,
        limits: LogLimits,
        txn_ids: Mapping[int, str],
        on_progress: OnProgress,
    ) -> None:
        self.store = store
        self.places = places
        self.versions = store.versions
        self.limits = limits
        self.txn_ids = txn_ids
        self.on_progress = on_progress
        self.reader = CheckpointReader(store, limits)
        self.state = LogState()
        self.findings: list[Finding] = []
        self.newest = -1
        self.commits = self.checkpoints = self.data_files = self.footers = 0

    def run(self, data_files: bool, footers: bool, keys: Sequence[str] | None) -> Verification:
        hint = self._hint()  # before the listing, which then has the checkpoint that the hint names
        listed = self.store.log.list_from(version_prefix(0))
        listing = list_log(self.store, files=listed)
        if listing.latest_version < 0:
            raise TableNotFoundError("there is no Delta table here: its log is empty", table=self.store.uri)
        self._replay(listing)
        self._lost_versions()
        self._forks()
        self._unknown_features()
        self._unknown_properties()
        self._incomplete_checkpoints(listed, listing)
        self._check_hint(hint, listing)
        if data_files and self.state.is_whole:
            self._data_files()
            self._vectors_and_checks()
        if self.state.is_whole:
            self._row_ids()
        if footers and self.state.is_whole:
            self._footers()
        check = None if keys is None else self._keys(keys)
        counts = self.newest, self.commits, self.checkpoints, self.data_files
        return Verification(self.store.uri, *counts, tuple(self.findings), check, self.footers)

    # --- commits --------------------------------------------------------------------------------------------

    def _replay(self, listing: LogListing) -> None:
        checkpoints: dict[int, list[CheckpointFiles]] = {}
        for checkpoint in listing.checkpoints:
            checkpoints.setdefault(checkpoint.version, []).append(checkpoint)
        checksums = set(listing.checksums)
        first = self._first_version(listing)
        if first > 0:
            self.state.lose_track()
            if not any(version >= first - 1 for version in checkpoints):
                message = f"the log begins at version {first}, and no checkpoint reaches back to it"
                self._found("no-start", message, version=first, path=self.versions.name_of(first))
            self._checkpoints_at(first - 1, checkpoints)
        version = first
        while version <= listing.latest_version or self._exists(version):
            self._commit(version)
            if version in checksums and self.state.is_whole:
                self._checksum(version)
            self._checkpoints_at(version, checkpoints)
            version += 1
            self.on_progress("commits", version - first, max(version, listing.latest_version + 1) - first)
        self.newest = version - 1

    def _first_version(self, listing: LogListing) -> int:
        """The oldest retained commit; if only checkpoints are left, the version after the newest."""
        oldest = min(listing.commits, default=listing.latest_version + 1)
        while oldest > 0 and self._exists(oldest - 1):  # a listing may miss names
            oldest -= 1
        return oldest

    def _exists(self, version: int) -> bool:
        try:
            self.versions.stat(version)
        except NotFoundError:
            return False
        return True

    def _commit(self, version: int) -> None:
        name = self.versions.name_of(version)
        breaches: list[Breach] = []
        try:
            body = self.versions.read(version)
            commit = parse_commit(body, version, name=name, table=self.store.uri, limits=self.limits, files=False)
            actions = (action for _, action in self._actions(body, version))
            breaches.extend(self.state.apply(commit, actions))
        except NotFoundError:
            self._found("missing-version", "is not in the log, though newer versions are", version=version, path=name)
            self.state.lose_track()
            return
        except CorruptLogError as error:
            self._found("corrupt-commit", error.message, version=version, path=name, line=error.line)
            self.state.lose_track()
            return
        self.commits += 1
        self._breaches(breaches, version, body)
        expected = self.txn_ids.get(version)
        if expected is not None and not holds(commit, expected):
            message = (
                f"has transaction {commit.txn_id}, but {expected} was acknowledged here: the commit was overwritten"
            )
            self._found("rewritten-version", message, version=version, path=name)

    def _lost_versions(self) -> None:
        for version in sorted(version for version in self.txn_ids if version > self.newest):
            message = f"is lost: transaction {self.txn_ids[version]} was acknowledged here, but the log ends before it"
            self._found("lost-version", message, version=version, path=self.versions.name_of(version))

    def _forks(self) -> None:
        """Report versions of which the owner of the versions and the log's folder have different commits."""
        for fork in self.versions.forks():
            message = (
                f"is another commit than {fork.owned}, which the catalog has as this version"
                if fork.owned
                else "is published, and the catalog does not have the version: its rows are not in the table"
            )
            self._found("forked-version", message, version=fork.version, path=fork.published)

    def _actions(self, body: bytes, version: int) -> Iterator[tuple[int, Action]]:
        """The actions that a commit's rules are about, each with its line: all but commitInfo and unknown actions."""
        name = self.versions.name_of(version)
        parsed = parse_actions(body, name, version=version, table=self.store.uri, limits=self.limits)
        lines = (number for number, line in enumerate(body.split(b"\n"), start=1) if line and not line.isspace())
        for number, action in zip(lines, parsed, strict=True):
            if action is not None and not isinstance(action, CommitInfo):
                yield number, action

    def _breaches(self, breaches: Sequence[Breach], version: int, body: bytes) -> None:
        """Report each breach with its line; if many actions break one rule, name some and count the others."""
        if not breaches:
            return
        count = Counter(breach.rule for breach in breaches)
        lines = [line for line, _ in self._actions(body, version)]
        named: Counter[str] = Counter()
        for breach in breaches:
            named[breach.rule] += 1
            if named[breach.rule] > EXAMPLES_MAX:
                continue
            is_last = named[breach.rule] == EXAMPLES_MAX and count[breach.rule] > EXAMPLES_MAX
            self._found(
                breach.rule,
                breach.message + (f"; and {count[breach.rule] - EXAMPLES_MAX} more" if is_last else ""),
                version=version,
                path=self.versions.name_of(version),
                line=None if breach.position is None else lines[breach.position],
                severity="warning" if breach.is_warning else "error",
            )

    def _unknown_features(self) -> None:
        """Warn about features whose log contents this release cannot check."""
        if self.state.protocol is None or self.state.metadata is None:
            return
        try:
            check_can_read(self.state.protocol, self.state.metadata)
        except UnsupportedFeatureError as error:
            message = f"{error.message}. What that feature requires of the log was not checked"
            self._found("unknown-feature", message, version=self.newest, severity="warning")
        except CorruptLogError as error:
            self._found("bad-protocol", error.message, version=self.newest)

    def _unknown_properties(self) -> None:
        """Warn about properties of txlog that do nothing: whoever set them may rely on them."""
        if self.state.metadata is not None:
            for message in unknown_own_keys(self.state.metadata.configuration).values():
                self._found("unknown-property", message, version=self.newest, severity="warning")

    # --- checkpoints ----------------------------------------------------------------------------------------

    def _checkpoints_at(self, version: int, checkpoints: Mapping[int, Iterable[CheckpointFiles]]) -> None:
        """Compare each checkpoint of this version with the fold. If the fold has lost track, restart from one."""
        for checkpoint in checkpoints.get(version, ()):
            self.checkpoints += 1
            try:
                if self.state.is_whole:
                    self._compare(checkpoint)
                else:
                    self._start_from(checkpoint)
            except (CorruptLogError, NotFoundError, UnsupportedFeatureError) as error:
                path = error.path or checkpoint.names[0]
                self._found("corrupt-checkpoint", error.message, version=version, path=path)

    def _start_from(self, checkpoint: CheckpointFiles) -> None:
        actions = self.reader.small_actions(checkpoint)
        files = LiveFileSet()
        for key, path, size, partition in self._checkpoint_files(checkpoint):
            files.add(key, path, size, dict(partition), checkpoint.version)
        self.state.start_from(checkpoint.version, actions, files)

    def _compare(self, checkpoint: CheckpointFiles) -> None:
        held = LogState()
        held.start_from(checkpoint.version, self.reader.small_actions(checkpoint))
        differences = self._differences(checkpoint, held)
        for message in itertools.islice(differences, EXAMPLES_MAX):
            self._found("checkpoint-differs", message, version=checkpoint.version, path=checkpoint.names[0])
        more = sum(1 for _ in differences)
        if more:
            message = f"and {counted(more, 'difference')} more"
            self._found("checkpoint-differs", message, version=checkpoint.version, path=checkpoint.names[0])

    def _differences(self, checkpoint: CheckpointFiles, held: LogState) -> Iterator[str]:
        """How a checkpoint differs from the fold. It may lack expired transactions and tombstones, nothing else."""
        yield from self._small_differences(held)
        files = self.state.files
        seen = bytearray(files.slots)
        for key, path, size, partition in self._checkpoint_files(checkpoint):
            slot = files.slot(key)
            if slot is None:
                yield f"it lists {path}, which the log lacks"
                continue
            if seen[slot]:
                yield f"it lists {path} twice"
            seen[slot] = 1
            if not files.holds(slot, size, partition):
                yield f"it lists {path} with another size or partition than the log"
        for missing in files.without(seen):
            yield f"it lacks {missing.path}"

    def _small_differences(self, held: LogState) -> Iterator[str]:
        expected = self.state.definition()
        for what, value in held.definition().items():
            if value != expected[what]:
                yield f"its {what} differs from the log's"
        for app_id, version in held.transactions.items():
            if self.state.transactions.get(app_id) != version:
                yield f"application {app_id!r} is at {version}, but in the log at {self.state.transactions.get(app_id)}"

    def _checkpoint_files(self, checkpoint: CheckpointFiles) -> Iterator[tuple[FileKey, str, int, PartitionKey]]:
        done, step = 0, f"checkpoint {checkpoint.version}"
        for batch in self.reader.adds(checkpoint, statistics=False):
            yield from _rows(batch)
            done += batch.num_rows
            self.on_progress(step, done, max(done, len(self.state.files)))

    def _checksum(self, version: int) -> None:
        """Compare the checksum file of this version with the fold: other engines trust it."""
        name = checksum_name(version)
        try:
            body = self.store.log.read(name)
        except NotFoundError:
            return
        found = parse_checksum(body, version, limits=self.limits)
        if found is None:
            message = "cannot be read; readers ignore it"
            self._found("bad-checksum", message, version=version, path=name, severity="warning")
            return
        held = LogState()
        held.start_from(version, found.actions)
        if found.domains is None:
            held.domains = self.state.domains
        differences = list(self._small_differences(held))
        files = self.state.files
        if (found.totals.num_files, found.totals.size_bytes) != (len(files), files.size_bytes):
            differences.append(
                f"it counts {counted(found.totals.num_files, 'file')} of {found.totals.size_bytes:,} bytes,"
                f" and the log has {len(files):,} of {files.size_bytes:,}"
            )
        for message in differences[:EXAMPLES_MAX]:
            self._found("checksum-differs", message, version=version, path=name)

    def _incomplete_checkpoints(self, listed: Iterable[ObjectMeta], listing: LogListing) -> None:
        whole = {name for checkpoint in listing.checkpoints for name in checkpoint.names}
        for file in listed:
            parsed = parse_log_name(file.name)
            if parsed and parsed.kind is LogFileKind.MULTIPART_CHECKPOINT and file.name not in whole:
                message = f"part {parsed.part} of {parsed.parts}, and other parts are missing; readers ignore it"
                self._found(
                    "incomplete-checkpoint", message, version=parsed.version, path=file.name, severity="warning"
                )

    def _hint(self) -> bytes | None:
        try:
            return self.store.log.read(LAST_CHECKPOINT)
        except NotFoundError:
            return None

    def _check_hint(self, body: bytes | None, listing: LogListing) -> None:
        if body is None:
            return
        hint = parse_last_checkpoint(body)
        if hint is None or hint.files is None:
            problem = "cannot be read"
        elif hint.files.names not in {checkpoint.names for checkpoint in listing.checkpoints}:
            problem = f"names checkpoint {hint.version}, which does not exist"
        else:
            return
        message = f"{problem}; it is only a hint, and readers look for a checkpoint themselves"
        self._found("bad-hint", message, path=LAST_CHECKPOINT, severity="warning")

    # --- data files -----------------------------------------------------------------------------------------

    def _data_files(self) -> None:
        workers, total = self.places.workers(_PARALLEL), len(self.state.files)
        is_seen = self._seen_in_listing(workers)
        files = (NamedFile(each.path, each.size, each.version) for each in self.state.files)
        named: Counter[str] = Counter()
        work = CheckFiles(self.places.store)
        while window := list(itertools.islice(files, _FILES_AT_ONCE * workers.slots)):
            left = [file for file in window if not next(is_seen)]
            found = dict(workers.map(work, shares(left, workers, _FILES_MAX)))
            for problem in self._standing(itertools.chain.from_iterable(found[at] for at in sorted(found))):
                named[problem.rule] += 1
                if named[problem.rule] <= DATA_FILES_MAX:
                    severity = "warning" if problem.is_warning else "error"
                    at = problem.version
                    self._found(problem.rule, problem.message, version=at, path=problem.path, severity=severity)
            self.data_files += len(window)
            self.on_progress("data files", self.data_files, total)
        for rule, count in named.items():
            if count > DATA_FILES_MAX:
                severity = "warning" if rule == "file-not-checked" else "error"
                self._found(rule, f"and {count - DATA_FILES_MAX} more data files", severity=severity)

    def _seen_in_listing(self, workers: Workers) -> Iterator[bool]:
        """For each live file, whether a listing of the table shows it in full size: a thousand files for each request.

        The others are looked up by name. So are all files of a table that is cheap to look into, has few files, or
        cannot be listed.
        """
        files, metadata = self.state.files, self.state.metadata
        if self.store.has_cheap_calls or len(files) < LISTED_MIN or metadata is None:
            return itertools.repeat(False)
        wanted = pa.Table.from_batches(_stored_names((each.path, each.size) for each in files))
        ranges = ranges_of(wanted["path"].drop_null(), min(4 * workers.slots, 1 + len(files) // LISTED_MIN))
        work = ListFiles(self.places.store, metadata.partition_columns)
        try:
            listed = pa.concat_tables([found.files for _, found in workers.map(work, ranges)])
        except StorageError as error:
            logger.info("%s: %s; its files are looked up one by one", self.store.uri, error)
            return itertools.repeat(False)
        is_whole = are_among(_with_sizes(wanted), _with_sizes(listed))
        return itertools.chain.from_iterable(flags_of(chunk).tolist() for chunk in is_whole.chunks)

    def _vectors_and_checks(self) -> None:
        from txlog.audit.file_contents import check_vectors

        self._problems(self._standing(check_vectors(self.store, self.newest, self.places)))
        for name in CHECKS.names():
            self._problems(CHECKS.load(name)(self.store))
        if self.state.metadata is not None and SYMLINK_MANIFESTS in self.state.metadata.configuration:
            from txlog.audit.manifests import check_manifests

            self._problems(check_manifests(self.store, self.newest))

    def _row_ids(self) -> None:
        protocol = self.state.protocol
        if protocol is not None and "rowTracking" in (protocol.writer_features or ()):
            from txlog.audit.row_ids import check_row_ids

            self._problems(check_row_ids(self.store, self.newest, self.state))

    def _footers(self) -> None:
        from txlog.audit.file_contents import check_footers

        def read(done: int, total: int | None) -> None:
            self.footers = done
            self.on_progress("footers", done, total)

        self._problems(self._standing(check_footers(self.store, self.newest, self.places, read)))

    def _standing(self, problems: Iterable[FileProblem]) -> Iterator[FileProblem]:
        """Those that are not about a file which a writer has removed, and a vacuum deleted, while this looked."""
        problems = [*problems]
        if problems and self._exists(self.newest + 1):
            from txlog.audit.file_contents import changed_since

            is_of_the_past = changed_since(self.store, self.newest)
            return (problem for problem in problems if not is_of_the_past(problem.data_file or problem.path))
        return iter(problems)

    def _problems(self, problems: Iterable[FileProblem | CheckProblem]) -> None:
        for problem in problems:
            severity = "warning" if problem.is_warning else "error"
            self._found(problem.rule, problem.message, version=self.newest, path=problem.path, severity=severity)

    def _keys(self, names: Sequence[str]) -> KeyCheck | None:
        from txlog.audit.keys import key_findings

        check, findings = key_findings(
            self.store, names, self.places, lambda done, total: self.on_progress("keys", done, total)
        )
        self.findings += findings
        return check

    def _found(
        self,
        rule: str,
        message: str,
        *,
        version: int | None = None,
        path: str | None = None,
        line: int | None = None,
        severity: str = "error",
    ) -> None:
        self.findings.append(Finding(rule, message, version, path, line, severity))


def _stored_names(files: Iterable[tuple[str, int]]) -> Iterator[pa.RecordBatch]:
    """The paths and sizes of files of the log as a listing of the table has them; null for paths outside it."""
    located = ((resolve_data_path(path), size) for path, size in files)
    while window := list(itertools.islice(located, NAMES_AT_ONCE)):
        names, sizes = zip(*((at.path if at.is_relative else None, size) for at, size in window), strict=True)
        yield pa.record_batch([array_of(names, pa.string()), array_of(sizes, pa.int64())], ["path", "size_bytes"])


def _with_sizes(files: pa.Table) -> pa.ChunkedArray:
    """One text for each file, of its path and its size; null if the path is."""
    sizes = files["size_bytes"].cast(pa.string())
    return pc.binary_join_element_wise(files["path"], sizes, array_of(["\n"], pa.string())[0])


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[FileKey, str, int, PartitionKey]]:
    """The files of a checkpoint batch, by their key in the log."""
    from txlog.core.format.actions import DeletionVectorDescriptor

    paths, vectors = batch.column("path"), batch.column("deletionVector")
    canonical, texts = canonical_paths(paths), paths.to_pylist()
    columns = (
        texts if canonical is paths else canonical.to_pylist(),
        texts,
        batch.column("size").to_pylist(),
        batch.column("partitionValues").to_pylist(),
        itertools.repeat(None, batch.num_rows) if vectors.null_count == batch.num_rows else vectors.to_pylist(),
    )
    known: dict[PartitionKey, PartitionKey] = {}
    for key, path, size, pairs, vector in zip(*columns, strict=True):
        vector_id = None if vector is None else DeletionVectorDescriptor.from_json(vector).unique_id
        partition = known.get(logged := tuple(pairs))
        if partition is None:
            partition = known[logged] = tuple(sorted(dict(pairs).items()))
        yield (key, vector_id), path, size, partition
