"""The door of Arrow Flight: `do_put` with an answer for each batch, and what a client may ask.

In: gRPC calls. Out: calls of a `Service`. The descriptor of a put is a path, the table's name, or a command, the terms
in JSON; each batch may carry its number in its metadata, ``{"batch": 7}``, and each answer carries it too.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from types import NoneType
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.flight as fl

from txlog.errors import AccessError, InvalidInputError, TxlogError
from txlog.extend.catalogs import ambient
from txlog.serve.access import Access, Right, bearer
from txlog.serve.batches import Answer, BusyError, Terms, error_of, message_of
from txlog.serve.service import Service

_IN_NO_TIME_S = 0.0001
_AHEAD_MIN = 3
"""So many batches in a row that were there at once are of a client that does not wait for answers."""
_NO_MEMORY = (
    "there is no memory for the batch: it is larger than the service takes, in its own size or once its buffers are"
    " decompressed, or others wait. Send fewer rows, or send it again in a moment"
)
UNANSWERED_MAX = 256
"""The batches of one put that may wait for answers: a client that sends more waits until some are answered."""


class FlightDoor(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow is not followed
    """A Flight server that takes batches for a service. It listens when it is made; ``port`` is where.

    Args:
        service: The service.
        access: Who may do what.
        host: The address to listen on.
        port: The port; 0: a free one.
        tls: The certificate chain and the private key, in PEM; None: no TLS.
    """

    def __init__(
        self, service: Service, access: Access, host: str, port: int, tls: tuple[bytes, bytes] | None = None
    ) -> None:
        self._service = service
        self._access = access
        self._puts = threading.BoundedSemaphore(service.limits.connections)
        where = f"grpc{'+tls' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
        certificates = [tls] if tls else None
        super().__init__(where, tls_certificates=certificates, middleware={"token": _Tokens(access)})

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Take the batches of one client, and answer each."""
        if not self._puts.acquire(blocking=False):
            raise fl.FlightUnavailableError("the service has as many clients as it accepts: come back later")
        try:
            with _told():
                given = _given(descriptor)
                first = given.pop("first", None)
                if type(first) not in (int, NoneType):
                    raise InvalidInputError("first is the number of the first batch, such as 0")
                terms = Terms.of(given)
                self._allow(context, terms)
                self._service.table(terms.table)
            _Put(self._service, terms, first, reader, writer, lambda: self._allow(context, terms)).run()
        finally:
            self._puts.release()

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of a table: the ticket is its name, or JSON with ``table``, ``columns`` and ``where``."""
        with _told():
            given = _asked(ticket.ticket)
            name = str(given.pop("table"))
            self._check(context, name, "read")
            columns, where = given.pop("columns", None), given.pop("where", None)
            if given:
                raise InvalidInputError(f"a ticket has table, columns and where, not {sorted(given)[0]!r}")
            snapshot = self._service.table(name).snapshot()
            batches = iter(snapshot.to_batches(columns=columns, where=where))
            first = next(batches, None)
            if first is None:
                schema = snapshot.schema
                first = pa.RecordBatch.from_pylist(
                    [], pa.schema([schema.field(each) for each in columns or schema.names])
                )
            return fl.GeneratorStream(first.schema, itertools.chain((first,), batches))

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """The columns of a table, and the ticket for its rows."""
        with _told():
            name = str(_given(descriptor)["table"])
            self._check(context, name, "read")
            schema = self._service.table(name).snapshot().schema
            endpoint = fl.FlightEndpoint(orjson.dumps({"table": name}), [])
            return fl.FlightInfo(schema, descriptor, [endpoint], -1, -1)

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        """The columns of a table."""
        return fl.SchemaResult(self.get_flight_info(context, descriptor).schema)

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """What `do_action` knows."""
        return [
            ("position", 'where a stream stands: {"table": "orders", "stream": "till-7"}'),
            ("health", "what waits, and what failed"),
        ]

    def do_action(self, context: Any, action: Any) -> list[bytes]:
        """Answer a question: see `list_actions`."""
        with _told():
            if action.type == "health":
                may_know = self._access.has(context.get_middleware("token").token, "*", "read")
                return [orjson.dumps(self._service.health(in_full=may_know))]
            if action.type != "position":
                raise InvalidInputError(f"unknown action {action.type!r}: there are position and health")
            given = _asked(action.body.to_pybytes())
            name, stream = str(given.get("table")), str(given.get("stream"))
            self._check(context, name, "append")
            committed, taken = self._service.position(name, stream)
            return [orjson.dumps({"committed": committed, "taken": taken})]

    def _allow(self, context: Any, terms: Terms) -> None:
        self._check(context, terms.table, terms.right)
        if terms.quarantine is not None:
            self._check(context, terms.quarantine, "append")

    def _check(self, context: Any, table: str, right: Right) -> None:
        self._access.check(context.get_middleware("token").token, table, right)


_Taken: TypeAlias = tuple[int | None, Future[Answer] | TxlogError]
"""A batch's number, and its answer to come, or why it was not taken."""


