"""Arrow's JSON reader, for a module that an append loads. It reads statistics, which no append does."""

from __future__ import annotations

import pyarrow.json as pj

__all__ = ["pj"]
