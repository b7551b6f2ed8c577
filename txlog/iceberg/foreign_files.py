"""Which files another program's Iceberg table has, and which of their rows are deleted: read from its metadata.

In: the store of the table's folder. Out: the table's definition, its data files, and the deletes that apply to them.
Iceberg's specification, "Manifest Lists", "Manifests", "Scan Planning", "Position Delete Files", "Deletion Vectors".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from txlog.core.format.paths import DataPath, is_location, stored_path
from txlog.core.store import TableFiles
from txlog.core.util import pattern
from txlog.core.wording import argument
from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.iceberg.metadata.avro import AvroError, read_container, reader_of
from txlog.iceberg.metadata.foreign import ForeignTable, foreign_table

_FOLDER = "metadata"
_NAME = pattern(r"(?:[^/]*\.)?metadata\.json(?:\.gz)?")
_NUMBERED = pattern(r"(?:v(\d+)|(\d+)-[^/]*)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_OTHER = pattern(r"version-hint\.text|snap-[^/]*\.avro")
_HINT = "version-hint.text"
_ABSOLUTE = pattern(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)")
_DATA, _POSITIONS, _EQUALITY = 0, 1, 2
_REMOVED = 2
_METADATA_BYTES_MAX = 1 << 30


class ForeignFile(msgspec.Struct, frozen=True):
    """A live data file. ``path`` is the store's, ``name`` as the metadata writes it. ``partition`` has the values of
    its partition by the ids of the fields in spec ``spec_id``: their names are not always Avro's."""

    path: str
    name: str
    size_bytes: int
    rows: int
    partition: Mapping[int, Any]
    spec_id: int
    sequence: int


class Deletes(msgspec.Struct, frozen=True):
    """A file that lists deleted rows by position. ``offset`` and ``size_bytes`` are those of a deletion vector in it,
    of the data file that is named ``of``; None if it is a Parquet file."""

    path: str
    sequence: int
    of: str | None = None
    offset: int | None = None
    size_bytes: int | None = None


class ForeignFiles(msgspec.Struct, frozen=True):
    """What the current snapshot has."""

    table: ForeignTable
    files: tuple[ForeignFile, ...]
    deletes: tuple[Deletes, ...]


def has_iceberg_metadata(store: TableFiles) -> bool:
    """Whether the folder has files of Iceberg where its writers put them. Raises StorageError."""
    return any(_NAME.fullmatch(name) or _OTHER.fullmatch(name) for name in _names(store))


def read_foreign(store: TableFiles, metadata: str | None = None) -> ForeignFiles:
    """Read the table of a metadata file, by its path below the folder or in full; None: of the newest one.

    Raises InvalidInputError if it is not clear which is the newest, or if a file is damaged; UnsupportedFeatureError
    naming a file that Delta cannot have; NotFoundError, StorageError.
    """
    path = _newest(store) if metadata is None else _absolute(store.uri, metadata)
    document = _document(store, path)
    try:
        table = foreign_table(document)
    except (InvalidInputError, UnsupportedFeatureError) as error:
        error.table, error.path = store.uri, path
        raise
    places = _Places(store.uri, table.location, path)
    files: list[ForeignFile] = []
    deletes: list[Deletes] = []
    for manifest in _records(store, places.of(table.manifest_list)) if table.manifest_list else ():
        for entry in _records(store, places.of(str(manifest["manifest_path"]))):
            if entry["status"] != _REMOVED:
                _take(store.uri, places, manifest, entry, files, deletes)
    for file in files:
        spec = table.identity.get(file.spec_id)
        if spec is None or not file.partition.keys() >= {*spec.values()}:
            raise InvalidInputError(
                f"the Iceberg metadata has no values of partition spec {file.spec_id} for {file.path}: it is damaged",
                table=store.uri,
                path=file.path,
            )
    return ForeignFiles(table, tuple(files), tuple(deletes))


