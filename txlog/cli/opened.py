"""The beginning of every command of `txlog` that works on one existing table.

In: the arguments that all these commands share. Out: an open table, and the output that reports its errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import txlog
from txlog.cli.console import Output
from txlog.cli.options import pairs

__all__ = ["opened"]


@contextlib.contextmanager
def opened(uri: str, storage_options: list[str] | None, as_json: bool) -> Iterator[tuple[txlog.Table, Output]]:
    """Open a table, and report errors inside the block as `Output.reporting` does.

    Args:
        uri: The table's location.
        storage_options: ``KEY=VALUE`` strings.
        as_json: Whether the command prints one JSON document.

    Yields:
        The table and the output.
    """
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        yield txlog.Table.open(uri, storage_options=options), out
