"""A folder of tables as a catalog, on a disk and on an object store."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.core.catalogs._table_catalog import TablePlace
from txlog.core.store import open_store
from txlog.core.store._object_store import ObjectFileStore
from txlog.errors import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.testing.faulty_s3 import FaultyS3
from txlog.testing.owned_versions import OwnedVersions, VersionOwner

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with FaultyS3(page_size=3) as running:
        yield running


@pytest.fixture
def on_disk(tmp_path: Path) -> txlog.Catalog:
    return txlog.Catalog(tmp_path / "warehouse")


@pytest.fixture(params=["disk", "s3"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> txlog.Catalog:
    if request.param == "disk":
        return txlog.Catalog(tmp_path / "warehouse")
    server: FaultyS3 = request.getfixturevalue("server")
    return txlog.Catalog(f"s3://bucket/{tmp_path.name}/warehouse", storage_options=server.storage_options)


def test_a_table_is_created_and_opened_by_its_name(catalog: txlog.Catalog) -> None:
    created = catalog.create("sales.orders", ROWS.schema, partition_by="name")
    created.append(ROWS)
    table = catalog.table("Sales.`Orders`")
    assert table.to_arrow().sort_by("id").equals(ROWS)
    assert table.uri == catalog.location("sales.orders") == f"{catalog.uri}/sales/orders"


def test_another_library_reads_the_table_at_its_location(on_disk: txlog.Catalog) -> None:
    on_disk.write("orders", ROWS)
    read = deltalake.DeltaTable(on_disk.location("orders")).to_pyarrow_table()
    assert read.sort_by("id").to_pylist() == ROWS.to_pylist()


def test_a_first_write_creates_the_table_with_its_rows_as_one_version(catalog: txlog.Catalog) -> None:
    assert catalog.write("orders", ROWS).version == 0
    assert catalog.write("default.orders", ROWS).version == 1
    assert catalog.table("orders").count() == 4
    assert catalog.write("orders", ROWS, mode="ignore").outcome == "ignored"
    with pytest.raises(TableExistsError):
        catalog.write("orders", ROWS, mode="error")


def test_the_list_names_tables_and_nothing_else(catalog: txlog.Catalog) -> None:
    for name in ("b.two", "a.one", "a.other", "default.x"):
        catalog.write(name, ROWS, partition_by="name")
    assert catalog.tables() == ["a.one", "a.other", "b.two", "default.x"]
    assert catalog.tables("a") == ["a.one", "a.other"]
    assert catalog.tables("nothing") == []


def test_a_list_asks_a_store_no_question_about_each_stray_file(tmp_path: Path, server: FaultyS3) -> None:
    catalog = txlog.Catalog(f"s3://bucket/{tmp_path.name}/warehouse", storage_options=server.storage_options)
    catalog.write("a.t", ROWS, partition_by="name")
    catalog.write("c.t", ROWS)
    files = open_store(catalog.uri, server.storage_options).files
    for number in range(12):
        files.write(f"a/stray-{number}", b"x")
        files.write(f"b{number}", b"x")
    before = len(server.requests)
    assert catalog.tables() == ["a.t", "c.t"]
    assert len(server.requests) - before <= 24 / server.page_size + 6
    assert catalog.tables("a") == ["a.t"]
    assert catalog.tables("c") == ["c.t"]


def test_the_list_leaves_out_folders_without_a_log(on_disk: txlog.Catalog) -> None:
    on_disk.write("a.one", ROWS)
    for folder in ("a/empty", "a/.hidden/_delta_log", "a/Upper/_delta_log", "_spark/x/_delta_log"):
        os.makedirs(f"{on_disk.uri}/{folder}")
    Path(on_disk.uri, "a", "file").touch()
    assert on_disk.tables() == ["a.one"]
    assert txlog.Catalog(f"{on_disk.uri}/absent").tables() == []


def test_a_taken_name_is_refused(catalog: txlog.Catalog) -> None:
    catalog.write("sales.orders", ROWS)
    with pytest.raises(TableExistsError):
        catalog.create("SALES.ORDERS", ROWS.schema)
    again = catalog.create("sales.orders", ROWS.schema, exist_ok=True)
    assert again.count() == 2


def test_a_dropped_table_is_gone_and_its_name_is_free(catalog: txlog.Catalog) -> None:
    catalog.write("sales.orders", ROWS, partition_by="name")
    catalog.write("sales.others", ROWS)
    catalog.drop("sales.orders")
    assert not catalog.exists("sales.orders")
    assert catalog.tables() == ["sales.others"]
    with pytest.raises(TableNotFoundError, match=r"there is no table sales\.orders in this catalog"):
        catalog.drop("sales.orders")
    catalog.drop("sales.orders", missing_ok=True)
    assert catalog.write("sales.orders", ROWS).version == 0
    assert catalog.table("sales.others").count() == 2


def test_a_drop_on_an_object_store_that_is_broken_off_leaves_no_table(
    tmp_path: Path, server: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = txlog.Catalog(f"s3://bucket/{tmp_path.name}/warehouse", storage_options=server.storage_options)
    catalog.write("a.t", ROWS, partition_by="name")
    real, deletes = ObjectFileStore.delete_many, 0

    def fails_later(self: ObjectFileStore, paths: Sequence[str]) -> None:
        nonlocal deletes
        deletes += 1
        if deletes > 1:
            raise StorageError("no answer")
        real(self, paths)

    monkeypatch.setattr(ObjectFileStore, "delete_many", fails_later)
    with pytest.raises(StorageError, match="no answer"):
        catalog.drop("a.t")
    assert not catalog.exists("a.t")
    monkeypatch.undo()
    catalog.drop("a.t")
    with pytest.raises(TableNotFoundError):
        catalog.drop("a.t")


def test_a_drop_leaves_no_file(on_disk: txlog.Catalog) -> None:
    on_disk.write("sales.orders", ROWS)
    crashed = Path(on_disk.uri, "sales", ".dropped-1")
    crashed.mkdir()
    on_disk.drop("sales.orders")
    assert list(Path(on_disk.uri, "sales").iterdir()) == []


def test_a_table_whose_files_another_drop_deletes_is_dropped(
    on_disk: txlog.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_tree = shutil.rmtree

    def delete_after_another_drop(path: str, **options: Any) -> None:
        delete_tree(path)
        delete_tree(path, **options)

    on_disk.write("sales.orders", ROWS)
    monkeypatch.setattr("shutil.rmtree", delete_after_another_drop)
    on_disk.drop("sales.orders")
    assert list(Path(on_disk.uri, "sales").iterdir()) == []


def test_an_absent_table_is_an_error_that_names_it(catalog: txlog.Catalog) -> None:
    with pytest.raises(TableNotFoundError, match=r"there is no table sales\.orders in this catalog"):
        catalog.table("sales.orders")


@pytest.mark.parametrize("name", ["", "a..b", "../x", "a/b", "a.b.c", "_hidden", ".x.y", "a b", "ä", None, 7, "a.\0"])
def test_a_name_that_is_no_folder_name_is_refused(catalog: txlog.Catalog, name: object) -> None:
    with pytest.raises(InvalidInputError, match=r"expected schema\.table"):
        catalog.create(name, ROWS.schema)  # type: ignore[arg-type]


def test_a_table_holds_no_tables(catalog: txlog.Catalog) -> None:
    txlog.write(TablePlace(f"{catalog.uri}/sales", "", catalog.names._options), ROWS)  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match="sales is a table, so it cannot hold tables"):
        catalog.create("sales.orders", ROWS.schema)


def test_a_table_is_not_a_folder_of_tables(tmp_path: Path) -> None:
    txlog.write(tmp_path, ROWS)
    with pytest.raises(InvalidInputError, match=r"Table\.open opens it"):
        txlog.Catalog(tmp_path)


def test_a_renamed_table_keeps_its_history(on_disk: txlog.Catalog) -> None:
    on_disk.write("a.old", ROWS)
    on_disk.table("a.old").append(ROWS)
    on_disk.rename("a.old", "b.new")
    assert on_disk.tables() == ["b.new"]
    assert [each["version"] for each in on_disk.table("b.new").history()] == [1, 0]
    on_disk.write("a.old", ROWS)
    for taken in ("b.new", "a.old"):
        with pytest.raises(TableExistsError, match=f"already a table {taken}"):
            on_disk.rename("a.old", taken)
    with pytest.raises(TableNotFoundError):
        on_disk.rename("a.absent", "a.other")
    txlog.write(Path(on_disk.uri, "c"), ROWS)
    with pytest.raises(InvalidInputError, match="c is a table, so it cannot hold tables"):
        on_disk.rename("a.old", "c.inner")
    assert on_disk.tables() == ["a.old", "b.new"]


@pytest.mark.parametrize("ends", ["dropped", "renamed"])
def test_a_writer_of_a_table_that_was_dropped_or_renamed_gets_an_error_and_makes_no_table(
    on_disk: txlog.Catalog, ends: str
) -> None:
    on_disk.write("a.old", ROWS)
    writer = on_disk.table("a.old")
    if ends == "dropped":
        on_disk.drop("a.old")
    else:
        on_disk.rename("a.old", "a.new")
    with pytest.raises((NotFoundError, StorageError)):
        writer.append(ROWS)
    assert not on_disk.exists("a.old") or not txlog.Table.exists(f"{on_disk.uri}/a/old")


def test_a_registered_table_stays_where_it_is(on_disk: txlog.Catalog, tmp_path: Path, server: FaultyS3) -> None:
    elsewhere = tmp_path / "elsewhere"
    txlog.write(elsewhere, ROWS)
    on_disk.register("ext.orders", elsewhere)
    on_disk.table("ext.orders").append(ROWS)
    assert txlog.Table.open(elsewhere).count() == 4
    with pytest.raises(TableExistsError):
        on_disk.create("ext.orders", ROWS.schema)
    with pytest.raises(TableExistsError):
        on_disk.register("ext.orders", elsewhere)
    with pytest.raises(TableExistsError):
        on_disk.rename("ext.orders", "ext.orders")
    on_disk.rename("ext.orders", "ext.other")
    assert on_disk.tables() == ["ext.other"]
    on_disk.drop("ext.other")
    assert on_disk.tables() == []
    assert txlog.Table.open(elsewhere).count() == 4
    with pytest.raises(TableNotFoundError, match="no Delta table to register"):
        on_disk.register("ext.orders", tmp_path / "nothing")


def test_a_link_by_hand_names_a_table_too_even_if_it_is_relative(on_disk: txlog.Catalog, tmp_path: Path) -> None:
    txlog.write(tmp_path / "elsewhere", ROWS)
    Path(on_disk.uri, "ext").mkdir(parents=True)
    os.symlink("../../elsewhere", Path(on_disk.uri, "ext", "orders"))
    assert on_disk.tables() == ["ext.orders"]
    assert on_disk.table("ext.orders").count() == 2


def test_a_relative_link_leads_to_its_table_after_it_was_renamed_into_another_schema(on_disk: txlog.Catalog) -> None:
    on_disk.write("sales.orders", ROWS)
    os.symlink("orders", Path(on_disk.uri, "sales", "alias"))
    on_disk.rename("sales.alias", "more.alias")
    assert on_disk.tables() == ["more.alias", "sales.orders"]
    assert on_disk.table("more.alias").count() == 2


def test_a_registered_name_makes_no_new_table_where_its_table_is_gone(on_disk: txlog.Catalog, tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    txlog.write(mounted / "t", ROWS)
    on_disk.register("a.t", mounted / "t")
    mounted.rename(tmp_path / "elsewhere")
    for use in (
        lambda: on_disk.write("a.t", ROWS),
        lambda: on_disk.create("a.t", ROWS.schema, exist_ok=True),
        lambda: on_disk.table("a.t"),
    ):
        with pytest.raises(NotFoundError, match=r"a\.t is registered, but there is no table"):
            use()
    assert not mounted.exists()
    assert on_disk.exists("a.t")
    on_disk.rename("a.t", "a.u")
    on_disk.drop("a.u")
    assert on_disk.tables() == []


def test_a_table_that_could_not_be_created_leaves_no_folder(on_disk: txlog.Catalog) -> None:
    with pytest.raises(InvalidInputError):
        on_disk.create("sales.orders", "id int, id int")
    assert not Path(on_disk.uri, "sales", "orders").exists()


def test_an_error_of_the_disk_says_where(on_disk: txlog.Catalog) -> None:
    Path(on_disk.uri).mkdir()
    Path(on_disk.uri, "sales").write_text("")
    with pytest.raises(StorageError, match="warehouse/sales/orders: could not create: Not a directory"):
        on_disk.create("sales.orders", ROWS.schema)


def test_a_folder_on_a_disk_names_tables_of_an_object_store(tmp_path: Path, server: FaultyS3) -> None:
    uri = f"s3://bucket/{tmp_path.name}/table"
    txlog.write(uri, ROWS, storage_options=server.storage_options)
    catalog = txlog.Catalog(tmp_path / "warehouse", storage_options=server.storage_options)
    catalog.register("orders", uri)
    assert catalog.location("orders") == uri
    assert catalog.table("orders").count() == 2
    assert catalog.tables() == ["default.orders"]


def test_a_name_is_given_only_to_a_table_that_the_catalog_can_open(tmp_path: Path, server: FaultyS3) -> None:
    uri = f"s3://bucket/{tmp_path.name}/table"
    txlog.write(uri, ROWS, storage_options=server.storage_options)
    with FaultyS3() as another:
        catalog = txlog.Catalog(tmp_path / "warehouse", storage_options=another.storage_options)
        with pytest.raises(TableNotFoundError, match="no Delta table to register"):
            catalog.register("orders", uri)
    assert catalog.tables() == []


def test_a_folder_of_an_object_store_says_that_it_cannot_change_a_name_in_one_step(
    tmp_path: Path, server: FaultyS3
) -> None:
    catalog = txlog.Catalog(f"s3://bucket/{tmp_path.name}", storage_options=server.storage_options)
    catalog.write("orders", ROWS)
    with pytest.raises(UnsupportedFeatureError, match="clone it under the new name"):
        catalog.rename("orders", "others")
    with pytest.raises(UnsupportedFeatureError, match="open it by its location"):
        catalog.register("others", catalog.location("orders"))


def take(uri: str, name: str, number: int, answers: multiprocessing.Queue[str]) -> None:
    catalog = txlog.Catalog(uri)
    try:
        if name == "create":
            catalog.create("a.taken", f"c{number} int")
        elif name == "register":
            catalog.register("a.taken", f"{uri}/sources/t{number}")
        else:
            catalog.rename(f"a.t{number}", "a.taken")
        answers.put(f"c{number}")
    except TxlogError as error:
        answers.put(error.kind)


def test_of_many_processes_that_take_a_name_one_gets_it(on_disk: txlog.Catalog) -> None:
    """By creating a table, renaming one to it, and registering one."""
    how = ["create", "register", "rename"] * 2
    for number in range(len(how)):
        on_disk.create(f"a.t{number}", f"c{number} int")
        on_disk.create(f"sources.t{number}", f"c{number} int")
    spawned = multiprocessing.get_context("spawn")
    answers = spawned.Queue()
    processes = [
        spawned.Process(target=take, args=(on_disk.uri, name, number, answers)) for number, name in enumerate(how)
    ]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    winners = [answer for answer in found if answer.startswith("c")]
    assert len(winners) == 1
    assert [answer for answer in found if answer not in winners] == ["TableExistsError"] * (len(how) - 1)
    assert on_disk.table("a.taken").schema.names == winners


def test_a_place_brings_the_owner_of_its_versions(tmp_path: Path) -> None:
    owner = VersionOwner()
    place = TablePlace(str(tmp_path), "a.b", owner=lambda store: OwnedVersions(owner, store.log))
    txlog.Table.create(place, ROWS.schema)
    txlog.Table.open(place).append(ROWS)
    assert owner.newest == 1
    assert not list(Path(tmp_path, "_delta_log").glob("*.json"))
    assert txlog.Table.open(place).count() == 2


def test_a_place_shows_no_secret() -> None:
    assert "secret" not in repr(TablePlace("s3://b/t", "a.b", {"aws_secret_access_key": "secret"}))


def test_a_catalog_without_an_address_is_an_error_that_says_so() -> None:
    with pytest.raises(InvalidInputError, match="expected the address of a catalog, got int"):
        txlog.Catalog(5)


@pytest.mark.parametrize("name", ["`..`.t", "`.hidden`.t", "`a/b`.t", "`a.b.t", "a..t", "", "a,b"])
def test_a_name_that_leads_elsewhere_is_refused(on_disk: txlog.Catalog, name: str) -> None:
    with pytest.raises(InvalidInputError, match="Invalid name"):
        on_disk.create(name, ROWS.schema)
