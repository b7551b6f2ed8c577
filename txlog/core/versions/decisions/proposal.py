"""One transaction before it becomes a version: what it read, what it does, and the bytes of its commit.

In: actions, a read set and the values for commitInfo. Out: a `Proposal` (checked by `validate_proposal` and
``conflicts.decide``) and, for one version and time, newline-delimited JSON. A rebase makes a new first line;
all other lines are serialized once. PROTOCOL.md, "Delta Log Entries", "Commit Provenance Information" and
"Action Reconciliation" (its requirements on one commit).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec.structs import replace

from txlog.core.format.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    line_of,
)
from txlog.core.format.column_mapping import physical_names, schema_of
from txlog.core.format.paths import canonical_path
from txlog.core.format.schema import Struct
from txlog.core.format.wire import shown
from txlog.core.util import cached_property, check_text, invalid
from txlog.core.versions.decisions.definition_changes import with_latest_marks
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from txlog.core.predicates.terms.predicate import Predicate

Kind = TypeVar("Kind", bound=Action)

ROW_TRACKING_DOMAIN = "delta.rowTracking"
"""The metadata domain that holds the highest row id given: ``{"rowIdHighWaterMark": n}``."""

BecomeOfRows: TypeAlias = Literal["read", "changed", "deleted"]
"""What a transaction did to the rows that it read by a condition: with "changed" and "deleted" to each of them."""
ReadsTold: TypeAlias = "Literal['table'] | list[dict[str, str]]"
"""What commitInfo says that a commit read: ``{"where": a condition in SQL, "rows": what became of them}`` for each
condition; "table" if these are not all."""
TABLE_READ: Literal["table"] = "table"


class Isolation(enum.Enum):
    """The isolation of a transaction; the value is Delta's name, as in ``delta.isolationLevel``."""

    SERIALIZABLE = "Serializable"
    """The transactions could have run one by one in the order of their versions."""
    WRITE_SERIALIZABLE = "WriteSerializable"
    """Such an order exists, but a concurrent blind append may count as later than its version."""
    SNAPSHOT = "SnapshotIsolation"
    """Rows that others add do not matter. Only for commits that move rows; a table cannot have this level."""


class OperationInfo(msgspec.Struct, frozen=True):
    """What the table's history says of a commit: the values of its ``commitInfo``.

    ``operation`` is named as in Spark: WRITE, DELETE, UPDATE, MERGE, ... ``parameters`` are strings in Spark's form
    (`operation_parameters` makes them), ``metrics`` numbers as strings. ``fingerprint`` identifies what the transaction
    comes from, such as source offsets.
    """

    operation: str
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    metrics: Mapping[str, str] = msgspec.field(default_factory=dict)
    user_metadata: str | None = None
    fingerprint: str | None = None


class ReadSet(msgspec.Struct, frozen=True):
    """What a transaction's result depends on. Nothing in it makes an append blind.

    ``predicates`` are bound to the schema. ``files`` are the paths, as the log writes them, of all files that were read
    for them; None if they are not listed: then each concurrent remove that may match a predicate counts as the remove
    of a file that was read. ``partitions`` are the ones read whole, named as by ``partition_values.partition_key``;
    None if nothing was read by partition. ``app_ids`` and ``domains`` were read but not written; what the transaction
    writes counts as read. ``source``: its rows were made from rows of the table, whichever, and this level decides
    which changes of them conflict, whatever the level of the rest; None: they come from elsewhere. ``other_tables``:
    rows of other tables were read, which another room checks, so the commit is no blind append.
    """

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    files: frozenset[str] | None = None
    partitions: frozenset[tuple[str | None, ...]] | None = None
    app_ids: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    source: Isolation | None = None
    other_tables: bool = False

    @property
    def is_blind(self) -> bool:
        """True if no row of any table was read."""
        reads = self.whole_table or self.predicates or self.files or self.source or self.other_tables
        return not reads and self.partitions is None


