"""The metadata folder of one table: finds and reads its newest metadata file, and publishes the next one.

In: files to put, and metadata to publish. Out: the newest published metadata. ``vN.metadata.json`` is put only if it is
absent: this put commits the export. The files that it names are put first, under names derived from their content.
``version-hint.text`` follows the commit and may lag behind. Thread-safe if each thread has its own object. Iceberg
spec, "File System Tables".
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import NamedTuple

from txlog.core import ambient
from txlog.core.parallel import parallel_map
from txlog.core.store import LogStore, write_once
from txlog.core.util import logger
from txlog.errors import IcebergExportError, NotFoundError, StorageError
from txlog.iceberg.metadata.manifest_list import ManifestFile, read_manifest_list
from txlog.iceberg.metadata.names import HINT, NewFile, content_version, metadata_name, metadata_number
from txlog.iceberg.metadata.table_metadata import Exported, MetadataPlace, current_snapshot, encoded, parsed

_PUTS_AT_ONCE = 8
_KEPT_BYTES = 32 << 20
"""Manifests kept in memory: small ones are read again soon, to be merged."""
_TRUSTED_S = 600.0
"""How long a search may start at the newest known number. No cleanup deletes a file that was the newest so recently:
the number after a known one is free only if no exporter has put it yet."""


class MetadataFile(NamedTuple):
    """One ``vN.metadata.json``: N and its bytes."""

    number: int
    body: bytes


class MetadataFolder:
    """One table's metadata folder, as one exporter sees it."""

    def __init__(self, store: LogStore, place: MetadataPlace) -> None:
        self.store = store
        self.place = place
        self._known: tuple[MetadataFile, ambient.Instant] | None = None
        self._hinted = 0
        self._durable = 0
        self._exported: Exported | None = None
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._bodies_bytes = 0

    # --- reading ---------------------------------------------------------------------------------------------

    def newest(self) -> MetadataFile | None:
        """The metadata file with the highest number; None if there is none. Raises StorageError."""
        asked = ambient.instant()
        found = self._trusted() or self._start()
        while (after := self._read_number((found.number if found else 0) + 1)) is not None:
            found = after
        if found is not None:
            self._known = (found, asked)
        return found

    def is_newer(self, file: MetadataFile, version: int) -> bool:
        """Whether txlog wrote this metadata file for a newer version than ``version``."""
        try:
            return Exported(file.number, parsed(file.body, metadata_name(file.number)), ()).version > version
        except IcebergExportError:
            return False

    def exported(self, file: MetadataFile) -> Exported:
        """The content of a metadata file. Raises IcebergExportError if txlog did not write it, StorageError."""
        known = self._exported
        if known is not None and known.number == file.number and self._known is not None and self._known[0] == file:
            return known
        path = metadata_name(file.number)
        document = parsed(file.body, path)
        snapshot = current_snapshot(document)
        manifests: tuple[ManifestFile, ...] = ()
        if snapshot is not None and document["location"] == self.place.location:
            listed = snapshot["manifest-list"]
            manifests = read_manifest_list(self.read_content(listed), listed)
        self._exported = Exported(file.number, document, manifests)
        return self._exported

    def read_content(self, path: str) -> bytes:
        """The bytes of a manifest or a list, by its absolute path.

        Raises IcebergExportError if the path leads elsewhere or nowhere, StorageError.
        """
        base, _, name = path.rpartition("/")
        if base != self.place.base or content_version(name) is None:
            raise IcebergExportError(
                "the Iceberg metadata names a file that txlog did not write. Export the table again with rebuild=True",
                path=path,
            )
        body = self._bodies.get(name)
        if body is None:
            try:
                body = self.store.read(name)
            except NotFoundError:
                raise IcebergExportError(
                    "a file of the Iceberg metadata is missing. Export the table again with rebuild=True", path=path
                ) from None
            self._keep(name, body)
        return body

    def _trusted(self) -> MetadataFile | None:
        """The newest known file, if it was the newest recently and still exists: the folder may have been removed."""
        if self._known is None or ambient.age_s(self._known[1]) > _TRUSTED_S:
            return None
        known = self._known[0]
        try:
            if self.store.stat(metadata_name(known.number)).size == len(known.body):
                return known
        except NotFoundError:
            pass
        self._known = self._exported = None
        self._durable = 0
        self._bodies.clear()
        self._bodies_bytes = 0
        return None

    def _start(self) -> MetadataFile | None:
        """Where to start looking: the number in the hint, or else the highest number in a listing."""
        try:
            self._hinted = number = int(self.store.read(HINT).decode())
        except (NotFoundError, ValueError):
            self._hinted = number = 0
        found = self._read_number(number) if number > 0 else None
        if found is None:
            found = self._read_number(self._newest_listed())
        return found

    def _newest_listed(self) -> int:
        return max((metadata_number(meta.name) or 0 for meta in self.store.list_from("v")), default=0)

    def _read_number(self, number: int) -> MetadataFile | None:
        if number < 1:
            return None
        try:
            return MetadataFile(number, self.store.read(metadata_name(number)))
        except NotFoundError:
            return None

    def _keep(self, name: str, body: bytes) -> None:
        if name in self._bodies:
            return
        self._bodies[name] = body
        self._bodies_bytes += len(body)
        while self._bodies_bytes > _KEPT_BYTES:
            _, dropped = self._bodies.popitem(last=False)
            self._bodies_bytes -= len(dropped)

    # --- writing ---------------------------------------------------------------------------------------------

    def put_content(self, files: Sequence[NewFile]) -> None:
        """Put files named after their content. If a file exists, it is the same. Raises StorageError."""
        if self.store.capabilities.has_cheap_calls:
            deque(map(self._put_content, files), maxlen=0)
        else:
            deque(parallel_map(self._put_content, files, threads=_PUTS_AT_ONCE), maxlen=0)
        for file in files:
            self._keep(*file)

    def _put_content(self, file: NewFile) -> None:
        if not self._put(file.name, file.body):
            raise StorageError("a file with this name exists and has other content", path=file.name)

    def make_durable(self, file: MetadataFile) -> None:
        """Sync a metadata file that another exporter put and may not have synced; call this before anything depends on
        it.

        Raises StorageError.
        """
        if self._durable < file.number and self.store.capabilities.needs_sync:
            self.store.make_durable(metadata_name(file.number))
            self._durable = file.number

    def publish(self, exported: Exported, began: ambient.Instant) -> bool:
        """Put a metadata file. False if another exporter has put another file with this number, or newer files.

        The same bytes count as put, whether from another exporter or from an earlier attempt whose answer was lost.
        ``began`` is when the caller looked for the newest metadata. If that was long ago, a number that was free then
        may have been taken and cleaned up since: readers would not see a file below newer metadata files. Raises
        StorageError.
        """
        asked = ambient.instant()
        file = MetadataFile(exported.number, encoded(exported.document))
        if not self._put(metadata_name(file.number), file.body):
            return False
        if ambient.age_s(began) > _TRUSTED_S and self._newest_listed() > file.number:
            self._known = None
            return False
        self._known, self._exported, self._durable = (file, asked), exported, file.number
        return True

    def hint(self, number: int) -> None:
        """Make the hint name the newest number, if it may name an older one.

        Some readers trust the hint alone. This corrects a hint that lags because an exporter ended before it put the
        hint, or was overtaken. It looks for newer metadata before the put too: if two exporters end at the same time,
        the slower one would undo the other's hint for a moment. No store replaces a file only if it is older.
        """
        if number <= self._hinted:
            return
        began = ambient.instant()
        try:
            found = self._last_from(number)
            while found != self._hinted:
                self.store.put(HINT, str(found).encode())
                self._hinted, found = found, self._last_from(found)
            if ambient.age_s(began) > _TRUSTED_S and (newest := self._newest_listed()) > found:
                self.store.put(HINT, str(newest).encode())
                self._hinted = newest  # the files in between were cleaned up while this process was suspended
        except StorageError as error:
            logger.warning("%s: the hint does not name v%d, the metadata is safe: %s", self.place.base, number, error)

    def _last_from(self, number: int) -> int:
        """The last taken number, counting on from a taken one."""
        try:
            while self.store.stat(metadata_name(number + 1)):
                number += 1
        except NotFoundError:
            pass
        return number

    def _put(self, name: str, body: bytes) -> bool:
        """Put a new file, and make sure that it is there and durable. False if the name holds other bytes."""
        return write_once(self.store, name, body) == body
