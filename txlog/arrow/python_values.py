"""Nothing to call: pyarrow is ready to convert Python's values once this module is imported.

pyarrow imports pandas, where it is installed, when it converts its first value. In the middle of a call, a signal
handler could break that off (`txlog.util.whole_import`). So modules that convert values import this one first.
"""

from __future__ import annotations

import pyarrow as pa

__all__: list[str] = []

pa.scalar(0)