class Proposal(msgspec.Struct, frozen=True, dict=True):
    """A transaction ready to commit: planned on ``read_version`` (-1: it creates the table).

    ``schema`` and ``partition_columns`` are the table's at ``read_version`` (or those of the table that it creates);
    ``isolation`` is the table's level, or the requested one. ``operation_parameters`` are strings in Spark's form
    (`operation_parameters` makes them), ``operation_metrics`` are numbers as strings. ``checked_version`` is the last
    version known not to conflict; `rebased` moves it. ``adds_are_new``: no added file can be in the table already.
    ``is_reexecutable``: a plan made it, and can make another one for a newer version. ``is_tied_to_version``: its
    caller named the version it comes from, so the same work cannot succeed after a conflict. ``tags`` are commitInfo's.
    ``planned_on`` is the table's metadata at ``read_version``, and ``planned_protocol`` its protocol. ``members`` are
    the appends that a joined commit carries (`joined.Joining`); none for every other one. ``beside`` are the number and
    the bytes of files that are no actions, since the checkpoint of the version has them (`OpenTable.begin`), or the
    commit has their ``lines``, whose files are the table's first ones.
    ``replaces_partitions``: a plan made it that replaces the partitions of its adds, whole, in whichever version it
    follows; so others can execute it too (`core.versions.decisions.replaced_partitions`).
    ``reads_told``: what commitInfo says of the read set, which a branch's publication depends on; None if it says
    nothing, since the table is no branch or the operation's parameters say it.
    """

    txn_id: str
    read_version: int
    actions: tuple[Action, ...]
    read_set: ReadSet
    isolation: Isolation
    operation: str
    schema: Struct
    partition_columns: tuple[str, ...]
    operation_parameters: dict[str, str] = msgspec.field(default_factory=dict)
    operation_metrics: dict[str, str] = msgspec.field(default_factory=dict)
    user_metadata: str | None = None
    fingerprint: str | None = None
    checked_version: int | None = None
    adds_are_new: bool = True
    is_reexecutable: bool = False
    is_tied_to_version: bool = False
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    planned_on: Metadata | None = None
    planned_protocol: Protocol | None = None
    members: tuple[Proposal, ...] = ()
    beside: tuple[int, int] = (0, 0)
    lines: bytes = b""
    replaces_partitions: bool = False
    reads_told: ReadsTold | None = None

    @property
    def base_version(self) -> int:
        """The version that this proposal is valid on; it would become the next version."""
        return self.read_version if self.checked_version is None else self.checked_version

    def rebased(self, version: int, newest: Metadata | None = None) -> Proposal:
        """The same transaction, found valid on ``version``; it shares the serialized lines.

        If it sets metadata, it takes the high-water marks of identity columns over from ``newest``, the metadata there.
        """
        if version < self.base_version:
            raise ValueError(f"cannot rebase from version {self.base_version} back to {version}")
        moved = replace(self, checked_version=version)
        metadata = self.metadata
        if metadata is not None and newest is not None:
            marked = with_latest_marks(metadata, newest)
            if marked is not metadata:
                actions = tuple(marked if action is metadata else action for action in self.actions)
                return replace(moved, actions=actions)
        moved.__dict__.update(self.__dict__)
        return moved

    @property
    def creates_table(self) -> bool:
        return self.read_version < 0

    @property
    def metadata(self) -> Metadata | None:
        """The metadata this transaction sets, if it does."""
        found = self._of(Metadata)
        return found[0] if found else None

    @property
    def protocol(self) -> Protocol | None:
        """The protocol this transaction sets, if it does."""
        found = self._of(Protocol)
        return found[0] if found else None

    @property
    def set_transactions(self) -> tuple[SetTransaction, ...]:
        return self._of(SetTransaction)

    @property
    def domains(self) -> tuple[DomainMetadata, ...]:
        return self._of(DomainMetadata)

    @property
    def adds(self) -> tuple[AddFile, ...]:
        return self._of(AddFile)

    @property
    def removes(self) -> tuple[RemoveFile, ...]:
        return self._of(RemoveFile)

    def _of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> dict[type[Any], tuple[Any, ...]]:
        kinds: dict[type[Any], list[Any]] = {}
        for action in self.actions:
            kinds.setdefault(type(action), []).append(action)
        return {kind: tuple(actions) for kind, actions in kinds.items()}

    @cached_property
    def net_files(self) -> tuple[int, int] | None:
        """How many files and bytes the table grows by; None if a file may count twice or its size is unknown."""
        adds, removes = self.adds, self.removes
        sizes = [remove.size for remove in removes if remove.size is not None]
        if len(sizes) < len(removes) or (adds and not self.adds_are_new):
            return None
        files, size_bytes = self.beside
        return files + len(adds) - len(sizes), size_bytes + sum([add.size for add in adds]) - sum(sizes)

    @cached_property
    def is_blind_append(self) -> bool:
        """Whether it only adds rows (and ``txn``) and read none; commitInfo declares it, and later losers rely on
        it."""
        return self.read_set.is_blind and all(
            type(action) is SetTransaction
            or (isinstance(action, AddFile) and action.data_change)
            or _counts_row_ids(action)
            for action in self.actions
        )

    @cached_property
    def only_moves_rows(self) -> bool:
        """Whether it has file actions only, all with ``dataChange`` false (or nothing at all)."""
        return all(
            (type(action) in _FILE_ACTIONS and not _changes_data(action)) or _counts_row_ids(action)
            for action in self.actions
        )

    @cached_property
    def effective_isolation(self) -> Isolation:
        """The level that applies: a commit that only moves rows needs no more than a snapshot.

        A commit without files must also come from an operation that never changes data, and so must each one under
        WriteSerializable: a DELETE or RESTORE that found nothing to do must not land above rows that it would have
        removed.
        """
        if not self.only_moves_rows:
            return self.isolation
        moves_files = any(type(action) in _FILE_ACTIONS for action in self.actions)
        if self.operation in _MOVING_OPERATIONS or (moves_files and self.isolation is Isolation.SERIALIZABLE):
            return Isolation.SNAPSHOT
        return self.isolation

    @cached_property
    def needs_winning_files(self) -> bool:
        """Whether concurrent adds and removes matter: if not, winners may be parsed with ``files=False``."""
        return not self.read_set.is_blind or any(type(action) is RemoveFile for action in self.actions)

    @property
    def size_bytes(self) -> int:
        """The size of its lines in a commit, without ``commitInfo``."""
        return len(self._serialized[0])

    @cached_property
    def _serialized(self) -> tuple[bytes, int]:
        """The lines that no rebase changes, each with its newline, and their number."""
        # orjson's own bytes keep the memory of its buffer, several times their size: the copies with a newline do not.
        kinds = self._by_kind  # most commits have files alone, and some very many
        actions = [each for each in self.actions if not _is_undated(each)] if SetTransaction in kinds else self.actions
        lines = [_line(action) + b"\n" for action in actions]
        beside = self.beside[0] if self.lines else 0
        return b"".join([*lines, self.lines]), len(lines) + beside


