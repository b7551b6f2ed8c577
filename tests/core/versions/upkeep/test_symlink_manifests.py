"""Manifests for readers without Delta: each commit updates them. The readers here know nothing but the manifests."""

from __future__ import annotations

import glob
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from txlog.audit.verify import verify_table
from txlog.core.store import open_store
from txlog.core.versions import OpenTable, open_table_of
from txlog.testing.faults import Fault, FaultyFileStore
from txlog.testing.faulty_s3 import FaultyS3, Request

KEY = "delta.compatibility.symlinkFormatManifest.enabled"
ON = {KEY: "true"}
FOLDER = "_symlink_format_manifest"


def manifests(table: txlog.Table) -> dict[str, list[str]]:
    """The lines of each manifest, by its folder."""
    found = glob.glob(f"{table.uri}/{FOLDER}/**/manifest", recursive=True)
    return {
        str(Path(each).parent.relative_to(f"{table.uri}/{FOLDER}")): Path(each).read_text().split("\n")[:-1]
        for each in found
    }


def by_manifest(table: txlog.Table) -> list[int]:
    """The ids that a reader by manifest sees."""
    paths = [line.removeprefix("file:") for lines in manifests(table).values() for line in lines]
    return sorted(i for path in paths for i in pq.ParquetFile(path).read()["i"].to_pylist())


def ids(table: txlog.Table) -> list[int]:
    return sorted(table.to_arrow()["i"].to_pylist())


CHANGES: dict[str, Callable[[txlog.Table], Any]] = {
    "append": lambda table: table.append(pa.table({"i": [7], "p": ["new"]})),
    "delete": lambda table: table.delete("i = 2"),
    "delete of a partition": lambda table: table.delete("p = 'a b'"),
    "update": lambda table: table.update({"i": txlog.expr("i + 10")}, "i > 1"),
    "upsert": lambda table: table.upsert(pa.table({"i": [2, 9], "p": ["x/y:z%é", "q"]}), keys=["i"]),
    "merge": lambda table: (
        table.merge(pa.table({"i": [2, 9], "p": ["b", "q"]}), "target.i = source.i")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .execute()
    ),
    "overwrite": lambda table: table.overwrite(pa.table({"i": [5], "p": ["b"]})),
    "overwrite where": lambda table: table.overwrite(pa.table({"i": [5], "p": ["a b"]}), where="p = 'a b'"),
    "delete of all": lambda table: table.delete(all=True),
    "optimize": lambda table: table.optimize(),
    "restore": lambda table: table.restore(1),
    "vacuum": lambda table: table.vacuum(retention_hours=0, force=True),
    "another partitioning": lambda table: table.overwrite(
        pa.table({"i": [5], "p": ["b"]}), schema_mode="overwrite", partition_by=[]
    ),
    "a transaction": lambda table: _in_transaction(table),
    "clear of a property": lambda table: table.set_properties({"mine": "x"}),
}


def _in_transaction(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.append(pa.table({"i": [7], "p": ["new"]}))
        transaction.delete("i = 1")


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["flat", "partitioned"])
@pytest.mark.parametrize("change", CHANGES)
def test_readers_by_manifest_see_each_commit(tmp_path: Path, partition_by: list[str], change: str) -> None:
    schema = pa.schema({"i": pa.int64(), "p": pa.string()})
    table = txlog.Table.create(tmp_path / "a table%20é", schema, partition_by, ON)
    table.append(pa.table({"i": [1, 2, 3, 4], "p": ["a b", "x/y:z%é", None, ""]}))
    assert by_manifest(table) == [1, 2, 3, 4]
    CHANGES[change](table)
    assert by_manifest(table) == ids(table)
    assert verify_table(open_store(table.uri)).findings == ()
    table.vacuum(retention_hours=0, force=True)
    assert by_manifest(table) == ids(table), "a vacuum deletes nothing that a manifest names, nor a manifest"


def replacing(table: txlog.Table, step: Fault | Callable[..., Any]) -> txlog.Table:
    """A handle of the table that replaces files in this way."""
    store = open_table_of(table).store
    files = FaultyFileStore(store.files, lambda call: step if call.operation == "replace" else None)
    return txlog.Table(OpenTable(replace(store, files=files)))


def test_what_a_killed_writer_or_one_that_knows_no_manifests_left_undone_is_done_by_the_next_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema({"i": pa.int64(), "p": pa.string()}), ["p"], ON)
    table.append(pa.table({"i": [1], "p": ["a"]}))
    failing = replacing(table, Fault("refused"))
    with caplog.at_level(logging.WARNING, "txlog"):
        assert failing.append(pa.table({"i": [2], "p": ["b"]})).version == 2
    assert "manifests of its newest version were not written" in caplog.text
    assert by_manifest(table) == [1]
    (finding,) = table.verify().findings
    assert (finding.rule, finding.path) == ("manifest-differs", f"{FOLDER}/p=b/manifest")
    txlog.Table.open(table.uri).append(pa.table({"i": [3], "p": ["c"]}))
    assert by_manifest(table) == [1, 2, 3]
    assert table.verify().findings == ()