def _names(store: TableFiles) -> Iterator[str]:
    for page in store.files.list(_FOLDER):
        for each in page:
            yield each.name.removeprefix(f"{_FOLDER}/")


def _newest(store: TableFiles) -> str:
    """The metadata file with the highest number. If one has none, they say themselves which of them is the newest."""
    names = sorted(name for name in _names(store) if _NAME.fullmatch(name))
    if not names:
        raise InvalidInputError(
            f"there are files of Iceberg in the folder {_FOLDER}/, and no *.metadata.json that says which data files"
            f" are the table's: pass its path as {argument('iceberg_metadata')}",
            table=store.uri,
        )
    numbers = {name: int(found[1] or found[2]) for name in names if (found := _NUMBERED.fullmatch(name))}
    highest = [name for name, number in numbers.items() if number == max(numbers.values())]
    others = [name for name in names if name not in numbers]
    if others:
        return f"{_FOLDER}/{_last_of(store, [*highest, *others])}"
    if len(highest) > 1:
        raise _unclear(store, highest)
    return f"{_FOLDER}/{highest[0]}"


def _last_of(store: TableFiles, names: Sequence[str]) -> str:
    """The metadata file that all the others come before."""
    documents = {name: _document(store, f"{_FOLDER}/{name}") for name in names}
    try:
        lasts = [
            name
            for name, document in documents.items()
            if all(_is_before(other, documents[other], document) for other in names)
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        lasts = []
    if not lasts and (hinted := _hinted(store)) in names:
        return str(hinted)
    if not lasts:
        raise _unclear(store, names)
    return lasts[0]  # several are copies of one


def _is_before(name: str, document: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    """Whether a metadata file, or a copy of it, is among those that the later one was made from."""
    if document == later:
        return True
    if document.get("table-uuid") != later.get("table-uuid") or document["last-updated-ms"] > later["last-updated-ms"]:
        return False
    if any(str(each["metadata-file"]).endswith(f"/{name}") for each in later.get("metadata-log") or ()):
        return True
    parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in later.get("snapshots") or ()}
    current, wanted = later.get("current-snapshot-id"), document.get("current-snapshot-id")
    while current != wanted and current in parents:
        current = parents.pop(current)
    return current == wanted and wanted != later.get("current-snapshot-id")


def _hinted(store: TableFiles) -> str | None:
    """The name that the hint of Iceberg's tables without a catalog means."""
    try:
        hint = _read(store, f"{_FOLDER}/{_HINT}").decode(errors="replace").strip()
    except NotFoundError:
        return None
    there = {*_names(store)}
    return next((name for name in (f"v{hint}.metadata.json", f"{hint}.metadata.json") if name in there), hint)


def _unclear(store: TableFiles, names: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"it is not clear which of {' and '.join(f'{_FOLDER}/{name}' for name in names)} is current: a catalog knows,"
        f" so pass its path as {argument('iceberg_metadata')}",
        table=store.uri,
    )


def _document(store: TableFiles, path: str) -> dict[str, Any]:
    try:
        document = orjson.loads(_inflated(_read(store, path)))
        if isinstance(document, dict):
            return document
        problem = "it is not a JSON object"
    except (ValueError, zlib.error) as error:
        problem = str(error)
    raise InvalidInputError(f"{path} is not Iceberg metadata: {problem}", table=store.uri, path=path)


def _inflated(body: bytes) -> bytes:
    if body[:2] != b"\x1f\x8b":
        return body
    stream = zlib.decompressobj(31)
    return stream.decompress(body, _METADATA_BYTES_MAX)


class _Places:
    """Where the files are that the metadata names: if the table was moved, where its metadata is now."""

    def __init__(self, uri: str, location: str, metadata: str) -> None:
        """``location`` is the table's according to its metadata, ``metadata`` the store's path of that file."""
        self._uri = uri
        location = _from_here(location)
        above = "" if is_location(metadata) else metadata.rpartition("/")[0].rpartition("/")[0]
        # Below the folder too, as our own exports, whose data files are next to their metadata.
        is_below = above and location.endswith(f"/{above}")
        self._location = location[: -len(above) - 1] if is_below else location
        self._folder = f"{above}/" if above and not is_below else ""

    def of(self, name: str) -> str:
        """A path in the metadata, which is not escaped, as the store takes it."""
        name = _from_here(name)
        if self._location and name.startswith(f"{self._location}/"):
            return self._folder + name[len(self._location) + 1 :]
        return _absolute(self._uri, name)


def _from_here(name: str) -> str:
    """A path without the ``./`` that some writers begin it with; the folder itself is empty."""
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return "" if name == "." else name


def _absolute(uri: str, name: str) -> str:
    found = _ABSOLUTE.fullmatch(name)
    if found:
        return stored_path(uri, DataPath(found[3], found[1].lower(), found[2] or ""))
    return stored_path(uri, DataPath(name))


def _read(store: TableFiles, path: str) -> bytes:
    try:
        with store.files.open(path) as source:
            body: bytes = source.read()
    except (FileNotFoundError, NotFoundError):
        raise NotFoundError(
            f"the Iceberg metadata names {path}, which is missing", table=store.uri, path=path
        ) from None
    return body


def _records(store: TableFiles, path: str) -> Iterator[dict[str, Any]]:
    """The records of a manifest or a list of manifests."""
    try:
        container = read_container(_read(store, path))
        read = reader_of(_with_ids_of_partitions(orjson.loads(container.header["avro.schema"])))
        for count, block in container.blocks:
            at = 0
            for _ in range(count):
                record, at = read(block, at)
                yield record
    except (AvroError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path} is damaged: {error}", table=store.uri, path=path) from None


def _with_ids_of_partitions(schema: Any) -> Any:
    """The schema of a manifest, where each field of the record ``partition`` has its id instead of its name."""
    if not isinstance(schema, Mapping) or schema["type"] != "record":
        return schema
    fields = []
    for field in schema["fields"]:
        data_type = _with_ids_of_partitions(field["type"])
        if field["name"] == "partition":
            data_type = {**data_type, "fields": [{**each, "name": each["field-id"]} for each in data_type["fields"]]}
        fields.append({**field, "type": data_type})
    return {**schema, "fields": fields}


def _take(
    uri: str,
    places: _Places,
    manifest: Mapping[str, Any],
    entry: Mapping[str, Any],
    files: list[ForeignFile],
    deletes: list[Deletes],
) -> None:
    file = entry["data_file"]
    content, name = file.get("content") or _DATA, str(file["file_path"])
    path = places.of(name)
    sequence = entry.get("sequence_number")
    if sequence is None:  # inherited
        sequence = manifest.get("sequence_number") or 0
    kind = str(file["file_format"]).upper()
    if content == _EQUALITY:
        raise UnsupportedFeatureError(
            f"{name} deletes rows by their values, which Delta does not have: compact the table in Iceberg first, with"
            " rewrite_data_files",
            features=("Iceberg equality deletes",),
            table=uri,
            path=path,
        )
    if kind != "PARQUET" and not (content == _POSITIONS and kind == "PUFFIN"):
        raise UnsupportedFeatureError(
            f"{name} is a file of the format {kind}, and Delta's are Parquet: compact the table in Iceberg first",
            features=(f"Iceberg files in {kind}",),
            table=uri,
            path=path,
        )
    if content == _POSITIONS:
        of = file.get("referenced_data_file")
        deletes.append(Deletes(path, sequence, of, file.get("content_offset"), file.get("content_size_in_bytes")))
        return
    spec_id = int(manifest.get("partition_spec_id") or 0)
    rows, size_bytes = int(file["record_count"]), int(file["file_size_in_bytes"])
    files.append(ForeignFile(path, name, size_bytes, rows, file["partition"], spec_id, sequence))