class _Put:
    """One call of `do_put`: batches are taken one after the other, and answered in order.

    A client that waits for each answer is answered by this thread. Once batches are there before the answer to the one
    before, another thread answers, so that they need not wait for each other.
    """

    def __init__(
        self,
        service: Service,
        terms: Terms,
        first: int | None,
        reader: Any,
        writer: Any,
        allow: Callable[[], None],
    ) -> None:
        self._service = service
        self._allow = allow
        """Raises AccessError once the client's token is taken back: a put may go on for days."""
        self._terms = terms
        self._next = first
        self._reader = reader
        self._writer = writer
        self._answers: queue.Queue[_Taken | None] = queue.Queue(UNANSWERED_MAX)
        self._refused: list[TxlogError] = []
        self._is_heard = True

    def run(self) -> None:
        answering: threading.Thread | None = None
        ahead, asked_s = 0, ambient.monotonic_s()
        try:
            for chunk in self._reader:
                ahead = ahead + 1 if ambient.monotonic_s() - asked_s < _IN_NO_TIME_S else 0
                taken = self._taken(chunk.data, chunk.app_metadata)
                if answering is None and ahead < _AHEAD_MIN:
                    self._answer(*taken)
                    asked_s = ambient.monotonic_s()
                    continue
                if answering is None:
                    answering = threading.Thread(target=self._answer_all, name="txlog-serve-answers", daemon=True)
                    answering.start()
                self._answers.put(taken)
        except StopIteration:
            pass
        except pa.ArrowMemoryError:
            self._refused.insert(0, BusyError(_NO_MEMORY))
        finally:
            if answering is not None:
                self._answers.put(None)
                answering.join()
        if self._refused:
            first = self._refused[0]
            more = f" ({len(self._refused):,} batches were refused)" if len(self._refused) > 1 else ""
            raise _raised(first, more)

    def _number(self, metadata: pa.Buffer | None) -> int | None:
        if metadata is not None and metadata.size:
            with contextlib.suppress(orjson.JSONDecodeError):
                said = orjson.loads(metadata.to_pybytes())
                if isinstance(said, dict) and type(number := said.get("batch")) is int:
                    return number
            raise InvalidInputError('the metadata of a batch is its number, as {"batch": 7}')
        if self._next is None:
            return None
        self._next += 1
        return self._next - 1

    def _taken(self, rows: pa.RecordBatch | None, metadata: pa.Buffer | None) -> _Taken:
        number = None
        try:
            number = self._number(metadata)
            if rows is None:
                raise InvalidInputError("the client sent a message without rows")
            self._allow()
            return number, self._service.put(self._terms, rows, number)
        except TxlogError as error:
            return number, error

    def _answer_all(self) -> None:
        while (taken := self._answers.get()) is not None:
            self._answer(*taken)

    def _answer(self, number: int | None, found: Future[Answer] | TxlogError) -> None:
        """Wait for the answer to a batch, and write it."""
        try:
            answer = found.result() if isinstance(found, Future) else found
        except TxlogError as error:
            answer = error
        if isinstance(answer, TxlogError):
            self._refused.append(answer)
            said = orjson.dumps({**({} if number is None else {"batch": number}), "error": error_of(answer)})
        else:
            said = answer.to_json(number)
        if self._is_heard:
            try:
                self._writer.write(pa.py_buffer(said))
            except (pa.ArrowException, OSError):  # the client is gone, and what it sent lands all the same
                self._is_heard = False


class _Tokens(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow is not followed
    """Refuses calls without a token that is known, before a message of theirs is read."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> _Token:
        found = next((values for name, values in headers.items() if name.lower() == "authorization"), [])
        token = bearer(found[0]) if found else None
        with _told():
            if not self._access.is_open:
                self._access.grant(token)
        return _Token(token)


class _Token(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow is not followed
    def __init__(self, token: str | None) -> None:
        self.token = token


def _given(descriptor: Any) -> dict[str, Any]:
    """What a descriptor says: a path is the table's name."""
    if descriptor.descriptor_type == fl.DescriptorType.PATH:
        return {"table": ".".join(part.decode(errors="replace") for part in descriptor.path)}
    return _asked(descriptor.command)


def _asked(text: bytes) -> dict[str, Any]:
    if not text.lstrip().startswith(b"{"):
        return {"table": text.decode(errors="replace")}
    try:
        return dict(orjson.loads(text))
    except ValueError as error:
        raise InvalidInputError(f"the command is not JSON: {error}") from None


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Turn errors of the block into those of Flight."""
    try:
        yield
    except TxlogError as error:
        raise _raised(error) from None
    except KeyError as error:
        raise fl.FlightServerError(f"{error} is missing") from None


def _raised(error: TxlogError, more: str = "") -> Any:
    said, about = f"{message_of(error)}{more}", orjson.dumps(error_of(error))
    if isinstance(error, AccessError) and error.reason:
        kind = fl.FlightUnauthorizedError if error.reason == "forbidden" else fl.FlightUnauthenticatedError
        return kind(said, about)
    if isinstance(error, BusyError):
        return fl.FlightUnavailableError(said, about)
    return fl.FlightServerError(said, about)
