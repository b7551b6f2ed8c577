"""Connections to PostgreSQL: questions to its catalog, rows of its tables, and the stream of a replication slot.

In: what libpq takes as an address. Out: rows as texts, and messages with their positions. psycopg 3 speaks the
protocol: of replication it has what libpq has, the frames. PostgreSQL documentation, "Streaming Replication Protocol".

A lost connection is a `SourceAway`, which the caller may wait out; all else is an error of `txlog.errors`.
"""

from __future__ import annotations

import contextlib
import selectors
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from txlog.errors import AccessError, InvalidInputError
from txlog.extend.catalogs import ambient, how_to_install, logger

try:
    import psycopg
    from psycopg import conninfo, sql
except ImportError:
    raise InvalidInputError(
        f"PostgreSQL is reached by psycopg, which is not installed: {how_to_install('mirror')}"
    ) from None

_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "bytea_output": "hex",
    "row_security": "off",  # a user who does not see all rows is refused, instead of snapshotting those that they see
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "wal_sender_timeout": "0",  # a commit may take long; who dies is noticed by TCP
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
"""What decides how values are written, which rows are seen, and when the server gives a connection up."""
_TIMEOUTS_SINCE = {140_000: "idle_session_timeout", 170_000: "transaction_timeout"}
"""Settings of the same kind, and the version of the server that has them first."""
_DENIED = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
    "does not exist",
)
_RUNNING = """
select coalesce('process ' || l.pid || coalesce(' (' || nullif(a.application_name, '') || ')', ''), 'a prepared one')
from pg_catalog.pg_locks l left join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock' order by 1
"""
TOLD_AFTER_S = 10.0
_DATA = struct.Struct(">qqq")
_KEEPALIVE = struct.Struct(">qqb")
_STATUS = struct.Struct(">cqqqqb")
_ENDS_WITHIN_S = 2.0
_EPOCH_US = 946_684_800_000_000


class SourceAway(Exception):
    """The database does not answer, or ended the connection."""


class Frame(NamedTuple):
    """A message of the stream; without ``data``, the server says only how far it is: ``lsn``."""

    lsn: int
    data: bytes = b""


def lsn_of(text: str) -> int:
    """A position in the log of the database as a number: ``16/B374D848``."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def identifier(*parts: str) -> str:
    """A name in SQL, quoted."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def source_name(address: str) -> str:
    """Where the database is, without a password. Raises InvalidInputError for an address that libpq does not read."""
    try:
        given = conninfo.conninfo_to_dict(address)
    except psycopg.Error as error:
        raise InvalidInputError(f"this is not the address of a PostgreSQL database: {str(error).strip()}") from None
    host = given.get("host") or given.get("hostaddr") or "localhost"
    return f"postgres://{host}{':' + str(given['port']) if 'port' in given else ''}/{given.get('dbname', '')}"


