"""The exception tree: every error that leaves txlog, grouped by what the caller can do about it.

Each error carries ``table``, ``version`` and ``path`` where they are known; its message says what
happened, why, and what to do next. Errors pickle whole, since Spark moves them between processes.

    TxlogError
    |- ConflictError                  re-plan on the newer version; nothing landed
    |  |- ConcurrentAppendError  ConcurrentDeleteReadError  ConcurrentDeleteDeleteError
    |  |- ConcurrentTransactionError  MetadataChangedError  ProtocolChangedError
    |- CommitRetriesExhaustedError    nothing landed: run again, or later
    |- CommitStateUnknownError        do not rerun blindly: look for txn_id
    |- StorageError                   retry later
    |- NotFoundError (LookupError)    TableNotFoundError, or a version or file is absent
    |- TableExistsError
    |- UnsupportedFeatureError        upgrade or stop
    |- InvalidInputError (ValueError) fix the call: SchemaMismatchError, bad option, bad row
    |- CorruptLogError                an operator must look: file and line
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "CommitRetriesExhaustedError",
    "CommitStateUnknownError",
    "ConcurrentAppendError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentDeleteReadError",
    "ConcurrentTransactionError",
    "ConflictError",
    "ConflictReason",
    "CorruptLogError",
    "InvalidInputError",
    "MetadataChangedError",
    "NotFoundError",
    "ProtocolChangedError",
    "SchemaMismatchError",
    "StorageError",
    "TableExistsError",
    "TableNotFoundError",
    "TxlogError",
    "UnsupportedFeatureError",
]


class TxlogError(Exception):
    """Base of every error txlog raises.

    ``message`` is the text without its location; ``str(error)`` puts the table and version first.
    """

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | None = None,
        path: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.version = version
        self.path = path
        for name, value in details.items():
            setattr(self, name, value)

    @staticmethod
    def located(table: str, version: int | None = None) -> _Located:
        """What the block raises names its table: pure code decides without knowing where, and leaves that open."""
        return _Located(table, version)

    @property
    def kind(self) -> str:
        """The class name: stable text for logs, JSON output and errors that crossed a process."""
        return type(self).__name__

    def __str__(self) -> str:
        where = [self.table] if self.table else []
        if self.version is not None:
            where.append(f"v{self.version}")
        return f"{' '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, dict(self.__dict__)))


class _Located:
    __slots__ = ("_table", "_version")

    def __init__(self, table: str, version: int | None) -> None:
        self._table = table
        self._version = version

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TxlogError) and error.table is None:
            error.table, error.version = self._table, self._version if error.version is None else error.version


def _rebuild(kind: type[TxlogError], message: str, attributes: dict[str, Any]) -> TxlogError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(attributes)
    return error


@dataclass(frozen=True, slots=True)
class ConflictReason:
    """One way in which a winning commit invalidates what this transaction read or wrote.

    ``rule`` is the name of the error class that this reason alone would raise.
    """

    rule: str
    winner_version: int
    winner_operation: str
    detail: str

    def __str__(self) -> str:
        return f"v{self.winner_version} ({self.winner_operation}) {self.detail}"


class ConflictError(TxlogError):
    """A concurrent commit won and this one is no longer valid on top of it. Nothing landed.

    ``reasons`` lists every reason found, not just the first. Run the operation again: it will be
    planned on the newer version.
    """

    reasons: tuple[ConflictReason, ...] = ()

    @property
    def winner_version(self) -> int | None:
        """The version of the commit that the first reason names."""
        return self.reasons[0].winner_version if self.reasons else None

    @property
    def winner_operation(self) -> str | None:
        """What that commit did, in its writer's words: ``"MERGE"``."""
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
    """The retry policy ended before a version could be won. Nothing landed: run it again, or later."""

    attempts: int = 0


class CommitStateUnknownError(TxlogError):
    """A commit was sent and its answer was lost: it is in the log once, or not at all.

    Do not rerun blindly. ``table.resolve(error.txn_id, error.version)`` tells which of the two;
    ``txlog.resolve(error.table, error.txn_id, 0)`` does where the table was being created.
    """

    txn_id: str = ""
    version: int  # the one it was sent to


class StorageError(TxlogError):
    """The store refused or failed an operation in a way that left nothing behind. Retry later."""


class NotFoundError(TxlogError, LookupError):
    """A version, file or table that was asked for does not exist."""


class TableNotFoundError(NotFoundError):
    """There is no Delta table at this location."""


class TableExistsError(TxlogError):
    """A Delta table exists at this location already."""


class UnsupportedFeatureError(TxlogError):
    """The table, or the call, needs a feature that this release does not have; it is named."""

    features: tuple[str, ...] = ()


class InvalidInputError(TxlogError, ValueError):
    """The call or its data is wrong: the message says how to mend it. Nothing landed."""


class SchemaMismatchError(InvalidInputError):
    """The data's columns do not fit the table's; every column that differs is listed."""


ASK_VERIFY = "`txlog verify` names the commit and the line that say so"
"""The ``repair`` of what is wrong in the log where only its content is known, not its place."""


class CorruptLogError(TxlogError):
    """The log breaks the protocol: an operator must look at ``path`` (and ``line``, from 1).

    ``repair`` says what can be done about it, where that is known; it stands at the end of ``str(error)``.
    """

    line: int | None = None
    repair: str | None = None

    def __str__(self) -> str:
        where = [part for part in (self.path, self.line and f"line {self.line}") if part]
        text = super().__str__()
        located = f"{text} [{', '.join(map(str, where))}]" if where else text
        return f"{located}. {self.repair}" if self.repair else located
