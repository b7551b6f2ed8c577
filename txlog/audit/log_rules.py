"""The rules for a sequence of commits, as a pure fold that reports each breach.

In: the commits of a log in ascending order, or a checkpoint to start from. Out: a ``Breach`` for every rule that a
commit breaks, and the state reached, to compare with checkpoints and data files. PROTOCOL.md, "Action Reconciliation",
"Actions", "Requirements for Writers".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import orjson

from txlog.audit.live_files import LiveFileSet
from txlog.core.format.actions import (
    NO_COLUMNS,
    Action,
    AddFile,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from txlog.core.format.column_mapping import physical_names, repeated_physical_names, schema_of
from txlog.core.format.commit_file import Commit
from txlog.core.format.partition_values import decode
from txlog.core.format.paths import canonical_path, resolve_data_path
from txlog.core.format.schema import Field
from txlog.core.util import pattern
from txlog.core.versions.decisions.fences import fenced_off
from txlog.core.versions.decisions.joined_appends import txn_ids
from txlog.errors import CorruptLogError, TxlogError

_VECTOR_FILE = pattern(r"(?:^|/)deletion_vector_[0-9a-f-]{36}\.bin$")
"""Spark's Delta removes such files when it drops deletion vectors, so that vacuums keep them for older versions."""

_REMEMBERED_MAX = 10_000


class Breach(msgspec.Struct, frozen=True):
    """One rule broken by one commit. ``position`` is the index of the offending action among the commit's actions.

    A warning is unusual, but no reader gets a wrong result.
    """

    rule: str
    message: str
    position: int | None = None
    is_warning: bool = False


