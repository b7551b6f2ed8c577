"""What a branch did since it began, or since it last published: its net changes of files, and what they depend on.

In: the commits of the branch. Out: `BranchChanges`: the files that it added and still has, what it did to the table's
own files, and the `ReadSet` of its commits, as far as their ``commitInfo`` tells. A transaction says all that it read.
A delete or an update says its condition. A merge that wrote every key that it looked for has read the range of these
keys. Every other commit that changes rows counts as one that read the whole table. Work is in proportion to the
branch's commits, however many files the table has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from txlog.branch.conditions import BranchCondition
from txlog.branch.copies import RowCopies
from txlog.branch.places import Places
from txlog.core.format.actions import (
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from txlog.core.format.column_mapping import mapping_mode, physical_name, schema_of
from txlog.core.format.commit_file import Commit
from txlog.core.format.schema import DATE, INTEGER, LONG, STRING, Struct
from txlog.core.format.tombstones import is_tombstones
from txlog.errors import CorruptLogError
from txlog.extend import TableState
from txlog.extend.commits import PREPARED, BecomeOfRows, Predicate

REBASE: Final = "REBASE BRANCH"
"""The operation of a commit that moved a branch onto another version of its table."""
CARRIED: Final = "carried"
"""Its parameter that lists the changes which came along."""

_KEYS = re.compile(r"\(t\.(\w+) = s\.(\w+)\)(?: AND \(t\.\w+ = s\.\w+\))*")
_KEY = re.compile(r"\(t\.(\w+) = s\.\w+\)")
_BECOME_OF_ROWS: Final[Mapping[object, BecomeOfRows]] = {"DELETE": "deleted", "UPDATE": "changed"}

_CHANGES_OF_ROWS: Final = frozenset(("DELETE", "MERGE", "UPDATE", "WRITE"))


class TouchedFile(msgspec.Struct):
    """One of the table's files that the branch changed.

    Attributes:
        path: Its path as the table names it (`Places.in_table`).
        before: Its deletion vector in the version that the branch began with.
        after: The file as the branch has it; None if the branch removed it.
    """

    path: str
    before: DeletionVectorDescriptor | None
    after: AddFile | None


class DomainChange(msgspec.Struct, frozen=True):
    """What a commit made of a metadata domain.

    Attributes:
        domain: The domain from then on.
        is_unpublished: Whether the branch did it itself, and the table does not have it; a rebase takes over the
            table's.
    """

    domain: DomainMetadata
    is_unpublished: bool


class ApplicationChange(msgspec.Struct, frozen=True):
    """The last batch of an application that is on the branch alone.

    Attributes:
        app_id: The application.
        version: The batch.
        before: The last batch that the table had when the branch began, was rebased or published; None for none.
    """

    app_id: str
    version: int
    before: int | None


class BranchReads(msgspec.Struct, frozen=True):
    """What the commits of a branch read.

    Attributes:
        whole_table: Whether any of them read the whole table, as far as is known.
        changed: Conditions on rows each of which the branch changed or deleted.
        read: Conditions on rows some of which it left as they are: it depends on those that others remove, too.
    """

    whole_table: bool
    changed: tuple[Predicate, ...]
    read: tuple[Predicate, ...]


class BranchChanges(msgspec.Struct, frozen=True):
    """The net changes of a branch.

    Attributes:
        version: The version of the branch with these changes.
        added: Its own files that are new, by their paths in the table.
        touched: What became of the table's files.
        operations: What its commits did, each name once.
        moves_only: Whether no commit changed a row, as after a compaction.
        conditions: What its deletes, updates and merges read by.
        reads_table: Whether a commit read the whole table, as far as is known.
        rewrites_rows: Whether new files may have rows that were in others before.
        is_serializable: Whether a transaction asked for that.
        defined_at: The last version whose commit has metadata or a protocol; -1 if none has.
        copies: Which of the new files have the table's rows alone.
        domains: What its commits made of metadata domains.
        applications: The last batch of each application in commits after the last rebase or publication.
    """

    version: int
    added: Mapping[str, AddFile]
    touched: Sequence[TouchedFile]
    operations: Sequence[str]
    moves_only: bool
    conditions: Sequence[BranchCondition]
    reads_table: bool
    rewrites_rows: bool
    is_serializable: bool = False
    defined_at: int = -1
    copies: RowCopies = msgspec.field(default_factory=RowCopies)
    domains: Sequence[DomainChange] = ()
    applications: Mapping[str, int] = msgspec.field(default_factory=dict)

    def reads(self, schema: Struct, *, deletes: bool = True) -> BranchReads:
        """What its commits read, on a later ``schema``, with or without the conditions of its deletes."""
        found = [(each, each.on(schema)) for each in self.conditions]
        whole_table = self.reads_table or any(on is None for _, on in found)
        known = [(each, on) for each, on in found if on is not None and (deletes or not each.is_delete)]
        read = tuple(on for each, on in known if each.rows == "read")
        return BranchReads(whole_table, tuple(on for each, on in known if each.rows != "read"), read)

    @property
    def is_blind(self) -> bool:
        """Whether the branch only added rows, and read none for it."""
        return not (self.touched or self.conditions or self.reads_table or self.moves_only)

    @property
    def only_deletes(self) -> bool:
        """Whether all that it did to the table's own rows are deletes, which can be done again on any rows, but for
        files in which they are mixed with the branch's (`RowCopies.tied`)."""
        return not (self.reads_table or any(not each.is_delete for each in self.conditions))

    @property
    def has_vectors(self) -> bool:
        """Whether files have deletion vectors of the branch's own."""
        after = (each.after for each in self.touched)
        return any(each is not None and each.deletion_vector is not None for each in (*after, *self.added.values()))

    @property
    def is_empty(self) -> bool:
        """Whether no file differs."""
        return not self.added and not self.touched


