"""The `txlog` command: tables from a terminal. Parses arguments and shows results; the library decides the rest."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line. Exits with 0, 1 (the command failed), 2 (usage error) or 130 (interrupted)."""
    try:
        from txlog.cli.app import app

        app(prog_name="txlog")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(f"The txlog command needs {error.name}: pip install 'txlog-delta[cli]'")
    except KeyboardInterrupt:  # interrupted while the program loaded: there is nothing to report yet
        sys.exit(130)
