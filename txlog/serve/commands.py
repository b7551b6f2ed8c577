"""The commands of `txlog` that run a service: serve, serve-token."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer
from rich.text import Text

from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.extend.catalogs import logger
from txlog.extend.cli import Json, Output, Storage, pairs, size
from txlog.serve.access import Access, Right, new_grant
from txlog.serve.counts import DESCRIBED, METRICS, Tick
from txlog.serve.doors import Doors
from txlog.serve.intake import Pace
from txlog.serve.journal import Journal
from txlog.serve.pauses import Pauses, rehearse
from txlog.serve.service import Limits, Service

_NO_PORT = -1
_ARROW_LEAST_BYTES = 1 << 30
"""What Arrow may take for commits and maintenance, beside rows that wait."""


def serve(
    uri: Annotated[str, typer.Argument(metavar="URI", help="a folder of tables, a catalog, or one table")],
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    flight_port: Annotated[int, typer.Option(metavar="PORT", help="0: a free one; -1: no Arrow Flight")] = 8815,
    http_port: Annotated[int, typer.Option(metavar="PORT", help="0: a free one; -1: no HTTP")] = 8816,
    journal: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="a local folder; lets clients ask for durable answers")
    ] = None,
    tokens: Annotated[Path | None, typer.Option(metavar="FILE", help="who may do what: see txlog serve-token")] = None,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="a PEM file")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="its key, in PEM")] = None,
    max_delay: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="how long rows may be in the journal alone")
    ] = 5.0,
    max_batch: Annotated[Any, typer.Option(metavar="SIZE", parser=size, help="refuse a batch that is larger")] = "64mb",
    max_waiting: Annotated[
        Any, typer.Option(metavar="SIZE", parser=size, help="the rows that may wait in memory")
    ] = "512mb",
    max_wait: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="how long a client waits for room")] = 10.0,
    max_connections: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="clients at each port")] = 1000,
    maintain_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="maintain each table that gets rows; 0: never")
    ] = 300.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="print no line for each commit")] = False,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Accept rows from many clients over Arrow Flight and HTTP, and commit them together.

    All rows of a table that wait become one file and one version. At Ctrl-C or SIGTERM, the service commits what it has
    taken, and ends. To listen on another address than this machine's own, it needs --tokens, --tls-cert and --tls-key.
    """
    out = Output(as_json)
    options = pairs(storage_options, "--storage-option")
    limits = _limits(max_batch, max_waiting, max_wait, max_connections)
    _bound_memory(_ARROW_LEAST_BYTES + 4 * limits.waiting_bytes)
    with out.reporting():
        tls = _tls(tls_certificate, tls_key)
        is_local = _is_loopback(host)
        _require_safe(host, is_local, tokens, tls)
        access = Access(tokens)
        service = Service(
            uri,
            storage_options=options,
            pace=Pace(max_delay_s=max_delay, maintain_every_s=maintain_every),
            limits=limits,
            journal=None if journal is None else Journal(journal),
            on_tick=partial(_ticked, None if quiet else out, pauses := Pauses()),
        )
        stop = _asked_to_stop()
        left = _begin(service)
        wanted = {door: port for door, port in (("flight", flight_port), ("http", http_port)) if port != _NO_PORT}
        doors = Doors(service, access, host, wanted, tls, only_local_names=is_local and tokens is None)
        if _is_own_process():
            pauses.shorten()
        _say_start(out, service, doors, left)
        stop.wait()
        doors.close()
        service.close()
        doors.leave()


def serve_token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file for --tokens; the grant is added to it")],
    name: Annotated[str, typer.Option(help="who gets the token, for messages and for you")],
    table: Annotated[list[str], typer.Option("--table", metavar="PATTERN", help="such as sales.*; may be repeated")],
    right: Annotated[list[str], typer.Option("--right", metavar="append|change|read", help="may be repeated")],
    as_json: Json = False,
) -> None:
    """Make a token for clients of txlog serve, and print it: the file keeps only its hash.

    To take a token back, delete its line of the file; a service that runs sees it within a second.
    """
    out = Output(as_json)
    with out.reporting():
        rights: tuple[Right, ...] = msgspec.convert(_rights(right), tuple[Right, ...])
        token, grant = new_grant(name, tuple(table), rights)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with open(descriptor, "ab") as grants:
            grants.write(msgspec.json.encode(grant) + b"\n")
        out.result({"token": token, **msgspec.to_builtins(grant)}, Text(token))


