"""Where the tests keep what takes long to fetch or to build: one folder for each machine, outside the checkout.

``TXLOG_CACHE`` names another folder than ~/.cache/txlog. Where the home takes no files, it is ``build/cache`` of the
checkout. Standard library alone: the Go servers begin before anything is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]

CHECKOUT = Path(__file__).parent.parent


def cache_folder(name: str) -> Path:
    """The folder for this kind of thing; it exists, and this process may write to it."""
    given = os.environ.get("TXLOG_CACHE")
    folder = Path(given) if given else Path.home() / ".cache" / "txlog"
    try:
        (folder / name).mkdir(parents=True, exist_ok=True)
        if given or os.access(folder / name, os.W_OK):
            return folder / name
    except OSError:
        if given:
            raise
    fallback = CHECKOUT / "build" / "cache" / name
    fallback.mkdir(parents=True, exist_ok=True)
    return fallback
