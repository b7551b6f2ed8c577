"""Requests of a Unity Catalog server: one at a time, with a token that is never shown and never pickled.

In: a path of the API, perhaps a body. Out: typed answers. Reads are retried, and fail as TxlogErrors. Anything else is
sent once, and ends as an answer, as `Refused` (the server decided) or as `Unanswered` (nothing is known): only the
caller knows what that means for a commit. Unity Catalog, "api/delta.yaml".
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from txlog.errors import AccessError, InvalidInputError, NotFoundError, StorageError, TableNotFoundError, TxlogError
from txlog.extend.catalogs import RetryPolicy, ambient, invalid, logger, redact
from txlog.unity.messages import OldName, OldNames, Refusal, decoded

TOKEN = "TXLOG_CATALOG_TOKEN"
"""The environment variable that holds the token of the catalog, if no other is given."""

TokenSource: TypeAlias = Callable[[], str | None]
"""Returns the token for the next request; None for a server that needs none. To cross to tasks it must be picklable."""

_ROOT = "/api/2.1/unity-catalog"
_TIMEOUT_S = 60.0
_IDLE_MAX_S = 4.0  # a server may close a connection that is idle for longer, just when a request is sent
_ANSWER_BYTES_MAX = 64 << 20
_SENSELESS_MAX = 2  # answers that cannot be understood are asked for again
WAIT_MAX_S = 5.0  # a server that is started again is away for a minute
PATIENCE = RetryPolicy(total_timeout=120.0)
"""For how long a read is repeated where no table's policy says so, as of names: a restart takes a minute at most."""
_SHOWN_CHARACTERS = 500
_PAGES_MAX = 10_000

T = TypeVar("T")


class Refused(Exception):
    """The server's definite answer: nothing happened. ``kind`` names its error; ``reason`` is for an AccessError."""

    def __init__(self, status: int, kind: str, message: str, reason: str = "forbidden") -> None:
        super().__init__(f"{kind or status}: {message}")
        self.status, self.kind, self.message, self.reason = status, kind, message, reason


class Unanswered(Exception):
    """No answer, or one that says nothing about what happened. Unless it ``was_sent``, nothing did. An answer that
    ``makes_no_sense`` will hardly make more of it later."""

    def __init__(self, message: str, *, was_sent: bool = True, makes_no_sense: bool = False) -> None:
        super().__init__(message)
        self.was_sent, self.makes_no_sense = was_sent, makes_no_sense


class FullTableName(msgspec.Struct, frozen=True):
    """The three parts of a table's name in a catalog."""

    catalog: str
    schema: str
    table: str

    @property
    def schema_path(self) -> str:
        return f"/delta/v1/catalogs/{quote(self.catalog, safe='')}/schemas/{quote(self.schema, safe='')}"

    @property
    def path(self) -> str:
        return f"{self.schema_path}/tables/{quote(self.table, safe='')}"

    def __str__(self) -> str:
        return f"{self.catalog}.{self.schema}.{self.table}"