class LogState(msgspec.Struct):
    """The table after the commits seen so far.

    ``is_whole`` is False if a commit was missing or unreadable, or the start is unknown: then only what a commit shows
    by itself is judged.
    """

    is_whole: bool = True
    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    files: LiveFileSet = msgspec.field(default_factory=LiveFileSet)
    transactions: dict[str, int] = msgspec.field(default_factory=dict)
    domains: dict[str, str] = msgspec.field(default_factory=dict)
    _partition_fields: dict[str, Field | None] | None = None
    _readable: set[tuple[str, str | None]] = msgspec.field(default_factory=set)
    _version_of_txn_id: dict[str, int] = msgspec.field(default_factory=dict)
    _version_of_fence: dict[str, int] = msgspec.field(default_factory=dict)
    _in_commit_timestamp: int | None = None

    def start_from(self, version: int, actions: Iterable[Action], files: LiveFileSet | None = None) -> None:
        """Start at a checkpoint: its actions other than file actions, and its live files."""
        self.is_whole, self.version = True, version
        self.protocol = self.metadata = self._partition_fields = None
        self.files, self.transactions, self.domains = files or LiveFileSet(), {}, {}
        for action in actions:
            self._take_small(action)

    def definition(self) -> dict[str, object]:
        """The table's definition, without files and applications, in a comparable form."""
        protocol, metadata = self.protocol, self.metadata
        return {
            "protocol": protocol
            and (
                protocol.min_reader_version,
                protocol.min_writer_version,
                set(protocol.reader_features or ()),
                set(protocol.writer_features or ()),
            ),
            "table id": metadata and metadata.id,
            "schema": metadata and _json(metadata.schema_string),
            "partitioning": metadata and metadata.partition_columns,
            "configuration": metadata and metadata.configuration,
            "domain metadata": self.domains,
        }

    def lose_track(self) -> None:
        """A commit could not be read: from here on, the table's content is unknown."""
        self.is_whole = False

    def apply(self, commit: Commit, actions: Iterable[Action]) -> Iterator[Breach]:
        """Fold one more commit, with all its ``actions`` in order, and yield its breaches. Must be exhausted.

        The actions may be a stream: only the state of each file is kept.
        """
        yield from self._commit_info(commit)
        self.version = commit.version
        touched: dict[FileKey, str] = {}
        seen_once: set[object] = set()
        for position, action in enumerate(actions):
            if isinstance(action, (AddFile, RemoveFile)):
                yield from self._file(action, position, touched)
            else:
                yield from self._small(action, position, seen_once)
        yield from self._table(commit)

    # --- one commit as a whole ------------------------------------------------------------------------------

    def _commit_info(self, commit: Commit) -> Iterator[Breach]:
        for txn_id in txn_ids(commit):
            earlier = self._version_of_txn_id.setdefault(txn_id, commit.version)
            if earlier != commit.version:
                yield Breach("duplicate-txn-id", f"has the txnId of version {earlier}: one transaction landed twice")
            fence = self._version_of_fence.get(txn_id)
            if fence is not None:
                why = f"has transaction {txn_id}, of which version {fence} says that it never lands"
                yield Breach("fenced-transaction", why)
        self._version_of_fence.update(dict.fromkeys(fenced_off(commit), commit.version))
        timestamp, previous = commit.in_commit_timestamp_ms, self._in_commit_timestamp
        if timestamp is not None and previous is not None and timestamp <= previous:
            yield Breach(
                "timestamp-not-after", f"inCommitTimestamp {timestamp} is not after {previous}, the previous version's"
            )
        self._in_commit_timestamp = timestamp

    def _table(self, commit: Commit) -> Iterator[Breach]:
        if commit.version == 0 and (self.protocol is None or self.metadata is None):
            yield Breach("incomplete-start", "the first commit must have both protocol and metaData")
        has_no_schema = self.metadata is not None and self.metadata.schema_string == NO_COLUMNS
        if has_no_schema and any(isinstance(action, AddFile) for action in commit.actions):
            yield Breach("incomplete-start", "adds data files, but no metaData up to it has a schema")

    # --- actions that are not files -------------------------------------------------------------------------

    def _small(self, action: Action, position: int, seen: set[object]) -> Iterator[Breach]:
        identity = (type(action), getattr(action, "app_id", None) or getattr(action, "domain", None))
        if isinstance(action, (Metadata, Protocol, SetTransaction, DomainMetadata)):
            if identity in seen:
                what = f"{action.KEY} of {identity[1]!r}" if identity[1] else action.KEY
                yield Breach("duplicate-action", f"has more than one {what}", position)
            seen.add(identity)
        if isinstance(action, SetTransaction):
            last = self.transactions.get(action.app_id)
            if last is not None and action.version < last:
                why = f"application {action.app_id!r} goes back from {last} to {action.version}"
                yield Breach("transaction-went-back", why, position, is_warning=True)
        if isinstance(action, Metadata):
            yield from self._schema(action, position)
        self._take_small(action)

    def _schema(self, metadata: Metadata, position: int) -> Iterator[Breach]:
        try:
            schema = schema_of(metadata)
        except TxlogError as error:
            yield Breach("unreadable-schema", error.message, position)
            return
        absent = [name for name in metadata.partition_columns if schema.find(name) is None]
        if absent:
            yield Breach(
                "unknown-partition-column", f"partition columns that the schema lacks: {', '.join(absent)}", position
            )
        if repeated := repeated_physical_names(schema):
            what = f"several columns have one name in data files: {', '.join(repeated)}"
            yield Breach("repeated-physical-name", what, position)

    def _take_small(self, action: Action) -> None:
        if isinstance(action, Protocol):
            self.protocol = action
        elif isinstance(action, Metadata):
            self.metadata, self._partition_fields = action, _fields_of_partition_values(action)
            self._readable.clear()
        elif isinstance(action, SetTransaction):
            self.transactions[action.app_id] = action.version
        elif isinstance(action, DomainMetadata):
            self.domains.pop(action.domain, None)
            if not action.removed:
                self.domains[action.domain] = action.configuration

    # --- files ----------------------------------------------------------------------------------------------

    def _file(self, action: AddFile | RemoveFile, position: int, touched: dict[FileKey, str]) -> Iterator[Breach]:
        try:
            resolve_data_path(action.path)
            key = canonical_path(action.path), action.key[1]
        except CorruptLogError as error:
            yield Breach("unsafe-path", error.message, position)
            return
        if key in touched:
            what = f"has both {touched[key]} and {action.KEY}" if touched[key] != action.KEY else f"{action.KEY}s twice"
            yield Breach("duplicate-action", f"{what} the file {action.path}", position)
        touched[key] = action.KEY
        if isinstance(action, AddFile):
            yield from self._partition(action, position)
            self.files.add(key, action.path, action.size, action.partition_values, self.version)
        elif not self.files.remove(key) and self.is_whole and not _VECTOR_FILE.search(action.path):
            yield Breach("remove-of-inactive-file", f"removes {action.path}, which is not in the table", position)

    def _partition(self, add: AddFile, position: int) -> Iterator[Breach]:
        fields = self._partition_fields
        if fields is None:
            return
        if add.partition_values.keys() != fields.keys():
            have, want = ", ".join(sorted(add.partition_values)) or "none", ", ".join(sorted(fields)) or "none"
            yield Breach("wrong-partition-values", f"{add.path} has values of {have}; partitioned by {want}", position)
            return
        for name, text in add.partition_values.items():
            column = fields[name]
            if column is None or (name, text) in self._readable:
                continue
            try:
                decode(text, column.type, column=column.name)
                if len(self._readable) < _REMEMBERED_MAX:  # a table may have as many values as files
                    self._readable.add((name, text))
            except CorruptLogError as error:
                yield Breach("wrong-partition-values", f"{add.path}: {error.message}", position)


def _fields_of_partition_values(metadata: Metadata) -> dict[str, Field | None] | None:
    """The partition columns by their physical names; None where the schema does not tell them, which is a separate
    breach."""
    try:
        schema, columns = schema_of(metadata), metadata.partition_columns
        return dict(zip(physical_names(schema, columns), map(schema.find, columns), strict=True))
    except TxlogError:
        return None


def _json(text: str) -> object:
    """JSON as a value, so two spellings of one schema are equal; other text stays as it is."""
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value
