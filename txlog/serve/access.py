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
from txlog.extend.catalogs import ambient, logger

Right: TypeAlias = Literal["append", "change", "read"]
LOOK_EVERY_S = 1.0


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

    If the file has changed and cannot be read, or a line of it is no grant, the grants stay as they were, and the log
    says so: who asks must learn nothing of it.

    Args:
        path: The file; None: everybody may do everything.

    Raises:
        InvalidInputError: The file cannot be read, or a line of it is no grant.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._looked_at_s = float("-inf")
        self._stamp: tuple[int, int] | None = None
        self._grants: dict[str, Grant] = {}
        if path is not None:
            self._stamp, self._grants = _stamp_of(path), _grants(path)
            self._looked_at_s = ambient.monotonic_s()

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
        self._look(self._path)
        found = self._grants.get(_hashed(token))
        if found is None:
            raise _refused("wrong", "the service does not know this token: it may have been taken back")
        return found

    def _look(self, path: Path) -> None:
        """Read the file again if it changed, at most once a second."""
        with self._lock:
            now_s = ambient.monotonic_s()
            if now_s - self._looked_at_s < LOOK_EVERY_S:
                return
            self._looked_at_s = now_s
            stamp = _stamp_of(path)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._grants = _grants(path)
            except InvalidInputError as error:
                logger.warning(
                    "%s: the tokens stay as they were, so one that was taken back is still good: %s", path, error
                )


def new_grant(name: str, tables: tuple[str, ...], rights: tuple[Right, ...]) -> tuple[str, Grant]:
    """A new token, which is shown once, and its grant, for the file."""
    token = secrets.token_urlsafe(32)
    return token, Grant(name, _hashed(token), tables, rights)


def bearer(header: str | None) -> str | None:
    """The token of an ``Authorization`` header; None if there is none."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _stamp_of(path: Path) -> tuple[int, int] | None:
    """What is another one when the file has changed; None if it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _grants(path: Path) -> dict[str, Grant]:
    """The grants of a file, by the hashes of the tokens. Raises InvalidInputError, which names the line."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInputError(f"the tokens cannot be read: {error}", path=str(path)) from error
    found: dict[str, Grant] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            grant = msgspec.json.decode(line, type=Grant)
            found[grant.sha256] = grant
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidInputError(
                f"line {number} of the tokens is not a grant ({error}): make one with txlog serve-token", path=str(path)
            ) from None
    return found


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _refused(reason: str, message: str) -> AccessError:
    error = AccessError(message)
    error.reason = reason
    return error
