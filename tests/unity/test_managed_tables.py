"""Whole tables that a catalog manages: what a user does with them, and what the catalog keeps to itself."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.core.format.identity import identity_columns
from txlog.core.format.log_names import commit_name
from txlog.core.store import LocalLogStore
from txlog.core.versions import numbers_of
from txlog.core.versions.upkeep._version_checksum import write_checksum
from txlog.errors import CorruptLogError, StorageError, UnsupportedFeatureError
from txlog.testing.unity_server import UnityServer
from txlog.unity.schemes import CATALOG

NAME = "main.s.orders"
URI = f"uc://{NAME}"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "note": [f"n{each}" for each in ids]})


def ids(table: txlog.Table) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "server") as server:
        monkeypatch.setenv(CATALOG, server.uri)
        yield server


@pytest.fixture
def table(server: UnityServer) -> txlog.Table:
    return txlog.Table.create(URI, "id bigint, note string", properties={"delta.enableChangeDataFeed": "true"})


def test_another_process_reads_what_was_written(table: txlog.Table) -> None:
    table.append(rows(1, 2, 3))
    script = f"import txlog; print(sorted(txlog.Table.open({URI!r}).to_arrow()['id'].to_pylist()))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == [1, 2, 3]


def test_rows_are_deleted_updated_upserted_merged_and_overwritten(table: txlog.Table) -> None:
    table.append(rows(*range(10)))
    table.delete("id < 3")
    table.update({"note": txlog.expr("'changed'")}, where="id = 3")
    table.upsert(rows(4, 20), keys=["id"])
    source = rows(5, 30)
    table.merge(source, "target.id = source.id").when_matched_delete().when_not_matched_insert_all().execute()
    assert ids(txlog.Table.open(URI)) == [3, 4, 6, 7, 8, 9, 20, 30]
    table.overwrite(rows(1))
    assert ids(txlog.Table.open(URI)) == [1]
    assert table.verify().is_sound


def test_every_version_can_be_read_again_and_followed(table: txlog.Table) -> None:
    for each in range(8):
        table.append(rows(each))
    reader = txlog.Table.open(URI)
    assert [reader.snapshot(version).to_arrow().num_rows for version in range(9)] == list(range(9))
    assert [entry["version"] for entry in reader.history()] == list(range(8, -1, -1))
    assert reader.changes(1, 8).read_all().num_rows == 8


def test_a_transaction_and_an_exactly_once_write_land_once(table: txlog.Table) -> None:
    with table.transaction() as together:
        together.append(rows(1))
        together.append(rows(2))
    for _ in range(2):
        table.append(rows(3), app_id="job", checkpoint_id=1)
    assert (ids(txlog.Table.open(URI)), table.version) == ([1, 2, 3], 2)


def test_the_catalog_learns_each_change_of_the_definition(server: UnityServer, table: txlog.Table) -> None:
    table.add_columns("tags array<struct<k:string,v:map<string,int>>>")
    table.set_properties({"delta.appendOnly": "true", "my.own": "1"})
    table.unset_properties(["my.own"])
    table.add_constraint("positive", "id >= 0")
    record, state = server.table(NAME), table._open_table.log.newest_state()
    assert [field["name"] for field in record["columns"]["fields"]] == ["id", "note", "tags"]
    assert record["columns"]["fields"][2]["type"]["element-type"]["fields"][1]["type"]["value-type"] == "integer"
    assert record["properties"] == dict(state.metadata.configuration)
    assert set(record["protocol"]["writer-features"]) == set(state.protocol.writer_features or ())
    assert record["latest"] == 4


def test_a_table_is_made_with_its_first_rows_by_its_name(server: UnityServer) -> None:
    assert not txlog.Table.exists("uc://main.s.new")
    assert txlog.write("uc://main.s.new", rows(1, 2)).version == 0
    assert txlog.Table.exists("uc://main.s.new")
    assert txlog.write("uc://main.s.new", rows(3)).version == 1
    assert ids(txlog.Table.open("uc://main.s.new")) == [1, 2, 3]
    with pytest.raises(txlog.TableExistsError):
        txlog.write("uc://main.s.new", rows(3), mode="error")
    assert txlog.Table.create("uc://main.s.new", "id bigint, note string", exist_ok=True).version == 1
    assert txlog.Catalog(server.uri).tables("main.s") == ["main.s.new"]


def test_one_checkpoint_feeds_several_managed_tables_and_is_ended_by_another_process(table: txlog.Table) -> None:
    txlog.Table.create("uc://main.s.lines", "id bigint, note string")

    def sinks() -> list[txlog.Sink]:
        return [txlog.Sink(txlog.Table.open(name), "shop") for name in (URI, "uc://main.s.lines")]

    tasks = []
    for sink in (first := sinks()):
        with sink.task(1) as task:
            task.write(rows(1, 2))
        tasks.append([task.committable])
    assert txlog.SinkGroup(*first).prepare(1, tasks)
    assert [found.results[1].outcome for found in txlog.SinkGroup(*sinks()).recover()] == ["committed"] * 2
    assert [result.outcome for result in txlog.SinkGroup(*sinks()).commit(1)] == ["already_committed"] * 2
    assert ids(txlog.Table.open(URI)) == ids(txlog.Table.open("uc://main.s.lines")) == [1, 2]


def test_a_clone_into_a_name_is_managed_and_one_of_it_elsewhere_is_not(table: txlog.Table, tmp_path: Path) -> None:
    table.append(rows(1, 2))
    plain = tmp_path / "plain"
    table.clone(plain)
    table.clone("uc://main.s.copy")
    table.append(rows(3))
    table.clone(plain, mode="replace")
    table.clone("uc://main.s.copy", mode="replace")
    for copy in (txlog.Table.open(plain), txlog.Table.open("uc://main.s.copy")):
        copy.append(rows(4))
        assert ids(copy) == [1, 2, 3, 4]
    assert "io.unitycatalog.tableId" not in txlog.Table.open(plain).properties
    txlog.Table.open(plain).clone("uc://main.s.adopted")
    assert ids(txlog.Table.open("uc://main.s.adopted")) == [1, 2, 3, 4]


def test_a_name_is_refused_where_it_cannot_be_made_managed_and_the_error_says_how(
    table: txlog.Table, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedFeatureError, match="make a deep clone"):
        table.clone("uc://main.s.copy", shallow=True)
    with pytest.raises(txlog.InvalidInputError, match="ends where this one has a #"):
        txlog.Table.open(f"{URI}#copy")
    with pytest.raises(txlog.InvalidInputError, match="clone the table into the name"):
        txlog.Table.convert("uc://main.s.copy")


def test_an_external_table_is_found_by_name_and_committed_to_by_path(server: UnityServer, tmp_path: Path) -> None:
    plain = txlog.Table.create(tmp_path / "external", "id bigint, note string")
    server._create(
        "main.s",
        {
            "name": "external",
            "location": f"file://{tmp_path}/external",
            "table-type": "EXTERNAL",
            "columns": {"type": "struct", "fields": []},
            "protocol": {"min-reader-version": 1, "min-writer-version": 2},
            "properties": {},
        },
    )
    assert txlog.Table.open("uc://main.s.external").append(rows(1)).version == 1
    assert ids(plain) == [1]


def test_the_catalog_lists_its_tables_page_by_page(server: UnityServer, table: txlog.Table) -> None:
    record = server.table(NAME)
    server._book["tables"].update({f"main.s.t{each:03}": record for each in range(120)})
    catalog = txlog.Catalog(server.uri)
    assert catalog.tables() == catalog.tables("main.s") == sorted(server._book["tables"])


def test_a_server_that_repeats_a_page_of_names_forever_is_refused(server: UnityServer, table: txlog.Table) -> None:
    asked: list[str] = []

    def repeating(method: str, path: str, query: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        asked.append(path)
        return 200, {"tables": [], "next_page_token": "0" if len(asked) < 9 else None}

    server.switches.answer = repeating
    with pytest.raises(StorageError, match=r"the list of tables of the catalog at .* repeats a page"):
        txlog.Catalog(server.uri).tables("main.s")
    assert len(asked) == 2


def test_what_the_catalog_keeps_to_itself_is_refused_unless_it_allows_it(table: txlog.Table) -> None:
    table.append(rows(1))
    table.append(rows(2))
    for refused in (table.optimize, table.purge, table.vacuum, table.clean_up_log, table.maintain):
        with pytest.raises(UnsupportedFeatureError, match="left to the catalog"):
            refused()
    allowed = txlog.Table.open(URI, storage_options={"catalog_allows_maintenance": "true"})
    assert allowed.optimize().files_added == 1
    allowed.vacuum()
    assert ids(txlog.Table.open(URI)) == [1, 2]


def address_of(table: txlog.Table) -> tuple[str, Mapping[str, str]]:
    """What another process opens it by."""
    found = table._open_table.store.address
    assert found is not None
    return found


def test_a_catalog_that_allows_maintenance_allows_it_in_tasks_elsewhere_too(server: UnityServer) -> None:
    options = {"catalog_allows_maintenance": "true"}
    made = txlog.Table.create("uc://main.s.made", "id bigint", storage_options=options)
    for table in (made, txlog.Table.open("uc://main.s.made", storage_options=options)):
        elsewhere, own = address_of(table)
        assert txlog.Table.open(elsewhere, storage_options=own).vacuum().paths == ()


def test_a_table_is_renamed_within_its_schema_only(server: UnityServer, table: txlog.Table) -> None:
    catalog = txlog.Catalog(server.uri)
    for elsewhere in ("main.other.orders", "other.s.orders"):
        with pytest.raises(UnsupportedFeatureError, match="within a schema only"):
            catalog.rename(NAME, elsewhere)
    catalog.rename(NAME, "main.s.sales")
    assert catalog.tables("main.s") == ["main.s.sales"]


def test_nobody_opens_a_managed_table_by_its_location_alone(table: txlog.Table) -> None:
    for use in (txlog.Table.open, lambda uri: txlog.write(uri, rows(1))):
        with pytest.raises(UnsupportedFeatureError, match="by its name"):
            use(table.uri)


def test_no_table_gets_or_loses_the_feature_by_itself(table: txlog.Table, tmp_path: Path) -> None:
    plain = txlog.Table.create(tmp_path / "plain", "id bigint")
    with pytest.raises(UnsupportedFeatureError, match="by its name"):
        plain.set_properties({"delta.feature.catalogManaged": "supported"})
    with pytest.raises(UnsupportedFeatureError, match="by its name"):
        txlog.Table.create(tmp_path / "new", "id bigint", properties={"delta.feature.catalogManaged": "supported"})
    with pytest.raises(txlog.TxlogError):
        table.drop_feature("catalogManaged")


def test_tasks_elsewhere_take_numbers_of_identity_columns_through_the_catalog(server: UnityServer) -> None:
    columns = "id bigint, n bigint generated by default as identity"
    table = txlog.Table.create("uc://main.s.counted", columns)
    state = table._open_table.log.newest_state()
    numbers = numbers_of(table._open_table, state)
    (column,) = identity_columns(state.schema)
    taken = pickle.loads(pickle.dumps(numbers)).take(column, 3).to_pylist()
    table.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    given = table.to_arrow().column("n").to_pylist()
    assert len({*taken, *given}) == 5


def test_a_handle_crosses_to_another_process(table: txlog.Table) -> None:
    copy = pickle.loads(pickle.dumps(table))
    copy.append(rows(1))
    assert ids(table) == [1]


def test_the_command_line_takes_names(server: UnityServer, table: txlog.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(rows(1, 2))
    for command in ("show", "verify", "history", "files"):
        done = CliRunner().invoke(app, [command, URI])
        assert done.exit_code == 0, done.output
    with monkeypatch.context() as without:
        without.delenv(CATALOG)
        arguments = ["delete", URI, "--where", "id = 1", "--storage-option", f"catalog={server.uri}"]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
    assert ids(txlog.Table.open(URI)) == [2]


def test_a_name_without_a_catalog_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CATALOG, raising=False)
    with pytest.raises(txlog.InvalidInputError, match=CATALOG):
        txlog.Table.open(URI)


def test_a_sink_commits_each_checkpoint_once(table: txlog.Table) -> None:
    for _ in range(2):
        sink = txlog.Sink(table, app_id="job")
        with sink.task(1) as task:
            task.write(rows(1))
        sink.commit(1, [task.committable])
    assert ids(txlog.Table.open(URI)) == [1]


# --- opening ------------------------------------------------------------------------------------------------------


def test_opening_after_a_checkpoint_takes_one_request_and_no_list_of_a_local_folder(
    server: UnityServer, table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    table.create_checkpoint()
    newest = [table.append(rows(number)) for number in (2, 3)][-1].version
    listed: list[str] = []
    monkeypatch.setattr(LocalLogStore, "list_from", lambda self, name: listed.append(name) or [])
    asked = len(server.requests)
    opened = txlog.Catalog(server.uri).table(NAME)
    assert (listed, len(server.requests) - asked) == ([], 1)
    assert opened.version == newest


@pytest.mark.parametrize("has_checksum", [True, False])
def test_a_version_after_the_checkpoint_that_is_lost_is_reported_and_no_older_one_is_read(
    server: UnityServer, table: txlog.Table, has_checksum: bool
) -> None:
    table.create_checkpoint()
    for number in (1, 2, 3):
        table.append(rows(number))
    newest = table._open_table.log.newest_state()
    table._open_table.log.make_durable(newest)  # which publishes
    table._open_table.post_commit.drain()
    log = Path(table.uri) / "_delta_log"
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    if has_checksum:
        assert write_checksum(table._open_table.log, newest)
    table.append(rows(4))
    (log / commit_name(2)).unlink()
    with pytest.raises(CorruptLogError, match="version 2"):
        txlog.Catalog(server.uri).table(NAME)


def test_the_newest_version_that_is_lost_is_reported_and_no_older_one_is_read(
    server: UnityServer, table: txlog.Table
) -> None:
    table.create_checkpoint()
    table.append(rows(1))
    table.append(rows(2))
    newest = 2
    table._open_table.post_commit.drain()
    table._open_table.store.versions.publish(newest)
    server.table(NAME)["commits"].clear()  # as a server does whose records go once they are published
    assert ids(txlog.Table.open(URI)) == [1, 2]
    (Path(table.uri) / "_delta_log" / commit_name(newest)).unlink()
    with pytest.raises(CorruptLogError, match=f"version {newest} as the newest of {NAME}"):
        txlog.Catalog(server.uri).table(NAME)


def test_each_commit_after_a_checkpoint_without_checksums_is_read_once(
    server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = txlog.Table.create(URI, "id bigint, note string", properties={"delta.checkpointInterval": "1000"})
    table.create_checkpoint()
    for number in range(30):
        table.append(rows(number))
    table._open_table.post_commit.drain()
    for checksum in (Path(table.uri) / "_delta_log").glob("*.crc"):
        checksum.unlink()
    read: list[str] = []
    real = LocalLogStore.read
    monkeypatch.setattr(LocalLogStore, "read", lambda self, name: read.append(name) or real(self, name))
    assert txlog.Catalog(server.uri).table(NAME).version == 30
    commits = [name for name in read if name.endswith(".json") and "checkpoint" not in name]
    assert len({*commits}) == 30
    assert len(commits) <= 31


# --- MANAGED, but not managed by the catalog ----------------------------------------------------------------------


def sample(server: UnityServer, folder: Path) -> Path:
    """A table as the one that real servers ship: MANAGED, two versions, and the server knows of none."""
    plain = txlog.Table.create(folder / "sample", "id bigint, note string")
    plain.append(rows(*range(15)))
    server.add_table("main.s.sample", plain.uri, "MANAGED")
    return folder / "sample"


def test_a_managed_table_whose_commits_the_catalog_does_not_decide_is_read_and_written_by_its_log(
    server: UnityServer, tmp_path: Path
) -> None:
    folder = sample(server, tmp_path)
    table = txlog.Table.open("uc://main.s.sample")
    assert (table.version, ids(table)) == (1, list(range(15)))
    assert table.append(rows(15)).version == 2
    assert server.table("main.s.sample")["latest"] == 0, "the catalog was asked to accept a commit"
    assert ids(txlog.Table.open(folder)) == ids(txlog.Table.open("uc://main.s.sample")) == list(range(16))
    assert table.verify().is_sound


def test_a_catalog_and_a_log_that_do_not_agree_who_decides_are_refused(
    server: UnityServer, table: txlog.Table, tmp_path: Path
) -> None:
    """As Delta's kernel refuses them: with a version of the catalog, and a log that is managed by its files."""
    sample(server, tmp_path)
    record = server.table("main.s.sample")
    record["properties"] = {"delta.feature.catalogManaged": "supported"}
    for use in (txlog.Table.open, lambda uri: txlog.write(uri, rows(1))):
        with pytest.raises(UnsupportedFeatureError, match="lacks catalogManaged"):
            use("uc://main.s.sample")
    record["properties"], record["latest"] = {}, 1
    with pytest.raises(UnsupportedFeatureError, match="has accepted commits"):
        txlog.Table.open("uc://main.s.sample")
    assert txlog.Table.open(tmp_path / "sample").version == 1
    server.table(NAME)["protocol"], server.table(NAME)["properties"] = None, {}
    with pytest.raises(UnsupportedFeatureError, match="does not say so"):
        txlog.Table.open(URI)


