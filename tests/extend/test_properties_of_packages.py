"""Tables with a property that a package brings: its rule, what follows their commits, and txlog without the package."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from tests.packages import hide, install
from txlog.cli.app import app
from txlog.core.format.properties import require_extensions
from txlog.errors import InvalidInputError, UnsupportedFeatureError

ROWS = pa.table({"id": [1, 2]})
ICEBERG = ("txlog.after_commit:txlog.iceberg", "txlog.properties:txlog.iceberg")
ACME = """
from txlog.errors import InvalidInputError
from txlog.extend import PropertyRule
from txlog.core.background import Background

def parse(text):
    if text not in ("daily", "hourly"):
        raise ValueError("neither")
    return text

def retyped(value, path, old, wider):
    raise InvalidInputError(f"acme counts {path[0]} {value}, as it is")

RULE = PropertyRule(parse, "daily or hourly", retyped=retyped, is_of_one_table=True)
SEEN = []

class Follower:
    def __init__(self, log):
        self.uri, self.background = log.uri, Background("acme")

    def after(self, state):
        SEEN.append((state.version, state.metadata.configuration["txlog.acme.count"]))
        if state.version == 2:
            raise RuntimeError("acme is down")
"""


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offers = {
        "txlog.after_commit": {"txlog.acme.count": "txlog_acme_count:Follower"},
        "txlog.properties": {"txlog.acme.count": "txlog_acme_count:RULE"},
    }
    install(monkeypatch, tmp_path / "site", "txlog-acme", offers, {"txlog_acme_count": ACME})


@pytest.mark.usefixtures("acme")
def test_a_property_of_a_package_has_the_packages_rule(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id int", properties={"delta.enableTypeWidening": "true"})
    with pytest.raises(InvalidInputError, match="daily or hourly"):
        table.set_properties({"txlog.acme.count": "weekly"})
    with pytest.raises(InvalidInputError, match="unknown table property"):
        table.set_properties({"txlog.acme.counts": "daily"})
    table.set_properties({"TXLOG.Acme.Count": "daily"})
    assert table.properties["txlog.acme.count"] == "daily"
    with pytest.raises(InvalidInputError, match="acme counts id daily"):
        table.alter_column("id", type="bigint")
    assert "txlog.acme.count" not in txlog.Table.open(table.clone(tmp_path / "clone").uri).properties


@pytest.mark.usefixtures("acme")
def test_what_follows_a_commit_is_told_of_each_and_cannot_fail_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint", properties={"txlog.acme.count": "hourly"})
    for _ in range(3):
        table.append(ROWS)
    import txlog_acme_count  # type: ignore[import-not-found]

    assert [(version, "hourly") for version in range(4)] == txlog_acme_count.SEEN
    assert "v2 for txlog.acme.count failed, the commit is safe: acme is down" in caplog.text
    assert deltalake.DeltaTable(str(tmp_path / "t")).version() == 3


def test_without_iceberg_a_table_that_exports_is_read_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "t"
    table = txlog.Table.create(place, ROWS.schema, properties={"txlog.iceberg": "v2"})
    table.append(ROWS)
    table.export_iceberg()
    files = sorted(place.rglob("*"))
    hide(monkeypatch, *ICEBERG)
    table = txlog.Table.open(place)
    assert table.to_arrow().sort_by("id").equals(ROWS)
    for change in (
        lambda: table.append(ROWS),
        lambda: table.overwrite(ROWS),
        lambda: table.delete("id = 1"),
        lambda: table.upsert(ROWS, keys="id"),
        lambda: table.optimize(),
        lambda: table.vacuum(),
        lambda: table.add_columns("x int"),
        lambda: txlog.write(place, ROWS),
        lambda: txlog.Sink(table, "job").once("1", ROWS),
    ):
        with pytest.raises(
            UnsupportedFeatureError, match=r"extension iceberg .* 'txlog\.iceberg', which no installed package offers"
        ):
            change()
    (tmp_path / "more.jsonl").write_text('{"id": 3}\n')
    done = CliRunner().invoke(app, ["append", str(place), str(tmp_path / "more.jsonl")])
    assert done.exit_code == 1
    assert "txlog.iceberg" in done.output
    assert sorted(place.rglob("*")) == files
    with pytest.raises(UnsupportedFeatureError, match=r"extension iceberg .*'txlog\.iceberg', which no installed"):
        txlog.Table.create(tmp_path / "new", ROWS.schema, properties={"txlog.iceberg": "v2"})
    (finding,) = table.verify().findings
    assert (finding.rule, finding.severity) == ("unknown-property", "warning")
    assert "extension iceberg" in finding.message
    assert "does nothing" not in finding.message


NOTES = {"txlog.branch", "txlog.mirror"}
"""Properties that say where a table or its rows come from: nothing goes wrong if another writer does not know them."""


def test_the_properties_that_need_an_extension_are_those_that_txlog_itself_declares() -> None:
    declared = importlib.metadata.distribution("txlog-delta").entry_points.select(group="txlog.properties")
    assert len(declared) > 0
    for entry in (each for each in declared if each.name not in NOTES):
        with pytest.MonkeyPatch.context() as patch:
            hide(patch, f"txlog.properties:{entry.name}")
            with pytest.raises(UnsupportedFeatureError, match=re.escape(entry.name)):
                require_extensions({entry.name: "v2"})
        require_extensions({entry.name: "v2"})


@pytest.mark.usefixtures("acme")
def test_a_property_of_an_absent_package_stops_no_writer_and_is_warned_of_once_for_each_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "t"
    txlog.Table.create(place, "id bigint", properties={"txlog.acme.count": "daily"})
    hide(monkeypatch, "txlog.after_commit:txlog.acme.count", "txlog.properties:txlog.acme.count")
    (tmp_path / "more.jsonl").write_text('{"id": 9}\n')

    def warnings() -> list[str]:
        found = [each.message for each in caplog.records if "txlog.acme.count" in each.message]
        caplog.clear()
        return found

    table = txlog.Table.open(place)
    assert table.to_arrow().num_rows == 0
    assert warnings() == [], "reading is not concerned"
    table.append(ROWS)
    table.delete("id = 1")
    table.upsert(ROWS, keys="id")
    table.optimize()
    table.vacuum()
    table.add_columns("x int")
    table.set_properties({"delta.appendOnly": "false"})
    (warning,) = warnings()
    assert "'txlog.acme.count'" in warning
    for change in (
        lambda: txlog.write(place, ROWS),
        lambda: txlog.Sink(txlog.Table.open(place), "job").once("1", ROWS),
        lambda: txlog.Table.open(place).vacuum(),
        lambda: txlog.sql(f"INSERT INTO delta.`{place}` (id) VALUES (7)"),
    ):
        change()
        assert len(warnings()) == 1
    assert CliRunner().invoke(app, ["append", str(place), str(tmp_path / "more.jsonl")]).exit_code == 0
    assert sorted(deltalake.DeltaTable(str(place)).to_pyarrow_table()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 7, 9]
    assert table.properties["txlog.acme.count"] == "daily", "no writer takes it away"
    with pytest.raises(InvalidInputError, match="unknown table property"):
        table.set_properties({"txlog.acme.count": "hourly"})
    table.unset_properties(["txlog.acme.count"])
    warnings()
    txlog.Table.open(place).append(ROWS)
    assert warnings() == []


def test_an_operation_that_no_package_brings_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = txlog.Table.create(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    hide(monkeypatch, "txlog.operations:clone", "txlog.operations:report", "txlog.operations:export_iceberg")
    for call, name in (
        (lambda: table.clone(tmp_path / "copy"), "clone"),
        (table.report, "report"),
        (table.export_iceberg, "export_iceberg"),
    ):
        with pytest.raises(UnsupportedFeatureError, match=f"the operation '{name}'.*txlog.operations"):
            call()
    assert not (tmp_path / "copy").exists()
    assert table.verify().is_sound
