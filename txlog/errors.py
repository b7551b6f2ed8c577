"""The exception tree: every error that leaves txlog, grouped by what the caller can do about it.

Each error carries ``table``, ``version`` and ``path`` if they are known; its message explains what happened, why, and
what to do next, and repeats no credentials that an address had. Errors can be pickled without loss, since Spark moves
them between processes.

    TxlogError
    |- ConflictError                  replan on the newer version; nothing landed
    |  |- ConcurrentAppendError  ConcurrentDeleteReadError  ConcurrentDeleteDeleteError
    |  |- ConcurrentTransactionError  MetadataChangedError  ProtocolChangedError
    |- CommitRetriesExhaustedError    nothing landed: run again, or later
    |- CommitStateUnknownError        do not rerun blindly: look for txn_id
    |- PartlyCommittedError           a transaction over several tables lacks one: do that table's part again
    |- StorageError                   retry later
    |  |- AccessError                 a store or a catalog refuses the credentials: ``reason`` says why
    |- NotFoundError (LookupError)    TableNotFoundError, or a version or file is absent
    |- TableExistsError
    |- UnsupportedFeatureError        upgrade or stop
    |- InvalidInputError (ValueError) fix the call: SchemaMismatchError, bad option, bad row; ChecksFailedError
    |- CorruptLogError                an operator must inspect the named file and line
    |  |- ForkedTableError            a catalog and the log's folder have different versions: `Table.repair`
    |- IcebergExportError             the table is sound; its Iceberg metadata is not, or not up to date
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from txlog.core.wording import in_python, is_worded, spelled, words_in

__all__ = [
    "AccessError",
    "ChecksFailedError",
    "CommitRetriesExhaustedError",
    "CommitStateUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConflictError",
    "ConflictReason",
    "CorruptLogError",
    "ForkedTableError",
    "IcebergExportError",
    "InvalidInputError",
    "MetadataChangedError",
    "NotFoundError",
    "PartlyCommittedError",
    "ProtocolChangedError",
    "SchemaMismatchError",
    "StorageError",
    "TableExistsError",
    "TableNotFoundError",
    "TxlogError",
    "UnsupportedFeatureError",
]


class _Located:
    """Adds the table and version to a TxlogError raised inside the ``with`` block.

    Pure code does not know which table it works on and raises without a location.

    Args:
        table: The URI to set if the error names no table.
        version: The version to set if the error names none.
    """

    __slots__ = ("_table", "_version")

    def __init__(self, table: str, version: int | None = None) -> None:
        self._table = table
        self._version = version

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TxlogError) and error.table is None:
            error.table, error.version = self._table, self._version if error.version is None else error.version


class TxlogError(Exception):
    """Base class of every error that txlog raises. ``str(error)`` is the message with table and version in front.

    Args:
        message: What happened, why, and what to do next, without the location. It may contain words that each interface
            spells differently (`txlog.core.wording`).
        table: The URI of the table, or the name under which a catalog has it, if known.
        version: The table version, if known.
        path: The file that the error is about, if known.
        parameter: The argument that the error is about, by its Python name; by default the first in the message.
        **details: More attributes that a subclass declares.
    """

    template: str
    """The message with its words as values, for an interface to spell."""
    parameter: str | None = None
    located = _Located
    """Adds the table and version to errors raised in a ``with`` block."""
    recovery: Any = None
    """From ``recover()``: what it did before the error, as a `Recovery`, or as one for each table of a `SinkGroup`."""

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | None = None,
        path: str | None = None,
        **details: Any,
    ) -> None:
        self.template = message
        has_words = is_worded(message)
        shown = self.template  # without credentials
        super().__init__(spelled(shown, in_python) if has_words else shown)
        self.table = table
        self.version = version
        self.path = path
        if has_words:
            named = (word.name for word in words_in(message) if word.kind in ("argument", "setting"))
            self.parameter = next(named, None)
        for name, value in details.items():
            setattr(self, name, value)

    @property
    def message(self) -> str:
        """What happened, why, and what to do next, without the location, in Python's words."""
        return spelled(self.template, in_python) if is_worded(self.template) else self.template

    @message.setter
    def message(self, text: str) -> None:
        self.template = text

    def __setattr__(self, name: str, value: Any) -> None:
        """A table that people know by a name is called by it. An error shows no credentials that an address had."""
        shown = getattr(value, "known_as", value)
        super().__setattr__(name, _discreet(shown) if isinstance(shown, str) else shown)

    @property
    def kind(self) -> str:
        """The class name: a stable string for logs, for JSON output and for errors from other processes."""
        return type(self).__name__

    def __str__(self) -> str:
        where = [self.table] if self.table else []
        if self.version is not None:
            where.append(f"v{self.version}")
        return f"{' '.join(where)}: {self.message}" if where else self.message

    def __repr__(self) -> str:
        fields = {name: value for name, value in vars(self).items() if name != "template" and value not in (None, ())}
        return f"{self.kind}({', '.join([repr(self.message), *(f'{name}={fields[name]!r}' for name in fields)])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


def _discreet(text: str) -> str:
    if "//" not in text and "=" not in text:
        return text
    from txlog.core.addresses import without_credentials

    return without_credentials(text)


def _rebuild(kind: type[TxlogError], message: str, attributes: dict[str, Any]) -> TxlogError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(attributes)
    return error


class ConflictReason(msgspec.Struct, frozen=True):
    """One way in which a winning commit invalidates what this transaction read or wrote.

    Args:
        rule: The name of the error class that this reason alone would raise.
        winner_version: The version of the winning commit.
        winner_operation: The operation that the winner recorded, such as ``"MERGE"``.
        detail: What the winning commit did that conflicts.
    """

    rule: str
    winner_version: int
    winner_operation: str
    detail: str

    def __str__(self) -> str:
        return f"v{self.winner_version} ({self.winner_operation}) {self.detail}"


