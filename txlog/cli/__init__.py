"""The `txlog` command: tables from a terminal. Parses arguments and shows results; the library decides the rest."""

from __future__ import annotations

import io
import os
import sys

from txlog.core.util import how_to_install

__all__ = ["main"]


def main() -> None:
    """Run the command line. Exits with 0, 1 (the command failed), 2 (usage error), 3 (done, but the result could not be
    printed) or 130 (interrupted)."""
    if sys.stdout is None:
        # The caller closed stdout. Its descriptor must not become that of a data file, and writing to it must fail.
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the locale cannot show is escaped: an error here would deny a write that is committed.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from txlog.cli.app import app

        app(prog_name="txlog")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("typer", "rich"):
            raise
        sys.exit(f"The txlog command needs {package}: {how_to_install('cli')}")
    except KeyboardInterrupt:  # interrupted while loading: nothing to report yet
        sys.exit(130)