def commit_bytes(
    proposal: Proposal,
    *,
    timestamp_ms: int,
    engine_info: str,
    in_commit_timestamp: int | None = None,
    attempts: int | None = None,
    waited_s: float = 0.0,
    lost_to: Mapping[str, int] | None = None,
) -> bytes:
    """The commit as newline-delimited JSON; line 1 is ``commitInfo``, with the number of all lines in it.

    ``attempts`` is the number of versions attempted, including this one; None leaves it out. ``lost_to`` counts lost
    ones by the winners' operations, and ``waited_s`` is the time spent waiting for a turn. A ``txn`` without
    ``lastUpdated`` gets ``timestamp_ms``: in a table that limits their age, Spark would otherwise drop it immediately.
    """
    body, lines = proposal._serialized
    dated = [replace(action, last_updated=timestamp_ms) for action in proposal.set_transactions if _is_undated(action)]
    own: dict[str, Any] = {"actions": 1 + len(dated) + lines}
    if attempts is not None:
        own["attempts"] = attempts
    if lost_to:
        own["lostTo"] = dict(lost_to)
        own["waitedMs"] = round(waited_s * 1000)
    if proposal.net_files is not None:
        own["net"] = proposal.net_files
    if proposal.fingerprint is not None:
        own["fingerprint"] = proposal.fingerprint
    if proposal.reads_told is not None:
        own["reads"] = proposal.reads_told
    if proposal.members:
        own["joined"] = _joined(proposal)
    info = _commit_info(proposal, timestamp_ms, engine_info, in_commit_timestamp)
    info["txlog"] = own
    state = [orjson.dumps({CommitInfo.KEY: info}), *map(_line, dated)]
    return b"\n".join([*state, body])


