"""Typed errors across Spark: how a txlog error gets from a Python worker to the user's program.

Spark turns an exception raised in a worker into a string (AnalysisException, PythonException, StreamingQueryException,
or a bare Py4JJavaError), so its type is lost. Out: `crossing` raises an error that begins with txlog's own kind and
message, and ends with a marker line that holds the error's fields, compressed and checksummed. In: `error_from` finds
that line in whatever Spark raised and rebuilds the error.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

from msgspec.structs import asdict

from txlog import errors
from txlog.errors import ConflictReason, InvalidInputError, TxlogError
from txlog.spark.wording import in_spark
from txlog.util.logs import logger
from txlog.util.wording import spelled

__all__ = ["TxlogErrorInSpark", "crossing", "error_from", "typed_errors"]

_MARKER = re.compile(r"\[txlog-error:1:([0-9a-f]{8}):([A-Za-z0-9_-]+)\]")
NOT_FOUND_ADVICE = (
    "Spark did not find the data source 'txlog'. In a thread that the program started, it finds no Python data source"
    " until the session is active there: ThreadPoolExecutor(8, initializer=txlog.spark.register), or call"
    " txlog.spark.register(spark) first in the thread. Elsewhere, Spark's Python (PYSPARK_PYTHON) must be the one that"
    " has txlog installed"
)
_SPARK_MESSAGES = {
    re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*: txlog\."): NOT_FOUND_ADVICE,
    re.compile(r"\btxlog is not a valid Spark SQL Data Source"): (
        "the session's catalog does not accept tables USING txlog: Delta's catalog (spark.sql.catalog.spark_catalog ="
        " DeltaCatalog) reads and writes only JVM data sources. Write by path: df.write.format('txlog').save(path)"
    ),
}
"""Messages that Spark raises before it calls the data source -> what the user should do."""
_MESSAGE_CHARACTERS_MAX = 8_192
"""A longer message is cut in the marker: Spark Connect and log collectors cut long lines, which would break it."""
_JSON_BYTES_MAX = 1 << 20
_KINDS: dict[str, type[TxlogError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TxlogError)
}


class TxlogErrorInSpark(Exception):
    """The exception that a worker raises in place of a `TxlogError`: the same message, plus a marker for `error_from`.

    Spark shows the traceback first. Python shows an exception's cause before its traceback, so the cause is the
    `TxlogError` without its traceback. The cause is a property because Spark's short tracebacks clear the attribute.
    """

    def __init__(self, error: TxlogError) -> None:
        super().__init__(f"{error.kind}: {error}\n{encode(error)}")
        self._error = error

    @property
    def __cause__(self) -> TxlogError:
        return self._error

    @__cause__.setter
    def __cause__(self, value: BaseException | None) -> None:
        pass


@contextlib.contextmanager
def crossing() -> Iterator[None]:
    """Raise a `TxlogError` in a form that people and `error_from` can read. Other exceptions pass unchanged."""
    try:
        yield
    except TxlogError as error:
        error.template = spelled(error.template, in_spark)
        # The marker does not carry the traceback, so the worker's own log records it.
        logger.debug("raised in a Spark worker", exc_info=True)
        raise_crossing(error)


@contextlib.contextmanager
def typed_errors() -> Iterator[None]:
    """Raise the original error if Spark reports a txlog error from a task. Other exceptions pass unchanged."""
    try:
        yield
    except Exception as error:
        typed = error_from(error)
        if typed is None:
            raise
        raise typed from None


def raise_crossing(error: TxlogError) -> NoReturn:
    """Raise ``error`` in a form that survives Spark, without the frames and causes that would hide its message."""
    error.__cause__ = None
    raise TxlogErrorInSpark(error.with_traceback(None))


def error_from(exc: BaseException) -> TxlogError | None:
    """The txlog error behind an exception that Spark raised, with its type, message and fields.

    Searches the text of ``exc``, its message parameters and its causes.

    Args:
        exc: Any exception raised by a Spark call.

    Returns:
        The original error (``table``, ``version``, ``reasons``, ``txn_id``, ...), or None if txlog did not raise it. If
        Spark did not find the data source, the result is an `InvalidInputError` that says what to do.

    Example:
        try:
            df.write.format("txlog").mode("append").save(path)
        except Exception as exc:
            match txlog.spark.error_from(exc):
                case txlog.CommitStateUnknownError() as unknown: ...
    """
    for link in _chain(exc):
        if isinstance(link, TxlogError):
            return link
        for text in _texts(link):
            for match in _MARKER.finditer(text):
                error = _decode(match[1], match[2])
                if error is not None:
                    return error
            for pattern, advice in _SPARK_MESSAGES.items():
                if pattern.search(text):
                    return InvalidInputError(advice)
    return None


def encode(error: TxlogError) -> str:
    """The marker of an error: ``[txlog-error:1:CRC32:BASE64URL(ZLIB(JSON))]``, one line of plain characters."""
    fields = {name: _plain(value) for name, value in vars(error).items() if value is not None and name != "template"}
    fields["message"] = _cut(error.message)
    body = json.dumps({"kind": error.kind, "fields": fields}, default=str, separators=(",", ":")).encode()
    packed = zlib.compress(body, 9)
    return f"[txlog-error:1:{zlib.crc32(packed):08x}:{base64.urlsafe_b64encode(packed).decode().rstrip('=')}]"


def _decode(checksum: str, encoded: str) -> TxlogError | None:
    """The error in a marker; None if the marker was cut, altered, or written by a release with unknown error kinds."""
    try:
        packed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        if zlib.crc32(packed) != int(checksum, 16):
            return None
        body = json.loads(zlib.decompressobj().decompress(packed, _JSON_BYTES_MAX))
        fields: dict[str, Any] = body["fields"]
        kind = _KINDS.get(body["kind"], TxlogError)
        if "reasons" in fields:
            fields["reasons"] = tuple(ConflictReason(**reason) for reason in fields["reasons"])
        if "features" in fields:
            fields["features"] = tuple(fields["features"])
        return kind(**fields)
    except (ValueError, KeyError, TypeError, zlib.error):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, ConflictReason):
        return asdict(value)
    if isinstance(value, (tuple, list, frozenset, set)):
        return [_plain(item) for item in value]
    return value


def _cut(message: str) -> str:
    if len(message) <= _MESSAGE_CHARACTERS_MAX:
        return message
    return message[:_MESSAGE_CHARACTERS_MAX] + " ..."


def _chain(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _texts(exc: BaseException) -> Iterator[str]:
    """Every string that a PySpark exception carries. If the JVM has ended, its strings are missing."""
    with contextlib.suppress(Exception):
        yield str(exc)
    with contextlib.suppress(Exception):
        parameters = exc.getMessageParameters()  # type: ignore[attr-defined]
        yield from (str(value) for value in (parameters or {}).values())
    with contextlib.suppress(Exception):
        yield str(exc.java_exception.toString())  # type: ignore[attr-defined]
