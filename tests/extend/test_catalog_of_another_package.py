"""A catalog that another package offers for its URL scheme: at every door it works as the first-party ones do."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from tests.packages import hide, install
from txlog.cli.app import app
from txlog.errors import InvalidInputError, TableNotFoundError, UnsupportedFeatureError

ROWS = pa.table({"id": [1, 2]})
ACME = """
import os
import txlog
from txlog.errors import TableNotFoundError
from txlog.extend import CatalogScheme, TablePlace, require_no_token

class Acme:  # names in files, each with the place of its table
    def __init__(self, uri, options):
        self.uri, self.options = uri, options
        self.folder = uri.partition("://")[2]

    def _file(self, name):
        return os.path.join(self.folder, name + ".name")

    def resolve(self, name):
        if not os.path.exists(self._file(name)):
            raise TableNotFoundError(f"acme knows no {name}", table=self.uri)
        with open(self._file(name)) as file:
            return TablePlace(file.read(), name, self.options)

    def tables(self, schema=None):
        return sorted(each[: -len(".name")] for each in os.listdir(self.folder) if each.endswith(".name"))

    def create(self, name, make):
        place = TablePlace(os.path.join(self.folder, "files of " + name), name, self.options)
        made = make(place)
        with open(self._file(name), "w") as file:
            file.write(place.uri)
        return made

    def drop(self, name):
        os.unlink(self._file(name))

def open_acme(uri, token, storage_options, credential_provider):
    require_no_token(token)
    return Acme(uri, storage_options)

def find(uri, storage_options, credential_provider):
    return Acme("acme://" + os.environ["ACME"], storage_options), uri.partition("://")[2]

SCHEME = CatalogScheme(opens=open_acme)
NAMES = CatalogScheme(finds=find)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    entries = {"acme": "txlog_acme:SCHEME", "acmetable": "txlog_acme:NAMES"}
    install(monkeypatch, tmp_path / "site", "txlog-acme", {"txlog.catalogs": entries}, {"txlog_acme": ACME})
    folder = tmp_path / "names"
    folder.mkdir()
    monkeypatch.setenv("ACME", str(folder))
    return folder


def test_its_tables_are_created_written_listed_and_dropped_by_name(folder: Path) -> None:
    catalog = txlog.Catalog(f"acme://{folder}")
    catalog.write("orders", ROWS)
    assert catalog.tables() == ["orders"]
    assert deltalake.DeltaTable(catalog.location("orders")).to_pyarrow_table().num_rows == 2
    assert pickle.loads(pickle.dumps(catalog.table("orders"))).count() == 2
    catalog.drop("orders")
    assert not catalog.exists("orders")
    with pytest.raises(InvalidInputError, match="needs no token"):
        txlog.Catalog(f"acme://{folder}", token="x")


def test_sql_and_the_command_line_take_its_address(folder: Path) -> None:
    address = f"ACME://{folder}"
    txlog.sql("create table orders (id bigint)", address)
    txlog.sql("insert into orders values (1), (41)", address)
    assert txlog.sql("select sum(id) as s from orders", address).read_all().to_pylist() == [{"s": 42}]
    listed = CliRunner().invoke(app, ["tables", address])
    assert (listed.exit_code, listed.output.split()) == (0, ["orders"])
    shown = CliRunner().invoke(app, ["sql", "select count(*) as n from orders", "--catalog", address, "--json"])
    assert json.loads(shown.output) == {"columns": ["n"], "rows": [[2]]}


def test_a_name_of_its_scheme_is_taken_wherever_a_location_is(folder: Path, tmp_path: Path) -> None:
    txlog.write("acmetable://orders", ROWS)
    table = txlog.Table.open("acmetable://orders")
    assert table.count() == 2
    assert table.clone("acmetable://copy").version == 0
    assert txlog.Table.create("acmetable://new", "id bigint").version == 0
    assert txlog.Catalog(f"acme://{folder}").tables() == ["copy", "new", "orders"]
    assert txlog.probe_store("acmetable://orders").is_safe
    (tmp_path / "more.jsonl").write_text('{"id": 3}\n')
    done = CliRunner().invoke(app, ["append", "acmetable://orders", str(tmp_path / "more.jsonl")])
    assert done.exit_code == 0, done.output
    assert txlog.Table.open("acmetable://orders").count() == 3
    with pytest.raises(TableNotFoundError, match="acme knows no nothing"):
        txlog.Table.open("acmetable://nothing")


def test_an_address_that_no_installed_package_offers_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    hide(monkeypatch, *(f"txlog.catalogs:{scheme}" for scheme in ("uc", "http", "https", "glue")))
    for address in ("uc://a.b.c", "acme://orders"):
        with pytest.raises(InvalidInputError, match=r"install the package that offers.*txlog\.catalogs"):
            txlog.Table.open(address, storage_options={"catalog": "http://localhost"})
    for address in ("http://localhost:1", "https://localhost:1", "glue://", "glue:", "acme://server"):
        with pytest.raises(UnsupportedFeatureError, match=r"no installed package offers.*txlog\.catalogs"):
            txlog.Catalog(address)
    assert os.listdir(tmp_path) == []
