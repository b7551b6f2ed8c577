"""Clones of a table, shallow and deep: what they hold, what each command does on them, and what each never touches."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from typer.testing import CliRunner

import txlog
from txlog.audit.verify import verify_table
from txlog.cli.app import app
from txlog.core.store import open_store
from txlog.core.store._local_store import LocalFileStore
from txlog.core.versions import OpenTable
from txlog.errors import (
    ConcurrentAppendError,
    CorruptLogError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    TableExistsError,
)
from txlog.loading import clone as clone_command
from txlog.table import Table

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["a b/%" if n % 2 else "ü" for n in ids], "n": [n * 10 for n in ids]})


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def files_below(table: Table) -> dict[str, bytes]:
    root = Path(table.uri)
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def data_files(table: Table) -> set[str]:
    return {name for name in files_below(table) if name.endswith((".parquet", ".bin")) and "_delta_log" not in name}


def commits(table: Table) -> list[list[dict[str, Any]]]:
    names = sorted((Path(table.uri) / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in name.read_text().splitlines()] for name in names]


def sound(table: Table) -> bool:
    return not verify_table(table._open_table.store).findings


@pytest.fixture
def source(tmp_path: Path) -> Table:
    """Two partitions with escaped names, and a file with a deletion vector: rows 0 to 9 without 3."""
    table = Table.create(tmp_path / "the source%", "id bigint, p string, n bigint", ["p"], VECTORS | FEED)
    table.append(rows_of(*range(10)))
    table.delete("id = 3")
    return table


def cloned(source: Table, name: str, **how: Any) -> Table:
    place = Path(source.uri).parent / name
    source.clone(place, **how)
    return Table.open(place)


LEFT = [0, 1, 2, 4, 5, 6, 7, 8, 9]


# --- shallow --------------------------------------------------------------------------------------------------------


def test_a_shallow_clone_names_no_file_that_its_readers_would_refuse(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "back\\slash", rows_of(1).schema)
    table.append(rows_of(1))
    with pytest.raises(InvalidInputError, match=r"cannot name the file .*slash.*another name"):
        table.clone(tmp_path / "clone", shallow=True)
    assert not Table.exists(tmp_path / "clone")
    table.clone(tmp_path / "clone")
    assert ids(Table.open(tmp_path / "clone")) == [1]


def test_a_shallow_clone_has_the_rows_and_no_files(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True)
    assert ids(clone) == LEFT
    assert not data_files(clone)
    assert clone.snapshot().partition_columns == ("p",)
    assert clone.snapshot().table_id != source.snapshot().table_id
    assert sound(clone)


def test_another_reader_reads_a_shallow_clone(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "a b", "id bigint, p string, n bigint", ["p"])
    table.append(rows_of(*range(10)))
    clone = cloned(table, "clone", shallow=True)
    engine = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(clone.uri))
    found = pa.table(engine.execute("select id, p from t order by id").read_all())
    assert found["id"].to_pylist() == [*range(10)]
    assert set(found["p"].to_pylist()) == {"a b/%", "ü"}


def test_the_history_and_the_paths_are_as_spark_writes_them(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True, version=2, user_metadata="for a test")
    info, *rest = commits(clone)[0]
    assert info["commitInfo"]["operation"] == "CLONE"
    assert info["commitInfo"]["operationParameters"] == {
        "source": f"delta.`{source.uri}`",
        "sourceVersion": "2",
        "isShallow": "true",
    }
    size = sum(row["size"] for row in source.snapshot().files().to_pylist())
    assert info["commitInfo"]["operationMetrics"] == {
        "sourceTableSize": str(size),
        "sourceNumOfFiles": "2",
        "numRemovedFiles": "0",
        "removedFilesSize": "0",
        "numCopiedFiles": "0",
        "copiedFilesSize": "0",
    }
    adds = [line["add"] for line in rest if "add" in line]
    root = "file:" + source.uri.replace("%", "%25").replace(" ", "%20")
    assert all(add["path"].startswith(f"{root}/p=") and "p=a%20b%252F%2525/" in add["path"] for add in adds[1:])
    vector = next(add["deletionVector"] for add in adds if "deletionVector" in add)
    assert vector["storageType"] == "p"
    assert vector["pathOrInlineDv"].startswith(f"{root}/deletion_vector_")


CHANGES: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(rows_of(50)),
    "delete": lambda t: t.delete("id = 4"),
    "delete of a partition": lambda t: t.delete("p = 'ü'"),
    "update": lambda t: t.update({"id": txlog.expr("id + 100")}, "id in (1, 2)"),
    "upsert": lambda t: t.upsert(rows_of(1, 60), ["id"]),
    "second upsert with kept keys": lambda t: (t.upsert(rows_of(1), ["id"]), t.upsert(rows_of(2), ["id"])),
    "merge": lambda t: (
        t.merge(rows_of(1, 70), "target.id = source.id").when_matched_delete().when_not_matched_insert_all().execute()
    ),
    "overwrite": lambda t: t.overwrite(rows_of(1)),
    "overwrite where": lambda t: t.overwrite(rows_of(1), where="p = 'a b/%'"),
    "optimize": lambda t: (t.append(rows_of(81)), t.append(rows_of(83)), t.optimize()),
    "cluster": lambda t: t.optimize(zorder_by=["id"]),
    "purge": lambda t: t.purge(),
    "transaction": lambda t: _in_transaction(t),
    "restore": lambda t: (t.delete("id < 5"), t.restore(0)),
    "checkpoint": lambda t: (t.delete("id = 1"), t.create_checkpoint()),
    "tag": lambda t: t.tag("first"),
}


def _in_transaction(table: Table) -> None:
    with table.transaction() as txn:
        txn.delete("id = 5")
        txn.append(rows_of(90))


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_a_clone_gives_it_the_rows_of_a_copy_and_leaves_the_source(source: Table, name: str) -> None:
    before = files_below(source)
    shallow, deep = cloned(source, "shallow", shallow=True), cloned(source, "deep")
    for table in (shallow, deep):
        CHANGES[name](table)
    assert sorted(shallow.to_arrow().to_pylist(), key=repr) == sorted(deep.to_arrow().to_pylist(), key=repr)
    shallow.vacuum(0, force=True)
    assert sorted(shallow.to_arrow().to_pylist(), key=repr) == sorted(deep.to_arrow().to_pylist(), key=repr)
    assert files_below(source) == before
    assert sound(shallow)
    assert sound(source)


def test_iceberg_metadata_of_a_shallow_clone_names_the_sources_files(source: Table) -> None:
    table = Table.create(Path(source.uri).parent / "plain", "id bigint, p string, n bigint", ["p"])
    table.append(rows_of(*LEFT))
    clone = cloned(table, "clone", shallow=True)
    metadata = clone.export_iceberg().metadata_location
    found = StaticTable.from_metadata(metadata).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == LEFT
    assert sound(clone)


@pytest.mark.parametrize("shallow", [True, False])
def test_iceberg_readers_find_files_of_a_clone_with_columns_for_the_sources_row_ids(
    source: Table, shallow: bool
) -> None:
    """The clone has columns of its own for row ids."""
    properties = {"delta.enableRowTracking": "true"}
    table = Table.create(Path(source.uri).parent / "plain", "id bigint, p string, n bigint", properties=properties)
    table.append(rows_of(1, 2))
    clone = cloned(table, "clone", shallow=shallow)
    clone.export_iceberg()
    table.update({"n": txlog.expr("n + 1")}, "id = 1")
    cloned(table, "clone", shallow=shallow, mode="replace")
    for rebuild in (False, True):
        metadata = clone.export_iceberg(rebuild=rebuild).metadata_location
        found = StaticTable.from_metadata(metadata).scan().to_arrow()
        assert found.sort_by("id").to_pylist() == table.to_arrow().sort_by("id").to_pylist()


def test_a_clones_vacuum_does_not_count_the_sources_files(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True, properties={"delta.enableChangeDataFeed": "false"})
    clone.overwrite(rows_of(1))
    assert not clone.vacuum(0, force=True, dry_run=True).paths
    assert not clone.vacuum(0, force=True, lite=True).paths
    assert ids(source) == LEFT


def test_changes_of_the_source_do_not_show_in_a_clone(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True)
    source.append(rows_of(11))
    source.delete("id = 0")
    source.optimize()
    assert ids(clone) == LEFT


@pytest.mark.parametrize("reads", ["rows", "dataset", "delete", "changes", "restore"])
def test_a_clone_whose_source_was_vacuumed_says_so(source: Table, reads: str) -> None:
    clone = cloned(source, "clone", shallow=True)
    clone.delete("id = 4")
    source.overwrite(rows_of(1))
    source.vacuum(0, force=True)
    act: dict[str, Callable[[], object]] = {
        "rows": lambda: clone.to_arrow(),
        "dataset": lambda: clone.snapshot().to_dataset().to_table(),
        "delete": lambda: clone.delete("id = 5"),
        "changes": lambda: pa.Table.from_batches(clone.changes(0)),
        "restore": lambda: clone.restore(0),
    }
    with pytest.raises((NotFoundError, CorruptLogError)) as caught:
        act[reads]()
    if reads in ("rows", "delete"):
        assert "shallow clone" in str(caught.value)
    assert {each.rule for each in verify_table(clone._open_table.store).findings} >= {"missing-file"}


def test_a_clone_of_a_clone_reads_the_first_table(source: Table) -> None:
    first = cloned(source, "first", shallow=True)
    first.delete("id = 4")
    second = cloned(first, "second", shallow=True)
    deep = cloned(second, "deep")
    assert ids(second) == ids(deep) == [n for n in LEFT if n != 4]
    for table in (first, second):
        Path(table.uri).rename(f"{table.uri}-away")
    assert ids(deep) == [n for n in LEFT if n != 4]
    assert all("://" not in name for name in deep.snapshot().files()["path"].to_pylist())


def test_a_copy_of_a_shallow_clone_has_a_folder_for_each_partition(source: Table) -> None:
    deep = cloned(cloned(source, "shallow", shallow=True), "deep")
    folders = {os.path.dirname(path) for path in data_files(deep) if path.endswith(".parquet")}
    assert folders == {"p=a b%2F%25", "p=%C3%BC"}
    assert ids(deep) == ids(source)


@pytest.mark.parametrize("prefix", [None, "3"], ids=["at the root", "in random folders"])
@pytest.mark.parametrize("by_link", [False, True], ids=["by its name", "by a link"])
def test_a_clone_that_comes_back_to_the_first_table_names_its_files_as_the_table_did(
    tmp_path: Path, by_link: bool, prefix: str | None
) -> None:
    """Spark's VACUUM takes no absolute path of a deletion vector for one of the table's own, and would delete it."""
    random_names = {} if prefix is None else {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": prefix}
    source = Table.create(tmp_path / "the source%", "id bigint, p string, n bigint", ["p"], {**VECTORS, **random_names})
    source.append(rows_of(*range(10)))
    source.delete("id = 3")
    known = {each["add"]["path"]: each["add"]["deletionVector"] for each in commits(source)[-1] if "add" in each}
    first = cloned(source, "first", shallow=True)
    first.append(rows_of(99))
    second = cloned(first, "second", shallow=True)
    place = tmp_path / "link"
    place.symlink_to(source.uri)
    source.delete("id >= 0")
    second.clone(place if by_link else source.uri, mode="replace", shallow=True)
    again = {each["add"]["path"]: each["add"].get("deletionVector") for each in commits(source)[-1] if "add" in each}
    assert {path: again[path] for path in known} == known
    assert sorted(path.startswith("file:") for path in again) == [False, False, True]
    assert ids(Table.open(source.uri)) == [*LEFT, 99]
    assert sound(source)


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_a_clone_of_mapped_columns_can_be_changed(tmp_path: Path, mapping: Any) -> None:
    table = Table.create(tmp_path / "s", "id bigint, note string", column_mapping=mapping)
    table.append(pa.table({"id": [1, 2], "note": ["x", "y"]}))
    clone = cloned(table, "clone", shallow=True)
    clone.rename_column("note", "remark")
    clone.add_columns("more int")
    clone.append(pa.table({"id": [3], "remark": ["z"], "more": [1]}, clone.schema))
    assert sorted(row["remark"] for row in clone.to_arrow().to_pylist()) == ["x", "y", "z"]
    assert table.schema.names == ["id", "note"]


def test_row_ids_of_a_clone_are_its_own(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "s", "id bigint, p string, n bigint", properties={"delta.enableRowTracking": "true"}
    )
    table.append(rows_of(1, 2))
    table.update({"n": txlog.expr("0")}, "id = 1")
    clone = cloned(table, "clone", shallow=True)
    names = [key for key in clone.snapshot().properties if "materialized" in key]
    assert len(names) == 2
    assert all(clone.snapshot().properties[key] != table.snapshot().properties[key] for key in names)
    adds = [line["add"] for line in commits(clone)[0] if "add" in line]
    assert {add["defaultRowCommitVersion"] for add in adds} == {0}
    assert min(add["baseRowId"] for add in adds) == 0
    clone.update({"n": txlog.expr("5")}, "id = 2")
    assert sound(clone)


@pytest.mark.parametrize("shallow", [False, True], ids=["deep", "shallow"])
@pytest.mark.parametrize("by", ["the source", "a property"])
def test_files_that_stay_in_a_clone_get_row_ids_before_it_promises_them(source: Table, shallow: bool, by: str) -> None:
    tracking = {"delta.enableRowTracking": "true"}
    clone = cloned(source, "clone", shallow=shallow)
    stay = {add["path"] for add in clone.snapshot().files().to_pylist()}
    if by == "the source":
        source.set_properties(tracking)
    source.append(rows_of(11))
    done = source.clone(clone.uri, shallow=shallow, mode="replace", properties=tracking if by == "a property" else {})
    assert (done.outcome, done.files_added, done.files_removed) == ("committed", 1, 0)
    files = clone.snapshot().files().to_pylist()
    assert stay < {add["path"] for add in files}
    assert all(add["baseRowId"] is not None for add in files)
    assert sound(clone)
    found = pa.Table.from_batches(clone.changes(1)).to_pylist()
    assert [(row["id"], row["_change_type"]) for row in found] == [(11, "insert")]
    again = source.clone(clone.uri, shallow=shallow, mode="replace", properties=tracking)
    assert (again.outcome, again.version) == ("unchanged", done.version)


def test_files_that_a_clone_replaces_need_no_row_ids(source: Table, tmp_path: Path) -> None:
    other = Table.create(tmp_path / "other", rows_of(1).schema)
    other.append(rows_of(1))
    source.clone(other.uri, mode="replace", properties={"delta.enableRowTracking": "true"})
    assert [entry["operation"] for entry in other.history()] == ["CLONE", "WRITE", "CREATE TABLE"]
    assert sound(other)


def test_a_clones_properties_override_the_sources(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True, properties={"delta.appendOnly": "true", "x.y": "z"})
    found = clone.snapshot().properties
    assert (found["delta.appendOnly"], found["x.y"], found["delta.enableChangeDataFeed"]) == ("true", "z", "true")
    with pytest.raises(InvalidInputError, match="append-only"):
        clone.delete("id = 1")
    with pytest.raises(InvalidInputError, match="cannot change from none to name"):
        source.clone(Path(source.uri).parent / "x", properties={"delta.columnMapping.mode": "name"})


@pytest.mark.parametrize("since", ["before", "between"])
def test_a_clone_says_itself_since_when_it_has_in_commit_timestamps(source: Table, since: str) -> None:
    clone = None if since == "before" else cloned(source, "clone")
    source.set_properties({"delta.enableInCommitTimestamps": "true"})
    if clone is None:
        clone = cloned(source, "clone")
    else:
        assert source.clone(clone.uri, mode="replace").outcome == "committed"
    found = clone.snapshot().properties
    assert found.get("delta.inCommitTimestampEnablementVersion") == (None if since == "before" else "1")
    assert source.clone(clone.uri, mode="replace").outcome == "unchanged"
    source.set_properties({"delta.enableInCommitTimestamps": "false"})
    assert source.clone(clone.uri, mode="replace").outcome == "committed"
    assert not [key for key in clone.snapshot().properties if "Enablement" in key]
    assert source.clone(clone.uri, mode="replace").outcome == "unchanged"
    assert sound(clone)


def test_clustering_comes_along_and_the_catalog_entry_does_not(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "s", "id bigint, n bigint", cluster_by=["id"], properties={"txlog.iceberg.catalog": "a.b.c"}
    )
    clone = cloned(table, "clone", shallow=True)
    assert clone.snapshot().clustering_columns == ("id",)
    assert "txlog.iceberg.catalog" not in clone.snapshot().properties


def test_an_older_version_or_a_time_can_be_cloned(source: Table) -> None:
    assert ids(cloned(source, "a", shallow=True, version=1)) == [*range(10)]
    moment = source.history()[-2]["timestamp"]
    assert ids(cloned(source, "b", shallow=True, timestamp=moment)) == [*range(10)]


# --- places ---------------------------------------------------------------------------------------------------------


def test_an_existing_table_is_refused_ignored_or_replaced(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True)
    clone.append(rows_of(99))
    before = clone.snapshot().table_id
    with pytest.raises(TableExistsError, match='mode="replace"'):
        source.clone(clone.uri, shallow=True)
    assert source.clone(clone.uri, mode="ignore").outcome == "ignored"
    assert 99 in ids(clone)
    done = source.clone(clone.uri, shallow=True, mode="replace")
    assert (done.outcome, done.version, done.files_removed) == ("committed", 2, 1)
    assert (ids(clone), clone.snapshot().table_id) == (LEFT, before)
    assert 99 in clone.snapshot(1).to_arrow()["id"].to_pylist()
    assert source.clone(clone.uri, shallow=True, mode="replace").outcome == "unchanged"
    assert sound(clone)


def test_a_clone_replaces_a_table_with_other_columns(source: Table, tmp_path: Path) -> None:
    other = Table.create(tmp_path / "other", "x string", cluster_by=["x"])
    other.append(pa.table({"x": ["old"]}))
    source.clone(other.uri, mode="replace")
    assert ids(other) == LEFT
    assert other.snapshot().clustering_columns == ()
    assert other.snapshot(1).to_arrow().to_pylist() == [{"x": "old"}]


@pytest.mark.parametrize("place", [".", "sub", ".."])
def test_a_clone_inside_its_source_or_around_it_is_refused(source: Table, place: str) -> None:
    with pytest.raises(InvalidInputError, match=r"inside each other|own location"):
        source.clone(Path(source.uri) / place)


def test_a_link_to_the_source_is_the_source(source: Table, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source.uri)
    with pytest.raises(InvalidInputError, match="own location"):
        source.clone(tmp_path / "link", mode="replace")


def test_a_clone_in_a_bucket_cannot_read_a_disk(source: Table) -> None:
    with pytest.raises(InvalidInputError, match="deep clone"):
        source.clone("s3://bucket/clone", shallow=True)


@pytest.mark.parametrize(
    ("target", "options", "shallow", "refused"),
    [
        ("s3a://b/t", {}, False, True),
        ("s3://b/t/sub", {}, False, True),
        ("s3://b/t", {"region": "other"}, True, True),
        ("s3://b/t", {"region": "other"}, False, False),
        ("s3://b/t2", {}, True, False),
    ],
)
def test_places_in_buckets_are_compared_by_what_they_are(
    target: str, options: dict[str, str], shallow: bool, refused: bool
) -> None:
    places = [
        OpenTable(open_store(uri, given), storage_options=given) for uri, given in (("s3://b/t", {}), (target, options))
    ]
    if refused:
        with pytest.raises(InvalidInputError, match=r"inside each other|own location"):
            clone_command._check_places(*places, is_shallow=shallow)
    else:
        clone_command._check_places(*places, is_shallow=shallow)


def test_the_command_lists_the_files_of_another_table_by_their_locations(source: Table) -> None:
    clone = cloned(source, "clone", shallow=True)
    done = CliRunner().invoke(app, ["files", clone.uri, "--json"])
    assert all(Path(file["uri"]).is_file() for file in json.loads(done.stdout))


# --- deep -----------------------------------------------------------------------------------------------------------


def test_a_deep_clone_needs_nothing_of_its_source(source: Table) -> None:
    clone = cloned(source, "clone")
    Path(source.uri).rename(f"{source.uri}-away")
    assert ids(clone) == LEFT
    assert sound(clone)
    vector = next(
        line["add"]["deletionVector"] for line in commits(clone)[0] if "deletionVector" in line.get("add", {})
    )
    assert vector["storageType"] == "u"


def test_a_second_run_copies_only_what_is_new(source: Table) -> None:
    clone = cloned(source, "clone")
    first = source.clone(clone.uri, mode="replace")
    assert (first.outcome, first.files_copied) == ("unchanged", 0)
    source.append(rows_of(11))
    source.delete("id = 0")  # the whole vector's file is new, its data file is not
    source.add_columns("more int")
    before = data_files(clone)
    done = source.clone(clone.uri, mode="replace", user_metadata="again")
    assert (done.version, done.files_copied, done.files_added) == (1, 2, 2)
    assert len([name for name in data_files(clone) - before if "_change_data" not in name]) == 2
    assert sorted(clone.to_arrow().to_pylist(), key=repr) == sorted(source.to_arrow().to_pylist(), key=repr)
    assert clone.history()[0]["operationMetrics"]["numCopiedFiles"] == "2"
    assert sound(clone)


def test_a_run_follows_removed_files_and_undoes_changes_of_the_clone(source: Table) -> None:
    clone = cloned(source, "clone")
    clone.delete("id = 5")
    clone.append(rows_of(77))
    source.delete("p = 'ü'")
    source.clone(clone.uri, mode="replace")
    assert ids(clone) == ids(source) == [1, 5, 7, 9]
    assert sound(clone)


def test_the_change_feed_of_a_clone_shows_what_a_run_changed(source: Table) -> None:
    clone = cloned(source, "clone")
    source.delete("id = 9")
    source.append(rows_of(11))
    source.clone(clone.uri, mode="replace")
    found = pa.Table.from_batches(clone.changes(1)).to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in found) == [(9, "delete"), (11, "insert")]


class Stops(Exception):
    """Stands for a process that is killed."""


def test_a_run_that_is_killed_is_continued_and_leaves_only_orphans(
    source: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20, 30):
        source.append(rows_of(number))
    place, made = Path(source.uri).parent / "clone", LocalFileStore.make_durable
    copies = 0

    def stops(self: LocalFileStore, paths: Any, **how: Any) -> None:
        nonlocal copies
        made(self, paths, **how)
        copies += 1
        if copies > 4:
            raise Stops

    monkeypatch.setattr(clone_command, "COPIES_AT_ONCE", 1)
    monkeypatch.setattr(LocalFileStore, "make_durable", stops)
    with pytest.raises(Stops):
        source.clone(place)
    monkeypatch.undo()
    assert not Table.exists(place)
    done = source.clone(place)
    assert done.files_copied == 13 - 4
    clone = Table.open(place)
    assert ids(clone) == ids(source)
    assert sound(clone)


def test_a_copy_that_a_vacuum_may_delete_is_not_used(source: Table) -> None:
    clone = cloned(source, "clone")
    left = {name for name in data_files(clone) if name.endswith(".parquet")}
    old = Path(clone.uri).parent / "old"
    for name in left:
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_bytes((Path(clone.uri) / name).read_bytes())
        os.utime(old / name, (0, 0))
    assert source.clone(old).files_copied == 3
    young = Path(clone.uri).parent / "young"
    for name in left:
        (young / name).parent.mkdir(parents=True, exist_ok=True)
        (young / name).write_bytes((Path(clone.uri) / name).read_bytes())
    assert source.clone(young).files_copied == 1  # the file of vectors
    assert ids(Table.open(young)) == LEFT


def test_a_copy_of_another_size_is_not_used(source: Table) -> None:
    clone = cloned(source, "clone")
    copies = sorted(name for name in data_files(clone) if name.endswith(".parquet"))
    torn = Path(clone.uri).parent / "torn"
    for name in copies:
        (torn / name).parent.mkdir(parents=True, exist_ok=True)
        whole = (Path(clone.uri) / name).read_bytes()
        (torn / name).write_bytes(whole[:-1] if name == copies[0] else whole)
    assert source.clone(torn).files_copied == 2  # the torn one, and the file of vectors
    assert ids(Table.open(torn)) == LEFT
    assert sound(Table.open(torn))


def test_a_damaged_source_file_is_not_copied(source: Table) -> None:
    path = next(Path(source.uri).glob("p=*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StorageError, match="log of the source records"):
        source.clone(Path(source.uri).parent / "clone")
    path.unlink()
    with pytest.raises(NotFoundError, match="missing from the source"):
        source.clone(Path(source.uri).parent / "clone")
    assert not Table.exists(Path(source.uri).parent / "clone")


@pytest.mark.parametrize("damage", [lambda body: body[:-1], lambda body: body[:-1] + bytes([body[-1] ^ 1])])
def test_a_damaged_deletion_vector_is_not_copied(damage: Callable[[bytes], bytes], source: Table) -> None:
    """Nobody could read the clone."""
    (path,) = Path(source.uri).glob("**/deletion_vector_*.bin")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptLogError, match="deletion vector"):
        source.clone(Path(source.uri).parent / "clone")
    assert not Table.exists(Path(source.uri).parent / "clone")


def test_a_clone_that_is_written_meanwhile_is_a_conflict(source: Table) -> None:
    clone = cloned(source, "clone")
    source.append(rows_of(11))

    def writes(step: str, done: int, total: int | None) -> None:
        clone.append(rows_of(55))

    with pytest.raises(ConcurrentAppendError, match="run it again"):
        source.clone(clone.uri, mode="replace", on_progress=writes)
    assert 55 in ids(clone)
    source.clone(clone.uri, mode="replace")
    assert ids(clone) == ids(source)


# --- random programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.hunt(part="clones")) for n in range(2, 60))])
def test_random_programs_of_a_source_and_its_clones_agree_with_a_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    first = Table.create(tmp_path / "t0", "id bigint, p string, n bigint", ["p"], VECTORS if seed % 2 else {})
    tables, models, fresh = [first], [set[int]()], iter(range(1000))

    def step() -> None:
        at = chance.randrange(len(tables))
        table, model = tables[at], models[at]
        act = chance.choice(["append", "append", "delete", "update", "upsert", "optimize", "vacuum", "shallow", "deep"])
        if act == "append":
            new = [next(fresh) for _ in range(chance.randint(1, 5))]
            table.append(rows_of(*new))
            model |= {*new}
        elif act == "delete":
            gone = chance.randint(2, 4)
            table.delete(f"id % {gone} = 0 and id % 5 <> 1")
            model -= {n for n in model if n % gone == 0 and n % 5 != 1}
        elif act == "update" and model:
            old, new_id = chance.choice([*model]), next(fresh)
            table.update({"id": new_id}, f"id = {old}")
            model ^= {old, new_id}
        elif act == "upsert":
            keys = {next(fresh), *chance.sample(sorted(model), min(2, len(model)))}
            table.upsert(rows_of(*keys), ["id"])
            model |= keys
        elif act == "optimize":
            table.optimize()
        elif act == "vacuum":
            table.vacuum()  # with the retention: what clones still need stays
        elif act in ("shallow", "deep"):
            if len(tables) < 4:
                tables.append(cloned(table, f"t{len(tables)}", shallow=act == "shallow"))
                models.append({*model})
            else:
                to = chance.choice([n for n in range(len(tables)) if n != at])
                table.clone(tables[to].uri, shallow=act == "shallow", mode="replace")
                models[to] = {*model}

    for _ in range(25):
        step()
        for table, model in zip(tables, models, strict=True):
            assert ids(table) == sorted(model)
    assert all(map(sound, tables))
