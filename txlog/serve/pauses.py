"""What keeps the process of a service from pausing, since all of its clients would wait.

In: the process. Out: its settings of the garbage collector. While Python looks for garbage, all threads stand still,
for longer the more objects there are: a tenth of a second for what thousands of waiting batches are made of. So this is
done when few batches wait, and leaves out what is there for good.
"""

from __future__ import annotations

import contextlib
import gc
import tempfile

import pyarrow as pa

import txlog
from txlog.errors import TxlogError
from txlog.extend.catalogs import ambient

_YOUNG, _MIDDLE, _OLD = 20_000, 10, 1000
"""After how many new objects Python looks for garbage among the young ones, and how many such looks come before one
among those in the middle and among all."""
_LOOK_EVERY_S = 60.0


class Pauses:
    """The pauses of this process, which are as Python has them until `shorten` is called."""

    def __init__(self) -> None:
        self._looked_at_s: float | None = None

    def shorten(self) -> None:
        """Look for garbage among all objects only in `look`."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
        self._looked_at_s = ambient.monotonic_s()

    def look(self) -> None:
        """Look for garbage if it is time: to be called after a commit, when few batches wait."""
        now_s = ambient.monotonic_s()
        if self._looked_at_s is not None and now_s - self._looked_at_s >= _LOOK_EVERY_S:
            self._looked_at_s = now_s
            gc.collect()


def rehearse() -> None:
    """Make a commit to a table that is gone afterwards: the first one loads much code, while clients would wait."""
    rows = pa.table({"n": [0]})
    with contextlib.suppress(TxlogError, OSError), tempfile.TemporaryDirectory() as folder:
        table = txlog.Table.create(folder, rows.schema)
        with table.transaction() as txn:
            txn.append(rows)
            txn.set_transaction("rehearsal", 0)
