"""What a check of a table found, for programs and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["Finding", "KeyCheck", "RepeatedKey", "RowsByFile", "Verification"]


class Finding(msgspec.Struct, frozen=True):
    """One defect.

    Attributes:
        rule: The kind of defect: a stable name.
        message: What is wrong, and what to do about it, if anything.
        version: The version that has the defect.
        path: A name under ``_delta_log``, or the path of a data file.
        line: The line in the file, counted from 1.
        severity: "error", or "warning" if no reader gets a wrong result.
    """

    rule: str
    message: str
    version: int | None = None
    path: str | None = None
    line: int | None = None
    severity: str = "error"

    @property
    def where(self) -> str:
        """``"00000000000000000012.json:3"``."""
        return f"{self.path or ''}{f':{self.line}' if self.line else ''}"


class RowsByFile(msgspec.Struct, frozen=True):
    """How many live rows a finding is about, and in which files.

    Attributes:
        rows: The number of rows, in all files together.
        num_files: The number of files that have some of them.
        files: The rows in each file, by its path in the log; if there are many files, the first ones in log order.
    """

    rows: int = 0
    num_files: int = 0
    files: Mapping[str, int] = msgspec.field(default_factory=dict)


class RepeatedKey(msgspec.Struct, frozen=True):
    """A key that several live rows have: its values by key column, and the rows."""

    values: Mapping[str, Any]
    found: RowsByFile


class KeyCheck(msgspec.Struct, frozen=True):
    """Whether all live rows of a version have different keys.

    Attributes:
        columns: The key columns, as the table spells them.
        version: The version that was read.
        rows: The number of its live rows.
        repeated_keys: The number of keys that several rows have.
        repeated_rows: The number of rows with such keys.
        examples: The keys with the most rows, up to the requested number.
        nulls: The rows whose key is null, or has a null in one of its columns. No upsert finds them.
    """

    columns: tuple[str, ...]
    version: int
    rows: int
    repeated_keys: int
    repeated_rows: int
    examples: tuple[RepeatedKey, ...]
    nulls: RowsByFile


class Verification(msgspec.Struct, frozen=True):
    """What `Table.verify` checked and found.

    Attributes:
        table: The URI of the table.
        version: The newest version of the log.
        commits: The number of commits that were read.
        checkpoints: The number of checkpoints that were compared with the commits.
        data_files: The number of data files that were looked up.
        findings: The defects; none if the table is sound.
        keys: What `KeyCheck` says about the keys; None if no keys were requested, or they could not be read.
    """

    table: str
    version: int
    commits: int
    checkpoints: int
    data_files: int
    findings: tuple[Finding, ...]
    keys: KeyCheck | None = None

    @property
    def is_sound(self) -> bool:
        """Whether there are no errors; there may be warnings."""
        return all(finding.severity != "error" for finding in self.findings)
