"""`write_once`: writes an object once, and returns when it is known to be there and durable.

In: a `LogStore`, a name and bytes. Out: the object's content. Commits have their own loop, which decides whose bytes
may stand; this one is for objects that anybody may have written first.
"""

from __future__ import annotations

from typing import Final

from txlog.core.store._base import LogStore, PutOutcome
from txlog.core.store._retry import RetryPolicy
from txlog.errors import NotFoundError, StorageError

BRIEFLY: Final = RetryPolicy(max_attempts=3, max_wait=1.0)
"""For objects that may as well be written later."""


def write_once(store: LogStore, name: str, body: bytes, retry: RetryPolicy = BRIEFLY) -> bytes:
    """Write ``body`` as ``name`` if nothing has that name, and find out what is there.

    Args:
        store: The store of the object.
        name: Its name.
        body: Its content.
        retry: How long to send the same bytes again if the store's answer is lost and nothing is there.

    Returns:
        The content of the object, which is durable: ``body``, or the bytes of whoever wrote it first.

    Raises:
        StorageError: The object is visible, but not durable: that is final, since a later sync may succeed although
            the bytes of the first one are lost. Or the store gave no definite answer, or cannot be read.
    """
    pacing = retry.pacing(store.round_trip_s)
    while True:
        outcome = store.put_if_absent(name, body)
        if outcome is PutOutcome.WRITTEN:
            return body
        if outcome is PutOutcome.NOT_DURABLE:
            raise StorageError(
                f"{name} is visible, but could not be synced to disk, so a power cut may remove it. Run it again",
                path=name,
            )
        try:
            found = store.read(name)
            store.make_durable(name)  # its writer may have died before the sync
        except NotFoundError:
            if pacing.pause():
                continue
            raise StorageError(
                f"{name} could not be written: the store gave no definite answer to {pacing.attempts} puts, and the"
                " object is not there. Run it again",
                path=name,
            ) from None
        return found
