"""Addresses in a text, without the credentials that may be in them.

In: any text, such as a message that repeats an address as somebody gave it. Out: the same text, with ``***`` in place
of a user and password before a host, and of the values of a query that sign or open something: a SAS of Azure, a
presigned address, a token.
"""

from __future__ import annotations

import re

_USER_INFO = re.compile(r"((?::|%3a)//)([^/\s@'\"`\\]+)@", re.IGNORECASE)
_BEFORE_CONTAINERS = ("abfs", "abfss", "wasb", "wasbs")
"""In addresses of these schemes, a container stands before the host, and is no secret."""

_SIGNED = re.compile(
    r"((?:(?:[?&]|%3f|%26)[\w.%-]*(?:sig|token|secret|passw|pwd|key|credential|auth)[\w.-]*"
    r"|\bsig|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential"
    r"|access_token|bearer)(?:=|\s+|%3d))[^\s&\"'`\\]+",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """The text without the credentials of the addresses in it."""
    return _SIGNED.sub(r"\1***", _USER_INFO.sub(_shown, text))


def _shown(found: re.Match[str]) -> str:
    scheme = found.string[max(0, found.start() - 5) : found.start()].lower()
    is_container = scheme.endswith(_BEFORE_CONTAINERS) and ":" not in found[2]
    return found[0] if is_container else f"{found[1]}***@"