@contextmanager
def _failing(source: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise _error_of(error, source) from error


def _error_of(error: psycopg.Error, source: str) -> Exception:
    text = " ".join(str(error).split())
    state = error.sqlstate or ""
    if state.startswith(("28", "3D")) or state == "42501" or (not state and any(each in text for each in _DENIED)):
        return AccessError(f"{source} refuses the user or what they ask for: {text}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state.startswith(("08", "57P", "53")):
        return SourceAway(text)
    if not state and type(error) is psycopg.DatabaseError:  # libpq's own: whatever the server says has a state
        return SourceAway(text)
    if state in ("55006", "42710"):  # the slot, or its name: of a connection that is gone, for a moment
        return SourceAway(text)
    return InvalidInputError(f"{source} answered with an error: {text}")


@contextmanager
def told_if_it_waits(address: str) -> Iterator[None]:
    """Log for which transactions the database waits before it makes a slot: all that have changed rows by then."""

    def tell() -> None:
        with contextlib.suppress(Exception):  # a message; what fails here fails there too
            queries = Queries(address)
            try:
                running = ", ".join(name for (name,) in queries.rows(_RUNNING))
            finally:
                queries.close()
            logger.warning(
                "%s makes a replication slot when the transactions that have changed rows are over: %s",
                queries.source,
                running or "pg_stat_activity and pg_prepared_xacts have them",
            )

    timer = threading.Timer(TOLD_AFTER_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _connected(address: str, source: str, **more: Any) -> psycopg.Connection[Any]:
    with _failing(source):
        given = conninfo.conninfo_to_dict(address)
        settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        given["options"] = f"{given.get('options') or ''} {settings}".strip()
        given.setdefault("application_name", "txlog mirror")
        given.setdefault("connect_timeout", 30)
        text = conninfo.make_conninfo(**{**given, "client_encoding": "UTF8", **more})
        connection = psycopg.connect(text, autocommit=True)
        for version, timeout in _TIMEOUTS_SINCE.items():
            if connection.info.server_version >= version:
                connection.execute(f"set {timeout} = 0")
        return connection


class Queries:
    """A connection for questions and for rows of tables."""

    def __init__(self, address: str) -> None:
        self.source = source_name(address)
        self._connection = _connected(address, self.source)
        self.server_version = self._connection.info.server_version

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query; ``%s`` stands for a value."""
        with _failing(self.source):
            found: list[tuple[Any, ...]] = self._connection.execute(text, values or None).fetchall()
            return found

    def run(self, text: str) -> None:
        """Run a statement without a result."""
        with _failing(self.source):
            self._connection.execute(text)

    def literal(self, value: str) -> str:
        """A value as a literal of SQL, for statements that take no parameters."""
        return str(sql.Literal(value).as_string(self._connection))

    def copied(self, text: str) -> Iterator[bytes]:
        """The rows that ``COPY (...) TO STDOUT`` sends, each with its end of line."""
        with _failing(self.source), self._connection.cursor().copy(text) as copy:
            for row in copy:
                yield bytes(row)

    def close(self) -> None:
        self._connection.close()


class Stream:
    """A connection for replication: it makes slots, and reads the changes of one."""

    def __init__(self, address: str) -> None:
        self._source = source_name(address)
        self._connection = _connected(address, self._source, replication="database")
        self._pg = self._connection.pgconn
        self._selector = selectors.DefaultSelector()
        self._confirmed = 0

    def system(self) -> tuple[str, int, int]:
        """What identifies the database's data wherever they are copied to, the timeline of its log, and how far it
        is."""
        number, timeline, position, _ = self._row("IDENTIFY_SYSTEM")
        return number, int(timeline), lsn_of(position)

    def history(self, timeline: int) -> str:
        """The history file of a timeline that is not the first."""
        _, content = self._row(f"TIMELINE_HISTORY {timeline:d}")
        return content if isinstance(content, str) else bytes(content).decode()

    def exported_snapshot(self, slot: str) -> tuple[int, str]:
        """Make a slot that ends with this connection. Returns the position from which it has all changes, and a
        snapshot with what was there before, which lasts until this connection runs another command."""
        _, position, snapshot, _ = self._row(
            f"CREATE_REPLICATION_SLOT {identifier(slot)} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"
        )
        return lsn_of(position), snapshot

    def start(self, slot: str, publication: str) -> None:
        """Begin to read a slot's changes, from where it was confirmed."""
        named = identifier(publication).replace("'", "''")
        command = (
            f"START_REPLICATION SLOT {identifier(slot)} LOGICAL 0/0 (proto_version '1', publication_names '{named}')"
        )
        with _failing(self._source):
            result = self._pg.exec_(command.encode())
            if result.status != psycopg.pq.ExecStatus.COPY_BOTH:
                raise psycopg.errors.error_from_result(result)
            self._selector.register(self._pg.socket, selectors.EVENT_READ)

    def next(self, wait_s: float) -> Frame | None:
        """The next message; None if there is none within ``wait_s`` seconds. Raises `SourceAway`."""
        with _failing(self._source):
            frame = self._read()
            if frame is None and self._selector.select(wait_s):
                self._pg.consume_input()
                frame = self._read()
            return frame

    def confirm(self, lsn: int | None = None, *, wants_answer: bool = False) -> None:
        """Tell the server up to where the changes are in the tables: it then forgets them. None: nothing new.

        ``wants_answer``: the server says at once how far it is.
        """
        self._confirmed = max(self._confirmed, lsn or 0)
        now_us = ambient.now_ms() * 1000 - _EPOCH_US
        position = self._confirmed
        message = _STATUS.pack(b"r", position, position, position, now_us, wants_answer)
        with _failing(self._source):
            self._pg.put_copy_data(message)
            while self._pg.flush():
                self._selector.select(0.01)

    def close(self) -> None:
        """End the stream, so that the slot is free when this returns, unless the server takes long over that."""
        if self._selector.get_map():
            with contextlib.suppress(psycopg.Error, SourceAway):
                self._end()
        self._selector.close()
        self._connection.close()

    def _end(self) -> None:
        self._pg.put_copy_end()
        begun = ambient.instant()
        while ambient.age_s(begun) < _ENDS_WITHIN_S:
            self._pg.flush()
            size, _ = self._pg.get_copy_data(1)
            if size < 0:
                while self._pg.get_result() is not None:
                    pass
                return
            if size == 0 and self._selector.select(_ENDS_WITHIN_S):
                self._pg.consume_input()

    def _read(self) -> Frame | None:
        while True:
            size, view = self._pg.get_copy_data(1)
            if size == 0:
                return None
            if size < 0:
                raise SourceAway("the server ended the stream")
            data = bytes(view)
            if data[:1] == b"w":
                return Frame(_DATA.unpack_from(data, 1)[0], data[1 + _DATA.size :])
            if data[:1] == b"k":
                position, _, wants_answer = _KEEPALIVE.unpack_from(data, 1)
                if wants_answer:
                    self.confirm()
                return Frame(position)

    def _row(self, command: str) -> Sequence[Any]:
        with _failing(self._source):
            row = self._connection.execute(command).fetchone()
            assert row is not None
            return row  # type: ignore[no-any-return]
