"""Values as bytes for queues and staging: a line with kind, format and checksum, then JSON.

In: the kind ("committable", "manifest") and a value, or untrusted bytes. Out: the bytes; or the value, from a function
that checks every field, since a program that can write such bytes can write their checksum too.

The format is a number, so a later release can change it: see `_FORMAT_VERSION`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from txlog.core.util import invalid, public_fields
from txlog.errors import InvalidInputError, UnsupportedFeatureError

_FORMAT_VERSION = 1

Value = TypeVar("Value")


def to_bytes(kind: str, value: object, version: int = _FORMAT_VERSION) -> bytes:
    """``txlog-<kind> <format> <sha256 of the body>``, a newline, and the body as JSON."""
    body = orjson.dumps(value, default=public_fields)
    return b"txlog-%s %d %s\n%s" % (kind.encode(), version, checksum(body).encode(), body)


def from_bytes(
    kind: str,
    data: bytes,
    read: Callable[[Any], Value],
    *,
    if_damaged: str = "",
    newest: int = _FORMAT_VERSION,
) -> Value:
    """The result of ``read`` for the body. ``newest`` is the newest format that it reads.

    Raises InvalidInputError if a byte was changed or lost (``if_damaged`` says what to do then) and
    UnsupportedFeatureError if a newer txlog wrote it.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise invalid(kind, data, "bytes")
    header, _, body = bytes(data).partition(b"\n")
    parts = header.split(b" ")
    if len(parts) != 3 or parts[0] != b"txlog-" + kind.encode() or not parts[1].isdigit() or len(parts[1]) > 9:
        raise InvalidInputError(f"these bytes are not a txlog {kind}")
    version = int(parts[1])
    if not _FORMAT_VERSION <= version <= newest:
        raise UnsupportedFeatureError(
            f"the {kind} has format {version}, and this txlog reads format {newest}: "
            "commit it with the txlog that wrote it, or a newer one",
            features=(kind,),
        )
    if parts[2] != checksum(body).encode():
        raise InvalidInputError(f"the {kind} is damaged (its checksum differs){if_damaged}")
    try:
        return read(orjson.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"these bytes are not a txlog {kind}: {error}") from None


def format_of(data: bytes) -> int:
    """The format of bytes that `from_bytes` has read."""
    return int(bytes(data[: data.index(b"\n")]).split(b" ")[1])


def checksum(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    from hashlib import sha256  # a local append does not need it

    return sha256(data).hexdigest()
