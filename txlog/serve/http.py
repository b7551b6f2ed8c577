"""The door of HTTP: rows as JSON lines, CSV or an Arrow stream, and what an operator asks.

In: ASGI messages: any ASGI server runs `HttpDoor`; `Listener` is uvicorn. Out: calls of a `Service`, answers in JSON.

    POST /tables/{table}/rows?stream=till-7&batch=12        a batch; the other terms are arguments of the query too
    POST /rows?envelope=debezium                            events, each of which goes to the table that it names
    GET  /tables/{table}/streams/{stream}                   where a stream stands
    GET  /tables/{table}                                    the table's columns and version
    GET  /health  /metrics

The app is plain ASGI: five routes need no framework.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
import pyarrow as pa
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from txlog.errors import (
    AccessError,
    CommitStateUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.extend.catalogs import ambient, logger
from txlog.serve.access import Access, Right, bearer
from txlog.serve.batches import (
    Answer,
    BusyError,
    StoppingError,
    StreamOrderError,
    Terms,
    TooLargeError,
    error_of,
    joined,
)
from txlog.serve.bodies import FORMATS, rows_in
from txlog.serve.envelopes import EventTerms
from txlog.serve.service import Service

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEAD_WAIT_S = 20.0
"""How long the head of a request may take, from the connection or from the answer before."""
_BODY_WAIT_S = 30.0
"""How long the next piece of a body may take."""
_ROOM_PAUSE_S = 0.02
_DIGITS_MAX = 20
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))


class _Reply(Exception):
    """What ends a request early."""

    def __init__(self, status: int, content: dict[str, Any], headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.status = status
        self.content = content
        self.headers = headers


_PATHS = (
    "POST /tables/NAME/rows",
    "POST /rows",
    "GET /tables/NAME",
    "GET /tables/NAME/streams/STREAM",
    "GET /health",
    "GET /metrics",
)


class HttpDoor:
    """An ASGI app that takes batches for a service.

    Args:
        service: The service.
        access: Who may do what.
        hosts: The names in ``Host`` that are answered; None: all. On loopback without tokens, a page of another site
            could else reach the service by a name of its own.
    """

    def __init__(self, service: Service, access: Access, hosts: frozenset[str] | None = _LOOPBACK) -> None:
        self._service = service
        self._access = access
        self._hosts = hosts

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        more: tuple[tuple[bytes, bytes], ...] = ()
        try:
            status, content = await self._answered(scope, headers, receive)
        except _Reply as reply:
            status, content, more = reply.status, orjson.dumps(reply.content), reply.headers
        except TxlogError as error:
            status, content = _status_of(error), orjson.dumps(error_of(error))
            more = ((b"retry-after", b"1"),) if status == 503 else ()
        except Exception:  # a bug is told to the operator, and not to the client
            logger.exception("the service failed to answer %s %s", scope["method"], scope["path"])
            status, content = 500, orjson.dumps({"kind": "InternalError", "message": "the service failed: see its log"})
        kind = b"text/plain; version=0.0.4" if scope["path"] == "/metrics" and status == 200 else b"application/json"
        said = [(b"content-type", kind), (b"content-length", str(len(content)).encode()), *more]
        await send({"type": "http.response.start", "status": status, "headers": said})
        await send({"type": "http.response.body", "body": content})

    async def _answered(
        self, scope: MutableMapping[str, Any], headers: dict[str, str], receive: Receive
    ) -> tuple[int, bytes]:
        if self._hosts is not None and headers.get("host", "").rpartition(":")[0] not in self._hosts:
            raise _Reply(
                421, {"kind": "InvalidInputError", "message": "the Host header does not have this service's name"}
            )
        method, parts = scope["method"], [unquote(each) for each in scope["path"].split("/")[1:]]
        token = bearer(headers.get("authorization"))
        match (method, *parts):
            case ("GET", "health"):
                health = self._service.health(in_full=self._access.has(token, "*", "read"))
                return (200 if health["status"] == "ok" else 503), orjson.dumps(health)
            case ("GET", "metrics"):
                self._access.check(token, "*", "read")
                return 200, self._service.metrics().encode()
            case ("GET", "tables", name):
                self._access.check(token, name, "read")
                return 200, await asyncio.to_thread(self._table, name)
            case ("GET", "tables", name, "streams", stream):
                self._access.check(token, name, "append")
                committed, taken = await asyncio.to_thread(self._service.position, name, stream)
                return 200, orjson.dumps({"committed": committed, "taken": taken})
            case ("POST", "tables", name, "rows"):
                return await self._taken(name, scope, headers, token, receive)
            case ("POST", "rows"):
                return await self._taken(None, scope, headers, token, receive)
        known = parts[0] in ("health", "metrics", "rows", "tables")
        status, what = (405, f"{method} is not for this path") if known else (404, "there is no such path")
        raise _Reply(status, {"kind": "NotFoundError", "message": f"{what}: there are {', '.join(_PATHS)}"})

    def _table(self, name: str) -> bytes:
        snapshot = self._service.table(name).snapshot()
        columns = {field.name: str(field.type) for field in snapshot.schema}
        return orjson.dumps({"table": name, "version": snapshot.version, "columns": columns})

    # --- a batch ------------------------------------------------------------------------------------------------

    async def _taken(
        self,
        name: str | None,
        scope: MutableMapping[str, Any],
        headers: dict[str, str],
        token: str | None,
        receive: Receive,
    ) -> tuple[int, bytes]:
        terms, events, number = _terms(name, scope["query_string"])
        if name is None and not self._access.is_open:
            self._access.grant(token)  # the rights are those on the tables that the events name
        for table, right in self._needs(terms, name):
            self._access.check(token, table, right)
        kind = FORMATS.get(headers.get("content-type", "").partition(";")[0].strip().lower())
        if kind is None or (events is not None and kind != "json"):
            fitting = ", ".join(each for each, of in FORMATS.items() if events is None or of == "json")
            what = f"set the header Content-Type to one of {fitting}"
            raise _Reply(415, {"kind": "InvalidInputError", "message": what})
        if headers.get("content-encoding", "identity") != "identity":
            raise _Reply(415, {"kind": "InvalidInputError", "message": "send the body without a content-encoding"})
        self._service.check(terms, number)
        body = await self._body(headers, receive)
        try:
            if events is None:
                answers = [await self._put(terms, number, kind, body)]
            else:
                answers = await self._put_events(events, number, body, token)
        finally:
            self._service.room.give_back(len(body))
        answer = joined(answers)
        return 202 if answer.outcome == "durable" else 200, answer.to_json(number)

    @staticmethod
    def _needs(terms: Terms, name: str | None) -> list[tuple[str, Right]]:
        """The rights that a request needs, as far as its path says."""
        needed: list[tuple[str, Right]] = [] if name is None else [(name, terms.right)]
        return needed if terms.quarantine is None else [*needed, (terms.quarantine, "append")]

    async def _put(self, terms: Terms, number: int | None, kind: str, body: bytes) -> Answer:
        def read() -> Any:
            table = self._service.table(terms.table)
            return rows_in(body, kind, table, how=terms.how, sets_aside=terms.quarantine is not None)

        rows, lines = await asyncio.to_thread(read)
        return await asyncio.shield(await self._begun(terms, rows, number, lines=lines))

    async def _put_events(self, events: EventTerms, number: int | None, body: bytes, token: str | None) -> list[Answer]:
        """Put the batches of the events' tables. All are taken before one is waited for."""
        batches = await asyncio.to_thread(events.batches, body, self._service.table)
        for each in batches:
            self._access.check(token, each.terms.table, each.terms.right)
        begun = [
            await self._begun(each.terms, each.rows, number, existing=each.existing)
            for each in batches
            if not each.is_nothing
        ]
        return [await asyncio.shield(each) for each in begun]

    async def _begun(
        self, terms: Terms, rows: pa.RecordBatch, number: int | None, **more: Any
    ) -> asyncio.Future[Answer]:
        """The answer to come to a batch, once there is room for it."""
        put = functools.partial(self._service.put, terms, rows, number, waits=False, **more)
        return asyncio.wrap_future(await self._once_there_is_room(lambda: asyncio.to_thread(put)))

    async def _once_there_is_room(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """What ``call`` returns, which is repeated while the service is busy, for as long as a client may wait."""
        until_s = ambient.monotonic_s() + self._service.limits.wait_s
        while True:
            try:
                return await call()
            except BusyError as error:
                if isinstance(error, StoppingError) or ambient.monotonic_s() >= until_s:
                    raise
                await asyncio.sleep(_ROOM_PAUSE_S)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """The body, whose bytes are taken in the room as they come. Raises before it holds more than a batch may be."""
        most = self._service.limits.batch_bytes
        if int(headers.get("content-length") or 0) > most:
            raise TooLargeError(
                f"the body is larger than {most:,} bytes, which is what the service takes: send several"
            )
        pieces: list[bytes] = []
        size = 0
        try:
            while True:
                message = await asyncio.wait_for(receive(), _BODY_WAIT_S)
                if message["type"] == "http.disconnect":
                    raise _Reply(499, {"kind": "InvalidInputError", "message": "the client went away"})
                piece = message.get("body", b"")
                await self._room_for(len(piece))
                size += len(piece)
                pieces.append(piece)
                if size > most:
                    raise TooLargeError(f"the body is larger than {most:,} bytes, which is what the service takes")
                if not message.get("more_body"):
                    return b"".join(pieces)
        except asyncio.TimeoutError:
            self._service.room.give_back(size)
            raise _Reply(408, {"kind": "InvalidInputError", "message": "the body did not come in time"}) from None
        except BaseException:
            self._service.room.give_back(size)
            raise

    async def _room_for(self, size_bytes: int) -> None:
        async def take() -> None:
            self._service.room.take(size_bytes, waits=False)

        if size_bytes:
            await self._once_there_is_room(take)


def _terms(name: str | None, query: bytes) -> tuple[Terms, EventTerms | None, int | None]:
    """What the query says: the terms, those of events if the body has some, and the batch's number."""
    try:
        given: dict[str, Any] = dict(parse_qsl(query.decode(), strict_parsing=bool(query)))
    except ValueError as error:
        raise InvalidInputError(f"the query cannot be read: {error}") from None
    batch, envelope = given.pop("batch", None), given.pop("envelope", None)
    if batch is not None and not (batch.isdecimal() and len(batch) < _DIGITS_MAX):
        raise InvalidInputError(f"a batch's number is a whole number, not {batch[:_DIGITS_MAX]!r}")
    if name is None and envelope is None:
        raise InvalidInputError(
            "rows go to /tables/NAME/rows; events that name their tables go here: envelope=debezium"
        )
    given |= {} if name is None else {"table": name}
    number = None if batch is None else int(batch)
    if envelope is None:
        return Terms.of(given), None, number
    events = EventTerms(envelope, given)
    return events.terms, events, number


def _status_of(error: TxlogError) -> int:
    if isinstance(error, AccessError) and error.reason:
        return 403 if error.reason == "forbidden" else 401
    statuses: tuple[tuple[type[TxlogError], int], ...] = (
        (NotFoundError, 404),
        (StreamOrderError, 409),
        (TooLargeError, 413),
        (InvalidInputError, 422),
        (UnsupportedFeatureError, 422),
        (CommitStateUnknownError, 500),
        (BusyError, 503),
        (ConflictError, 503),
        (StorageError, 503),
    )
    return next((status for kind, status in statuses if isinstance(error, kind)), 500)


class _Impatient(AutoHTTPProtocol):  # type: ignore[misc]  # uvicorn is not followed
    """Closes a connection on which no whole head of a request comes for a while: who opens many and sends nothing, or
    half a head, would else keep everybody out, without any token."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._idle_since_s = self.loop.time()
        self._look()

    def on_response_complete(self) -> None:
        self._idle_since_s = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_look.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.loop.time() - self._idle_since_s >= HEAD_WAIT_S:
            self.transport.close()
        self._next_look = self.loop.call_later(HEAD_WAIT_S / 4, self._look)


class Listener:
    """An HTTP server for a door, on a thread of its own. It listens when it is made; ``port`` is where.

    Args:
        door: The app.
        host: The address to listen on.
        port: The port; 0: a free one.
        tls: The files of the certificate chain and of the private key; None: no TLS.
        connections: The most connections at a time.

    Raises:
        OSError: The address is taken.
    """

    def __init__(
        self, door: HttpDoor, host: str, port: int, tls: tuple[str, str] | None = None, connections: int = 1000
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=1024)
        self.port = self._socket.getsockname()[1]
        files: dict[str, Any] = {"ssl_certfile": tls[0], "ssl_keyfile": tls[1]} if tls else {}
        config = uvicorn.Config(
            door,
            http=_Impatient,
            lifespan="off",
            access_log=False,
            log_level="warning",
            limit_concurrency=connections,
            server_header=False,
            timeout_graceful_shutdown=5,
            **files,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="txlog-serve-http", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Take no new connection, answer what was asked, and end."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()
