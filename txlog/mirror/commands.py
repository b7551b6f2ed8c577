"""The command of `txlog` that follows a database or events."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import orjson
import typer

from txlog.extend.catalogs import ambient
from txlog.extend.cli import Json, Output, Storage, names, pairs, size
from txlog.mirror.progress import MirrorCommit

_TABLES_SHOWN = 5

MaxDelay = Annotated[
    float, typer.Option("--max-delay", metavar="SECONDS", min=0, help="commit a change at the latest after this")
]
MaxBytes = Annotated[
    str, typer.Option("--max-bytes", metavar="SIZE", help="commit when changes of this size wait, such as 256mb")
]
Patience = Annotated[
    float, typer.Option("--patience", metavar="SECONDS", min=0, help="give up if the database is away for longer")
]

Keys = Annotated[
    list[str] | None,
    typer.Option("--keys", metavar="COLUMNS", help="for events: the columns that identify a row: 'id'"),
]
ScdType = Annotated[
    int, typer.Option("--scd-type", metavar="1|2", min=1, max=2, help="2: keep every row that a key had")
]
SequenceBy = Annotated[
    str | None,
    typer.Option("--sequence-by", metavar="NAME", help="for events with type 2: what orders the changes: 'source.lsn'"),
]


def mirror(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="postgres://user@host/database, a file of events, or - for a pipe of them"
        ),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="a folder of tables, or another catalog")],
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", metavar="NAMES", help="'shop.orders,shop.lines'; none: the publication's, or all"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="end when the tables have what the database has now")] = False,
    resync: Annotated[
        list[str] | None, typer.Option("--resync", metavar="NAMES", help="snapshot these tables again")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", metavar="COLUMNS", help="store these as text: 'shop.orders.amount'")
    ] = None,
    keys: Keys = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="the name of the mirror, its slot and its publication")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="for new tables; may be repeated")
    ] = None,
    scd_type: ScdType = 1,
    sequence_by: SequenceBy = None,
    max_delay: MaxDelay = 5.0,
    max_bytes: MaxBytes = "256mb",
    patience: Patience = 600.0,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Follow a PostgreSQL database, or change events of Debezium: each change exactly once.

    The first run makes a slot and a publication, and snapshots the tables. Each later run continues from where the
    tables are. Ctrl-C or SIGTERM ends it, after it has committed the complete transactions that it has. With --json,
    each commit is one line.
    """
    given = {
        "name": name,
        "properties": pairs(properties, "--property"),
        "storage_options": pairs(storage_options, "--storage-option") or None,
        "max_delay_s": max_delay,
        "max_bytes": size(max_bytes),
        "stored_as_scd_type": scd_type,
    }
    of_database = {"--tables": tables, "--once": once, "--resync": resync, "--text": text}
    out = Output(as_json)
    with out.reporting():
        if source != "-" and not Path(source).is_file():
            if keys or sequence_by:
                option = "--keys" if keys else "--sequence-by"
                raise typer.BadParameter(f"{option} is for events: a database has its own")
            _of_database(out, source, target, names(tables), names(text), names(resync), once, patience, given)
            return
        if unused := [option for option, value in of_database.items() if value]:
            raise typer.BadParameter(f"{unused[0]} is for a database: {source} is read as events")
        _of_events(out, source, target, names(keys), {**given, "sequence_by": sequence_by})


def _of_database(
    out: Output,
    source: str,
    target: str,
    tables: Sequence[str],
    as_text: Sequence[str],
    resync: Sequence[str],
    once: bool,
    patience_s: float,
    given: dict[str, Any],
) -> None:
    from txlog.mirror.postgres import Mirror

    told: dict[str, Any] = {"on_commit": lambda commit: _tell(out, commit), "patience_s": patience_s}
    it = Mirror(source, target, tables=tables or None, as_text=as_text, **told, **given)
    with _stopped_by_signals(it):
        it.run(until_current=once, resync=resync)


def _of_events(out: Output, source: str, target: str, keys: Sequence[str], given: dict[str, Any]) -> None:
    from txlog.mirror.events import EventMirror

    name = given.pop("name")
    if name is None and source == "-":
        raise typer.BadParameter("a pipe of events needs --name, by which the tables know it")
    told: dict[str, Any] = {"on_commit": lambda commit: _tell(out, commit)}
    it = EventMirror(target, name or Path(source).name, keys=keys, **told, **given)
    with _stopped_by_signals(it), contextlib.ExitStack() as stack:
        it.follow(sys.stdin.buffer if source == "-" else stack.enter_context(Path(source).open("rb")))


def _tell(out: Output, commit: MirrorCommit) -> None:
    if out.as_json:
        out.line(orjson.dumps(commit, default=msgspec.structs.asdict).decode())
        return
    shown = [f"{name} {rows:,}" for name, rows in list(commit.rows.items())[:_TABLES_SHOWN]]
    if len(commit.rows) > _TABLES_SHOWN:
        shown.append(f"{len(commit.rows) - _TABLES_SHOWN:,} more tables")
    what = "rows of a snapshot" if commit.is_snapshot else "changes"
    behind_s = max(0.0, (ambient.now_ms() - commit.committed_ms) / 1000)
    age = "" if commit.is_snapshot else f", {behind_s:,.1f} s behind"
    out.line(f"{ambient.now():%Y-%m-%d %H:%M:%SZ}  {what}: {', '.join(shown)}; up to {commit.position}{age}")
    for column, differs in commit.differs.items():
        out.line(f"  {column}: {differs}")


class _Stoppable(Protocol):
    """What follows a source until it is asked to stop."""

    @property
    def is_stopping(self) -> bool: ...

    def stop(self) -> None: ...


@contextlib.contextmanager
def _stopped_by_signals(it: _Stoppable) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the mirror after its next commit, a second one at once."""

    def stop(number: int, frame: object) -> None:
        if it.is_stopping:
            raise KeyboardInterrupt
        it.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
