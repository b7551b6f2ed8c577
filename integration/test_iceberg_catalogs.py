"""Iceberg catalogs: an entry is created, follows the table, never moves back, and is left alone if it is not ours.

A SQL catalog in SQLite, REST servers of two kinds, and Glue as moto plays it, all through PyIceberg as its users
configure it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from iceberg_rest import rest_catalog
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app
from txlog.errors import IcebergExportError, InvalidInputError, StorageError, TxlogError
from txlog.iceberg.catalog import _SqlEntry, import_client, move_entry

ENTRY = "here.sales.orders"
KINDS = ("sql", "rest", "rest without overwriting", "glue")

Configure = Callable[[str], Any]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configure]:
    """Makes a catalog of a kind, called ``here`` in PyIceberg's configuration, and returns it."""
    servers: list[AbstractContextManager[Any]] = []

    def configured(kind: str) -> Any:
        options = {"TYPE": kind.split()[0]}
        if kind == "glue":
            from moto import mock_aws

            servers.append(mock_aws())
            servers[-1].__enter__()
            options |= {"GLUE__REGION": "eu-west-1", "GLUE__ACCESS_KEY_ID": "key", "GLUE__SECRET_ACCESS_KEY": "secret"}
        elif kind == "sql":
            options["URI"] = f"sqlite:///{tmp_path}/catalog.db"
        else:
            servers.append(rest_catalog(can_overwrite=kind == "rest"))
            options["URI"] = servers[-1].__enter__()
        for name, value in options.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__HERE__{name}", value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read once, at import
        return load_catalog("here")

    yield configured
    for server in servers:
        server.__exit__(None, None, None)


def exported(path: Path, format_version: str = "v2") -> tuple[txlog.Table, str]:
    """A table of one row, and the location of its metadata."""
    txlog.write(path, pa.table({"a": [0]}), properties={"txlog.iceberg": format_version})
    table = txlog.Table.open(path)
    return table, table.export_iceberg().metadata_location


def grown(table: txlog.Table, number: int) -> str:
    table.append(pa.table({"a": [number]}))
    return table.export_iceberg().metadata_location


def rows_in(catalog: Any) -> list[int]:
    return sorted(catalog.load_table(("sales", "orders")).scan().to_arrow()["a"].to_pylist())


@pytest.mark.parametrize("format_version", ["v2", "v3"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_catalog_entry_is_created_with_its_namespace_and_follows_the_exports(
    kind: str, format_version: str, tmp_path: Path, configure: Configure
) -> None:
    catalog = configure(kind)
    table, location = exported(tmp_path / "t", format_version)
    assert move_entry(ENTRY, location)
    assert rows_in(catalog) == [0]
    for number in (1, 2):
        location = grown(table, number)
        assert move_entry(ENTRY, location)
        assert catalog.load_table(("sales", "orders")).metadata_location == location
    assert rows_in(catalog) == [0, 1, 2]
    assert not move_entry(ENTRY, location)


@pytest.mark.parametrize("kind", KINDS)
def test_a_catalog_entry_is_never_moved_back_to_older_metadata(kind: str, tmp_path: Path, configure: Configure) -> None:
    catalog = configure(kind)
    table, first = exported(tmp_path / "t")
    newest = grown(table, 1)
    assert move_entry(ENTRY, newest)
    assert not move_entry(ENTRY, first)
    assert catalog.load_table(("sales", "orders")).metadata_location == newest


def test_concurrent_exporters_leave_a_catalog_entry_at_the_newest_metadata(
    tmp_path: Path, configure: Configure
) -> None:
    catalog = configure("sql")
    table, first = exported(tmp_path / "t")
    locations = [first, *(grown(table, number) for number in range(1, 6))]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda location: move_entry(ENTRY, location), locations))
    assert rows_in(catalog) == list(range(6))


def test_an_entry_of_a_sql_catalog_that_moved_on_since_it_was_read_is_not_moved_back(
    tmp_path: Path, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = configure("sql")
    table, first = exported(tmp_path / "t")
    older, newer = grown(table, 1), grown(table, 2)
    assert move_entry(ENTRY, first)
    read, others = _SqlEntry.location, [lambda: move_entry(ENTRY, newer)]

    def read_before_others(entry: _SqlEntry) -> str | None:
        found = read(entry)
        if others:
            assert others.pop()()
        return found

    monkeypatch.setattr(_SqlEntry, "location", read_before_others)
    assert not move_entry(ENTRY, older)
    assert rows_in(catalog) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["sql", "rest", "glue"])
