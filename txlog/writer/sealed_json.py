"""Values as bytes for queues and staging: a line with kind, format and checksum, then JSON.

In: the kind ("committable", "manifest") and a value, or untrusted bytes. Out: the bytes; or the value, from a function
that checks every field, since a program that can write such bytes can write their checksum too.

Formats. 1: only added files, and a mode, "append" or "overwrite". 2: also files that are removed or get another
deletion vector, change data files, and a write intent in place of the mode. 3: also files of
keys, and the key columns of an intent. txlog reads all and writes 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.util.arguments import invalid
from txlog.util.values import public_fields

__all__ = ["checksum", "from_bytes", "to_bytes"]

_FORMAT_VERSION = 3
_READABLE_VERSIONS = (1, 2, 3)

Value = TypeVar("Value")


def to_bytes(kind: str, value: object) -> bytes:
    """``txlog-<kind> <format> <sha256 of the body>``, a newline, and the body as JSON."""
    body = orjson.dumps(value, default=public_fields)
    return b"txlog-%s %d %s\n%s" % (kind.encode(), _FORMAT_VERSION, checksum(body).encode(), body)


def from_bytes(kind: str, data: bytes, read: Callable[[Any, int], Value], *, if_damaged: str = "") -> Value:
    """The result of ``read`` for the body and its format version.

    Raises InvalidInputError if a byte was changed or lost (``if_damaged`` says what to do then) and
    UnsupportedFeatureError if a newer txlog wrote it.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise invalid(kind, data, "bytes")
    header, _, body = bytes(data).partition(b"\n")
    parts = header.split(b" ")
    if len(parts) != 3 or parts[0] != b"txlog-" + kind.encode() or not parts[1].isdigit() or len(parts[1]) > 9:
        raise InvalidInputError(f"these bytes are not a {kind} of txlog")
    version = int(parts[1])
    if version not in _READABLE_VERSIONS:
        raise UnsupportedFeatureError(
            f"the {kind} has format {version}, this txlog reads formats {', '.join(map(str, _READABLE_VERSIONS))}: "
            "commit it with the txlog that wrote it, or a newer one",
            features=(kind,),
        )
    if parts[2] != checksum(body).encode():
        raise InvalidInputError(f"the {kind} is damaged (its checksum differs){if_damaged}")
    try:
        return read(orjson.loads(body), version)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"these bytes are not a {kind} of txlog: {error}") from None


def checksum(data: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    from hashlib import sha256  # a local append does not need it

    return sha256(data).hexdigest()
