"""Updates a catalog's entry to a table's newest metadata, and waits for the catalog only for a bounded time.

In: the name of an entry, the metadata file just exported, and the metadata folder. Out: an entry that names the
folder's newest metadata file. A separate thread asks the catalog, and ends with the process, because catalog clients
may wait forever for an answer.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from functools import partial

from txlog.core import ambient
from txlog.core.parallel import new_lock
from txlog.errors import StorageError
from txlog.iceberg.catalog import import_client, move_entry
from txlog.iceberg.metadata.names import metadata_name
from txlog.iceberg.metadata_folder import MetadataFolder

ANSWER_S = 30.0
"""How long an export, and the end of a process, wait for a catalog."""
_MOVES_MAX = 10

_lock = new_lock()
_moves: dict[str, _Move] = {}


def follow(entry: str, location: str, folder: MetadataFolder) -> None:
    """Update the entry to this metadata file, or to a newer one in the folder. One thread per entry at a time.

    Args:
        entry: ``catalog.namespace.table``.
        location: The URI of the metadata file that an export has put.
        folder: The metadata folder, in an object used only here: the thread may outlive the call.

    Raises:
        InvalidInputError, IcebergExportError: What `move_entry` raises.
        StorageError: The catalog refuses, or does not answer in time.
    """
    import_client(entry)
    while True:
        with _lock:
            running = _moves.get(entry)
            is_ours = running is None or not running.thread.is_alive()
            if is_ours:
                running = _moves[entry] = _Move(entry, location, folder)
                running.begin()
        assert running is not None, "an entry without a thread gets one"
        if running.thread.is_alive():
            running.thread.join(max(0.0, running.ends_s - ambient.monotonic_s()))
        if running.thread.is_alive():
            raise StorageError(
                f"the Iceberg catalog {entry.partition('.')[0]!r} has not answered for {ANSWER_S:g} s, so its entry"
                f" {entry} stays as it was. The table's metadata is safe at {location}, where readers without the"
                " catalog see it. Once the catalog answers, the next export updates the entry, or now `txlog iceberg"
                f" URI --register {entry}`"
            )
        if is_ours:
            with _lock:
                if _moves.get(entry) is running:
                    del _moves[entry]
            if running.error is not None:
                raise running.error
            return


class _Move:
    """One move of an entry, and its thread."""

    def __init__(self, entry: str, location: str, folder: MetadataFolder) -> None:
        self.ends_s = ambient.monotonic_s() + ANSWER_S
        self.error: Exception | None = None
        self._move: Callable[[], None] = partial(
            contextvars.copy_context().run, _move_to_newest, entry, location, folder
        )
        self.thread = threading.Thread(target=self._run, name="txlog-iceberg-catalog", daemon=True)

    def begin(self) -> None:
        try:
            self.thread.start()
        except RuntimeError:  # the interpreter is about to end, and starts no thread
            self._run()

    def _run(self) -> None:
        try:
            self._move()
        except Exception as error:
            self.error = error  # raised by the thread that waits


def _move_to_newest(entry: str, location: str, folder: MetadataFolder) -> None:
    """Move the entry until it names the newest metadata file.

    Most catalogs cannot compare and set an entry in one step. If two exporters race, the one that read the entry first
    may set it last, to the older file. So each looks for a newer file afterwards, and the last one sets the newest.
    """
    for _ in range(_MOVES_MAX):
        if not move_entry(entry, location):
            return
        newest = folder.newest()
        if newest is None:
            return
        folder.exported(newest)  # raises if an Iceberg writer made it
        now = f"{folder.place.base}/{metadata_name(newest.number)}"
        if now == location:
            return
        location = now
