"""Where tasks run: in this process's threads here, and elsewhere by whatever implements `Workers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.workers._base import Workers, shares
    from txlog.core.workers._choose import GivenWorkers, given_workers, require_crossing, require_openable
    from txlog.core.workers._shuffle import Piece, spilled_shuffle
    from txlog.core.workers._threads import ThreadWorkers
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _base: Workers shares
        _choose: GivenWorkers given_workers require_crossing require_openable
        _shuffle: Piece spilled_shuffle
        _threads: ThreadWorkers
        """,
    )

__all__ = [
    "GivenWorkers",
    "Piece",
    "ThreadWorkers",
    "Workers",
    "given_workers",
    "require_crossing",
    "require_openable",
    "shares",
    "spilled_shuffle",
]