class Carried(msgspec.Struct, frozen=True):
    """The changes of a branch that a rebase carried over to its new base, as the commit of the rebase lists them.

    Attributes:
        added: The branch's new files, as its log names them.
        touched: The table's files that the branch changed, as the table names them, with their vectors in the new base.
        copies: Which of the new files have the table's rows alone; None if an earlier release did not say it.
        applications: The last batches of applications on the branch.
    """

    added: tuple[str, ...] = ()
    touched: tuple[tuple[str, dict[str, Any] | None], ...] = ()
    copies: RowCopies | None = None
    applications: tuple[ApplicationChange, ...] = ()

    @staticmethod
    def of(commit: Commit) -> Carried:
        """What the commit of a rebase carried. Raises CorruptLogError if it does not say."""
        info = commit.commit_info
        parameters = info.fields.get("operationParameters") if info is not None else None
        try:
            return msgspec.json.decode(parameters[CARRIED], type=Carried)  # type: ignore[index]  # or it is a TypeError
        except (KeyError, TypeError, msgspec.DecodeError):
            raise CorruptLogError(
                "the commit of the branch's last rebase does not say which changes it carried over",
                version=commit.version,
                repair="Copy the rows that you need to the table, and discard the branch",
            ) from None

    def to_text(self) -> str:
        """The parameter of the commit."""
        return msgspec.json.encode(self, order="deterministic").decode()


class NetFiles:
    """What a branch did to files, put together from one commit after the other."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.added: dict[str, AddFile] = {}
        self._touched: dict[str, TouchedFile] = {}
        self.copies = RowCopies()

    @property
    def touched(self) -> list[TouchedFile]:
        """The table's files that are not as they were."""
        return [each for each in self._touched.values() if not _is_as_before(each)]

    def carry(self, carried: Carried, live: Mapping[str, AddFile]) -> None:
        """Begin with what a rebase carried; ``live`` are the files of its version, by their paths in the table."""
        self.added |= {path: live[path] for path in map(self._places.in_table, carried.added) if path in live}
        for path, vector in carried.touched:
            before = None if vector is None else DeletionVectorDescriptor.from_json(vector)
            self._touched[path] = TouchedFile(path, before, live.get(path))
        removed = {path for path, _ in carried.touched if path not in live}
        self.copies = RowCopies(tied=removed) if carried.copies is None else carried.copies.among(self.added)

    def note(self, adds: Sequence[AddFile], removes: Sequence[RemoveFile], *, makes_rows: bool) -> None:
        """Go on with a commit; ``makes_rows``: it added others than those of the files that it removed."""
        if removes:
            self._note_copies(adds, removes, makes_rows=makes_rows or any(map(is_tombstones, adds)))
        for remove in removes:
            path = self._places.in_table(remove.path)
            if path in self._touched:
                self._touched[path].after = None
            elif self.added.pop(path, None) is None:
                self._touched[path] = TouchedFile(path, remove.deletion_vector, None)
        for add in adds:
            path = self._places.in_table(add.path)
            if path in self._touched:
                self._touched[path].after = add
            else:
                self.added[path] = add

    def _note_copies(self, adds: Sequence[AddFile], removes: Sequence[RemoveFile], *, makes_rows: bool) -> None:
        named = self._places.in_table
        before, after = {named(each.path) for each in removes}, {named(each.path) for each in adds}
        self.copies.note(before - after, after - before, self.added, makes_rows=makes_rows)


