"""Manifests: Avro files that list data files or delete files with their partition, row count and bounds.

In: entries as bytes, which do not change while a file lives. Out: the bytes of a manifest and its ``ManifestFile`` for
the manifest list; or the entries of a manifest, without decoding what is only copied. For this, a manifest's header
holds the length of each entry. Iceberg spec, "Manifests".
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from txlog.core.util import cached_property
from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.avro import (
    NULL,
    SOME,
    AvroError,
    Block,
    Container,
    encode_bytes,
    encode_long,
    read_container,
    reader_of,
    write_container,
)
from txlog.iceberg.metadata.definition import IcebergDefinition, PartitionField
from txlog.iceberg.metadata.manifest_list import ManifestFile, PartitionSummary
from txlog.iceberg.metadata.names import NewFile, content_name
from txlog.iceberg.metadata.values import avro_type

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, DELETES = 0, 1

_DELETED_BYTE = encode_long(DELETED)[0]
_LENGTHS = "txlog.lengths-of-entries"
"""Each change of the entries' fields takes another name. Manifests with an unknown name are not read: what they hold is
exported again."""
_LENGTHS_WITHOUT_SIZES = "txlog.entry-lengths"
"""The name in manifests whose entries lack the field ``column_sizes``; they are read as if they had an empty one."""
NO_SIZES = SOME + encode_long(0)
"""The sizes of columns, which Delta does not record. Null is allowed too, but PyIceberg's ``entries`` fails on it."""
_READ_LONG, _READ_STRING = reader_of("long"), reader_of("string")


class Entry(NamedTuple):
    """One entry: a file, when it was added or removed, and the file's part of the entry as Avro bytes (``data_file``).

    ``path`` is the data file's path, or for a delete file, the path of the data file whose rows it deletes.
    ``size_bytes`` of a deletion vector is the size of its part of the Puffin file.
    """

    status: int
    snapshot_id: int
    sequence_number: int
    path: str
    rows: int
    size_bytes: int
    data_file: bytes

    def encoded(self) -> bytes:
        """Writes sequence numbers instead of inheriting them: a file's data and its entry have the same number."""
        return entry_start(self.status, self.snapshot_id, self.sequence_number) + self.data_file


@functools.lru_cache(1024)  # the entries of one commit share it
def entry_start(status: int, snapshot_id: int, sequence_number: int) -> bytes:
    """The bytes before the ``data_file`` of an entry."""
    sequence = SOME + encode_long(sequence_number)
    return b"".join((encode_long(status), SOME, encode_long(snapshot_id), sequence, sequence))


