"""Typed errors across Spark: how a txlog error gets from a Python worker to the user's program.

Spark turns an exception raised in a worker into a string (AnalysisException, PythonException, StreamingQueryException,
or a bare Py4JJavaError), so its type is lost. Out: `crossing` raises an error whose first line is txlog's own kind and
message, and whose second holds the error's fields, readable and checksummed. In: `error_from` finds these lines in
whatever Spark raised and rebuilds the error.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import quote, unquote

from msgspec.structs import asdict

from txlog import errors
from txlog.core.util import how_to_install, logger
from txlog.core.wording import spelled
from txlog.errors import ConflictReason, InvalidInputError, TxlogError
from txlog.spark.wording import in_spark

_FIELDS = re.compile(r"\[txlog-error (\{[^\n]*?\}) ([0-9a-f]{8})\]")
_READABLE = " ,.:;()/=+-_*<>@#$&!?|~^`"
"""What stays as it is in the fields' strings, besides letters and digits. Everything else could end them, or be changed
by whoever escapes, encodes or prints the text."""
NOT_FOUND_ADVICE = (
    "Spark did not find the data source 'txlog'. In a thread that the program started, it finds no Python data source"
    " until the session is active there: ThreadPoolExecutor(8, initializer=txlog.spark.register), or call"
    " txlog.spark.register(spark) first in the thread. After an interrupted call (Ctrl-C) the session may no longer be"
    " active in its thread: call txlog.spark.register(spark) again. Elsewhere, Spark runs a Python that lacks txlog:"
    f" set the environment variable PYSPARK_PYTHON to the one that has it, here {sys.executable}"
)
_SPARK_MESSAGES = {
    re.compile(r"No module named '(?:(?:pyspark_)?txlog|pyarrow|msgspec|orjson|obstore|pyroaring|sqlglot)\b"): (
        "Spark's workers run a Python that lacks txlog or one of its packages. On one machine, set the environment"
        f" variable PYSPARK_PYTHON to {sys.executable}. On a cluster, install txlog in the Python of every machine, or"
        " send a packed environment with the job, and name its Python there (docs/spark-batch.md, On a cluster)"
    ),
    re.compile(r"Pandas >= [\d.]+ must be installed"): (
        f"Spark needs pandas on the driver for calls that run on its executors: {how_to_install('spark')}"
    ),
    re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*: txlog\."): NOT_FOUND_ADVICE,
    re.compile(r'UNSUPPORTED_DATA_SOURCE_SAVE_MODE[^\n]*"txlog"'): (
        "Spark writes with a Python data source only in two modes: add .mode('append') or .mode('overwrite')"
    ),
    re.compile(
        r"The provided partitioning or clustering columns do not match[^\n]*\s+- provided: [^\n]*\s+- table: *(?:\n|$)"
    ): (
        "Spark refuses partitionBy() for Python data sources: leave it out, and name the columns of a new table with"
        " .option('partitionBy', 'day,region')"
    ),
    re.compile(r"\btxlog is not a valid Spark SQL Data Source"): (
        "the session's catalog does not accept tables USING txlog: Delta's catalog (spark.sql.catalog.spark_catalog ="
        " DeltaCatalog) reads and writes only JVM data sources. Write by path: df.write.format('txlog').save(path)"
    ),
}
"""Messages that Spark raises before it calls the data source -> what the user should do."""
_MESSAGE_CHARACTERS_MAX = 8_192
"""A longer message is cut: Spark Connect and log collectors cut long lines, which would break the fields."""
_KINDS: dict[str, type[TxlogError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TxlogError)
}


class TxlogErrorInSpark(Exception):
    """The exception that a worker raises in place of a `TxlogError`: the same message, and fields for `error_from`.

    Spark shows the traceback first. Python shows an exception's cause before its traceback, so the cause is the
    `TxlogError` without its traceback. The cause is a property because Spark's short tracebacks clear the attribute.
    """

    def __init__(self, error: TxlogError) -> None:
        super().__init__(encode(error))
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
        # The fields do not carry the traceback, so the worker's own log records it.
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
            for match in _FIELDS.finditer(text):
                error = _decode(match, text[: match.start()])
                if error is not None:
                    return error
            for pattern, advice in _SPARK_MESSAGES.items():
                if pattern.search(text):
                    return InvalidInputError(advice)
    return None


def encode(error: TxlogError) -> str:
    """The error in two lines: ``KIND: TEXT`` and ``[txlog-error JSON CRC32]``, where the JSON has all fields.

    Of the message, the JSON has only its place in the text and its checksum, unless it could be changed on its way.
    """
    fields = {name: _plain(value) for name, value in vars(error).items() if value is not None and name != "template"}
    shown, message = str(error), error.message
    if shown.isascii() and shown.isprintable():
        fields["shown"] = [shown.index(message), len(message), _crc(message)]
    else:
        fields["message"] = _cut_and_quoted(message)
    body = json.dumps({"kind": error.kind, **fields}, default=str, separators=(",", ":"))
    return f"{error.kind}: {shown}\n[txlog-error {body} {_crc(body)}]"


def _decode(found: re.Match[str], before: str) -> TxlogError | None:
    """The error; None if its fields were cut, altered, or written by a release with other ones."""
    body, checksum = found.groups()
    if _crc(body) != checksum:
        return None
    try:
        fields: dict[str, Any] = {name: _unquoted(value) for name, value in json.loads(body).items()}
        name = fields.pop("kind")
        shown, message = fields.pop("shown", None), fields.pop("message", None)
        if "reasons" in fields:
            fields["reasons"] = tuple(ConflictReason(**reason) for reason in fields["reasons"])
        if "features" in fields:
            fields["features"] = tuple(fields["features"])
        error = _KINDS.get(name, TxlogError)("", **fields)
        error.message = _message(error, name, before, *shown) if message is None else message
        return error
    except (ValueError, KeyError, TypeError):
        return None


def _message(error: TxlogError, kind: str, before: str, place: int, length: int, checksum: str) -> str:
    """The message of an error whose text stands before its fields; the rest of the line if somebody changed it."""
    start = f"{kind}: "
    last = at = before.rfind(start)
    while at >= 0:
        begin = at + len(start) + place
        message = before[begin : begin + length]
        if _crc(message) == checksum:
            return message
        at = before.rfind(start, 0, at)
    rest = before[last + len(start) :] if last >= 0 else before
    return rest.strip().partition("\n")[0].removeprefix(str(error))


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _plain(value: Any) -> Any:
    if isinstance(value, ConflictReason):
        return {name: _plain(field) for name, field in asdict(value).items()}
    if isinstance(value, (tuple, list, frozenset, set)):
        return [_plain(item) for item in value]
    return quote(value, safe=_READABLE) if isinstance(value, str) else value


def _unquoted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unquoted(field) for name, field in value.items()}
    if isinstance(value, list):
        return [_unquoted(item) for item in value]
    return unquote(value) if isinstance(value, str) else value


def _cut_and_quoted(message: str) -> str:
    quoted = quote(message, safe=_READABLE)
    if len(quoted) <= _MESSAGE_CHARACTERS_MAX:
        return quoted
    kept = message[: len(message) * _MESSAGE_CHARACTERS_MAX // len(quoted)]
    return quote(kept + " ...", safe=_READABLE)


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
