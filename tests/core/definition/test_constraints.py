"""Constraints of a table: every way of writing rows checks them, and adding one checks the rows that are there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest

import txlog
from txlog.core.definition import _checked_definition as checked_definition
from txlog.core.reading import ScanPlan
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
POSITIVE = "amount > 0"


def rows_of(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


GOOD = rows_of((1, "tue", 5.0), (8, "wed", 8.0))
BAD = rows_of((1, "tue", 5.0), (8, "wed", -8.0))


@pytest.fixture(params=[[], ["day"]], ids=["flat", "by day"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return constrained(tmp_path / "t", request.param)


def constrained(path: Path, partition_by: list[str]) -> Table:
    table = Table.create(path, SCHEMA, partition_by=partition_by)
    table.append(rows_of((1, "mon", 1.0), (2, "tue", 2.0), (3, None, 3.0)))
    table.add_constraint("positive", POSITIVE)
    return table


def in_transaction(table: Table, rows: pa.Table) -> None:
    with table.transaction() as txn:
        txn.append(rows)


def by_sink(table: Table, rows: pa.Table, **options: Any) -> None:
    sink = txlog.Sink(table, "app", **options)
    with sink.task(1) as task:
        task.write(rows)
    sink.commit(1, [task.committable])


def by_merge(table: Table, rows: pa.Table) -> None:
    merge = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


Write = Callable[[Table, pa.Table], object]
WRITES: dict[str, Write] = {
    "append": lambda table, rows: table.append(rows),
    "overwrite": lambda table, rows: table.overwrite(rows),
    "overwrite of a predicate": lambda table, rows: table.overwrite(rows, where="id IN (1, 8)"),
    "merged schema": lambda table, rows: table.append(rows.append_column("new", pa.array([1, 2])), schema_mode="merge"),
    "transaction": in_transaction,
    "upsert": lambda table, rows: table.upsert(rows, keys=["id"]),
    "merge": by_merge,
    "sink": by_sink,
    "update": lambda table, rows: table.update({"amount": min(rows["amount"].to_pylist())}, "id = 2"),
}


def data_files(table: Table) -> list[str]:
    return sorted(str(path) for path in Path(table.uri).rglob("*.parquet"))


def require_refusal(table: Table, write: Write) -> None:
    before, version = table.to_arrow().sort_by("id"), table.version
    with pytest.raises(txlog.InvalidInputError, match=r"constraint positive, which is amount > 0, with amount = -8\.0"):
        write(table, BAD)
    assert table.version == version
    assert table.to_arrow().sort_by("id") == before


@pytest.mark.parametrize("write", WRITES)
def test_every_way_of_writing_refuses_a_row_that_violates_a_constraint(table: Table, write: str) -> None:
    files = data_files(table)
    require_refusal(table, WRITES[write])
    if write != "sink":  # a sink's files are for the next attempt
        assert data_files(table) == files


@pytest.mark.parametrize("write", WRITES)
def test_rows_that_meet_every_constraint_are_written(table: Table, write: str) -> None:
    require_written(table, WRITES[write])


def require_written(table: Table, write: Write) -> None:
    write(table, GOOD)
    assert min(table.to_arrow()["amount"].to_pylist()) > 0
    assert 5.0 in table.to_arrow()["amount"].to_pylist()


# --- lengths of varchar and char columns ------------------------------------------------------------------------------

LONG_TEXT = rows_of((1, "tue", 5.0), (8, "wedn", 8.0))
WRITES_OF_TEXT = {
    **WRITES,
    "update": lambda table, rows: table.update({"day": txlog.expr(f"'{rows['day'][1]}'")}, "id = 2"),
}


def limited(path: Path, partition_by: list[str]) -> Table:
    """A table with the columns that Spark makes of ``day varchar(3)``."""
    fields: list[dict[str, Any]] = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("day", "string"), ("amount", "double"))
    ]
    fields[1]["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}
    table = Table.create(path, {"type": "struct", "fields": fields}, partition_by=partition_by)
    table.append(rows_of((1, "mon", 1.0), (2, "tue", 2.0), (3, None, 3.0)))
    return table


@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["flat", "by day"])
@pytest.mark.parametrize("write", WRITES)
def test_every_way_of_writing_refuses_a_text_that_is_longer_than_its_varchar_column(
    tmp_path: Path, write: str, partition_by: list[str]
) -> None:
    require_short_texts(limited(tmp_path / "t", partition_by), WRITES_OF_TEXT[write])


def require_short_texts(table: Table, write: Write) -> None:
    version = table.version
    with pytest.raises(txlog.InvalidInputError, match=r"column day is varchar\(3\), .* a value of 4 characters"):
        write(table, LONG_TEXT)
    assert table.version == version
    write(table, GOOD)
    assert table.version == version + 1


@pytest.mark.parametrize(("limit", "is_refused"), [("varchar(2)", True), ("varchar(3)", False), ("varchar(9)", False)])
def test_staged_rows_are_refused_if_a_length_was_narrowed_meanwhile(
    tmp_path: Path, limit: str, is_refused: bool
) -> None:
    table = limited(tmp_path / "t", [])
    sink = txlog.Sink(table, "app")
    with sink.task(1) as task:
        task.write(GOOD)
    sink.stage(task.committable)
    sink.prepare(1, [0])
    log = tmp_path / "t" / "_delta_log"
    metadata = next(
        action
        for line in (log / f"{0:020}.json").read_text().splitlines()
        if "metaData" in (action := json.loads(line))
    )
    metadata["metaData"]["schemaString"] = metadata["metaData"]["schemaString"].replace("varchar(3)", limit)
    (log / f"{table.version + 1:020}.json").write_text(json.dumps(metadata))
    again = txlog.Sink(Table.open(table.uri), "app")
    if is_refused:
        with pytest.raises(txlog.MetadataChangedError, match=r"length of column day \(varchar\(2\)\)"):
            again.recover()
    else:
        assert again.recover().results[1].outcome == "committed"


TEXT_TYPES = "v varchar(3), c char(2), s struct<v: varchar(3), n: int>, l array<char(2)>, m map<varchar(2), varchar(3)>"


def test_ddl_makes_the_columns_that_spark_makes(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", f"id int, {TEXT_TYPES}")
    state = table._open_table.log.newest_state()
    assert {field.name: field.metadata.get("__CHAR_VARCHAR_TYPE_STRING") for field in state.schema.fields} == {
        "id": None,
        "v": "varchar(3)",
        "c": "char(2)",
        "s": "struct<v:varchar(3),n:int>",
        "l": "array<char(2)>",
        "m": "map<varchar(2),varchar(3)>",
    }
    for column, value in (
        ("v", "abcd"),
        ("c", "abc"),
        ("s", {"v": "abcd", "n": 1}),
        ("l", ["abc"]),
        ("m", [("abc", "")]),
    ):
        row = pa.Table.from_pylist([{column: value}], pa.schema([table.schema.field(column)]))
        with pytest.raises(txlog.InvalidInputError, match="characters there"):
            table.append(row)
    table.add_columns("w varchar(1)")
    with pytest.raises(txlog.InvalidInputError, match=r"column w is varchar\(1\)"):
        table.append(pa.table({"w": ["ab"]}))


@pytest.mark.parametrize("name", ["a:b", "a-b", "x<y", "x>", "a`b", "1"])
def test_a_struct_field_of_any_name_has_its_length(tmp_path: Path, name: str) -> None:
    quoted = name.replace("`", "``")
    table = Table.create(tmp_path / "t", f"id int, s struct<`{quoted}`: varchar(3), n: int>")
    text = table._open_table.log.newest_state().schema.fields[1].metadata["__CHAR_VARCHAR_TYPE_STRING"]
    assert text == f"struct<`{quoted}`:varchar(3),n:int>"
    table.append(pa.table({"id": [1], "s": [{name: "abc", "n": 1}]}))
    with pytest.raises(txlog.InvalidInputError, match=r"is varchar\(3\), .* a value of 4 characters"):
        table.append(pa.table({"id": [1], "s": [{name: "abcd", "n": 1}]}))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("varchar(3)", "varchar(4)", None),
        ("varchar(3)", "string", None),
        ("char(3)", "varchar(3)", None),
        ("char(3)", "string", None),
        ("varchar(3)", "varchar(2)", "may get longer"),
        ("char(3)", "varchar(2)", "may get longer"),
        ("char(3)", "char(4)", "may get longer"),
        ("varchar(3)", "char(3)", "may get longer"),
        ("string", "varchar(3)", "may get longer"),
        ("varchar(3)", "int", "only to a wider one"),
    ],
)
def test_a_length_changes_only_so_that_every_value_still_fits(
    tmp_path: Path, before: str, after: str, says: str | None
) -> None:
    table = Table.create(tmp_path / "t", f"v {before}")
    if says is not None:
        with pytest.raises(txlog.InvalidInputError, match=says):
            table.alter_column("v", type=after)
        return
    table.append(pa.table({"v": ["abc"]}))
    assert table.alter_column("v", type=after).attempts
    assert not table.alter_column("v", type=after).attempts
    if after != "varchar(3)":
        table.append(pa.table({"v": ["abcd"]}))


def test_the_length_of_a_part_of_a_column_does_not_change(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "s struct<v: varchar(3)>")
    for type_ in ("varchar(4)", "varchar(2)"):
        with pytest.raises(txlog.InvalidInputError, match=r"s\.v"):
            table.alter_column("s.v", type=type_)
    with pytest.raises(txlog.InvalidInputError, match="length of at least 1"):
        Table.create(tmp_path / "u", "v varchar(0)")


def test_trailing_spaces_above_the_length_are_refused_as_in_spark(tmp_path: Path) -> None:
    table = limited(tmp_path / "t", [])
    with pytest.raises(txlog.InvalidInputError, match="spaces at the end count"):
        table.append(rows_of((1, "tue ", 5.0)))
    table.append(rows_of((9, "é ", 5.0)))
    assert table.to_arrow(where="id = 9")["day"].to_pylist() == ["é "]


@pytest.mark.parametrize("write", ["append", "overwrite", "transaction", "upsert", "merge", "sink"])
def test_an_empty_partition_value_is_checked_as_the_null_that_readers_see(tmp_path: Path, write: str) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, partition_by="day")
    table.add_constraint("dated", "day IS NOT NULL")
    with pytest.raises(txlog.InvalidInputError, match="constraint dated, which is day IS NOT NULL, with day = None"):
        WRITES[write](table, rows_of((1, "mon", 1.0), (2, "", 2.0)))
    table.drop_constraint("dated")
    table.add_constraint("undated", "day IS NULL OR day <> ''")
    WRITES[write](table, rows_of((1, "mon", 1.0), (2, "", 2.0)))
    assert sorted(table.to_arrow()["day"].to_pylist(), key=str) == [None, "mon"]


@pytest.mark.parametrize("where", [None, "id < 10"])
def test_a_dry_run_of_an_overwrite_refuses_what_the_overwrite_refuses(table: Table, where: str | None) -> None:
    with pytest.raises(txlog.InvalidInputError, match="constraint positive"):
        table.overwrite(BAD, where, dry_run=True)


def test_a_condition_that_is_null_is_violated(table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="row 1 of the written rows"):
        table.append(rows_of((7, "mon", 1.0), (8, "mon", None)))


def test_a_table_is_created_with_constraints(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.constraints.positive": POSITIVE})
    assert "checkConstraints" in (table.snapshot().protocol.writer_features or ["checkConstraints"])
    assert table.snapshot().protocol.min_writer_version >= 3
    with pytest.raises(txlog.InvalidInputError, match="positive"):
        table.append(BAD)
    with pytest.raises(txlog.InvalidInputError, match="there is no column nope"):
        Table.create(tmp_path / "u", SCHEMA, properties={"delta.constraints.c": "nope > 0"})


# --- adding and dropping ----------------------------------------------------------------------------------------------


def test_rows_that_violate_a_condition_prevent_the_constraint(table: Table) -> None:
    version = table.version
    with pytest.raises(
        txlog.InvalidInputError, match=r"violate the constraint early \(id < 3\), such as one with id = 3"
    ):
        table.add_constraint("early", "id < 3")
    with pytest.raises(txlog.InvalidInputError, match="such as one with day = None"):
        table.add_constraint("known", "day <> 'sun'")
    assert table.version == version
    table.delete("day IS NULL")
    table.add_constraint("known", "day <> 'sun'")
    assert table.snapshot().properties["delta.constraints.known"] == "day <> 'sun'"


def test_a_date_beyond_pythons_years_that_violates_a_condition_is_named_by_its_text(tmp_path: Path) -> None:
    late = pa.table({"d": pa.array([3_000_000], pa.int32()).cast(pa.date32())})
    table = Table.create(tmp_path / "t", late.schema)
    table.append(late)
    with pytest.raises(txlog.InvalidInputError, match=r"such as one with d = '\+10183-09-21'"):
        table.add_constraint("early", "d < '2000-01-01'")
    table.delete(all=True)
    table.add_constraint("early", "d < '2000-01-01'")
    with pytest.raises(txlog.InvalidInputError, match=r"with d = '\+10183-09-21'"):
        table.append(late)


def test_a_row_that_is_added_while_the_rows_are_checked_is_checked_too(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = iter([rows_of((4, "mon", 4.0)), rows_of((5, "mon", 99.0))])
    read: list[int] = []
    execute, batches = checked_definition._CheckedChange.execute, ScanPlan.batches

    def beside_an_append(self: Any, state: Any) -> Any:
        proposal = execute(self, state)
        rows = next(others, None)
        if rows is not None:
            Table.open(table.uri).append(rows)
        return proposal

    def counted(self: ScanPlan, store: Any) -> Any:
        read.append(self.files.num_rows)
        return batches(self, store)

    monkeypatch.setattr(checked_definition._CheckedChange, "execute", beside_an_append)
    monkeypatch.setattr(ScanPlan, "batches", counted)
    files = table.snapshot().num_files
    with pytest.raises(txlog.InvalidInputError, match="amount = 99"):
        table.add_constraint("small", "amount < 50")
    assert read == [files, 1, 1]


def test_an_append_that_began_before_a_constraint_conflicts_with_it(table: Table) -> None:
    def append_beside_a_new_constraint() -> None:
        with table.transaction() as txn:
            txn.append(rows_of((9, "mon", 900.0)))
            Table.open(table.uri).add_constraint("small", "amount < 50")

    with pytest.raises(txlog.ConflictError):
        append_beside_a_new_constraint()
    assert max(table.to_arrow()["amount"].to_pylist()) == 3.0


def test_staged_rows_of_an_older_version_are_refused_if_a_constraint_was_added(table: Table) -> None:
    sink = txlog.Sink(table, "app")
    with sink.task(1) as task:
        task.write(rows_of((9, "mon", 900.0)))
    sink.stage(task.committable)
    sink.prepare(1, [0])
    Table.open(table.uri).add_constraint("small", "amount < 50")
    with pytest.raises(txlog.MetadataChangedError, match="constraint small"):
        txlog.Sink(Table.open(table.uri), "app").recover()
    Table.open(table.uri).drop_constraint("small")
    assert txlog.Sink(Table.open(table.uri), "app").recover().results[1].outcome == "committed"


def test_a_constraint_is_dropped_in_any_case_and_its_history_is_delta_s(table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="it has positive"):
        table.drop_constraint("negative")
    assert table.drop_constraint("negative", if_exists=True).version == table.version
    table.drop_constraint("Positive")
    table.append(BAD)
    dropped, added = (entry for entry in table.history() if "CONSTRAINT" in entry["operation"])
    assert (added["operation"], dropped["operation"]) == ("ADD CONSTRAINT", "DROP CONSTRAINT")
    assert added["operationParameters"] == {"name": "positive", "expr": POSITIVE}
    assert dropped["operationParameters"] == {"name": "positive", "expr": POSITIVE, "existed": "true"}


@pytest.mark.parametrize(
    ("name", "condition", "said"),
    [
        ("POSITIVE", "id > 0", "has a constraint with this name"),
        ("", "id > 0", "Invalid name"),
        (" x", "id > 0", "Invalid name"),
        ("x", 7, "Invalid condition"),
        ("x", "id", "cannot be compared with True"),
        ("x", "nope > 0", "there is no column nope"),
        ("x", 'day = "mon"', "double quotes"),
        ("x", "current_date() > '2026-01-01'", "current_date"),
    ],
)
def test_what_cannot_be_a_constraint_is_refused(table: Table, name: Any, condition: Any, said: str) -> None:
    with pytest.raises(txlog.InvalidInputError, match=said):
        table.add_constraint(name, condition)


def test_a_constraint_is_neither_set_nor_unset_as_a_property(table: Table) -> None:
    for change in (
        lambda: table.set_properties({"delta.constraints.early": "id < 100"}),
        lambda: table.set_properties({"delta.constraints.positive": "amount > 1"}),
        lambda: table.unset_properties(["delta.constraints.positive"]),
    ):
        with pytest.raises(txlog.InvalidInputError, match="add_constraint"):
            change()
    table.set_properties({"delta.appendOnly": "true"})


def test_a_new_schema_must_have_the_columns_of_the_constraints(table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"constraint positive .* does not fit the schema"):
        table.overwrite(pa.table({"id": [1], "day": ["mon"]}), schema_mode="overwrite")


def test_a_condition_without_columns_and_one_on_a_member_of_a_struct(tmp_path: Path) -> None:
    schema = pa.schema([("place", pa.struct([("city", pa.string())])), ("id", pa.int64())])
    table = Table.create(tmp_path / "t", schema)
    table.append(pa.Table.from_pylist([{"place": {"city": "a"}, "id": 1}], schema=schema))
    table.add_constraint("always", "1 = 1")
    table.add_constraint("named", "length(place.city) > 0")
    with pytest.raises(txlog.InvalidInputError, match="constraint named"):
        table.append(pa.Table.from_pylist([{"place": {"city": ""}, "id": 2}], schema=schema))
    with pytest.raises(txlog.InvalidInputError, match="constraint never"):
        table.add_constraint("never", "1 = 2")


# --- files that move, and files of others -----------------------------------------------------------------------------


def commit_metadata(table: Table, change: Callable[[dict[str, Any]], None]) -> Table:
    """Change the table's metadata as an engine that checks no rows."""
    log = Path(table.uri) / "_delta_log"
    version = Table.open(table.uri).version
    metadata = next(
        line["metaData"]
        for path in sorted(log.glob("*.json"), reverse=True)
        for line in map(json.loads, path.read_text().splitlines())
        if "metaData" in line
    )
    change(metadata)
    lines = [{"commitInfo": {"timestamp": 1, "operation": "other"}}, {"metaData": metadata}]
    (log / f"{version + 1:020}.json").write_text("".join(orjson.dumps(line).decode() + "\n" for line in lines))
    return Table.open(table.uri)