class ConflictError(TxlogError):
    """A concurrent commit won and this one is no longer valid on top of it. Nothing landed.

    ``reasons`` lists every conflict, not only the first. Run the operation again: txlog then plans it on the newer
    version.
    """

    reasons: tuple[ConflictReason, ...] = ()

    @property
    def winner_version(self) -> int | None:
        """The version of the winning commit in the first reason, None without reasons."""
        return self.reasons[0].winner_version if self.reasons else None

    @property
    def winner_operation(self) -> str | None:
        """The operation that the winning commit in the first reason recorded, such as ``"MERGE"``."""
        return self.reasons[0].winner_operation if self.reasons else None


class ConcurrentAppendError(ConflictError):
    """A concurrent commit added files that match what this transaction read."""


class ConcurrentDeleteReadError(ConflictError):
    """A concurrent commit removed a file that this transaction read."""


class ConcurrentDeleteDeleteError(ConflictError):
    """A concurrent commit removed a file that this transaction removes too."""


class ConcurrentTransactionError(ConflictError):
    """A concurrent commit moved an ``app_id`` or a metadata domain that this transaction depends on."""


class MetadataChangedError(ConflictError):
    """A concurrent commit changed the table's schema, partitioning or properties."""


class ProtocolChangedError(ConflictError):
    """A concurrent commit created the table or changed its protocol."""


class CommitRetriesExhaustedError(TxlogError):
    """The commit lost every race until its retry policy ended. Nothing landed: run it again now or later.

    ``attempts`` is the number of commits sent.
    """

    attempts: int = 0


class CommitStateUnknownError(TxlogError):
    """A commit was sent and the answer was lost: the commit is in the log once, or not at all.

    Do not rerun blindly. ``table.resolve(error.txn_id, error.version)`` reports which of the two is true;
    ``txlog.resolve(error.table, error.txn_id, 0)`` reports it for a commit that creates the table.
    """

    txn_id: str = ""
    version: int  # the version that the commit was sent as


class PartlyCommittedError(TxlogError):
    """A transaction over several tables is committed in all but one, and cannot land there any more.

    Only another engine can cause this: it committed to that table at the moment of the decision, and the two commits
    contradict each other. Do not run the transaction again: only what it does to ``table`` is missing.
    """


class StorageError(TxlogError):
    """The store refused an operation, or the operation failed and left nothing behind. Retry later."""

    was_refused = False
    """Whether the store itself refused to put a commit: nothing of it landed or ever will."""
    was_unanswered = False
    """Whether a put of a file that nobody else writes had no answer, and did not land: to repeat it is safe."""


class AccessError(StorageError):
    """A store or a catalog does not let this caller do that. Nothing happened; the message says what to do.

    ``reason`` is "missing" (no credentials), "wrong" (credentials that it does not know), "expired" (their time is
    over) or "forbidden" (they lack the right).
    """

    reason: str = ""


class NotFoundError(TxlogError, LookupError):
    """The requested version, file or table does not exist."""


class TableNotFoundError(NotFoundError):
    """There is no Delta table at this location."""


class TableExistsError(TxlogError):
    """A Delta table already exists at this location."""


class UnsupportedFeatureError(TxlogError):
    """The table or the call needs features that this release lacks. ``features`` names them."""

    features: tuple[str, ...] = ()


class InvalidInputError(TxlogError, ValueError):
    """The call or its data is wrong: the message explains how to fix it. Nothing landed."""

    is_unproven: bool = False
    """Whether it is about a checkpoint that no retained commit has: one older than the application's last one, or the
    last one, with a fingerprint that nothing confirms."""
    row: int | None = None
    """The row of the data that cannot be stored, counting from 0, if it is about one."""


class SchemaMismatchError(InvalidInputError):
    """The data's columns do not fit the table's. The message lists every column that differs."""

    columns: Sequence[str] = ()
    """The columns that differ, if they are those of a write's data."""


class ChecksFailedError(InvalidInputError):
    """Rows of an audit do not pass its checks, so nothing was published. ``check`` is the `BranchCheck` with them."""

    check: Any = None


ASK_VERIFY = "run `txlog verify` to find the damaged commit and line"
"""The ``repair`` of a CorruptLogError raised by code that sees the bad content but not its file and line."""


class CorruptLogError(TxlogError):
    """The log breaks the protocol: an operator must inspect ``path`` (and ``line``, counted from 1).

    ``repair`` explains how to repair the log, if known. ``str(error)`` ends with it.
    """

    line: int | None = None
    repair: str | None = None

    def __str__(self) -> str:
        where = [part for part in (self.path, self.line and f"line {self.line}") if part]
        text = super().__str__()
        located = f"{text} [{', '.join(map(str, where))}]" if where else text
        return f"{located}. {self.repair}" if self.repair else located


class ForkedTableError(CorruptLogError):
    """The catalog that decides the table's versions and the log's folder differ about ``version``.

    Either the catalog lacks a version that is published, as after a restart that made it forget what it had accepted,
    or it has another commit than the published one. txlog writes nothing to such a table, and reports nothing as
    published. ``table.repair()`` offers the catalog again what it lacks, or says what cannot be kept. ``path`` is the
    published file; ``catalog_file`` is the one that the catalog has for the version, "" if it has none.
    """

    catalog_file: str = ""


class IcebergExportError(TxlogError):
    """A version cannot be exported as Iceberg metadata. The commit stands; the message names the column or the file."""
