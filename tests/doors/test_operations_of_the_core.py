"""What the core does for `Table` and `Sink`, asked for by the command line, SQL and Spark's options."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from tests.core.operations.test_repair import of_three_files, path_of
from tests.core.sink.test_abandon import SCHEMA, rows, sealed
from tests.core.versions.upkeep.test_symlink_manifests import KEY, by_manifest
from txlog.cli.app import app
from txlog.errors import InvalidInputError
from txlog.spark.options import parse_write_options

NAMED = pa.table({"id": [1, 2], "name": ["a", "b"]})
RETENTION, ALLOWED = "delta.logRetentionDuration", "txlog.allowShortLogRetention"


def test_a_part_of_a_name_in_backquotes_may_have_dots(tmp_path: Path) -> None:
    """At each door a quoted dot is part of the name: ``a.b`` and `` `a.b` `` are two tables."""
    catalog = txlog.Catalog(tmp_path / "warehouse")
    catalog.write("my.orders", NAMED)
    catalog.write("`my.schema`.t", NAMED.slice(0, 1))
    catalog.write("`my.orders`", NAMED.slice(0, 0))
    names = ["`my.schema`.t", "default.`my.orders`", "my.orders"]
    assert catalog.tables() == sorted(names)
    assert catalog.tables("`my.schema`") == ["`my.schema`.t"]
    assert catalog.location("`my.schema`.t").endswith("/my.schema/t")
    shown = txlog.sql("show tables in `my.schema`", catalog)
    assert shown.read_all().to_pylist() == [{"namespace": "`my.schema`", "tableName": "t"}]
    counts = {
        name: txlog.sql(f"select count(*) as n from {name}", catalog).read_all()["n"][0].as_py() for name in names
    }
    assert counts == {"`my.schema`.t": 1, "default.`my.orders`": 0, "my.orders": 2}
    txlog.sql("insert into `my.schema`.t select * from my.orders; drop table `my.orders`", catalog)
    assert catalog.table("`my.schema`.t").count() == 3
    assert catalog.tables() == ["`my.schema`.t", "my.orders"]
    with pytest.raises(InvalidInputError, match="a part in backquotes may have dots"):
        catalog.table("my.schema.t")


def test_the_command_line_creates_clustered_tables_and_shows_their_columns(tmp_path: Path) -> None:
    def run(*arguments: Any) -> Any:
        return CliRunner().invoke(app, [*map(str, arguments)])

    assert (
        run(
            "create",
            tmp_path / "t",
            "--columns",
            "id bigint, place struct<city: string>",
            "--cluster-by",
            "id, place.city",
        ).exit_code
        == 0
    )
    assert "clustered by id, place.city" in " ".join(run("show", tmp_path / "t").stdout.split())
    facts = json.loads(run("show", tmp_path / "t", "--json").stdout)
    assert facts["clustering_columns"] == ["id", "place.city"]
    (tmp_path / "rows.csv").write_text("id,n\n1,2\n")
    assert run("append", tmp_path / "u", tmp_path / "rows.csv", "--create", "--cluster-by", "n").exit_code == 0
    assert txlog.Table.open(tmp_path / "u").snapshot().clustering_columns == ("n",)
    assert run("append", tmp_path / "u", tmp_path / "rows.csv", "--cluster-by", "n").exit_code == 2


def test_the_command_line_abandons_a_checkpoint(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(schema=SCHEMA)
    sealed(txlog.Sink(table, "app"), 1, 1, 2)
    run = ["abandon", table.uri, "--app-id", "app", "--checkpoint-id", "1"]
    done = CliRunner().invoke(app, [*run, "--json"])
    facts = json.loads(done.stdout)
    assert (facts["outcome"], facts["version"], facts["rows"], len(facts["files"])) == ("committed", 1, 2, 2)
    again = CliRunner().invoke(app, run)
    assert "nothing was given up" in again.stdout


def test_what_a_discard_notes_in_a_table_is_no_application_on_the_command_line(tmp_path: Path) -> None:
    tables = [txlog.Table.create(tmp_path / name, SCHEMA) for name in ("a", "b")]
    sinks = [txlog.Sink(table, "app") for table in tables]
    for sink in sinks:
        with sink.task(1, 0) as task:
            task.write(rows(1))
        sink.stage(task.committable)
    group = txlog.SinkGroup(*sinks)
    group.prepare(1, [[0], [0]])
    assert group.discard(1)
    for table in tables:
        assert json.loads(CliRunner().invoke(app, ["sinks", table.uri, "--json"]).stdout) == []


def test_the_command_line_shows_and_repairs_what_is_gone(tmp_path: Path) -> None:
    table = of_three_files(tmp_path)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["repair", table.uri, *arguments])
        assert done.exit_code == 0, done.output + done.stderr
        return " ".join(done.stdout.split())

    assert "all 3 files are there" in run()
    path_of(table, 10).unlink()
    found = run()
    assert "p=a b: 2 rows, 1 file" in found
    assert "--remove would take out 1 file of 3, 2 rows" in found
    assert json.loads(run("--json"))["partitions"][0]["values"] == {"p": "a b"}
    assert "as version 4" in run("--remove", "--user-metadata", "why")
    for path in Path(table.uri).glob("p=*/*.parquet"):
        path.unlink()
    assert "as version 5" in run("--remove", "--allow-empty")


def test_every_interface_that_writes_updates_symlink_manifests(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    txlog.sql(f"CREATE TABLE delta.`{uri}` (i BIGINT) USING delta TBLPROPERTIES ('{KEY}' = 'true')")
    table = txlog.Table.open(uri)
    txlog.write(uri, pa.table({"i": [1]}))
    txlog.sql(f"INSERT INTO delta.`{uri}` VALUES (2)")
    assert by_manifest(table) == [1, 2]
    sink = txlog.Sink(table, "app")
    sink.once("key", pa.table({"i": [3]}))
    assert by_manifest(table) == [1, 2, 3]


def test_sql_and_the_command_line_generate_symlink_manifests(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema({"i": pa.int64(), "p": pa.string()}), ["p"])
    table.append(pa.table({"i": [2, 3], "p": ["b", "c"]}))
    assert txlog.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{table.uri}`").result == 2
    assert by_manifest(table) == [2, 3]
    table.append(pa.table({"i": [4], "p": ["d"]}))
    assert CliRunner().invoke(app, ["generate", table.uri]).stdout == "wrote 3 manifests\n"
    assert by_manifest(table) == [2, 3, 4]


def test_spark_options_can_allow_a_short_log_retention() -> None:
    given = {"path": "t", RETENTION.lower(): "interval 1 hour", ALLOWED.lower(): "true"}
    assert parse_write_options(given).properties == {RETENTION: "interval 1 hour", ALLOWED: "true"}


@pytest.mark.parametrize("call", [txlog.write, txlog.sql, txlog.Table.open, txlog.Table.create, txlog.Catalog.table])
def test_the_types_of_public_calls_take_a_name_and_a_zone_info(call: Callable[..., object]) -> None:
    assert inspect.signature(call).parameters["time_zone"].annotation == "str | ZoneInfo"


def test_a_delete_of_sql_without_where_deletes_every_row(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", NAMED)
    txlog.sql(f"delete from delta.`{tmp_path}/t`")
    assert txlog.Table.open(tmp_path / "t").count() == 0
