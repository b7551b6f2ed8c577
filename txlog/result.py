"""What a write hands back, as data and as one readable line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["LogCleanUp", "LogCompaction", "WriteMetrics", "WriteResult", "counted", "human_size"]

Outcome: TypeAlias = Literal["committed", "already_committed", "empty", "ignored"]


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """What one write did. Sizes in bytes, times in seconds.

    ``lost_races`` counts foreign commits that took a version this write tried for and that it was
    rebased over, and ``lost_to`` the same by the winners' operations (``{"WRITE": 2, "OPTIMIZE": 1}``);
    ``waited_s`` is the time spent backing off.

    A change of rows says besides how many it inserted, updated and deleted; ``rows_copied`` are those that stayed as
    they were in files that were rewritten, ``vectors`` the deletion vectors written, ``dead_fraction`` the largest
    part of a file's rows that one of them marks, and ``reexecutions`` how often it was executed again on a newer
    version. A file whose rows are not counted in the log, and that went as a whole, adds nothing to ``rows_deleted``.
    """

    rows: int = 0
    files: int = 0
    bytes: int = 0
    files_removed: int = 0
    lost_races: int = 0
    waited_s: float = 0.0
    lost_to: Mapping[str, int] = field(default_factory=dict)
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_copied: int = 0
    vectors: int = 0
    dead_fraction: float = 0.0
    reexecutions: int = 0

    def operation_metrics(self) -> dict[str, str]:
        """``commitInfo.operationMetrics`` of a WRITE as Spark names them: every value a string."""
        metrics = {"numFiles": self.files, "numOutputRows": self.rows, "numOutputBytes": self.bytes}
        if self.files_removed:
            metrics["numRemovedFiles"] = self.files_removed
        return {key: str(value) for key, value in metrics.items()}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The acknowledgement of a write: it is in the log at ``version``, durable, once.

    ``outcome`` is ``"committed"``, or ``"already_committed"`` where an equal replay of an
    ``app_id`` and ``checkpoint_id`` was found to be in the table (``version`` is then the version
    that holds it, or None where the commit is no longer retained). ``"empty"`` is a sink's checkpoint without
    rows, which made no version; ``"ignored"`` what ``txlog.write(mode="ignore")`` found a table for.

    ``attempts`` counts the commits that were sent, ``txn_id`` is in the commit's ``commitInfo.txnId``; ``metrics``
    tell what was written and waited for.
    """

    version: int | None
    outcome: Outcome
    attempts: int
    txn_id: str
    metrics: WriteMetrics = field(default_factory=WriteMetrics)

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON."""
        return {
            "version": self.version,
            "outcome": self.outcome,
            "attempts": self.attempts,
            "txn_id": self.txn_id,
            **{name: getattr(self.metrics, name) for name in WriteMetrics.__dataclass_fields__},
        }

    def __str__(self) -> str:
        parts = [f"version={self.version}", self.outcome.replace("_", " ")]
        if self.outcome == "committed":
            parts += [
                counted(self.metrics.rows, "row"),
                counted(self.metrics.files, "file"),
                human_size(self.metrics.bytes),
            ]
        parts.append(counted(self.attempts, "attempt"))
        return f"WriteResult({', '.join(parts)})"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class LogCleanUp:
    """What a log cleanup deleted; with ``dry_run`` what it would delete now.

    ``names`` are relative to ``_delta_log/``, in the order of deletion. ``first_version`` is the earliest version that
    can be read afterwards, None where no version was old enough to go.
    """

    names: tuple[str, ...]
    size_bytes: int
    first_version: int | None
    dry_run: bool

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON."""
        return {
            "names": list(self.names),
            "files": len(self.names),
            "size_bytes": self.size_bytes,
            "first_version": self.first_version,
            "dry_run": self.dry_run,
        }

    def __str__(self) -> str:
        parts = [counted(len(self.names), "file"), human_size(self.size_bytes)]
        if self.first_version is not None:
            parts.append(f"first version {self.first_version}")
        if self.dry_run:
            parts.append("dry run")
        return f"LogCleanUp({', '.join(parts)})"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """The file that now stands in for the commits of a range; ``replaced_bytes`` is the size of those, which stay.

    ``name`` is relative to ``_delta_log/``.
    """

    name: str
    first_version: int
    last_version: int
    actions: int
    size_bytes: int
    replaced_bytes: int

    def to_dict(self) -> Mapping[str, object]:
        """Plain data for logs and JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __str__(self) -> str:
        versions = f"versions {self.first_version} to {self.last_version}"
        sizes = f"{human_size(self.replaced_bytes)} as {human_size(self.size_bytes)}"
        return f"LogCompaction({versions}, {counted(self.actions, 'action')}, {sizes})"

    __repr__ = __str__


def counted(number: int, noun: str) -> str:
    """``1 row``, ``336,776 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def human_size(size_bytes: int) -> str:
    """Decimal units with one digit: ``21.4 MB``."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