# --- names --------------------------------------------------------------------------------------------------------


def test_errors_and_log_lines_name_the_table_and_no_folder_of_ids(
    server: UnityServer, table: txlog.Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = txlog.Table.create(tmp_path / "external", "id bigint, note string")
    server.add_table("main.s.external", plain.uri)
    caplog.set_level("DEBUG", "txlog")
    for name in (NAME, "main.s.external"):
        named = txlog.Table.open(f"uc://{name}")
        for use in (
            lambda named=named: named.append(pa.table({"nothing": [1]})),
            lambda named=named: named.append(pa.table({"id": ["x"], "note": ["y"]})),
            lambda named=named: named.delete("nothing = 1"),
            lambda named=named: named.snapshot(99),
            lambda named=named: named.to_arrow(columns=["nothing"]),
            lambda named=named: named.restore(99),
            lambda named=named: named.add_constraint("wrong", "nothing > 1"),
        ):
            with pytest.raises(txlog.TxlogError) as raised:
                use()
            assert raised.value.table == f"uc://{name}", raised.value
            assert named.uri not in str(raised.value)
        named.append(rows(1))
        assert isinstance(named.uri, str)
        assert Path(named.uri).is_dir()
        log = Path(named.uri) / "_delta_log" / commit_name(named.version)
        assert f"uc://{name}: committed v1" in caplog.text
        assert named.uri not in caplog.text
        copied = pickle.loads(pickle.dumps(raised.value))
        assert (copied.table, str(copied)) == (raised.value.table, str(raised.value))
        assert log.exists()
