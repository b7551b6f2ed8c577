"""Named versions: a name for a version that stays readable until the name is removed.

In: an open table, a name and a version. Out: a `NamedVersion`, kept in the table's folder ``_txlog/versions/``, which
neither log cleanups nor vacuums touch:

    <name>.version          name, version and table as JSON with a checksum, written once by put-if-absent
    <name>.<id>.files       a checkpoint of that version, so no log cleanup can lose it

The checkpoint is written first, so a name always has one; a crash between the two leaves an unnamed checkpoint, which a
vacuum deletes after a day. txlog's vacuum keeps the files of every named version (`NeededFiles`). A running vacuum
rereads the names before each batch, and `tag` looks for running vacuums and for its files after it wrote the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import asdict

from txlog.core import ambient
from txlog.core.format import sealed_json
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import FILES_SCHEMA
from txlog.core.format.log_names import v2_checkpoint_name
from txlog.core.format.wire import read_size, read_text
from txlog.core.maintenance._last_vacuum import list_at_next_vacuum
from txlog.core.maintenance._vacuums_under_way import endangered_by_vacuum
from txlog.core.maintenance._version_files import EXPIRED, difference, expired_files, gone_paths, paths_of
from txlog.core.store import LogCapabilities, LogStore, ObjectMeta, PutOutcome, TableStore, write_once
from txlog.core.util import UTC, described, invalid
from txlog.core.versions import OpenTable
from txlog.core.versions.files import CheckpointWriter, DeltaLog
from txlog.errors import (
    CorruptLogError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.result import in_milliseconds, moment, with_milliseconds
from txlog.snapshot import Snapshot

_UNNAMED_STAY_MS = 24 * 3_600_000
"""How long a checkpoint without a name stays: its name may be about to be written."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUFFIX = ".version"
_CHECKPOINT = ".files"
_KIND = "named-version"


