"""Arrow's compute functions, for modules that an append loads. They load slowly, and few tables need them."""

from __future__ import annotations

import pyarrow.compute as pc

__all__ = ["pc"]
