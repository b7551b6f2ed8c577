"""Z85 (ZeroMQ RFC 32): bytes as text, five characters for four bytes. PROTOCOL.md, "Deletion Vector Descriptor
Schema", "Per-file Statistics".

In: bytes. Out: text; and back. The standard library has the same code with another alphabet. Pure.
"""

from __future__ import annotations

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85, _TO_Z85 = bytes.maketrans(_Z85, _B85), bytes.maketrans(_B85, _Z85)


def z85(body: bytes) -> str:
    """The text of these bytes, and of zeros at their end up to a multiple of four."""
    import base64

    return base64.b85encode(body + bytes(-len(body) % 4)).translate(_TO_Z85).decode()


def z85_bytes(text: str) -> bytes:
    """The bytes of a text. Raises ValueError if it is no Z85."""
    import base64

    encoded = text.encode("ascii", "replace")
    if len(encoded) % 5 or encoded.strip(_Z85):
        raise ValueError(f"{text[:60]!r} is not Z85")
    # Writers in Rust pad an incomplete last group with one "#" at its start for each byte that it lacks. A complete
    # group never begins with "#", which would mean a number above 32 bits.
    last = encoded[-5:]
    lacking = len(last) - len(last.lstrip(b"#"))
    if 0 < lacking < len(last) - 1:
        encoded = encoded[:-5] + last.replace(b"#", b"0", lacking)
    else:
        lacking = 0
    try:
        decoded = base64.b85decode(encoded.translate(_TO_B85))
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not Z85") from None
    start = len(decoded) - len(decoded[-4:])
    if any(decoded[start : start + lacking]):
        raise ValueError(f"{text[:60]!r} is not Z85")
    return decoded[:start] + decoded[start + lacking :]
