"""Values as bytes that travel through queues and lie in staging: a line of kind, format and checksum, then JSON.

In: the kind ("committable", "manifest") and a value, or anybody's bytes. Out: the bytes; or the value again, from the
function that looks at every field of it, since whoever can write such bytes can write their checksum too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from txlog.errors import InvalidInputError, UnsupportedFeatureError

__all__ = ["checksum", "from_bytes", "to_bytes"]

_FORMAT_VERSION = 1

Value = TypeVar("Value")


def to_bytes(kind: str, value: object) -> bytes:
    """``txlog-<kind> <format> <sha256 of the body>``, a newline, and the body as JSON."""
    body = orjson.dumps(value)
    return b"txlog-%s %d %s\n%s" % (kind.encode(), _FORMAT_VERSION, checksum(body).encode(), body)


def from_bytes(kind: str, data: bytes, read: Callable[[Any], Value], *, if_damaged: str = "") -> Value:
    """What ``read`` makes of the body. Raises InvalidInputError where a byte was changed or lost (``if_damaged`` is
    what to do then) and UnsupportedFeatureError where a newer txlog wrote it."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidInputError(f"a {kind} is bytes, not {type(data).__name__}")
    header, _, body = bytes(data).partition(b"\n")
    parts = header.split(b" ")
    if len(parts) != 3 or parts[0] != b"txlog-" + kind.encode() or not parts[1].isdigit() or len(parts[1]) > 9:
        raise InvalidInputError(f"these bytes are not a {kind} of txlog")
    if int(parts[1]) != _FORMAT_VERSION:
        raise UnsupportedFeatureError(
            f"the {kind} has format {int(parts[1])}, this txlog reads format {_FORMAT_VERSION}: "
            "commit it with the txlog that wrote it, or a newer one",
            features=(kind,),
        )
    if parts[2] != checksum(body).encode():
        raise InvalidInputError(f"the {kind} is damaged (its checksum differs){if_damaged}")
    try:
        return read(orjson.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"these bytes are not a {kind} of txlog: {error}") from None


def checksum(data: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    from hashlib import sha256  # an append that nobody sends on has no use for it

    return sha256(data).hexdigest()