class NamedVersion(msgspec.Struct, frozen=True):
    """A version that has a name.

    Attributes:
        name: The name.
        version: The version.
        table_id: ``metaData.id`` of the table it belongs to.
        created: When it was named, in UTC.
        checkpoint_id: Part of the name of its checkpoint.
    """

    name: str
    version: int
    table_id: str
    created: datetime
    checkpoint_id: str

    def to_dict(self) -> dict[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return {"name": self.name, "version": self.version, "created_ms": in_milliseconds(self.created)}

    def __repr__(self) -> str:
        return f"NamedVersion({self.name!r}, version {self.version}, named {self.created:%Y-%m-%d %H:%M:%SZ})"

    @property
    def checkpoint_name(self) -> str:
        """Its checkpoint, in the folder of named versions."""
        return f"{self.name}.{self.checkpoint_id}{_CHECKPOINT}"


def tag(open_table: OpenTable, name: str, version: int | None) -> NamedVersion:
    """Give a version a name. Raises what `Table.tag` raises."""
    store = _store(open_table.store)
    _check_name(name, open_table.uri)
    log = open_table.log
    state = log.newest_state() if version is None else log.state_at(version)
    known = _find(open_table.store, name)
    if known is not None:
        if (known.version, known.table_id) == (state.version, state.metadata.id):
            for each in (known.checkpoint_name, name + _SUFFIX):
                store.make_durable(each)  # their writer may have been told that they are not
            return known
        raise InvalidInputError(
            f"{name!r} is already the name of version {known.version}: choose another name, or call"
            f" table.untag({name!r}) first",
            table=open_table.uri,
        )
    newest = log.newest_state()
    added = difference(log.files(state), log.files(newest)).added
    paths = [path for add in added for path in paths_of(open_table.uri, add)]
    _check_whole(open_table, state.version, gone_paths(open_table.store, paths))
    if expired := expired_files(log, newest, added):
        raise InvalidInputError(
            f"version {state.version} cannot be named: {len(expired):,} of its files, such as {expired[0].path},"
            f" {EXPIRED}, so a vacuum may be deleting them. Raise the property first",
            table=open_table.uri,
            version=state.version,
        )
    named = NamedVersion(name, state.version, state.metadata.id, moment(ambient.now_ms()), ambient.uuid4())
    _put(store, named.checkpoint_name, CheckpointWriter(open_table.store, log.limits).build(state), open_table.uri)
    try:
        _put(store, name + _SUFFIX, sealed_json.to_bytes(_KIND, with_milliseconds(asdict(named))), open_table.uri)
    except InvalidInputError:  # another caller took the name first
        store.delete(named.checkpoint_name)
        return tag(open_table, name, state.version)
    try:
        store.stat(named.checkpoint_name)  # was this caller suspended? A vacuum deletes one that has no name for a day
        _check_no_vacuum(open_table, state.version, added)
        _check_whole(open_table, state.version, gone_paths(open_table.store, paths))
    except TxlogError:
        untag(open_table, name)
        raise
    return named


def untag(open_table: OpenTable, name: str) -> None:
    """Remove a name. Raises NotFoundError, StorageError."""
    store = _store(open_table.store)
    named = _find(open_table.store, name)
    if named is None:
        raise _no_such_name(open_table, name)
    store.delete(name + _SUFFIX)
    store.delete(named.checkpoint_name)
    list_at_next_vacuum(open_table.store.log)


def named_versions(store: TableStore) -> list[NamedVersion]:
    """All names, by version. Raises InvalidInputError for a damaged one, StorageError."""
    if store.named_versions is None:
        return []
    looks = 1 if store.named_versions.capabilities.lists_completely else 2  # a changing folder may hide a name
    listed = {meta.name for _ in range(looks) for meta in store.named_versions.list_from("")}
    found = [_find(store, name.removesuffix(_SUFFIX)) for name in listed if name.endswith(_SUFFIX)]
    return sorted((each for each in found if each is not None), key=lambda each: (each.version, each.name))


def unnamed_checkpoints(store: TableStore) -> list[tuple[ObjectMeta, int]]:
    """Checkpoints that a crash between the two steps of `tag` or `untag` left, and from when on (in milliseconds)
    `delete_unnamed` deletes each. Raises what `named_versions` raises."""
    if store.named_versions is None:
        return []
    listed = [meta for meta in store.named_versions.list_from("") if meta.name.endswith(_CHECKPOINT)]
    named = {each.checkpoint_name for each in named_versions(store)} if listed else set()
    return [(meta, meta.modified_ms + _UNNAMED_STAY_MS) for meta in listed if meta.name not in named]


def delete_unnamed(store: TableStore, now_ms: int, check_clock: Callable[[], None] = lambda: None) -> None:
    """Delete the `unnamed_checkpoints` that are older than a day: they hold column bounds, and nothing reads them.

    ``check_clock`` is called before the first one is judged. Raises what it raises, and StorageError.
    """
    for meta, until_ms in unnamed_checkpoints(store):
        check_clock()
        if store.named_versions is not None and until_ms < now_ms:
            store.named_versions.delete(meta.name)


def snapshot_named(open_table: OpenTable, name: str) -> Snapshot:
    """The version with this name: from the log if it still has it, else from the name's checkpoint."""
    named = _find(open_table.store, name) if isinstance(name, str) else None
    if named is None:
        raise _no_such_name(open_table, name)
    try:
        state = open_table.log.state_at(named.version)
        if state.metadata.id == named.table_id:
            open_table.log.read_commit(named.version, files=False)
            return Snapshot(open_table.log, state, open_table.task_store)
    except (NotFoundError, CorruptLogError):
        pass
    kept = _kept_log(open_table.store, named, open_table.time_zone)
    return Snapshot(kept, kept.state_at(named.version), open_table.task_store)


def _kept_log(store: TableStore, named: NamedVersion, time_zone: str = UTC) -> DeltaLog:
    """A log that has only this version, read from its name's checkpoint."""
    return DeltaLog(TableStore(store.uri, _KeptLog(_store(store), named), store.files), time_zone=time_zone)


def files_of_named(store: TableStore, named: NamedVersion) -> pa.Table:
    """The live files of a named version; none if its name was removed since the listing.

    Raises CorruptLogError, StorageError; NotFoundError if the name's checkpoint is missing.
    """
    kept = _kept_log(store, named)
    try:
        return kept.files(kept.state_at(named.version))
    except NotFoundError:
        if _find(store, named.name) == named:
            raise
        return FILES_SCHEMA.empty_table()


class _KeptLog:
    """A read-only `LogStore` with one checkpoint. No other log has its name."""

    def __init__(self, versions: LogStore, named: NamedVersion) -> None:
        self._versions = versions
        self._object = named.checkpoint_name
        self._name = v2_checkpoint_name(named.version, named.checkpoint_id, "parquet")

    @property
    def capabilities(self) -> LogCapabilities:
        return self._versions.capabilities

    def list_from(self, start: str) -> list[ObjectMeta]:
        return [self.stat(self._name)] if "/" not in start and start <= self._name else []

    def read(self, name: str) -> bytes:
        return self._versions.read(self._known(name))

    def stat(self, name: str) -> ObjectMeta:
        return self._versions.stat(self._known(name))._replace(name=name)

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        raise self._read_only(name)

    def put(self, name: str, body: bytes | memoryview) -> None:
        raise self._read_only(name)

    def delete(self, name: str) -> None:
        raise self._read_only(name)

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        return []

    def make_durable(self, name: str) -> None:
        self._versions.make_durable(self._known(name))

    def round_trip_s(self) -> float:
        return self._versions.round_trip_s()

    def _known(self, name: str) -> str:
        if name != self._name:
            raise NotFoundError(f"{name} does not exist", path=name)
        return self._object

    def _read_only(self, name: str) -> StorageError:
        return StorageError(f"{name} cannot be changed: a named version stays as it is", path=name)


def _find(store: TableStore, name: str) -> NamedVersion | None:
    if store.named_versions is None or not _NAME.fullmatch(name):
        return None
    try:
        body = store.named_versions.read(name + _SUFFIX)
    except NotFoundError:
        return None
    try:
        return sealed_json.from_bytes(_KIND, body, _named)
    except InvalidInputError as error:
        error.table, error.path = store.uri, f"_txlog/versions/{name}{_SUFFIX}"
        raise


def _named(value: dict[str, Any]) -> NamedVersion:
    texts = {key: read_text(value[key]) for key in ("name", "table_id", "checkpoint_id")}
    return NamedVersion(version=read_size(value["version"]), created=moment(read_size(value["created_ms"])), **texts)


def _put(store: LogStore, name: str, body: bytes, uri: str) -> None:
    """Write an object once; durable on return. Raises InvalidInputError if it exists, StorageError."""
    with TxlogError.located(uri):
        if write_once(store, name, body) != body:
            raise InvalidInputError(f"{name} already exists", path=name)


def _check_whole(open_table: OpenTable, version: int, gone: set[str]) -> None:
    if gone:
        raise NotFoundError(
            f"version {version} cannot be named: {len(gone):,} of its files are missing, such as {min(gone)}",
            table=open_table.uri,
            version=version,
            path=min(gone),
        )


def _check_no_vacuum(open_table: OpenTable, version: int, added: Sequence[AddFile]) -> None:
    """Called once the name exists: a vacuum may be in the middle of a batch that it began before."""
    newest = open_table.log.newest_state()
    endangered = endangered_by_vacuum(open_table.log, newest, added, version)
    if endangered is not None:
        raise InvalidInputError(
            f"version {version} cannot be named yet: a vacuum began in version {endangered.version} and has not ended,"
            f" and may be deleting its files, such as {endangered.files[0].path}. Name it when the history shows"
            " VACUUM END",
            table=open_table.uri,
            version=version,
        )


def _check_name(name: object, uri: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        expected = "at most 100 letters, digits, '.', '_' and '-', the first of them a letter or a digit"
        raise invalid("name of a version", name, expected, table=uri)


def _no_such_name(open_table: OpenTable, name: object) -> NotFoundError:
    known = ", ".join(_names(open_table.store)) or "none"
    return NotFoundError(f"no version is named {described(name)}; existing names: {known}", table=open_table.uri)


def _names(store: TableStore) -> Iterator[str]:
    return (each.name for each in named_versions(store))


def _store(store: TableStore) -> LogStore:
    if store.named_versions is None:
        raise UnsupportedFeatureError("this store does not support named versions", table=store.uri, features=("tags",))
    return store.named_versions
