"""Arrow's Parquet reader and writer, for modules that opening a table loads: opening it mostly needs neither."""

from __future__ import annotations

import pyarrow.parquet as pq

__all__ = ["pq"]
