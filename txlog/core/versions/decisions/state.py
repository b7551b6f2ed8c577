"""The small part of a table's state at one version, without its files: protocol, metadata, application versions.

In: the actions of a checkpoint and of commits, in order. Out: an immutable ``TableState``. Newest wins;
an application's version is the last one seen, not the highest. PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from txlog.core.format.actions import NO_COLUMNS, Action, AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from txlog.core.format.commit_file import PUT_BACK, Commit
from txlog.core.util import UTC, cached_property
from txlog.core.versions.decisions.segment import LogSegment
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from txlog.core.format.properties import TableProperties
    from txlog.core.format.schema import Struct

PREPARED: Final = "txlog-prepared"
"""The application whose number counts the prepared versions of a table: `decisions.prepared`."""


class Totals(msgspec.Struct, frozen=True):
    """How many live files a version has, and their size in bytes."""

    num_files: int
    size_bytes: int


class BegunVacuum(msgspec.Struct, frozen=True):
    """The vacuum that began in ``version`` deletes files that were written before ``cutoff_ms`` and that no commit
    names."""

    version: int
    cutoff_ms: int


CommitMark: TypeAlias = "tuple[int, str | int | None]"
"""A commit's size in bytes, and its transaction id, or its time if its writer gave it no id."""

Derived = TypeVar("Derived")
Named = TypeVar("Named")


class _Parsed:
    """Values derived from protocol and metadata, computed on first use and shared by every version that has them."""

    def __init__(self, protocol: Protocol, metadata: Metadata) -> None:
        self.protocol = protocol
        self.metadata = metadata
        self.derived: dict[Hashable, Any] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Parsed) and (self.protocol, self.metadata) == (other.protocol, other.metadata)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "..."

    @cached_property
    def schema(self) -> Struct:
        from txlog.core.format.features import table_schema

        return table_schema(self.protocol, self.metadata)

    @cached_property
    def properties(self) -> TableProperties:
        from txlog.core.format.properties import TableProperties

        return TableProperties.of(self.metadata.configuration)


