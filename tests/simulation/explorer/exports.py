"""What Iceberg readers see of a story's table, compared with the replay of its log when a metadata file appears.

In: the folder of the Iceberg metadata after every step, and the state of the table at each version. Out: nothing, or
`InvariantBroken`. A metadata file shows versions as they are in the log, names nothing that is missing or that a power
cut would remove, and continues the one before it. Metadata that readers may just have opened keeps all its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from explorer.versions import InvariantBroken, State
from txlog.core.format.actions import Metadata
from txlog.errors import IcebergExportError
from txlog.iceberg.exporter import place_of
from txlog.iceberg.live_files import SeenFile, live_files
from txlog.iceberg.metadata.file_encoder import location_of
from txlog.iceberg.metadata.manifest import DELETES, file_paths
from txlog.iceberg.metadata.manifest_list import ManifestFile, read_manifest_list
from txlog.iceberg.metadata.names import HINT, metadata_name, metadata_number
from txlog.iceberg.metadata.table_metadata import Exported, parsed
from txlog.iceberg.metadata_folder import MetadataFolder
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

__all__ = ["ExportHistory"]

_PLACE = place_of("memory://table")
_GRACE_MS = 3_600_000  # how long metadata can still be read after it was the newest


class ExportHistory:
    """``versions`` maps the number of each metadata file to its Delta version; None if another library wrote it."""

    def __init__(self, store: MemoryLogStore, files: MemoryFileStore, *, syncs: bool) -> None:
        self.versions: dict[int, int | None] = {}
        self._store = store
        self._files = files
        self._syncs = syncs
        self._seen: dict[str, bytes] = {}
        self._right: set[tuple[str, int]] = set()
        self._gone: set[int] = set()

    def copy(self, store: MemoryLogStore, files: MemoryFileStore) -> ExportHistory:
        copied = ExportHistory(store, files, syncs=self._syncs)
        copied.versions, copied._seen, copied._right = dict(self.versions), dict(self._seen), set(self._right)
        copied._gone = set(self._gone)
        return copied

    @property
    def newest_is_foreign(self) -> bool:
        return self.versions[max(self.versions)] is None

    def observe(self, states: Mapping[int, State]) -> None:
        """Check the folder: new files against the ``states`` of the table, known files for changes."""
        objects = self._store.objects
        new = []
        for name, (body, _) in objects.items():
            if self._seen.get(name) is body:
                continue
            number = metadata_number(name)
            if number is not None and self._seen.get(name, body) != body:
                raise InvariantBroken("metadata files are immutable", f"the bytes of {name} changed")
            self._seen[name] = body
            if name == HINT:
                self._require_hinted(body)
            elif number is not None:
                new.append(number)
        for number in sorted(set(new) - self._gone):  # no reader sees files below those that were cleaned up
            self._appears(number, states)
        if len(self._seen) > len(objects):
            self._gone.update(filter(None, map(metadata_number, self._seen.keys() - objects.keys())))
            self._seen = {name: body for name, body in self._seen.items() if name in objects}
            self._require_readable()

    def power_was_cut(self, states: Mapping[int, State]) -> None:
        """Check what a power cut left of the folder against what it left of the table."""
        self.versions, self._seen, self._right, self._gone = {}, {}, set(), set()
        self.observe(states)

    def require_newest_is_hinted(self) -> None:
        """Raise unless readers that use only the hint see the newest metadata."""
        hinted = int(self._store.objects[HINT][0])
        if hinted != max(self.versions):
            raise InvariantBroken("the hint names the newest metadata", f"it names {hinted} of {sorted(self.versions)}")

    def require(self, version: int, exporter: str) -> None:
        """Raise unless Iceberg readers see ``version`` or a newer one, also after a power cut."""
        known = {number: found for number, found in self.versions.items() if found is not None and found >= version}
        names = self._store.durable if self._syncs else self._store.objects
        if not any(metadata_name(number) in names for number in known):
            raise InvariantBroken("what was exported is there", f"{exporter} got v{version} acknowledged as exported")

    # --- metadata files ---------------------------------------------------------------------------------------

    def _appears(self, number: int, states: Mapping[int, State]) -> None:
        name = metadata_name(number)
        try:
            document = _document(self._store.objects[name][0])
        except IcebergExportError:
            self.versions[number] = None
            return
        exported = Exported(number, document, ())
        version = self.versions[number] = exported.version
        before = self.versions.get(number - 1, -1)
        if before is None and len(document["snapshots"]) > 1:
            raise InvariantBroken("nothing is made of another library's metadata", f"{name} continues from it")
        if before is not None and before > version:
            raise InvariantBroken("Iceberg readers never go back", f"{name} shows v{version}, the one before v{before}")
        if version not in states:
            raise InvariantBroken("exports show what is in the log", f"{name} shows v{version}, which is not there")
        for at in self._needed(document):
            if at not in self._store.objects or (self._syncs and at not in self._store.durable):
                raise InvariantBroken("metadata names what is on disk", f"{name} names {at}")
        for snapshot in document["snapshots"]:
            self._require_right(name, exported, snapshot, states)

    def _require_right(self, name: str, exported: Exported, snapshot: Any, states: Mapping[int, State]) -> None:
        """Check that a snapshot has the files of its version, with the right number of deleted rows. Checked once."""
        version, listed = int(snapshot["summary"]["delta-version"]), snapshot["manifest-list"]
        if (listed, version) in self._right:
            return
        state = states.get(version)
        if state is None:
            raise InvariantBroken("exports show what is in the log", f"{name} has v{version}, which is not there")
        shown = Exported(exported.number, exported.document, self._manifests(listed))
        metadata = Metadata.from_json(state.metadata)
        seen = live_files(MetadataFolder(self._store, _PLACE), shown, metadata)
        vectors = {path: add.get("deletionVector") for path, add in state.live.items()}
        live = {
            location_of(path, _PLACE.root): SeenFile(vector["cardinality"] if vector else 0)
            for path, vector in vectors.items()
        }
        if seen != live:
            raise InvariantBroken("exports show what is in the log", f"{name} has {seen} at v{version}, not {live}")
        self._right.add((listed, version))

    def _require_hinted(self, body: bytes) -> None:
        """An exporter that slept while others cleaned up may put an old hint. It corrects it with its next step."""
        number = int(body)
        if number not in self._gone and metadata_name(number) not in self._store.objects:
            raise InvariantBroken("the hint names a file that is there", f"it names {int(body)}")

    # --- clean-up ---------------------------------------------------------------------------------------------

    def _require_readable(self) -> None:
        """A reader that opened the newest metadata file, now or within the last hour, finds everything that it
        names."""
        objects = self._store.objects
        numbers = sorted(number for number, version in self.versions.items() if version is not None)
        now_ms = max((modified_ms for _, modified_ms in objects.values()), default=0)
        for number in numbers:
            after = objects.get(metadata_name(number + 1))
            if after is not None and now_ms - after[1] >= _GRACE_MS:
                continue
            name = metadata_name(number)
            if name not in objects:
                if number == numbers[-1]:
                    raise InvariantBroken("clean-up keeps what readers need", f"{name}, the newest, was deleted")
                continue
            document = _document(objects[name][0])
            for at in self._needed(document):
                if at not in objects:
                    raise InvariantBroken("clean-up keeps what readers need", f"{name} names {at}, which was deleted")
        if HINT in objects:
            self._require_hinted(objects[HINT][0])

    def _needed(self, document: Mapping[str, Any]) -> Iterator[str]:
        """The names of everything reachable from the snapshots of a metadata file, as far as it exists."""
        for snapshot in document["snapshots"]:
            listed = _name(snapshot["manifest-list"])
            yield listed
            if listed not in self._store.objects:
                continue
            for manifest in self._manifests(snapshot["manifest-list"]):
                yield _name(manifest.path)
                if manifest.content == DELETES and manifest.live_files and _name(manifest.path) in self._store.objects:
                    body = self._store.objects[_name(manifest.path)][0]
                    yield from map(_name, file_paths(body, manifest.path))

    def _manifests(self, listed: str) -> tuple[ManifestFile, ...]:
        found = self._store.objects.get(_name(listed))
        if found is None:
            raise InvariantBroken("metadata names what is on disk", f"{listed} is not there")
        return _read_list(found[0], listed)


@lru_cache(maxsize=1024)  # an explorer sees the same metadata again and again
def _document(body: bytes) -> dict[str, Any]:
    return parsed(body, "")


@lru_cache(maxsize=1024)
def _read_list(body: bytes, path: str) -> tuple[ManifestFile, ...]:
    return read_manifest_list(body, path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
