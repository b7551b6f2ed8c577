"""Who may do what: tokens, of which only the hashes are kept.

In: a file of grants, one JSON object a line, and the token of a request. Out: nothing, or an error. A token is 256
random bits, so its SHA-256 tells nobody what it is.
"""

from __future__ import annotations

import fnmatch
import hashlib
import secrets
import threading
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from txlog.errors import AccessError, InvalidInputError
from txlog.extend.catalogs import ambient

__all__ = ["Access", "Grant", "Right", "bearer", "new_grant"]

Right: TypeAlias = Literal["append", "change", "read"]
_LOOK_EVERY_S = 1.0


class Grant(msgspec.Struct, frozen=True):
    """What the bearer of one token may do.

    ``tables`` are names or patterns, such as ``sales.*``. ``rights``: "append" adds rows, "change" upserts and deletes
    rows and adds columns, "read" reads rows, columns and where streams stand.
    """

    name: str
    sha256: str
    tables: tuple[str, ...]
    rights: tuple[Right, ...]

    def allows(self, table: str, right: Right) -> bool:
        """Whether it gives the right on the table."""
        return right in self.rights and any(fnmatch.fnmatchcase(table.lower(), each.lower()) for each in self.tables)


class Access:
    """The grants of a file, which is read again when it changes. Thread-safe.

    Args:
        path: The file; None: everybody may do everything.

    Raises:
        InvalidInputError: A line is no grant.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._looked_at_s = float("-inf")
        self._stamp: tuple[int, int] | None = None
        self._grants: dict[str, Grant] = {}
        if path is not None:
            self._read(path)

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return self._path is None

    def check(self, token: str | None, table: str, right: Right) -> None:
        """Raises AccessError if the bearer of the token does not have the right on the table."""
        if self._path is None:
            return
        grant = self.grant(token)
        if not grant.allows(table, right):
            raise _refused("forbidden", f"the token of {grant.name!r} does not give the right to {right} {table!r}")

    def has(self, token: str | None, table: str, right: Right) -> bool:
        """Whether the bearer of the token has the right on the table."""
        try:
            self.check(token, table, right)
            return True
        except AccessError:
            return False

    def grant(self, token: str | None) -> Grant:
        """What a token gives. Raises AccessError if it is none of the file's."""
        assert self._path is not None
        if not token:
            raise _refused("missing", "this service needs a token: send it as 'Authorization: Bearer TOKEN'")
        self._read(self._path)
        found = self._grants.get(_hashed(token))
        if found is None:
            raise _refused("wrong", "the service does not know this token: it may have been taken back")
        return found

    def _read(self, path: Path) -> None:
        with self._lock:
            now_s = ambient.monotonic_s()
            if now_s - self._looked_at_s < _LOOK_EVERY_S:
                return
            try:
                status = path.stat()
                stamp = status.st_mtime_ns, status.st_size
                if stamp != self._stamp:
                    self._grants = {each.sha256: each for each in _grants(path)}
                self._stamp, self._looked_at_s = stamp, now_s
            except OSError as error:  # nobody gets in by it, and those who are in stay
                if self._stamp is None:
                    raise InvalidInputError(f"the tokens cannot be read: {error}", path=str(path)) from error


def new_grant(name: str, tables: tuple[str, ...], rights: tuple[Right, ...]) -> tuple[str, Grant]:
    """A new token, which is shown once, and its grant, for the file."""
    token = secrets.token_urlsafe(32)
    return token, Grant(name, _hashed(token), tables, rights)


def bearer(header: str | None) -> str | None:
    """The token of an ``Authorization`` header; None if there is none."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _grants(path: Path) -> list[Grant]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=Grant))
        except msgspec.MsgspecError as error:
            raise InvalidInputError(
                f"line {number} of the tokens is no grant ({error}): make one with txlog serve-token", path=str(path)
            ) from None
    return found


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _refused(reason: str, message: str) -> AccessError:
    error = AccessError(message)
    error.reason = reason
    return error
