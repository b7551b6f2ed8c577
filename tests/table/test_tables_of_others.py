"""Logs that other writers left, beyond the letter of the protocol, are read as Spark reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog

LONG, INTEGER = "long", "integer"


def field(name: str, kind: str = LONG, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def metadata(*fields: dict[str, Any], **others: Any) -> dict[str, Any]:
    schema = json.dumps({"type": "struct", "fields": fields})
    plain = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {}}
    return {"metaData": {**plain, "schemaString": schema, **others}}


def protocol(reader: int = 1, writer: int = 2, **features: Any) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}


def made(folder: Path, *versions: list[dict[str, Any]]) -> str:
    (folder / "_delta_log").mkdir(parents=True)
    for version, actions in enumerate(versions):
        (folder / "_delta_log" / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def add(folder: Path, rows: pa.Table, **others: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "f.parquet")
    size = (folder / "f.parquet").stat().st_size
    fields = {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    return {"add": {**fields, **others}}


# --- the log's own text -----------------------------------------------------------------------------------------------


def test_a_first_version_without_a_schema_is_a_table_without_columns(tmp_path: Path) -> None:
    bare = metadata()
    del bare["metaData"]["schemaString"]
    rows = pa.table({"id": [1, 2]})
    uri = made(tmp_path / "t", [protocol(), bare], [metadata(field("id"))], [add(tmp_path / "t", rows)])

    table = txlog.Table.open(uri)
    assert table.to_arrow() == rows
    assert table.snapshot(version=0).to_arrow().num_columns == 0
    table.append(rows)
    table.create_checkpoint()
    assert txlog.Table.open(uri).count() == deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 4
    assert table.verify().findings == ()


@pytest.mark.parametrize(("written", "meant"), [(7, "7"), (True, "true"), (False, "false"), (1.5, "1.5")])
def test_a_property_that_is_no_text_is_the_text_that_json_has_for_it(written: Any, meant: str, tmp_path: Path) -> None:
    uri = made(tmp_path / "t", [protocol(), metadata(field("id"), configuration={"my.property": written})])
    assert txlog.Table.open(uri).snapshot().properties == {"my.property": meant}


def test_append_only_that_is_a_boolean_is_obeyed(tmp_path: Path) -> None:
    uri = made(tmp_path / "t", [protocol(), metadata(field("id"), configuration={"delta.appendOnly": True})])
    table = txlog.Table.open(uri)
    table.append(pa.table({"id": [1]}))
    with pytest.raises(txlog.TxlogError, match="appendOnly"):
        table.delete("id = 1")


@pytest.mark.parametrize("written", [float, str], ids=["a float", "a text"])
def test_a_size_and_a_time_that_are_no_integers_are_the_numbers_that_they_say(
    written: Callable[[int], Any], tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 2]})
    plain = add(tmp_path / "t", rows)
    action = {**plain["add"], "size": written(plain["add"]["size"]), "modificationTime": written(5)}
    uri = made(tmp_path / "t", [protocol(), metadata(field("id")), {"add": action}])

    table = txlog.Table.open(uri)
    assert table.to_arrow() == rows
    assert table.files()["size"].to_pylist() == [plain["add"]["size"]]
    table.create_checkpoint()
    assert txlog.Table.open(uri).to_arrow() == deltalake.DeltaTable(uri).to_pyarrow_table() == rows


@pytest.mark.parametrize("written", [0.5, "many", -1, "-1", "+1", "--1", "+-1", "1_0", [], 2.0**64])
def test_a_size_that_is_no_number_is_refused(written: Any, tmp_path: Path) -> None:
    action = add(tmp_path / "t", pa.table({"id": [1]}), size=written)
    uri = made(tmp_path / "t", [protocol(), metadata(field("id")), action])
    with pytest.raises(txlog.errors.CorruptLogError, match=r"add\.size"):
        txlog.Table.open(uri).to_arrow()


# --- columns ----------------------------------------------------------------------------------------------------------


def test_an_expression_under_a_protocol_without_generated_columns_is_nothing_to_writers(tmp_path: Path) -> None:
    columns = metadata(field("a"), field("b", **{"delta.generationExpression": "a + 1"}))
    table = txlog.Table.open(made(tmp_path / "t", [protocol(), columns]))
    table.append(pa.table({"a": [1], "b": [10]}))
    table.append(pa.table({"a": [5]}))
    table.update({"a": txlog.expr("a + 1")})
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["a"]) == [{"a": 2, "b": 10}, {"a": 6, "b": None}]

    known = txlog.Table.open(made(tmp_path / "g", [protocol(1, 4), columns]))
    known.append(pa.table({"a": [5]}))
    assert known.to_arrow().to_pylist() == [{"a": 5, "b": 6}]


@pytest.mark.parametrize("sql", ["now()", "current_timestamp()", "cast(rand() * 10 as timestamp)", "unheard_of(a)"])
def test_only_writes_that_must_compute_a_column_of_now_are_refused(sql: str, tmp_path: Path) -> None:
    columns = metadata(field("a"), field("at", "timestamp", **{"delta.generationExpression": sql}), field("c"))
    moment = pa.scalar(0, pa.timestamp("us", "UTC"))
    rows = pa.table({"a": [1, 2, 3, 4], "at": [moment.as_py()] * 4, "c": [1, 2, 3, 4]})
    rows = rows.cast(pa.schema([("a", pa.int64()), ("at", moment.type), ("c", pa.int64())]))
    table = txlog.Table.open(made(tmp_path / "t", [protocol(1, 4), columns, add(tmp_path / "t", rows)]))

    table.delete("a = 1")
    table.update({"c": txlog.expr("c + 10")}, where="a = 2")
    table.merge(pa.table({"k": [3]}), on="target.a = source.k").when_matched_delete().execute()
    table.optimize()
    table.create_checkpoint()
    found = sorted(table.to_arrow(columns=["a", "c"]).to_pylist(), key=lambda row: row["a"])
    assert found == [{"a": 2, "c": 12}, {"a": 4, "c": 4}]
    assert set(table.to_arrow()["at"].to_pylist()) == {moment.as_py()}

    version = table.version
    for refused in (
        lambda: table.append(pa.table({"a": [9], "c": [9]})),
        lambda: table.append(rows),
        lambda: table.overwrite(pa.table({"a": [9], "c": [9]})),
        lambda: table.upsert(pa.table({"a": [9], "c": [9]}), keys=["a"]),
    ):
        with pytest.raises(txlog.errors.UnsupportedFeatureError, match="cannot compute the generated column at"):
            refused()
    assert txlog.Table.open(table.uri).version == version


def test_a_write_is_refused_that_changes_what_a_column_of_now_follows_from_by_way_of_another(tmp_path: Path) -> None:
    through = field("b", **{"delta.generationExpression": "a + 1"})
    until = field("until", "date", **{"delta.generationExpression": "date_add(now(), b)"})
    day = pa.array([0], pa.date32())
    rows = pa.table({"a": [1], "b": [2], "until": day, "c": [1]})
    columns = metadata(field("a"), through, until, field("c"))
    table = txlog.Table.open(made(tmp_path / "t", [protocol(1, 4), columns, add(tmp_path / "t", rows)]))
    for refused in (
        lambda: table.update({"a": txlog.expr("a + 1")}),
        lambda: table.update({"a": txlog.expr("5")}, where="b = 2"),
    ):
        with pytest.raises(txlog.errors.UnsupportedFeatureError, match="cannot compute the generated column until"):
            refused()
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table() == rows


def test_a_column_without_a_name_is_named_as_such(tmp_path: Path) -> None:
    rows = pa.table({"a": [1], "": [2]})
    with pytest.raises(txlog.errors.InvalidInputError, match="a column: its name is empty"):
        txlog.write(str(tmp_path / "w"), rows)
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    for write in (lambda: table.append(rows, schema_mode="merge"), lambda: table.add_columns({"": pa.int64()})):
        with pytest.raises(txlog.errors.InvalidInputError, match="name is empty"):
            write()


def test_no_write_builds_on_a_log_that_has_lost_its_start_though_its_checksum_files_are_there(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": [1]}))
    table.set_properties({"delta.appendOnly": "true"})
    table.create_checkpoint()
    table._open_table.post_commit.drain()
    log = tmp_path / "t" / "_delta_log"
    assert (log / f"{2:020}.crc").exists()
    for lost in (*log.glob("*.checkpoint*"), *(log / f"{version:020}.json" for version in (0, 1))):
        lost.unlink()
    with pytest.raises(Exception, match=r"start|checkpoint|protocol|metadata|Not a Delta table"):
        deltalake.DeltaTable(table.uri)
    before = sorted(path.name for path in log.iterdir())
    for write in (
        lambda: txlog.Table.open(table.uri).append(pa.table({"id": [3]})),
        lambda: txlog.write(table.uri, pa.table({"id": [3]})),
        lambda: txlog.sql(f"INSERT INTO delta.`{table.uri}` VALUES (3)"),
    ):
        with pytest.raises(txlog.CorruptLogError):
            write()
    assert sorted(path.name for path in log.iterdir()) == before