def changes_of(
    commits: Iterable[Commit],
    net: NetFiles,
    state: TableState,
    time_zone: str,
    since: int,
    published: int,
    first: Callable[[], Metadata],
) -> BranchChanges:
    """The net changes of a branch, from all its commits, the last of which made ``state``: of files, those after the
    version ``since``, on top of what ``net`` begins with; of what was read, that of those after the ``published`` one,
    whose deletes the table has. ``first`` reads the definition before them."""
    operations: dict[str, None] = {}
    reads = _Reads(state, time_zone)
    moves_only, rewrites, defined_at = True, False, -1
    unpublished, domains, applications = set[str](), list[DomainChange](), dict[str, int]()
    for commit in commits:
        is_own = commit.operation != REBASE and commit.version > published
        applications |= _batches(commit) if commit.version > since else {}
        domains += [DomainChange(each, is_own) for each in commit.actions if type(each) is DomainMetadata]
        if any(type(action) in (Metadata, Protocol) for action in commit.actions):
            defined_at = commit.version
        adds = [action for action in commit.actions if type(action) is AddFile]
        removes = [action for action in commit.actions if type(action) is RemoveFile]
        if (adds or removes) and commit.operation != REBASE:
            operations[commit.operation] = None
            moves = not any(each.data_change for each in adds) and not any(each.data_change for each in removes)
            moves_only &= moves
            if commit.version > since:
                net.note(adds, removes, makes_rows=not (moves or _is_delete(commit)))
            gone = {remove.path for remove in removes}
            new = [add for add in adds if add.path not in gone]
            if commit.version > published:
                rewrites |= bool(new) and not gone <= unpublished
                unpublished |= {add.path for add in new}
                if not moves:
                    reads.note(commit, new)
        elif (
            commit.operation == REBASE and commit.version > published
        ):  # deletes that it did again may have copied rows
            rewrites |= not unpublished.issuperset(Carried.of(commit).added)
        elif commit.version > published and _looked_for_rows(commit):
            reads.note(commit, ())
        reads.define(commit)
    conditions, reads_table = reads.found(first)
    return BranchChanges(
        version=state.version,
        added=net.added,
        touched=net.touched,
        operations=[*operations],
        moves_only=moves_only and bool(operations),
        conditions=conditions,
        reads_table=reads_table,
        rewrites_rows=rewrites,
        is_serializable=reads.is_serializable,
        defined_at=defined_at,
        copies=net.copies,
        domains=domains,
        applications=applications,
    )


def _batches(commit: Commit) -> dict[str, int]:
    found = {each.app_id: each.version for each in commit.actions if type(each) is SetTransaction}
    found.pop(PREPARED, None)
    return found


def key_of(vector: DeletionVectorDescriptor | None) -> str | None:
    """What tells a vector from others of its file; None for none."""
    return None if vector is None else vector.unique_id


def _is_as_before(file: TouchedFile) -> bool:
    return file.after is not None and key_of(file.after.deletion_vector) == key_of(file.before)


class _Reads:
    """What the commits read, as far as each says. A condition has the names that the columns had at its commit."""

    def __init__(self, state: TableState, time_zone: str) -> None:
        self._state = state
        self._time_zone = time_zone
        self.is_serializable = False
        self._whole_table = False
        self._definitions: list[Metadata | None] = [None]  # the first one is read only if it matters
        self._noted: list[tuple[int, CommitInfo, Sequence[AddFile]]] = []

    def define(self, commit: Commit) -> None:
        """Go on with what the commit made of the definition."""
        self._definitions += [action for action in commit.actions if type(action) is Metadata]

    def note(self, commit: Commit, adds: Sequence[AddFile]) -> None:
        info = commit.commit_info
        if info is not None and info.is_blind_append:
            return
        if info is None or commit.is_foreign:  # Spark's Delta names columns in conditions by numbers of its own
            self._whole_table = True
            return
        self.is_serializable |= _told(info) is not None and info.fields.get("isolationLevel") == "Serializable"
        self._noted.append((len(self._definitions) - 1, info, adds))

    def found(self, first: Callable[[], Metadata]) -> tuple[list[BranchCondition], bool]:
        """The conditions, and whether the whole table was read."""
        schemas = self._schemas(first) if self._noted else []
        conditions: list[BranchCondition] = []
        whole_table = self._whole_table
        for at, info, adds in self._noted:
            found = _conditions(info, adds, schemas[at])
            whole_table |= found is None
            conditions += [BranchCondition(text, schemas[at], self._time_zone, rows) for text, rows in found or ()]
        return conditions, whole_table

    def _schemas(self, first: Callable[[], Metadata]) -> list[Struct]:
        """The columns by each definition."""
        newest = self._state.metadata
        if all(each is None or _names_alike(each, newest) for each in self._definitions):
            return [self._state.schema] * len(self._definitions)
        found = [first() if each is None else each for each in self._definitions]
        return [self._state.schema if _names_alike(each, newest) else schema_of(each) for each in found]


