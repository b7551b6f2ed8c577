"""Arrow's compute functions, for modules that an append loads: it needs them for few tables, and they load slowly."""

from __future__ import annotations

import pyarrow.compute as pc

__all__ = ["pc"]
