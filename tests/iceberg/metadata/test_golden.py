"""The metadata of one fixed table, byte for byte: a change of the format shows here.

``golden/v2`` and ``golden/v3`` hold what an export wrote when the format was last changed on purpose. To change it
again: `python tests/iceberg/metadata/test_golden.py`, and say in the changelog what readers and older releases make of
it. The bytes are those of zlib, which every CPython on Linux and macOS has. ``golden/earlier-v2`` and
``golden/earlier-v3`` hold what an earlier form of manifests made of version 0, and stay as they are.
"""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from txlog.core.format.actions import AddFile, Metadata
from txlog.core.format.commit_file import Commit, parse_commit
from txlog.core.format.deletion_vector_bytes import bitmap_bytes
from txlog.core.format.file_columns import adds_to_batch
from txlog.core.versions.decisions.files import fold_commits
from txlog.errors import IcebergExportError
from txlog.iceberg.metadata.export import DatedCommit, Export, Sources, export_commits, export_version
from txlog.iceberg.metadata.manifest import file_paths
from txlog.iceberg.metadata.manifest_list import read_manifest_list
from txlog.iceberg.metadata.names import metadata_name
from txlog.iceberg.metadata.table_metadata import Exported, MetadataPlace, encoded, parsed

GOLDEN = Path(__file__).with_name("golden")
START_MS = 1_700_000_000_000


