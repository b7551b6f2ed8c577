"""The beginning of every command of `txlog` that works on one existing table.

In: the arguments that all these commands share. Out: an open table, and the output that reports its errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

import txlog
from txlog.cli.console import Output
from txlog.cli.options import pairs, time_zone

if TYPE_CHECKING:
    from concurrent.futures import Executor


@contextlib.contextmanager
def processes(number: int | None) -> Iterator[Executor | None]:
    """This many processes as workers; None for None. They end with the block."""
    if number is None:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # A fork would copy the locks of Arrow's threads.
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as executor:
        yield executor


@contextlib.contextmanager
def opened(
    uri: str, storage_options: list[str] | None, as_json: bool, workers: int | None = None
) -> Iterator[tuple[txlog.Table, Output]]:
    """Open a table, and report errors inside the block as `Output.reporting` does.

    Args:
        uri: The table's location.
        storage_options: ``KEY=VALUE`` strings.
        as_json: Whether the command prints one JSON document.
        workers: In how many processes the command's tasks run; None: in threads.

    Yields:
        The table and the output.
    """
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting(), processes(workers) as executor:
        yield open_table(uri, options, executor), out


def open_table(uri: str, storage_options: dict[str, str], workers: Executor | None = None) -> txlog.Table:
    """The table at a location, with the options that all commands have. Raises what `Table.open` raises."""
    return txlog.Table.open(uri, storage_options=storage_options, workers=workers, time_zone=time_zone.get())


@contextlib.contextmanager
def opened_at(
    uri: str, version: int | None, timestamp: str | None, storage_options: list[str] | None, as_json: bool
) -> Iterator[tuple[txlog.Table, txlog.Snapshot, Output]]:
    """`opened`, for a command that reads one version of the table."""
    if version is not None and timestamp is not None:
        raise typer.BadParameter("use --version or --timestamp, not both")
    with opened(uri, storage_options, as_json) as (table, out):
        is_number = timestamp is not None and timestamp.isdecimal() and len(timestamp) > len("20261120")
        yield table, table.snapshot(version, int(timestamp or 0) if is_number else timestamp), out
