"""What is known of branches, and what a check of one found."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict

from txlog.result import counted, with_milliseconds

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BranchCheck", "BranchInfo", "BranchStatus", "FailedCheck"]

BranchStatus: TypeAlias = Literal["open", "published", "discarded", "broken"]


class BranchInfo(msgspec.Struct, frozen=True):
    """One branch of a table.

    Attributes:
        name: Its name.
        uri: Its location: any Delta reader opens it there.
        version: Its newest version.
        base_version: The version of the table that it began with, or was rebased on.
        status: "open"; or, if it ended, "published" or "discarded"; or "broken": the process that was making it died,
            while a vacuum deleted files that it names. Nobody has written to it: discard it, or make it again.
        created: When it was made, in UTC.
        published_version: The version of the branch up to which the table has its changes; None before the first
            publication.
        kept_until: Until when a vacuum of another engine keeps the table's files that the branch began with: the first
            of them was removed from the table, and ``delta.deletedFileRetentionDuration`` passes then. None while the
            table has them all. txlog's vacuum keeps them as long as the branch is open.
    """

    name: str
    uri: str
    version: int
    base_version: int
    status: BranchStatus
    created: datetime
    published_version: int | None = None
    kept_until: datetime | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name.
        """
        return with_milliseconds(asdict(self))

    def __repr__(self) -> str:
        return (
            f"BranchInfo({self.name!r}, {self.status}, version {self.version}, from version {self.base_version} of the"
            f" table, made {self.created:%Y-%m-%d %H:%M:%SZ})"
        )


class FailedCheck(msgspec.Struct, frozen=True):
    """A condition that rows of a branch do not meet.

    Attributes:
        check: The condition, or the query whose result should be empty.
        num_rows: How many rows fail it.
        rows: The first of these rows.
    """

    check: str
    num_rows: int
    rows: pa.Table

    def __str__(self) -> str:
        return f"{self.check}: {counted(self.num_rows, 'row')} {'fails' if self.num_rows == 1 else 'fail'}"


class BranchCheck(msgspec.Struct, frozen=True):
    """What `Table.check` found.

    Attributes:
        version: The version of the branch that was checked.
        num_rows: How many rows were checked: those that a publication would add.
        checks: The conditions, in order: the constraints of the table, then the given ones.
        failures: The conditions that do not hold, with their rows.
    """

    version: int
    num_rows: int
    checks: tuple[str, ...]
    failures: tuple[FailedCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether every row meets every condition."""
        return not self.failures

    def to_dict(self) -> dict[str, object]:
        """Plain data for logs and JSON.

        Returns:
            The fields by name, ``passed``, and for each failure its first rows.
        """
        failures = [
            {"check": each.check, "num_rows": each.num_rows, "rows": each.rows.to_pylist()} for each in self.failures
        ]
        return {
            "passed": self.passed,
            "version": self.version,
            "num_rows": self.num_rows,
            "checks": list(self.checks),
            "failures": failures,
        }

    def __repr__(self) -> str:
        found = "passed" if self.passed else "; ".join(map(str, self.failures))
        return f"BranchCheck(version {self.version}, {counted(self.num_rows, 'row')} in new files, {found})"
