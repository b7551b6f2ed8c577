"""The `txlog` command: tables from a terminal. Parses arguments and shows results; every decision is the library's."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; exits with 0, 1 (it failed) or 2 (it was called wrongly)."""
    from txlog.cli.app import app

    app(prog_name="txlog")
