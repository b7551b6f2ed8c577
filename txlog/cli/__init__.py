"""The `txlog` command: tables from a terminal. Parses arguments and shows results; every decision is the library's."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; exits with 0, 1 (it failed), 2 (it was called wrongly) or 130 (it was interrupted)."""
    try:
        from txlog.cli.app import app

        app(prog_name="txlog")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(f"The txlog command needs {error.name}: pip install 'txlog-delta[cli]'")
    except KeyboardInterrupt:  # before there was anything to report: while it loaded
        sys.exit(130)