def _names_alike(one: Metadata, other: Metadata) -> bool:
    return one.schema_string == other.schema_string and mapping_mode(one.configuration) == mapping_mode(
        other.configuration
    )


def _conditions(info: CommitInfo, adds: Sequence[AddFile], schema: Struct) -> list[tuple[str, BecomeOfRows]] | None:
    """The conditions on rows that a commit depends on, and what became of these rows; None if it depends on every row,
    or nobody knows."""
    told = _told(info)
    if told is not None:
        return _conditions_told(told)
    given = info.fields.get("operationParameters")
    parameters = given if isinstance(given, Mapping) else {}
    texts = _list_of(parameters.get("predicate"))
    if len(texts) != 1:  # a transaction of an earlier release may list several, of which one is enough
        return None
    text = str(texts[0])
    if info.operation in _BECOME_OF_ROWS:
        return None if text == "true" else [(text, _BECOME_OF_ROWS[info.operation])]
    if info.operation != "MERGE" or not _changes_each_match(parameters):
        return None
    keys = _KEY.findall(text) if _KEYS.fullmatch(text) else []
    ranges = [_range_of(key, adds, schema) for key in keys]
    return [(" AND ".join(each for each in ranges if each), "changed")] if any(ranges) else None


def _is_delete(commit: Commit) -> bool:
    """Whether a commit deleted rows by a condition, and did nothing else. A transaction may have any name, and append
    rows too."""
    info = commit.commit_info
    return info is not None and info.operation == "DELETE" and not commit.is_foreign and _told(info) is None


def _looked_for_rows(commit: Commit) -> bool:
    """Whether a commit that has no file looked for rows to change, and found none."""
    info = commit.commit_info
    if info is None or info.is_blind_append:
        return False
    told = _told(info)
    changes = isinstance(told, list) and any(isinstance(each, dict) and each.get("rows") != "read" for each in told)
    return changes or info.operation in _CHANGES_OF_ROWS


def _told(info: CommitInfo) -> object:
    """What a transaction says that it read (`ReadsTold`); None if it does not."""
    own = info.fields.get("txlog")
    return own.get("reads") if isinstance(own, Mapping) else None


def _conditions_told(told: object) -> list[tuple[str, BecomeOfRows]] | None:
    found: list[tuple[str, BecomeOfRows]] = []
    for each in told if isinstance(told, list) else (None,):
        match each:
            case {"where": str(text), "rows": ("read" | "changed" | "deleted") as rows}:
                found.append((text, rows))
            case _:
                return None
    return found


def _changes_each_match(parameters: Mapping[str, Any]) -> bool:
    """Whether a merge wrote each row of its source: so the new files have every key that it looked for."""
    matched = _list_of(parameters.get("matchedPredicates"))
    new = _list_of(parameters.get("notMatchedPredicates"))
    return (
        not _list_of(parameters.get("notMatchedBySourcePredicates"))
        and [each.get("actionType") for each in matched if isinstance(each, dict)] == ["update"]
        and [each.get("actionType") for each in new if isinstance(each, dict)] == ["insert"]
        and not any("predicate" in each for each in (*matched, *new))
    )


def _range_of(key: str, adds: Sequence[AddFile], schema: Struct) -> str | None:
    """The range of a key's values in files, as a condition; None if it is not known, or not a number, text or date."""
    field = schema.find(key)
    if field is None or field.type not in (LONG, INTEGER, STRING, DATE):
        return None
    name, bounds = physical_name(field), []
    for add in adds:
        stats = orjson.loads(add.stats) if add.stats else {}
        low, high = (stats.get(side, {}).get(name) for side in ("minValues", "maxValues"))
        if low is None or high is None:
            return None
        bounds.append((low, high))
    if not bounds:
        return None
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    quoted = f"`{field.name.replace('`', '``')}`"
    return f"{quoted} >= {_literal(low)} AND {quoted} <= {_literal(high)}"


def _literal(value: int | str) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _list_of(text: object) -> list[Any]:
    """A list that a parameter holds as JSON text."""
    try:
        found = orjson.loads(text) if isinstance(text, str) else text
    except ValueError:
        return []
    return found if isinstance(found, list) else []