def _line(action: Action) -> bytes:
    """Raises ``InvalidInputError`` if the action has a value that JSON cannot hold."""
    try:
        return line_of(action)
    except TypeError as error:
        raise InvalidInputError(f"{action.KEY} cannot be written as JSON ({error}): {shown(action)}") from None


def commit_facts(proposal: Proposal, in_commit_timestamp: int | None) -> CommitInfo:
    """The parts of ``commitInfo`` that readers use, so a writer need not read back its own commit."""
    own: dict[str, Any] = {
        "actions": 1 + len(proposal.actions) + (proposal.beside[0] if proposal.lines else 0),
        "net": proposal.net_files and list(proposal.net_files),
        "fingerprint": proposal.fingerprint,
        "reads": proposal.reads_told,
        "joined": _joined(proposal),
    }
    fields: dict[str, Any] = {
        "inCommitTimestamp": in_commit_timestamp,
        "operation": proposal.operation,
        "operationParameters": dict(proposal.operation_parameters),
        "txnId": proposal.txn_id,
        "isolationLevel": proposal.effective_isolation.value,
        "isBlindAppend": proposal.is_blind_append,
    }
    return CommitInfo({**fields, "txlog": own})


def _joined(proposal: Proposal) -> list[dict[str, Any]]:
    """The members as ``commitInfo.txlog.joined`` lists them; ``core/versions/decisions/joined_appends`` reads them."""
    return [_member(each) for each in proposal.members]


def _member(proposal: Proposal) -> dict[str, Any]:
    found: dict[str, Any] = {"txnId": proposal.txn_id}
    for transaction in proposal.set_transactions:
        found |= {"appId": transaction.app_id, "version": transaction.version}
    if proposal.fingerprint is not None:
        found["fingerprint"] = proposal.fingerprint
    if proposal.user_metadata is not None:
        found["userMetadata"] = proposal.user_metadata
    rows = proposal.operation_metrics.get("numOutputRows", "")
    if rows.isdecimal():
        found["rows"] = int(rows)
    found |= {"files": len(proposal.adds), "bytes": sum([add.size for add in proposal.adds])}
    return found | {"removed": len(proposal.removes)} if proposal.removes else found


def _commit_info(
    proposal: Proposal, timestamp_ms: int, engine_info: str, in_commit_timestamp: int | None
) -> dict[str, Any]:
    """In Spark's order. Spark reads ``operationParameters`` and ``operationMetrics`` as maps of strings."""
    info: dict[str, Any] = {}
    if in_commit_timestamp is not None:
        info["inCommitTimestamp"] = in_commit_timestamp
    info["timestamp"] = timestamp_ms
    info["operation"] = proposal.operation
    info["operationParameters"] = proposal.operation_parameters
    if not proposal.creates_table:
        info["readVersion"] = proposal.read_version
    info["isolationLevel"] = proposal.effective_isolation.value
    info["isBlindAppend"] = proposal.is_blind_append
    info["operationMetrics"] = proposal.operation_metrics
    if proposal.tags:
        info["tags"] = proposal.tags
    if proposal.user_metadata is not None:
        info["userMetadata"] = proposal.user_metadata
    info["engineInfo"] = engine_info
    info["txnId"] = proposal.txn_id
    return info


# --- what one commit may hold -------------------------------------------------------------------------------


def validate_proposal(proposal: Proposal, *, append_only: bool) -> None:
    """Refuse a commit that the protocol forbids, before anything is sent.

    ``append_only`` is whether the table is (``delta.appendOnly`` with its feature in force). Raises
    ``InvalidInputError`` with the rule and the file, application or domain that breaks it.
    """
    for kind, actions in proposal._by_kind.items():
        if kind not in _COMMITTED_ACTIONS:
            raise InvalidInputError(f"a transaction cannot hold a {kind.KEY} action")
        if kind in (Metadata, Protocol) and len(actions) > 1:
            raise InvalidInputError(f"a commit may set {kind.KEY} once, this one sets it twice")
    for what in ("operation", "user_metadata", "fingerprint"):
        check_text(what, getattr(proposal, what))
    _check_version(proposal)
    _check_unique("transaction of application", [action.app_id for action in proposal.set_transactions])
    _check_unique("metadata of domain", [action.domain for action in proposal.domains])
    _check_files(proposal, append_only)
    _check_isolation(proposal)
    if proposal.is_reexecutable and proposal.read_set.is_blind and proposal.metadata is None:
        raise InvalidInputError(f"a {proposal.operation} reads rows, so its commit must not declare a blind append")
    for name, texts in (("parameter", proposal.operation_parameters), ("metric", proposal.operation_metrics)):
        for key, value in texts.items():
            if type(value) is not str:
                raise invalid(f"operation {name} {key}", value, "a string")
        check_text(f"operation {name}", "".join([*texts, *texts.values()]))


