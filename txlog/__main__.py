"""`python -m txlog` is the `txlog` command."""

from __future__ import annotations

from txlog.cli import main

if __name__ == "__main__":
    main()