def test_the_client_of_a_catalog_is_imported_before_a_thread_uses_it(
    kind: str, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(kind)
    monkeypatch.delitem(sys.modules, f"pyiceberg.catalog.{kind}")
    import_client(ENTRY)
    assert f"pyiceberg.catalog.{kind}" in sys.modules


def test_an_entry_moves_on_when_the_file_it_names_was_cleaned_up(tmp_path: Path, configure: Configure) -> None:
    catalog = configure("sql")
    table, first = exported(tmp_path / "t")
    move_entry(ENTRY, first)
    newest = grown(table, 1)
    Path(first.removeprefix("file://")).unlink()
    assert move_entry(ENTRY, newest)
    assert rows_in(catalog) == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_registered_table_moves_its_entry_on_after_every_commit(
    kind: str, tmp_path: Path, configure: Configure
) -> None:
    catalog = configure(kind)
    table, _ = exported(tmp_path / "t")
    done = CliRunner().invoke(app, ["iceberg", table.uri, "--register", ENTRY, "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["catalog_entry"] == ENTRY
    assert rows_in(catalog) == [0]
    for writer in (txlog.Table.open(table.uri), txlog.Table.open(table.uri)):
        writer.append(pa.table({"a": [writer.version]}))
        writer._open_table.post_commit.drain()
    assert rows_in(catalog) == [0, 1, 2]
    assert table.snapshot().properties["txlog.iceberg.catalog"] == ENTRY


def test_a_catalog_that_is_out_of_reach_fails_no_commit(
    tmp_path: Path, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    configure("sql")
    table, _ = exported(tmp_path / "t")
    table.export_iceberg(register=ENTRY)
    # The commit of the registration has a background export too. One that opened the catalog while this writes the file
    # would make the empty file a catalog again.
    table._open_table.post_commit.drain()
    (tmp_path / "catalog.db").write_bytes(b"this is no database" * 100)
    table.append(pa.table({"a": [1]}))
    table._open_table.post_commit.drain()
    assert ENTRY in caplog.text
    with pytest.raises(TxlogError, match=r"here\.sales\.orders"):
        table.export_iceberg()
    assert table.to_arrow().num_rows == 2


def test_an_entry_that_an_iceberg_writer_changed_is_left_alone(tmp_path: Path, configure: Configure) -> None:
    catalog = configure("sql")
    table, location = exported(tmp_path / "t")
    move_entry(ENTRY, location)
    catalog.load_table(("sales", "orders")).append(pa.table({"a": [99]}))
    with pytest.raises(IcebergExportError, match=r"here\.sales\.orders.*another Iceberg writer.*Drop the entry"):
        move_entry(ENTRY, grown(table, 1))
    assert rows_in(catalog) == [0, 99]
    assert table.to_arrow().num_rows == 2
    catalog.drop_table(("sales", "orders"))
    assert move_entry(ENTRY, table.export_iceberg().metadata_location)
    assert rows_in(catalog) == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_of_another_table_is_left_alone(kind: str, tmp_path: Path, configure: Configure) -> None:
    configure(kind)
    _, ours = exported(tmp_path / "ours")
    _, theirs = exported(tmp_path / "theirs")
    move_entry(ENTRY, theirs)
    with pytest.raises(IcebergExportError, match="it is another table"):
        move_entry(ENTRY, ours)


def test_a_catalog_that_is_not_configured_or_does_not_answer_is_named(tmp_path: Path, configure: Configure) -> None:
    _, location = exported(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"'elsewhere' cannot be opened.*PYICEBERG_CATALOG__"):
        move_entry("elsewhere.sales.orders", location)
    configure("sql")
    (tmp_path / "catalog.db").write_bytes(b"this is no database" * 100)
    with pytest.raises((StorageError, InvalidInputError), match=r"here\.sales\.orders"):
        move_entry(ENTRY, location)
