"""Keeps the manifests of a table for readers without Delta, such as Presto, Athena and Redshift Spectrum.

In: the state after each commit of a handle. Out: the files that ``core.versions.decisions.symlink_manifests`` says, of
the partitions that the commit changed. The call that commits ends when they are written. A note in the table's folder
says which version they show, so that the next commit writes again what a killed writer or another engine left undone.
Each manifest is replaced as a whole; several are not replaced at one moment.
"""

from __future__ import annotations

import msgspec

from txlog.core.format.actions import AddFile, Metadata, RemoveFile
from txlog.core.parallel import do_all, new_lock
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.decisions.symlink_manifests import FOLDER, NAME, NOTE, Partition, manifests_of, partition_of
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError

_AT_ONCE = 8


class _Note(msgspec.Struct, frozen=True):
    """The version that all manifests show, of the table of this id."""

    table: str
    version: int


class SymlinkManifests:
    """The manifests of one table, as one handle keeps them. Thread-safe."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._lock = new_lock()

    def after(self, state: TableState) -> None:
        """Make the manifests show ``state``, or a newer version.

        A slower writer of an older version may have been between this one's commit and its manifests, so whoever
        writes manifests looks for newer versions afterwards. Raises ``UnsupportedFeatureError``, ``StorageError``.
        """
        with self._lock:
            while state.properties.symlink_manifests:
                shown = self._noted(state)
                if shown is not None and shown > state.version:
                    state = self._log.newest_state()
                self._show(state, shown)
                newest = self._log.newest_state()
                if newest.version <= state.version:
                    return
                state = newest

    def write_all(self, state: TableState) -> int:
        """Write the manifest of every partition, and delete all others. Returns how many there are."""
        with self._lock:
            return self._show(state, None)

    def _show(self, state: TableState, shown: int | None) -> int:
        """``shown``: the version that the manifests show; None if that is unknown."""
        touched = None if shown is None or shown > state.version else self._touched(shown, state)
        if touched is not None and not touched:
            return 0
        found = manifests_of(self._log.uri, state, self._log.files(state), touched)
        files = self._log.store.files
        gone = found.gone
        if touched is None:
            there = (meta.name for page in files.list(FOLDER) for meta in page)
            gone = [name for name in there if name.endswith(f"/{NAME}") and name not in found.texts]
        do_all(lambda each: files.replace(each[0], each[1].encode()), found.texts.items(), threads=_AT_ONCE)
        files.delete_many(gone)
        files.replace(NOTE, msgspec.json.encode(_Note(state.metadata.id, state.version)))
        return len(found.texts)

    def _touched(self, shown: int, state: TableState) -> set[Partition] | None:
        """The partitions with other files than ``shown`` had; None for all."""
        found: set[Partition] = set()
        try:
            for commit in self._log.commits_between(shown + 1, state.version):
                for action in commit.actions:
                    if isinstance(action, Metadata):
                        return None
                    if isinstance(action, AddFile | RemoveFile):
                        if action.partition_values is None:
                            return None
                        found.add(partition_of(action.partition_values, state))
        except NotFoundError:  # cleaned up
            return None
        return found

    def _noted(self, state: TableState) -> int | None:
        """The version that the manifests show; None if it is unknown, as of another table that was here."""
        try:
            note = msgspec.json.decode(self._log.store.files.read_from(NOTE, 0), type=_Note)
        except (NotFoundError, msgspec.DecodeError):
            return None
        return note.version if note.table == state.metadata.id else None
