"""What one kind of store or version owner can do beyond `LogStore` and `VersionLog`. Callers check the capability that
they rely on.

In: nothing. Out: `LogCapabilities`, with the two kinds that txlog ships. A new kind of store states each capability;
no code checks whether a store is local.
"""

from __future__ import annotations

import msgspec

__all__ = ["LOCAL_DISK", "OBJECT_STORE", "LogCapabilities"]


class LogCapabilities(msgspec.Struct, frozen=True):
    """Facts about one kind of log. A fact that is not known to be true is false, except `needs_sync`."""

    lists_completely: bool
    """A listing is a consistent snapshot. A local directory listing is not: it can miss an older name."""

    has_cheap_calls: bool
    """`read` and `stat` take microseconds and no request: callers check again rather than trust, and read one file
    after the other."""

    refuses_taken_names: bool
    """The kernel itself refuses `put_if_absent`. A server may ignore the condition, so it is probed first."""

    needs_sync: bool
    """An object that another program made visible may not survive a power cut before `make_durable`."""

    remembers_versions: bool = False
    """A version that existed once is refused forever, so an accepted version follows the newest one. A folder forgets
    the names that a cleanup deletes: a writer that was suspended for long may put a version that others took long
    ago."""

    publishes: bool = False
    """Writers publish the versions of this owner, see `VersionLog.publish`: until then none is a file of the folder."""

    maintains: bool = False
    """Only the owner cleans up the log, deletes data files and rewrites them."""


LOCAL_DISK = LogCapabilities(lists_completely=False, has_cheap_calls=True, refuses_taken_names=True, needs_sync=True)
OBJECT_STORE = LogCapabilities(
    lists_completely=True, has_cheap_calls=False, refuses_taken_names=False, needs_sync=False
)