class TableState(msgspec.Struct, frozen=True):
    """One version of a table, without its files.

    ``domains`` holds the live ones. ``in_commit_timestamp_ms`` comes from this version's commit, None if it has none or
    was not read. ``segment`` names the log files that list the files. ``totals`` is None unless a checksum file, and
    every commit after it, provides them: never an estimate. ``newest_foreign`` is the newest version that another
    engine committed, or may have committed because it was not read; -1 if there is none. ``time_zone`` is that of the
    handle that loaded the version. ``vacuum`` is, of the vacuums in the commits that were read, the one that deletes
    the youngest files.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]
    in_commit_timestamp_ms: int | None
    segment: LogSegment
    totals: Totals | None
    newest_foreign: int
    mark: CommitMark | None
    _parsed: _Parsed
    time_zone: str = UTC
    vacuum: BegunVacuum | None = None

    @property
    def schema(self) -> Struct:
        """Raises ``CorruptLogError`` or ``UnsupportedFeatureError`` if ``schemaString`` cannot be parsed."""
        return self._parsed.schema

    @property
    def properties(self) -> TableProperties:
        return self._parsed.properties

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    def defined_as(self, metadata: Metadata, protocol: Protocol | None = None) -> TableState:
        """The same version with another definition, which a change will commit."""
        protocol = protocol or self.protocol
        return replace(self, protocol=protocol, metadata=metadata, _parsed=_Parsed(protocol, metadata))

    def derived(self, key: Hashable, derive: Callable[[], Derived]) -> Derived:
        """A value that depends only on protocol and metadata, by ``key``: computed once for all versions that share
        them.

        Raises what ``derive`` raises, and then keeps nothing.
        """
        known = self._parsed.derived
        if key not in known:
            known[key] = derive()
        found: Derived = known[key]
        return found

    @property
    def is_prepared(self) -> bool:
        """Whether a transaction over several tables may still write here: see ``prepared``."""
        transaction = self.transactions.get(PREPARED)
        return transaction is not None and transaction.version % 2 == 1

    def transaction_version(self, app_id: str) -> int | None:
        """The last version that ``app_id`` committed, None if none is retained."""
        transaction = self.transactions.get(app_id)
        return transaction.version if transaction else None


class _Newest(Generic[Named]):
    """The newest action of each name. Copied once before the first change, so replaying n commits takes n steps."""

    def __init__(self, known: Mapping[str, Named]) -> None:
        self._known = known
        self._own: dict[str, Named] | None = None

    def own(self) -> dict[str, Named]:
        """The dict to change."""
        if self._own is None:
            self._own = dict(self._known)
        return self._own

    def hand_over(self) -> Mapping[str, Named]:
        """What is known by now; the next change goes to another copy."""
        if self._own is not None:
            self._known, self._own = self._own, None
        return self._known


class StateBuilder:
    """Replays actions, oldest first. ``build`` fails if none of them was a protocol or a metadata action."""

    def __init__(self, base: TableState | None = None) -> None:
        self._base = base
        self._protocol = base.protocol if base else None
        self._metadata = base.metadata if base else None
        self._transactions: _Newest[SetTransaction] = _Newest(base.transactions if base else {})
        self._domains: _Newest[DomainMetadata] = _Newest(base.domains if base else {})
        self.in_commit_timestamp_ms: int | None = None
        self._totals = base.totals if base else None
        self._has_added = False
        self._newest_foreign = base.newest_foreign if base else None
        self.mark = base.mark if base else None
        self._vacuum = base.vacuum if base else None

    def apply(self, actions: Iterable[Action | None]) -> None:
        for action in actions:
            if type(action) is SetTransaction:
                self._transactions.own()[action.app_id] = action
            elif type(action) is DomainMetadata and action.removed:
                self._domains.own().pop(action.domain, None)
            elif type(action) is DomainMetadata:
                self._domains.own()[action.domain] = action
            elif type(action) is Metadata:
                self._metadata = action
            elif type(action) is Protocol:
                self._protocol = action
            elif type(action) is AddFile:
                self._has_added = True

    def apply_commit(self, commit: Commit) -> None:
        self.apply(commit.actions)
        self.mark = commit_mark(commit)
        self.in_commit_timestamp_ms = commit.in_commit_timestamp_ms
        before = self._totals if commit.version else Totals(0, 0)
        net = commit.commit_info.net_files if commit.commit_info else None
        self._totals = Totals(before.num_files + net[0], before.size_bytes + net[1]) if before and net else None
        begun = begun_vacuum(commit)
        if begun is not None and (self._vacuum is None or begun.cutoff_ms >= self._vacuum.cutoff_ms):
            self._vacuum = begun
        if commit.is_foreign:
            self._newest_foreign = commit.version
        elif self._newest_foreign is None:
            self._newest_foreign = commit.version - 1  # earlier commits were not read, so any of them may be foreign

    def end_with(self, newest: Commit | None) -> None:
        """The newest version was applied from a compacted file, which leaves out what only its own commit tells."""
        self.mark = None if newest is None else commit_mark(newest)
        self.in_commit_timestamp_ms = None if newest is None else newest.in_commit_timestamp_ms

    def start_from(self, actions: Iterable[Action], totals: Totals, in_commit_timestamp_ms: int | None) -> None:
        """Begin at a version whose checksum file has everything except its files."""
        self.apply(actions)
        self._totals, self.in_commit_timestamp_ms = totals, in_commit_timestamp_ms

    def build(
        self, segment: LogSegment, time_zone: str = UTC, *, table: str | None = None, first: str | None = None
    ) -> TableState:
        """Raises ``CorruptLogError`` if no protocol or no metadata was seen, or no schema for data files. It names the
        checkpoint, or ``first``, the file of the first version."""
        protocol, metadata = self._protocol, self._metadata
        if protocol is None or metadata is None:
            absent = " and ".join(
                key for key, action in (("protocol", protocol), ("metaData", metadata)) if action is None
            )
            where = segment.checkpoint.names[0] if segment.checkpoint else first
            raise CorruptLogError(
                f"the log up to version {segment.version} has no {absent} action: the table's first commit or its"
                " checkpoint is damaged",
                table=table,
                version=segment.version,
                path=where,
                repair=f"The table {PUT_BACK}",
            )
        if metadata.schema_string == NO_COLUMNS and (self._has_added or segment.checkpoint):
            raise CorruptLogError(
                f"the metaData of version {segment.version} has no schema, but the table has data files",
                table=table,
                version=segment.version,
                path=segment.checkpoint.names[0] if segment.checkpoint else first,
                repair=f"The table {PUT_BACK}",
            )
        parsed = self._base._parsed if self._base else None
        if parsed is None or parsed.metadata is not metadata or parsed.protocol is not protocol:
            parsed = _Parsed(protocol, metadata)
        return TableState(
            segment.version,
            protocol,
            metadata,
            self._transactions.hand_over(),
            self._domains.hand_over(),
            self.in_commit_timestamp_ms,
            segment,
            self._totals,
            segment.version if self._newest_foreign is None else self._newest_foreign,
            self.mark,
            parsed,
            time_zone,
            self._vacuum,
        )


def begun_vacuum(commit: Commit) -> BegunVacuum | None:
    """The vacuum that a commit begins; None if it begins none, or does not say what is deleted."""
    info = commit.commit_info
    if info is None or info.operation != "VACUUM START" or info.timestamp is None:
        return None
    parameters = info.fields.get("operationParameters")
    if not isinstance(parameters, dict):
        return None
    given = (parameters.get(name) for name in ("specifiedRetentionMillis", "defaultRetentionMillis"))
    found = next((str(each) for each in given if each is not None), "")
    return BegunVacuum(commit.version, info.timestamp - int(found)) if found.isdecimal() else None


def commit_mark(commit: Commit) -> CommitMark:
    info = commit.commit_info
    return commit.size_bytes, commit.txn_id or (None if info is None else info.timestamp)


def advance(state: TableState | None, commit: Commit, time_zone: str = UTC) -> TableState:
    """The state after one more commit; ``state`` is None for the commit that creates the table (version 0).

    Raises ``CorruptLogError`` if a first commit lacks protocol or metadata; ``ValueError`` if the commit is not the
    next one.
    """
    if commit.version != (state.version + 1 if state else 0):
        raise ValueError(f"commit {commit.version} does not follow version {state.version if state else -1}")
    builder = StateBuilder(state)
    builder.apply_commit(commit)
    segment = state.segment.extended(commit.size_bytes) if state else LogSegment(0, None, tail_bytes=commit.size_bytes)
    return builder.build(segment, time_zone)
