"""Where the tests keep downloads and builds that take long: one folder per machine, outside the checkout.

``TXLOG_CACHE`` replaces ~/.cache/txlog. If the home directory is read-only, it is ``build/cache`` in the checkout. Only
the standard library: the Go servers start before anything is installed.
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