def _field(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


def _optional(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _by_column(key_id: int, value_id: int, kind: str) -> dict[str, Any]:
    pair = [_field("key", "int", key_id), _field("value", kind, value_id)]
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": pair},
    }


def _avro_name(name: str) -> str:
    """A name that Avro allows, as Iceberg's Java library makes it."""
    return "".join(_avro_character(at, character) for at, character in enumerate(name)) or "_"


def _avro_character(at: int, character: str) -> str:
    if character.isascii() and (character.isalpha() or character == "_" or (at and character.isdigit())):
        return character
    return f"_{character}" if character.isascii() and character.isdigit() else f"_x{ord(character):X}"


def entry_schema(partition: Sequence[PartitionField], format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest's entries."""
    partition_fields: list[dict[str, Any]] = []
    named: set[str] = set()
    for field in partition:
        kind = avro_type(field.type)
        if isinstance(kind, dict) and "name" in kind:  # Avro allows a name twice, PyIceberg does not
            if kind["name"] in named:
                kind = {**kind, "name": f"{kind['name']}_{field.field_id}"}
            named.add(kind["name"])
        partition_fields.append(_optional(_avro_name(field.name), kind, field.field_id))
    is_v3 = format_version >= 3
    data_file = [
        _field("content", "int", 134),
        _field("file_path", "string", 100),
        _field("file_format", "string", 101),
        _field("partition", {"type": "record", "name": "r102", "fields": partition_fields}, 102),
        _field("record_count", "long", 103),
        _field("file_size_in_bytes", "long", 104),
        _optional("column_sizes", _by_column(117, 118, "long"), 108),
        _optional("value_counts", _by_column(119, 120, "long"), 109),
        _optional("null_value_counts", _by_column(121, 122, "long"), 110),
        _optional("lower_bounds", _by_column(126, 127, "bytes"), 125),
        _optional("upper_bounds", _by_column(129, 130, "bytes"), 128),
        _optional("sort_order_id", "int", 140),
        *([_optional("first_row_id", "long", 142)] if is_v3 else []),
        _optional("referenced_data_file", "string", 143),
        *([_optional("content_offset", "long", 144), _optional("content_size_in_bytes", "long", 145)] if is_v3 else []),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field("status", "int", 0),
            _optional("snapshot_id", "long", 1),
            _optional("sequence_number", "long", 3),
            _optional("file_sequence_number", "long", 4),
            _field("data_file", {"type": "record", "name": "r2", "fields": data_file}, 2),
        ],
    }


class ManifestWriter(msgspec.Struct, frozen=True, dict=True):
    """Writes the manifests of one definition of the table. ``base`` is the metadata folder's absolute URI."""

    definition: IcebergDefinition
    base: str

    @cached_property
    def _schema(self) -> bytes:
        schema = entry_schema(self.definition.partition, self.definition.format_version)
        return json.dumps(schema, separators=(",", ":")).encode()

    def _header(self, content: int, lengths: bytes) -> Mapping[str, bytes]:
        encoded = base64.b64encode(lengths)
        return {**self._definition, "content": b"deletes" if content == DELETES else b"data", _LENGTHS: encoded}

    @cached_property
    def _definition(self) -> Mapping[str, bytes]:
        definition = self.definition
        return {
            "schema": json.dumps(definition.schema, separators=(",", ":")).encode(),
            "schema-id": b"%d" % definition.schema["schema-id"],
            "partition-spec": json.dumps(definition.spec["fields"], separators=(",", ":")).encode(),
            "partition-spec-id": b"%d" % definition.spec["spec-id"],
            "format-version": b"%d" % definition.format_version,
        }

    def write(
        self,
        entries: Sequence[Entry],
        content: int,
        partitions: Sequence[PartitionSummary],
        *,
        snapshot_id: int,
        version: int,
        first_row_id: int | None = None,
    ) -> tuple[NewFile, ManifestFile]:
        """The manifest of some entries, in their order, and its description for the manifest list.

        Args:
            entries: At least one entry.
            content: DATA or DELETES.
            partitions: For each partition field, a summary that covers every entry.
            snapshot_id: The snapshot that adds the manifest.
            version: Its Delta version, and so its sequence number.
            first_row_id: The first row id reserved for its rows (v3, data).
        """
        records = [entry.encoded() for entry in entries]
        lengths = b"".join([encode_long(len(record)) for record in records])
        body = write_container(self._schema, self._header(content, lengths), records)
        name = content_name(version, body, f"-m{content}.avro")
        files, rows = [0, 0, 0], [0, 0, 0]
        for entry in entries:
            files[entry.status] += 1
            rows[entry.status] += entry.rows
        living = [entry.sequence_number for entry in entries if entry.status != DELETED]
        return NewFile(name, body), ManifestFile(
            path=f"{self.base}/{name}",
            length=len(body),
            partition_spec_id=self.definition.spec["spec-id"],
            content=content,
            sequence_number=version,
            min_sequence_number=min(living, default=version),
            added_snapshot_id=snapshot_id,
            added_files=files[ADDED],
            existing_files=files[EXISTING],
            deleted_files=files[DELETED],
            added_rows=rows[ADDED],
            existing_rows=rows[EXISTING],
            deleted_rows=rows[DELETED],
            partitions=tuple(partitions),
            first_row_id=first_row_id,
        )

    def write_new(
        self,
        block: Block,
        lengths: bytes,
        rows: int,
        partitions: Sequence[PartitionSummary],
        *,
        snapshot_id: int,
        version: int,
        first_row_id: int | None = None,
        oldest: int | None = None,
    ) -> tuple[NewFile, ManifestFile]:
        """Like `write`, for data files whose entries are in ``block`` and whose lengths are Avro numbers: new ones, or
        existing ones, of which the oldest has the sequence number ``oldest``."""
        is_new = oldest is None
        body = block.container(self._schema, self._header(DATA, lengths))
        name = content_name(version, body, f"-m{DATA}.avro")
        return NewFile(name, body), ManifestFile(
            path=f"{self.base}/{name}",
            length=len(body),
            partition_spec_id=self.definition.spec["spec-id"],
            content=DATA,
            sequence_number=version,
            min_sequence_number=version if oldest is None else oldest,
            added_snapshot_id=snapshot_id,
            added_files=block.records if is_new else 0,
            existing_files=0 if is_new else block.records,
            deleted_files=0,
            added_rows=rows if is_new else 0,
            existing_rows=0 if is_new else rows,
            deleted_rows=0,
            partitions=tuple(partitions),
            first_row_id=first_row_id,
        )


def read_entries(body: bytes, partition: Sequence[PartitionField], format_version: int, path: str) -> list[Entry]:
    """The entries of a manifest that `ManifestWriter` wrote, without deleted files.

    Raises IcebergExportError with ``path`` if the bytes are not such a manifest.
    """
    try:
        return _read_entries(body, partition, format_version)
    except _DAMAGED as error:
        raise _unreadable(error, path) from None


def file_paths(body: bytes, path: str, *, deleted: bool = False) -> list[str]:
    """The files that a manifest lists as live, or with ``deleted`` as deleted; for delete files, their own paths.

    Raises what `read_entries` raises.
    """
    found = []
    try:
        for block, start, _ in _records(read_container(body)):
            if (block[start] == _DELETED_BYTE) == deleted:
                at = start + 1
                for _ in range(3):
                    _, at = _READ_LONG(block, at + 1)
                text, _ = _READ_STRING(block, at + 1)
                found.append(text)
    except _DAMAGED as error:
        raise _unreadable(error, path) from None
    return found


def origins(body: bytes, path: str) -> dict[str, tuple[int, int]]:
    """The live files of a manifest of data files, each with the snapshot that added it and its sequence number.

    Raises what `read_entries` raises.
    """
    found = {}
    try:
        for block, start, _ in _records(read_container(body)):
            if block[start] != _DELETED_BYTE:
                snapshot_id, at = _READ_LONG(block, start + 2)
                sequence_number, at = _READ_LONG(block, at + 1)
                _, at = _READ_LONG(block, at + 1)
                text, _ = _READ_STRING(block, at + 1)
                found[text] = snapshot_id, sequence_number
    except _DAMAGED as error:
        raise _unreadable(error, path) from None
    return found


_DAMAGED = (IndexError, KeyError, ValueError)


def _unreadable(error: Exception, path: str) -> IcebergExportError:
    return IcebergExportError(
        f"an Iceberg manifest cannot be read: {error}. Export the table again with rebuild=True", path=path
    )


def _read_entries(body: bytes, partition: Sequence[PartitionField], format_version: int) -> list[Entry]:
    container = read_container(body)
    readers = tuple(reader_of(_optional(field.name, avro_type(field.type), 0)["type"]) for field in partition)
    rest = _rest_of_delete_file(format_version) if container.header["content"] == b"deletes" else None
    lacks_sizes = _LENGTHS not in container.header
    return [
        _read_entry(block[start:end], readers, rest, lacks_sizes=lacks_sizes)
        for block, start, end in _records(container)
        if block[start] != _DELETED_BYTE
    ]


def _records(container: Container) -> Iterator[tuple[bytes, int, int]]:
    """The block of each entry, and the entry's start and end in it."""
    encoded = container.header.get(_LENGTHS, container.header.get(_LENGTHS_WITHOUT_SIZES))
    if encoded is None:
        raise AvroError("another release of txlog wrote it, in a format that this one does not know")
    lengths, lengths_at = base64.b64decode(encoded), 0
    for count, block in container.blocks:
        start = 0
        for _ in range(count):
            length, lengths_at = _READ_LONG(lengths, lengths_at)
            yield block, start, start + length
            start += length
        if start != len(block):
            raise AvroError("the lengths of its entries do not add up")


def _read_entry(body: bytes, partition: tuple[Any, ...], rest: Any, *, lacks_sizes: bool) -> Entry:
    status, at = _READ_LONG(body, 0)
    snapshot_id, at = _READ_LONG(body, at + 1)
    sequence_number, at = _READ_LONG(body, at + 1)
    _, data_file = _READ_LONG(body, at + 1)
    path, at = _READ_STRING(body, data_file + 1)
    _, at = _READ_STRING(body, at)
    for read in partition:
        _, at = read(body, at)
    rows, at = _READ_LONG(body, at)
    size_bytes, at = _READ_LONG(body, at)
    if lacks_sizes:
        body = body[:at] + NO_SIZES + body[at:]
    if rest is not None:
        found, _ = rest(body, at)
        path = found["referenced_data_file"]
        size_bytes = found.get("content_size_in_bytes") or size_bytes
    return Entry(status, snapshot_id, sequence_number, path, rows, size_bytes, body[data_file:])


@functools.lru_cache(4)
def _rest_of_delete_file(format_version: int) -> Any:
    """A reader for what follows the size in a delete file's entry."""
    data_file = entry_schema((), format_version)["fields"][-1]["type"]["fields"]
    return reader_of({"type": "record", "fields": data_file[6:]})


def nullable_longs(pairs: Sequence[tuple[bytes, int]]) -> bytes:
    """A map from encoded column id to count; null if it is empty."""
    if not pairs:
        return NULL
    return b"".join([SOME, encode_long(len(pairs)), *[key + encode_long(value) for key, value in pairs], b"\0"])


def nullable_blobs(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A map from encoded column id to bytes; null if it is empty."""
    if not pairs:
        return NULL
    return b"".join([SOME, encode_long(len(pairs)), *[key + encode_bytes(value) for key, value in pairs], b"\0"])