def test_a_slow_writer_of_an_older_version_does_not_leave_its_manifests(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema({"i": pa.int64()}), properties=ON)
    table.append(pa.table({"i": [1]}))
    first, done = threading.Event(), threading.Event()

    def slow(real: Callable[[str], object], name: str) -> object:
        if not first.is_set():
            first.set()
            assert done.wait(30)
        return real(name)

    writer = threading.Thread(target=lambda: replacing(table, slow).append(pa.table({"i": [2]})))
    writer.start()
    assert first.wait(30)
    other = txlog.Table.open(table.uri)
    other.append(pa.table({"i": [3]}))
    assert by_manifest(table) == [1, 2, 3]
    done.set()
    writer.join()
    assert by_manifest(table) == [1, 2, 3]


def test_a_manifest_is_no_place_where_deleted_rows_remain(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema({"i": pa.int64(), "p": pa.string()}), ["p"], ON)
    table.append(pa.table({"i": [1, 2], "p": ["a", "b"]}))
    deleted = table.delete("i = 1").version
    assert deleted is not None
    table.vacuum(retention_hours=0, force=True)
    check = table.check_deleted(deleted)
    assert check.rows_are_gone, check.remains
    assert by_manifest(table) == [2]


def test_a_shallow_clone_has_manifests_of_the_sources_files(tmp_path: Path) -> None:
    source = txlog.Table.create(tmp_path / "a b", pa.schema({"i": pa.int64()}), properties=ON)
    source.append(pa.table({"i": [1, 2]}))
    source.clone(tmp_path / "c", shallow=True)
    clone = txlog.Table.open(tmp_path / "c")
    clone.append(pa.table({"i": [3]}))
    assert by_manifest(clone) == ids(clone) == [1, 2, 3]


def test_what_readers_by_manifest_would_misread_is_refused(tmp_path: Path) -> None:
    schema = pa.schema({"i": pa.int64()})
    for other in ({"delta.enableDeletionVectors": "true"}, {"delta.columnMapping.mode": "name"}):
        with pytest.raises(txlog.UnsupportedFeatureError, match=f"{KEY} = true does not go with"):
            txlog.Table.create(tmp_path / "t", schema, properties={**ON, **other})
    table = txlog.Table.create(tmp_path / "t", schema, properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"i": [1, 2]}))
    table.delete("i = 1")
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"has a deletion vector.*purge\(\)"):
        table.set_properties({**ON, "delta.enableDeletionVectors": "false"})
    with pytest.raises(txlog.UnsupportedFeatureError, match="has a deletion vector"):
        table.generate()
    assert table.version == 2
    table.purge()
    table.set_properties({**ON, "delta.enableDeletionVectors": "false"})
    assert by_manifest(table) == [2]


def test_on_an_object_store_the_lines_are_uris_and_a_refused_manifest_leaves_the_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with FaultyS3() as server:
        uri, options = "s3://bucket/a b/t", server.storage_options
        table = txlog.Table.create(uri, pa.schema({"i": pa.int64()}), properties=ON, storage_options=options)
        table.append(pa.table({"i": [1]}))
        (path,) = table.files()["path"].to_pylist()
        held = server.bucket.objects
        assert held[f"bucket/a b/t/{FOLDER}/manifest"].decode() == f"{uri}/{path}\n"

        def refuse(request: Request) -> tuple[int, str] | None:
            return (403, "AccessDenied") if FOLDER in request.key else None

        server.refuse = refuse
        with caplog.at_level(logging.WARNING, "txlog"):
            assert table.append(pa.table({"i": [2]})).version == 2
        assert "AccessDenied" in caplog.text
        server.refuse = lambda request: None
        table.append(pa.table({"i": [3]}))
        assert len(held[f"bucket/a b/t/{FOLDER}/manifest"].splitlines()) == 3


def test_generate_writes_all_of_them_once_without_the_property(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema({"i": pa.int64(), "p": pa.string()}), ["p"])
    table.append(pa.table({"i": [1, 2], "p": ["a", "b"]}))
    assert not manifests(table)
    assert table.generate() == 2
    assert by_manifest(table) == [1, 2]
    table.delete("p = 'a'")
    table.append(pa.table({"i": [3], "p": ["c"]}))
    assert by_manifest(table) == [1, 2]
    assert table.generate() == 2
    assert by_manifest(table) == [2, 3]
    table.append(pa.table({"i": [4], "p": ["d"]}))
    assert table.generate() == 3
    assert by_manifest(table) == [2, 3, 4]
    with pytest.raises(txlog.InvalidInputError, match="symlink_format_manifest"):
        table.generate("other")
