"""The hint ``_last_checkpoint``: where readers begin. It may be absent, stale or torn, and is then ignored.

In: its bytes, or a checkpoint's counts. Out: a ``LastCheckpoint``, or the bytes to write, with the checksum
Spark verifies. PROTOCOL.md, "Last Checkpoint File", "JSON checksum".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson

from txlog.core.format.log_names import LogFileKind, checkpoint_name, multipart_names, parse_log_name
from txlog.core.format.wire import size_or_none
from txlog.core.versions.decisions.segment import CheckpointFiles

_PARTS_MAX = 100_000


class LastCheckpoint(msgspec.Struct, frozen=True):
    """The content of the hint. ``files`` is None if it does not name the checkpoint's files."""

    version: int
    files: CheckpointFiles | None


def parse_last_checkpoint(body: bytes) -> LastCheckpoint | None:
    """The hint, or None if it is invalid. Its checksum is not verified: a wrong hint does no harm."""
    try:
        hint = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(hint, dict):
        return None
    version = size_or_none(hint.get("version"))
    if version is None:
        return None
    return LastCheckpoint(version, _files_of(hint, version))


def _files_of(hint: Mapping[str, Any], version: int) -> CheckpointFiles | None:
    size_bytes = size_or_none(hint.get("sizeInBytes"))
    v2 = hint.get("v2Checkpoint")
    if v2 is not None:
        path = v2.get("path") if isinstance(v2, dict) else None
        parsed = parse_log_name(path.rsplit("/", 1)[-1]) if isinstance(path, str) else None
        if parsed is None or parsed.version != version or not parsed.kind.is_checkpoint:
            return None
        return CheckpointFiles(version, parsed.kind, (parsed.name,), size_bytes)
    if hint.get("parts") is None:
        return CheckpointFiles(version, LogFileKind.CLASSIC_CHECKPOINT, (checkpoint_name(version),), size_bytes)
    parts = size_or_none(hint["parts"])
    if parts is None or not 1 <= parts <= _PARTS_MAX:
        return None
    return CheckpointFiles(version, LogFileKind.MULTIPART_CHECKPOINT, multipart_names(version, parts), size_bytes)


def last_checkpoint_bytes(
    version: int, *, actions: int, size_bytes: int, add_files: int, v2: Mapping[str, Any] | None = None
) -> bytes:
    """The hint that names one of our checkpoints. ``v2`` names the top-level file of a V2 checkpoint.

    ``actions`` and ``size_bytes`` include its sidecars, as in Spark.
    """
    hint: dict[str, Any] = {"version": version, "size": actions, "sizeInBytes": size_bytes, "numOfAddFiles": add_files}
    if v2 is not None:
        hint["v2Checkpoint"] = v2
    return orjson.dumps({**hint, "checksum": json_checksum(hint)})


def json_checksum(value: Mapping[str, Any]) -> str:
    """MD5 of the canonical form; a top-level ``checksum`` field is not part of it."""
    import hashlib

    pairs = sorted(_canonical_pairs({key: item for key, item in value.items() if key != "checksum"}, ""))
    return hashlib.md5(",".join(pairs).encode(), usedforsecurity=False).hexdigest()


def _canonical_pairs(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _canonical_pairs(item, f"{key}+{_encoded(name)}" if key else _encoded(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _canonical_pairs(item, f"{key}+{index}" if key else str(index))
    else:
        yield f"{key}={_scalar(value)}"


def _scalar(value: Any) -> str:
    return _encoded(value) if isinstance(value, str) else orjson.dumps(value).decode()


def _encoded(text: str) -> str:
    from urllib.parse import quote

    return f'"{quote(text, safe="")}"'