def _check_version(proposal: Proposal) -> None:
    if proposal.read_version < -1:
        raise invalid("read_version", proposal.read_version, "-1 (none) or more")
    if proposal.creates_table and (proposal.metadata is None or proposal.protocol is None):
        raise InvalidInputError("the commit that creates a table must set both metaData and protocol")


def _check_isolation(proposal: Proposal) -> None:
    if proposal.isolation is Isolation.SNAPSHOT and not proposal.only_moves_rows:
        raise InvalidInputError(
            "SnapshotIsolation is only for commits that move rows without changing them: use Serializable or"
            " WriteSerializable"
        )


def _check_files(proposal: Proposal, append_only: bool) -> None:
    adds, removes = proposal.adds, proposal.removes
    added = {canonical_path(action.path): action.key[1] for action in adds}
    if len(added) < len(adds):
        _check_unique("add of file", [canonical_path(action.path) for action in adds])
    _check_unique("remove of file", removed := [canonical_path(action.path) for action in removes])
    absent = object()
    for path, remove in zip(removed, removes, strict=True):
        if added.get(path, absent) == remove.key[1]:
            raise InvalidInputError(f"a commit both adds and removes file {remove.path}: readers would disagree")
        if remove.deletion_timestamp is None:
            raise InvalidInputError(f"the remove of {remove.path} needs a deletionTimestamp: vacuum deletes by it")
        if append_only and remove.data_change:
            raise InvalidInputError(
                f"the table is append-only (delta.appendOnly): cannot remove {remove.path}."
                " Unset the property to delete or overwrite rows"
            )
    files: list[AddFile | RemoveFile] = [*adds, *removes]
    if len({action.data_change for action in files}) > 1:
        raise InvalidInputError("a commit must not mix files with dataChange true and false")
    for change in proposal._of(AddCDCFile):
        if change.data_change:
            raise InvalidInputError(f"cdc file {change.path} must have dataChange false")
    _check_partition_values(adds, _partition_keys(proposal))


def _partition_keys(proposal: Proposal) -> frozenset[str]:
    metadata = proposal.metadata
    columns = proposal.partition_columns if metadata is None else metadata.partition_columns
    if not columns:
        return frozenset()
    return frozenset(physical_names(proposal.schema if metadata is None else schema_of(metadata), columns))


def _check_partition_values(adds: Iterable[AddFile], columns: frozenset[str]) -> None:
    for add in adds:
        if add.partition_values.keys() != columns:
            found = ", ".join(sorted(add.partition_values)) or "none"
            raise InvalidInputError(
                f"file {add.path} has values for partition columns {found};"
                f" the table is partitioned by {', '.join(sorted(columns)) or 'none'}"
            )


def _check_unique(what: str, keys: list[str]) -> None:
    if len(set(keys)) < len(keys):
        twice = next(key for key, count in Counter(keys).items() if count > 1)
        raise InvalidInputError(f"a commit contains the {what} {twice} twice")


_FILE_ACTIONS = (AddFile, RemoveFile, AddCDCFile)
_COMMITTED_ACTIONS = (*_FILE_ACTIONS, Metadata, Protocol, SetTransaction, DomainMetadata)

_MOVING_OPERATIONS = frozenset(("OPTIMIZE", "REORG", "COMPUTE STATS", "VACUUM START", "VACUUM END"))
"""Operations that never change data (``Operation.changesData`` of Spark's DeltaOperations)."""


def _changes_data(action: Action) -> bool:
    return isinstance(action, (AddFile, RemoveFile)) and action.data_change


def _counts_row_ids(action: Action) -> bool:
    """Whether it is the row ids' high-water mark. Every commit with new files moves it, whatever their rows are."""
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN


def _is_undated(action: Action) -> bool:
    return type(action) is SetTransaction and action.last_updated is None
