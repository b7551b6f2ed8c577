"""The names of everything directly under ``_delta_log/``: how each is written and recognized.

In: versions, part numbers, or one listed name. Out: a name, or a ``LogFile`` with its parsed parts. PROTOCOL.md,
"File Types" ("Delta Log Entries", "Checkpoints", "Log Compaction Files", "Version Checksum File").
"""

from __future__ import annotations

import enum
import re

import msgspec

from txlog.core.util import pattern

LAST_CHECKPOINT = "_last_checkpoint"
SIDECARS = "_sidecars"
STAGED = "_staged_commits"


_STAGED_NAME = pattern(r"(\d{20})\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.json")


class LogFileKind(enum.Enum):
    """The kind of a file of the log. Every kind but COMMIT may be absent from a correct log."""

    COMMIT = "commit"
    COMPACTED = "compacted"
    CHECKSUM = "checksum"
    CLASSIC_CHECKPOINT = "checkpoint"
    MULTIPART_CHECKPOINT = "multi-part checkpoint"
    V2_CHECKPOINT = "V2 checkpoint"

    @property
    def is_checkpoint(self) -> bool:
        return self in _CHECKPOINT_KINDS


_CHECKPOINT_KINDS = frozenset(
    {LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTIPART_CHECKPOINT, LogFileKind.V2_CHECKPOINT}
)


class LogFile(msgspec.Struct, frozen=True):
    """One recognized name. ``version`` is the newest version that the file covers.

    ``first_version`` differs from it only for a compacted file. ``part`` runs from 1 to ``parts``.
    """

    kind: LogFileKind
    name: str
    version: int
    first_version: int
    part: int = 1
    parts: int = 1


def version_prefix(version: int) -> str:
    """The 20 digits that every name of this version starts with; also the smallest name to list it from."""
    return f"{version:020d}"


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def staged_name(version: int, uuid: str) -> str:
    """The name, in the folder ``STAGED``, of a commit that a catalog may accept as this version. PROTOCOL.md,
    "Catalog-managed tables"."""
    return f"{version:020d}.{uuid}.json"


def staged_version(name: str) -> int | None:
    """The version of a name in the folder ``STAGED``; None for any other name."""
    match = _STAGED_NAME.fullmatch(name)
    return int(match[1]) if match else None


def commit_version(name: str) -> int | None:
    """The version that ``name`` is the commit file of; None for any other name."""
    file = parse_log_name(name)
    return file.version if file is not None and file.kind is LogFileKind.COMMIT else None


def checksum_name(version: int) -> str:
    return f"{version:020d}.crc"


def checkpoint_name(version: int) -> str:
    """The name of a classic checkpoint in a single file."""
    return f"{version:020d}.checkpoint.parquet"


def multipart_names(version: int, parts: int) -> tuple[str, ...]:
    return tuple(f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1))


def v2_checkpoint_name(version: int, unique_id: str, extension: str) -> str:
    """``extension`` is ``"json"`` or ``"parquet"``; ``unique_id`` is a UUID."""
    return f"{version:020d}.checkpoint.{unique_id}.{extension}"


def compacted_name(first_version: int, last_version: int) -> str:
    return f"{first_version:020d}.{last_version:020d}.compacted.json"


_MULTIPART = pattern(r"(\d{10})\.(\d{10})\.parquet\Z", re.ASCII)
_V2 = pattern(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\.(?:json|parquet)\Z", re.ASCII)
_COMPACTED = pattern(r"(\d{20})\.compacted\.json\Z", re.ASCII)


def parse_log_name(name: str) -> LogFile | None:
    """The file that ``name`` names; None for a name that the protocol does not define, which readers ignore."""
    digits, dot, rest = name[:20], name[20:21], name[21:]
    if dot != "." or len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    version = int(digits)
    if rest == "json":
        return LogFile(LogFileKind.COMMIT, name, version, version)
    if rest == "crc":
        return LogFile(LogFileKind.CHECKSUM, name, version, version)
    if rest.startswith("checkpoint."):
        return _parse_checkpoint_name(name, version, rest.removeprefix("checkpoint."))
    compacted = _COMPACTED.match(rest)
    if compacted and int(compacted[1]) >= version:
        return LogFile(LogFileKind.COMPACTED, name, int(compacted[1]), version)
    return None


def _parse_checkpoint_name(name: str, version: int, rest: str) -> LogFile | None:
    if rest == "parquet":
        return LogFile(LogFileKind.CLASSIC_CHECKPOINT, name, version, version)
    multipart = _MULTIPART.match(rest)
    if multipart:
        part, parts = int(multipart[1]), int(multipart[2])
        if not 1 <= part <= parts:
            return None
        return LogFile(LogFileKind.MULTIPART_CHECKPOINT, name, version, version, part, parts)
    if _V2.match(rest):
        return LogFile(LogFileKind.V2_CHECKPOINT, name, version, version)
    return None