def _bound_memory(size_bytes: int) -> None:
    """Begin this process again with a bound on the memory that Arrow takes, unless it has one.

    Rows of Arrow Flight may be compressed, and few bytes may then stand for very many: they are in memory before the
    service sees them. mimalloc, which pyarrow's wheels bring, reads its bounds when it is loaded.
    """
    if not _is_own_process():
        return
    if pa.default_memory_pool().backend_name != "mimalloc":
        logger.warning(
            "Arrow's memory is not bounded, since pyarrow is not on mimalloc here: off loopback, give tokens only to"
            " clients that you trust not to send compressed rows that are very large"
        )
    elif not any(name.startswith("MIMALLOC_") for name in os.environ):
        bounds = {"MIMALLOC_RESERVE_OS_MEMORY": f"{size_bytes >> 20}MiB", "MIMALLOC_DISALLOW_OS_ALLOC": "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **bounds})


def _is_own_process() -> bool:
    """Whether the service is not in the process of another program."""
    return sys.argv[1:2] == ["serve"]


def _export_numbers(service: Service) -> None:
    """Have every installed exporter observe the service's numbers. One whose own package is missing does nothing."""
    for name in METRICS.names():
        with contextlib.suppress(UnsupportedFeatureError):
            METRICS.load(name)(DESCRIBED, service.numbers)


def _begin(service: Service) -> int:
    """Have a service ready for clients; returns how many batches an earlier one left."""
    _export_numbers(service)
    left = service.recover()
    if service.journal is not None:
        rehearse()
    return left


def _asked_to_stop() -> threading.Event:
    """What Ctrl-C and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _limits(batch_bytes: int, waiting_bytes: int, wait_s: float, connections: int) -> Limits:
    if waiting_bytes < 2 * batch_bytes:
        raise typer.BadParameter("--max-waiting must be at least twice --max-batch: a batch waits as text and as rows")
    return Limits(batch_bytes=batch_bytes, waiting_bytes=waiting_bytes, wait_s=wait_s, connections=connections)


def _rights(given: list[str]) -> tuple[str, ...]:
    rights = tuple(each.strip() for text in given for each in text.split(","))
    for each in rights:
        if each not in ("append", "change", "read"):
            raise typer.BadParameter(f"Invalid --right {each!r}: expected append, change or read")
    return rights


def _tls(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key must be used together")
    return None if certificate is None or key is None else (certificate, key)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _require_safe(host: str, is_local: bool, tokens: Path | None, tls: tuple[Path, Path] | None) -> None:
    if is_local or (tokens is not None and tls is not None):
        return
    lacks = " and ".join(
        [*(["--tokens"] if tokens is None else []), *(["--tls-cert and --tls-key"] if tls is None else [])]
    )
    raise InvalidInputError(
        f"other machines can reach {host}, so the service needs {lacks}: without them anybody could write to the"
        " tables, or read the tokens on their way. Or listen on 127.0.0.1, behind a proxy that has them"
    )


def _say_start(out: Output, service: Service, doors: Doors, left: int) -> None:
    where = ", ".join(doors.addresses)
    text = f"{service.uri}: takes rows at {where}"
    lines = [Text(text)]
    if left:
        lines.append(Text(f"batches that an earlier service left in the journal: {left:,}"))
    out.result({"serving": service.uri, "at": doors.addresses, "left_in_journal": left}, *lines)
    sys.stdout.flush()


def _ticked(out: Output | None, pauses: Pauses, tick: Tick) -> None:
    pauses.look()
    if out is None:
        return
    if out.as_json:
        out.line(msgspec.json.encode(tick).decode())
    else:
        out.line(str(tick))
