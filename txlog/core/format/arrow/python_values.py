"""Nothing to call: importing this module makes pyarrow ready to convert Python values.

pyarrow imports pandas, if it is installed, when it converts its first value. In the middle of a call, a signal handler
could interrupt that import (`txlog.core.whole_import`). So modules that convert values import this one first.
"""

from __future__ import annotations

import pyarrow as pa

__all__: list[str] = []

pa.scalar(0)