def test_rows_that_only_move_are_not_checked(table: Table) -> None:
    table.append(GOOD)

    def tighten(metadata: dict[str, Any]) -> None:
        metadata["configuration"]["delta.constraints.unchecked"] = "id < 2"

    tightened = commit_metadata(table, tighten)
    rows = tightened.snapshot().count()
    assert tightened.optimize().files_removed
    assert tightened.snapshot().count() == rows


def test_an_invariant_of_a_column_is_checked_in_sparks_dialect(table: Table) -> None:
    def invent(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        condition = json.dumps({"expression": {"expression": 'day <> "sun"'}})
        schema["fields"][1]["metadata"] = {"delta.invariants": condition}
        metadata["schemaString"] = json.dumps(schema)

    with_invariant = commit_metadata(table, invent)
    with_invariant.append(rows_of((4, "mon", 4.0)))
    with pytest.raises(txlog.InvalidInputError, match='invariant of column day, which is day <> "sun", with day = '):
        with_invariant.append(rows_of((4, "sun", 4.0)))


@pytest.mark.parametrize(
    "condition", ["java_method('java.util.UUID', 'randomUUID') <> ''", "amount >", "current_date() > day"]
)
def test_a_condition_that_txlog_cannot_evaluate_is_refused_before_anything_is_written(
    table: Table, condition: str
) -> None:
    def invent(metadata: dict[str, Any]) -> None:
        metadata["configuration"]["delta.constraints.odd"] = condition

    odd, files = commit_metadata(table, invent), data_files(table)
    with pytest.raises(txlog.UnsupportedFeatureError, match="cannot check the constraint odd") as caught:
        odd.append(GOOD)
    assert caught.value.features == ("checkConstraints",)
    assert data_files(table) == files
    odd.drop_constraint("odd")
    odd.append(GOOD)


def test_an_invariant_that_is_not_in_the_protocols_form_is_refused(table: Table) -> None:
    def invent(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        schema["fields"][0]["metadata"] = {"delta.invariants": "{}"}
        metadata["schemaString"] = json.dumps(schema)

    with pytest.raises(txlog.UnsupportedFeatureError, match="invariant of column id") as caught:
        commit_metadata(table, invent).append(GOOD)
    assert caught.value.features == ("invariants",)


def test_deltalake_checks_txlogs_constraints_and_txlog_deltalakes(table: Table) -> None:
    with pytest.raises(Exception, match="failed validation check"):
        deltalake.write_deltalake(table.uri, BAD, mode="append")
    deltalake.write_deltalake(table.uri, GOOD, mode="append")
    deltalake.DeltaTable(table.uri).alter.add_constraint({"small": "id < 100"})
    with pytest.raises(txlog.InvalidInputError, match="constraint small"):
        Table.open(table.uri).append(rows_of((100, "mon", 1.0)))
