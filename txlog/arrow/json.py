"""Arrow's JSON reader, for a module that an append loads: it reads statistics, and an append reads none."""

from __future__ import annotations

import pyarrow.json as pj

__all__ = ["pj"]