def column(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


COLUMNS = [
    column("id", "long"),
    column("name", "string"),
    column("price", "decimal(9,2)"),
    column("at", "timestamp"),
    column("tags", {"type": "array", "elementType": "string", "containsNull": True}),
    column("place", {"type": "struct", "fields": [column("x", "double"), column("day", "date")]}),
    column("part", "string"),
    column("year", "integer"),
]


def definition(columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "metaData": {
            "id": "5f0c3a64-51a5-4d3c-9f57-9d7c7c6d7c11",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": ["part", "year"],
            "configuration": {},
        }
    }


def add(number: int, part: str | None, **fields: Any) -> dict[str, Any]:
    stats = {
        "numRecords": 10,
        "minValues": {
            "id": number * 10,
            "name": f"a{number}",
            "price": 0.25,
            "at": "2024-01-01T00:00:00.000Z",
            "place": {"x": -1.5, "day": "2024-02-29"},
        },
        "maxValues": {
            "id": number * 10 + 9,
            "name": f"z{number}",
            "price": 99.5,
            "at": "2024-12-31T23:59:59.999Z",
            "place": {"x": 0.0, "day": "2024-03-01"},
        },
        "nullCount": {"id": 0, "name": number, "price": 10, "at": 0, "place": {"x": 1, "day": 0}},
    }
    action = {
        "path": f"part={part}/part-{number:05d}-golden.snappy.parquet",
        "partitionValues": {"part": part, "year": "2024"},
        "size": 1000 + number,
        "modificationTime": START_MS,
        "dataChange": True,
        "stats": json.dumps(stats),
    }
    return {"add": {**action, **fields}}


def remove(added: dict[str, Any]) -> dict[str, Any]:
    fields = ("path", "partitionValues", "size", "deletionVector")
    kept = {name: added["add"][name] for name in fields if name in added["add"]}
    return {"remove": {**kept, "deletionTimestamp": START_MS, "dataChange": True, "extendedFileMetadata": True}}


VECTOR = {"storageType": "i", "pathOrInlineDv": "golden", "sizeInBytes": 1, "cardinality": 2}
VERSIONS: dict[int, list[list[dict[str, Any]]]] = {
    2: [
        [definition(COLUMNS), add(0, "a b"), add(1, None)],
        [add(2, "c/d")],
        [definition([*COLUMNS, column("later", "boolean")])],
        [remove(add(0, "a b")), add(3, "a b")],
        [remove(add(1, None)), remove(add(2, "c/d")), remove(add(3, "a b"))],
    ],
}
VERSIONS[3] = [*VERSIONS[2][:3], [remove(add(0, "a b")), add(0, "a b", deletionVector=VECTOR)], [remove(add(2, "c/d"))]]


def commits(format_version: int) -> list[Commit]:
    found = []
    for version, actions in enumerate(VERSIONS[format_version]):
        info = {"commitInfo": {"timestamp": START_MS, "operation": "WRITE", "txlog": {"actions": len(actions) + 1}}}
        body = "".join(json.dumps(action) + "\n" for action in (info, *actions)).encode()
        found.append(parse_commit(body, version))
    return found


PLACE = MetadataPlace("s3://bucket/golden")


def sources_of(files: dict[str, bytes]) -> Sources:
    return Sources(
        manifest=lambda path: files[path.rpartition("/")[2]],
        bitmaps=lambda vectors: [bitmap_bytes(BitMap64([3, 7])) for _ in vectors],
        rows=lambda add: 0,
        check_element_ids=lambda adds: None,
        check_calendar=lambda adds: None,
        check_column_ids=lambda adds, definition: set(),
        columns_without_ids=lambda adds: set(),
    )


def following(before: Exported, files: dict[str, bytes]) -> Export:
    """The export of all commits after version 0."""
    first, *rest = commits(before.format_version)
    [metadata] = [action for action in first.actions if type(action) is Metadata]
    dated = [DatedCommit(commit, START_MS + commit.version * 1000) for commit in rest]
    found = export_commits(before, metadata, dated, PLACE, sources_of(files))
    assert found is not None
    return found


def exported(format_version: int) -> dict[str, bytes]:
    """Every file of the metadata folder by its name: version 0 in full, then the other commits."""
    files: dict[str, bytes] = {}

    def keep(export: Export) -> Export:
        files.update(export.files)
        files[metadata_name(export.exported.number)] = encoded(export.exported.document)
        return export

    first = commits(format_version)[0]
    [metadata] = [action for action in first.actions if type(action) is Metadata]
    adds = [action for action in fold_commits([first]).values() if type(action) is AddFile]
    whole = keep(
        export_version(
            metadata,
            0,
            [(pa.Table.from_batches([adds_to_batch(adds)]), np.zeros(len(adds), np.int64))],
            START_MS,
            format_version=format_version,
            number=1,
            place=PLACE,
            sources=sources_of(files),
        )
    )
    keep(following(whole.exported, files))
    return files


@pytest.mark.parametrize("format_version", [2, 3])
def test_an_export_of_the_golden_table_has_the_golden_bytes(format_version: int) -> None:
    found = exported(format_version)
    golden = {path.name: path.read_bytes() for path in (GOLDEN / f"v{format_version}").iterdir()}
    for name in sorted(found.keys() | golden.keys(), key=lambda name: (name.endswith(".json"), name)):
        assert (name, found.get(name)) == (name, golden.get(name)), f"the format has changed (zlib {zlib.ZLIB_VERSION})"


@pytest.mark.parametrize("format_version", [2, 3])
def test_the_golden_metadata_names_just_the_golden_files(format_version: int) -> None:
    folder = GOLDEN / f"v{format_version}"
    named = {"v1.metadata.json", "v2.metadata.json"}
    for number in (1, 2):
        for snapshot in json.loads((folder / f"v{number}.metadata.json").read_bytes())["snapshots"]:
            manifests = snapshot["manifest-list"].rpartition("/")[2]
            named.add(manifests)
            for manifest in fastavro.reader((folder / manifests).open("rb")):
                name = manifest["manifest_path"].rpartition("/")[2]
                named.add(name)
                for entry in fastavro.reader((folder / name).open("rb")):
                    path = entry["data_file"]["file_path"]
                    if path.startswith("s3://bucket/golden/_iceberg/"):
                        named.add(path.rpartition("/")[2])
    assert named == {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("format_version", [2, 3])
def test_manifests_of_an_earlier_form_are_continued_with_the_golden_bytes(format_version: int) -> None:
    files = {path.name: path.read_bytes() for path in (GOLDEN / f"earlier-v{format_version}").iterdir()}
    name = metadata_name(1)
    document = parsed(files[name], name)
    [snapshot] = document["snapshots"]
    manifests = read_manifest_list(files[snapshot["manifest-list"].rpartition("/")[2]], name)
    [manifest] = [manifest.path.rpartition("/")[2] for manifest in manifests]
    paths = [entry["data_file"]["file_path"] for entry in fastavro.reader(io.BytesIO(files[manifest]))]
    assert file_paths(files[manifest], manifest) == paths

    written = dict(following(Exported(1, document, manifests), files).files)
    golden = {path.name: path.read_bytes() for path in (GOLDEN / f"v{format_version}").iterdir()}
    changed = {name: body for name, body in written.items() if not name.endswith("-list.avro")}
    assert len(changed) > 2
    for name, body in changed.items():
        assert (name, body) == (name, golden.get(name))


def test_manifests_of_a_form_that_this_release_does_not_know_are_not_read() -> None:
    [path] = (GOLDEN / "v2").glob("00000000000000000000-*-m0.avro")
    body = path.read_bytes().replace(b"txlog.lengths-of-entries", b"txlog.LENGTHS-of-entries")
    with pytest.raises(IcebergExportError, match="another release of txlog wrote it"):
        file_paths(body, path.name)


if __name__ == "__main__":
    for each in (2, 3):
        folder = GOLDEN / f"v{each}"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for name, body in exported(each).items():
            (folder / name).write_bytes(body)