class FileToken(msgspec.Struct, frozen=True):
    """The token that a file holds now, so that whoever renews the file renews the token."""

    path: str

    def __call__(self) -> str:
        try:
            with open(self.path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            message = f"the file with the catalog's token cannot be read: {error.strerror}"
            raise AccessError(message, path=self.path, reason="missing") from error


def environment_token() -> str | None:
    """The token in the environment of this process."""
    return os.environ.get(TOKEN) or None


def _left_behind() -> str | None:
    """The source in a process that was given a client, but not its token."""
    if (found := environment_token()) is not None:
        return found
    raise AccessError(
        "the catalog's token was not sent to this process, since tokens are never pickled. Set the environment variable"
        f" {TOKEN} where tasks run, or pass a token file that they can read (catalog_token_file)",
        reason="missing",
    )


class UnityClient:
    """Requests of one server. Thread-safe: each thread has its own connection."""

    def __init__(self, server: str, token: str | TokenSource | None = None) -> None:
        parts = urlsplit(server if isinstance(server, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise invalid("catalog", server, "the address of a Unity Catalog server, such as https://unity.example.com")
        if parts.username or parts.password:
            raise InvalidInputError("the catalog's address holds a user or a password: pass a token instead")
        self.server = server.rstrip("/")
        self._is_secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._root = parts.path.rstrip("/").removesuffix(_ROOT) + _ROOT
        self._given = token if isinstance(token, str) else None
        self._source: TokenSource = (lambda: token) if isinstance(token, str) else (token or environment_token)
        self._threads = threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return (UnityClient, (self.server, _left_behind if self._given is not None else self._source))

    @property
    def token_file(self) -> str | None:
        """The file that the token is read from, if it is."""
        return self._source.path if isinstance(self._source, FileToken) else None

    # --- answers ------------------------------------------------------------------------------------------------

    def get(self, path: str, kind: type[T], *, policy: RetryPolicy | None = None, **query: str) -> T:
        """The answer to a read, which is repeated if it gets none, for as long as the ``policy`` says.

        Raises ``TableNotFoundError``, ``NotFoundError``, ``AccessError``, ``StorageError``.
        """
        try:
            return self.repeat("GET", f"{path}?{urlencode(query)}" if query else path, kind, policy=policy)
        except Refused as error:
            raise self.translated(error) from None

    def repeat(
        self, method: str, path: str, kind: type[T], body: object = None, *, policy: RetryPolicy | None = None
    ) -> T:
        """The answer to a request that may be made twice, and is if it gets none, or the server has no time for it: for
        as long as the ``policy`` says, and once at least.

        Raises `Refused`, ``AccessError`` for want of a token, ``StorageError``.
        """
        given = policy or PATIENCE
        pacing = msgspec.structs.replace(
            given,
            max_attempts=None,
            min_wait=min(given.min_wait, WAIT_MAX_S),
            max_wait=min(given.max_wait, WAIT_MAX_S),
        ).pacing(lambda: 0.0)
        ended = 0
        while True:
            try:
                return self.send(method, path, kind, body)
            except Unanswered as error:
                why: Exception = error
                if error.makes_no_sense and pacing.attempts > _SENSELESS_MAX:
                    break
            except Refused as error:
                if error.status != 429:
                    raise
                why = error
            if pacing.attempts == 2:
                logger.warning("the catalog at %s does not answer (%s): asking it again", self.server, why)
            if not pacing.pause(bounded_by_count=False) and (ended := ended + 1) > 1:
                break
        if isinstance(why, Refused):
            raise why
        raise StorageError(
            f"the catalog at {self.server} did not answer for {pacing.elapsed_s():.0f} s: {why}. Retry later"
        )

    def send(self, method: str, path: str, kind: type[T] | None = None, body: object = None) -> T:
        """The answer to one request, sent once. Raises `Refused`, `Unanswered`, and ``AccessError`` for want of a
        token."""
        token = self._source()
        status, raw = self._exchange(method, path, token, b"" if body is None else msgspec.json.encode(body))
        if 200 <= status < 300:
            if kind is None:
                return None  # type: ignore[return-value]
            try:
                return decoded(raw, kind)
            except msgspec.MsgspecError as error:
                raise Unanswered(f"the answer cannot be understood: {error}", makes_no_sense=True) from None
        try:
            refusal = decoded(raw, Refusal)
        except msgspec.MsgspecError:
            refusal = Refusal()
        text = redact(refusal.text or http.client.responses.get(status, ""), (token,) if token else ())
        if status >= 500 or status < 400 or not (refusal.kind or status == 401):
            raise Unanswered(f"{status} {refusal.kind} {text[:_SHOWN_CHARACTERS]}".strip())
        if status == 401:
            reason, text = _why_not_accepted(token)
            raise Refused(status, refusal.kind, text, reason)
        raise Refused(status, refusal.kind, text[:_SHOWN_CHARACTERS])

    def translated(self, refused: Refused) -> TxlogError:
        """The error of a refused request."""
        at = f"the catalog at {self.server}"
        if refused.status == 401:
            return AccessError(f"{at} {refused.message}", reason=refused.reason)
        if refused.status == 403:
            message = f"{at} refuses: {refused.message}. Ask its administrator for the right, or use another token"
            return AccessError(message, reason=refused.reason)
        if refused.status == 404 and "TABLE" in refused.kind.upper():
            return TableNotFoundError(f"{at} has no such table: {refused.message}")
        if refused.status == 404:
            return NotFoundError(f"{at} says: {refused.message}")
        return StorageError(f"{at} refuses: {refused}")

    def names(self, kind: Literal["catalogs", "schemas", "tables"], **query: str) -> list[OldName]:
        """The catalogs, the schemas of a catalog, or the tables of a schema. Raises what `get` raises."""
        found: list[OldName] = []
        seen: set[str] = set()
        while True:
            page = self.get(f"/{kind}", OldNames, policy=None, **query)
            found += getattr(page, kind)
            token = page.next_page_token
            if not token:
                return found
            if token in seen or len(seen) == _PAGES_MAX:
                what = "repeats a page" if token in seen else f"does not end after {_PAGES_MAX} pages"
                raise StorageError(f"the list of {kind} of the catalog at {self.server} {what}: its server is at fault")
            seen.add(token)
            query["page_token"] = token

    def tables(self, catalog: str, schema: str) -> list[OldName]:
        """The tables of a schema. Raises what `get` raises."""
        return self.names("tables", catalog_name=catalog, schema_name=schema)

    # --- the connection -----------------------------------------------------------------------------------------

    def _exchange(self, method: str, path: str, token: str | None, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection = self._connection()
        except OSError as error:
            raise Unanswered(f"no connection: {error}", was_sent=False) from None
        try:
            connection.request(method, self._root + path, body or None, headers)
            answer = connection.getresponse()
            raw = answer.read(_ANSWER_BYTES_MAX + 1)
            if len(raw) > _ANSWER_BYTES_MAX:
                raise Unanswered("the answer is too long")
            self._threads.used_s = ambient.monotonic_s()
            return answer.status, raw
        except (OSError, http.client.HTTPException) as error:
            shown = redact(str(error) or type(error).__name__, (token,) if token else ())
        except BaseException:  # interrupted: what comes next on this connection is no answer to the next request
            self._drop()
            raise
        self._drop()
        raise Unanswered(shown)

    def _connection(self) -> http.client.HTTPConnection:
        known = self._threads
        is_usable = getattr(known, "process_id", None) == os.getpid()
        if is_usable and ambient.monotonic_s() - known.used_s < _IDLE_MAX_S:
            return known.connection  # type: ignore[no-any-return]
        if is_usable:
            self._drop()
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        known.connection = kind(self._host, self._port, timeout=_TIMEOUT_S)
        known.connection.connect()
        known.process_id, known.used_s = os.getpid(), ambient.monotonic_s()
        return known.connection  # type: ignore[no-any-return]

    def _drop(self) -> None:
        with contextlib.suppress(OSError):
            self._threads.connection.close()
        self._threads.process_id = None


def _why_not_accepted(token: str | None) -> tuple[str, str]:
    """What is wrong with a token that a server did not accept: the reason, and what to do."""
    if not token:
        return "missing", f"needs a token: set the environment variable {TOKEN}, or pass one"
    if _has_expired(token):
        return "expired", "does not accept the token, which has expired: get a new one"
    return "wrong", "does not accept the token: check that it is complete, and that it belongs to this server"


def _has_expired(token: str) -> bool:
    """Whether a token says by itself that its time is over. RFC 7519, "exp"."""
    parts = token.split(".")
    if len(parts) != 3:
        return False
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) * 1000 <= ambient.now_ms()
    except (ValueError, TypeError, LookupError, msgspec.MsgspecError):
        return False
