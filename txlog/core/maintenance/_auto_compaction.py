"""Compaction after commits, if the table property ``delta.autoOptimize.autoCompact`` requests it.

In: the table state after a commit. Out: nothing. After one of every ten versions, whichever process committed it, the
handle looks for partitions with many small files and compacts them in a separate thread, one compaction at a time. It
never delays the commit or makes it fail: errors are logged.

The thread imports nothing, for the reason given in ``core.versions.upkeep._post_commit``.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING

from txlog.core.background import Background
from txlog.core.util import logger
from txlog.core.versions.decisions.state import TableState

if TYPE_CHECKING:
    from txlog.core.versions import OpenTable

SMALL_FILES_MIN = 50
"""A partition with fewer small files is left as it is, as in Spark's auto compaction."""
_EVERY = 10  # versions, so processes that commit only once share the work
_BYTES_MAX = 2 << 30  # an ending process waits for the compaction, so each has a limit; the next one does the rest


class AutoCompaction:
    """Compacts one table. Called after each commit. A process that ends waits for a running compaction.

    It holds no reference to the table, which holds it: an unused handle is freed immediately, with its caches.
    """

    def __init__(self) -> None:
        self._background = Background("txlog-compaction")

    def after(self, open_table: OpenTable, state: TableState) -> None:
        """Start a compaction if one is due at ``state`` and none runs. Never raises."""
        if (
            not state.properties.auto_compact
            or not _is_due(state.version)
            or open_table.log.versions.capabilities.maintains
        ):
            return
        at = open_table.uri, state.version
        try:
            from txlog.core.maintenance import _optimize as optimize  # noqa: F401  so that the thread finds it imported

            what = "the compaction of {} after v{}".format(*at)
            self._background.begin(what, partial(_compact, open_table))
        except Exception as error:  # the interpreter is about to end
            logger.warning("%s: the compaction after v%d failed, the commit is safe: %s", *at, error)

    def drain(self) -> None:
        """Wait for a running compaction."""
        self._background.drain()


def _is_due(version: int) -> bool:
    """Whether this one of its ten versions is the one after which its writer looks.

    It has another place in each ten: engines that do not compact may write every second version, or every version but
    one of ten, and a fixed place could then always be theirs.
    """
    tens, place = divmod(version, _EVERY)
    return place == zlib.crc32(b"%d" % tens) % _EVERY


def _compact(open_table: OpenTable) -> None:
    from txlog.core.maintenance._optimize import optimize
    from txlog.core.workers import ThreadWorkers

    try:
        # In this process: workers are used by one thread, and the caller may be using those of the handle.
        here = ThreadWorkers(1)
        optimize(
            open_table,
            max_bytes=_BYTES_MAX,
            files_min=SMALL_FILES_MIN,
            is_automatic=True,
            leaves_larger=True,
            workers=here,
        )
    except Exception as error:
        logger.warning("%s: the compaction in the background failed: %s", open_table.uri, error)
