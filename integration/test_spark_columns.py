"""Changes of columns by txlog and by Spark's Delta, on tables that both use.

Programs of changes and writes run twice: on a table that only Spark's Delta changes, and on one on which it and txlog
take turns. After each step both tables have the same rows, the same columns and the same history.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from fuzz import budget_s, seeds
from pyspark.errors import AnalysisException
from rows import as_rows, in_schema

import txlog
from txlog.audit.verify import verify_table
from txlog.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]
Row = dict[str, Any]

COLUMNS = (
    "id int, a tinyint, s struct<x: smallint, y: string>, l array<struct<k: int>>, d date, f float, n decimal(5,2)"
)
FEATURES = {
    "delta.enableTypeWidening": "true",
    "delta.feature.timestampNtz": "supported",
    "delta.feature.allowColumnDefaults": "supported",
}
WIDER = {
    "byte": ("smallint", "int", "bigint", "double", "decimal(12,2)"),
    "short": ("int", "bigint", "double"),
    "integer": ("bigint", "double", "decimal(10,0)"),
    "long": ("decimal(22,1)",),
    "float": ("double",),
    "date": ("timestamp_ntz",),
    "decimal(5,2)": ("decimal(9,4)", "decimal(20,2)"),
    "decimal(10,0)": ("decimal(14,3)",),
}
NEW_TYPES = (
    "tinyint",
    "int",
    "float",
    "date",
    "string",
    "decimal(5,2)",
    "struct<m: smallint, o: string>",
    "array<int>",
)
DEFINES = {
    *("ADD COLUMNS", "RENAME COLUMN", "DROP COLUMNS", "CHANGE COLUMN", "SET TBLPROPERTIES"),
    *("ADD CONSTRAINT", "DROP CONSTRAINT"),
}


class Pair:
    """The table of Spark alone, and the one of both."""

    def __init__(self, spark: SparkSession, folder: Path, choose: random.Random, mode: str) -> None:
        self.spark, self.choose = spark, choose
        self.alone, self.shared = folder / "alone", folder / "shared"
        properties = {**FEATURES, "delta.enableDeletionVectors": choose.choice(("true", "false"))}
        self.is_tracked = choose.random() < 0.5
        self.ids: dict[int, int] = {}
        self.empty: set[int] = set()
        properties |= {"delta.enableRowTracking": "true"} if self.is_tracked else {}
        mapping = {} if mode == "begun" else {"delta.columnMapping.mode": mode}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in {**properties, **mapping}.items())
        spark.sql(f"create table delta.`{self.alone}` ({COLUMNS}) using delta tblproperties ({listed})")
        Table.create(self.shared, COLUMNS, properties={**properties, **mapping})
        self.names = (f"c{number}" for number in range(1000))
        self.steps: list[str] = []
        self.key, self.number = "id", 0
        self.write()
        if mode == "begun":
            self.both(
                "set tblproperties ('delta.columnMapping.mode' = 'name')",
                lambda table: table.set_properties({"delta.columnMapping.mode": "name"}),
            )

    def fields(self) -> list[dict[str, Any]]:
        """The columns as the log of Spark's table has them."""
        for name in sorted((self.alone / "_delta_log").glob("*.json"), reverse=True):
            for line in map(json.loads, name.read_text().splitlines()):
                if "metaData" in line:
                    return list(json.loads(line["metaData"]["schemaString"])["fields"])
        raise AssertionError

    def both(self, statement: str, call: Callable[[Table], Any]) -> None:
        """Alter both tables, one of them by either engine, unless Spark's Delta trips over its own property: it takes
        `a b` in delta.dataSkippingStatsColumns for the column a when another column of that list is dropped."""
        try:
            self.spark.sql(f"alter table delta.`{self.alone}` {statement}")
        except AnalysisException as error:
            if "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA" not in str(error) or not statement.startswith("drop columns"):
                raise
            self.steps.append(f"spark refused: {statement}")
            return
        by_us = self.choose.random() < 0.6
        self.steps.append(f"{'txlog' if by_us else 'spark'}: {statement}")
        if not by_us:
            self.spark.sql(f"alter table delta.`{self.shared}` {statement}")
            return
        before = Table.open(self.shared).version
        call(Table.open(self.shared))
        if Table.open(self.shared).version == before:  # Spark makes a version of a change that changes nothing
            self.empty.add(Table.open(self.alone).version)

    # --- rows -----------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Append the same rows to both, by either engine."""
        schema = Table.open(self.alone).schema
        rows = [self._row(schema) for _ in range(self.choose.randint(1, 3))]
        data = pa.Table.from_pylist(rows, schema=pa.schema([field.remove_metadata() for field in schema]))
        by_us = self.choose.random() < 0.6
        self.steps.append(f"{'txlog' if by_us else 'spark'}: append {rows}")
        self._append_by_spark(self.alone, data)
        if by_us:
            Table.open(self.shared).append(data)
        else:
            self._append_by_spark(self.shared, data)

    def _append_by_spark(self, path: Path, data: pa.Table) -> None:
        wanted = self.spark.read.format("delta").load(str(path)).schema
        self.spark.createDataFrame(data.to_pylist(), wanted).coalesce(1).write.format("delta").mode("append").save(
            str(path)
        )

    def change_rows(self) -> None:
        """Delete, update, or upsert in both, by either engine."""
        key, number = self.key, self.choose.randint(0, self.number)
        by_us = self.choose.random() < 0.7
        kind = self.choose.choice(("delete", "update", "upsert"))
        self.steps.append(f"{'txlog' if by_us else 'spark'}: {kind} {number}")
        for path, ours in ((self.alone, False), (self.shared, by_us)):
            place = f"delta.`{path}`"
            if kind == "delete":
                if ours:
                    Table.open(path).delete(f"`{key}` = {number}")
                else:
                    self.spark.sql(f"delete from {place} where `{key}` = {number}")
            elif kind == "update":
                if ours:
                    Table.open(path).update({key: txlog.expr(f"`{key}` + 1")}, f"`{key}` = {number}")
                else:
                    self.spark.sql(f"update {place} set `{key}` = `{key}` + 1 where `{key}` = {number}")
            else:
                self._upsert(path, number, ours=ours)

    def _upsert(self, path: Path, number: int, *, ours: bool) -> None:
        """A row that is in the table once, with another value, or a new one with this key."""
        table = Table.open(path)
        schema = pa.schema([field.remove_metadata() for field in table.schema])
        row = dict.fromkeys(schema.names) | {self.key: number}
        if table.count(f"`{self.key}` = {number}") > 1:
            return
        source = pa.Table.from_pylist([row], schema=schema)
        if ours:
            table.upsert(source, [self.key])
            return
        wanted = self.spark.read.format("delta").load(str(path)).schema
        self.spark.createDataFrame(source.to_pylist(), wanted).createOrReplaceTempView("source_rows")
        condition = f"t.`{self.key}` = s.`{self.key}`"
        self.spark.sql(
            f"merge into delta.`{path}` t using source_rows s on {condition}"
            " when matched then update set * when not matched then insert *"
        )

    def _row(self, schema: pa.Schema) -> Row:
        row = {field.name: self._value(field.type) for field in schema}
        self.number += 1
        return {**row, self.key: self.number}

    def _value(self, kind: pa.DataType) -> Any:
        if self.choose.random() < 0.2:
            return None
        if pa.types.is_struct(kind):
            return {field.name: self._value(field.type) for field in kind}
        if pa.types.is_list(kind):
            return [self._value(kind.value_type) for _ in range(self.choose.randint(0, 2))]
        if pa.types.is_integer(kind):
            return self.choose.choice((-(2 ** (kind.bit_width - 1)), 0, 5, 2 ** (kind.bit_width - 1) - 1))
        if pa.types.is_floating(kind):
            return self.choose.choice((0.5, -0.25, 2.0**70))
        if pa.types.is_decimal(kind):
            return Decimal(self.choose.choice((-1, 1, 999))).scaleb(-kind.scale)
        if pa.types.is_date(kind):
            return self.choose.choice((dt.date(1969, 12, 31), dt.date(2026, 11, 26)))
        if pa.types.is_timestamp(kind):
            return self.choose.choice((dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2026, 11, 26, 1, 2, 3)))
        return self.choose.choice(("", "x", "ünï"))

    # --- columns --------------------------------------------------------------------------------------------------

    def add(self) -> None:
        name, kind = next(self.names), self.choose.choice(NEW_TYPES)
        self.both(f"add columns ({name} {kind} comment 'new')", lambda t: t.add_columns(f"{name} {kind} comment 'new'"))

    def rename(self) -> None:
        path = self.choose.choice([*_paths(self.fields())])
        name = self.choose.choice((next(self.names), f"{next(self.names)} of it", f"{next(self.names)}.dot"))
        if path == (self.key,):
            self.key = name = next(self.names)
        self.both(f"rename column {_text(path)} to `{name}`", lambda t: t.rename_column(_text(path), name))

    def drop(self) -> None:
        fields = self.fields()
        found = [path for path in _paths(fields) if path != (self.key,) and _neighbors(fields, path) > 1]
        paths = self.choose.sample(found, 1)
        named = ", ".join(map(_text, paths))
        self.both(f"drop columns ({named})", lambda t: t.drop_columns([*map(_text, paths)]))

    def widen(self) -> None:
        leaves = [*_leaves(self.fields())]
        found = [(path, wider) for path, kind in leaves for wider in WIDER.get(kind, ())]
        found = [each for each in found if each[0] != (self.key,) or each[1] == "bigint"]
        if not found:
            return
        path, kind = self.choose.choice(found)
        self.both(f"alter column {_text(path)} type {kind}", lambda t: t.alter_column(_text(path), type=kind))

    def comment(self) -> None:
        path = self.choose.choice([*_paths(self.fields())])
        text = self.choose.choice(("one", "two"))
        self.both(f"alter column {_text(path)} comment '{text}'", lambda t: t.alter_column(_text(path), comment=text))

    def move(self) -> None:
        names = [field["name"] for field in self.fields()]
        column, other = self.choose.sample(names, 2) if len(names) > 1 else (names[0], None)
        if other is None or self.choose.random() < 0.3:
            self.both(f"alter column `{column}` first", lambda t: t.alter_column(f"`{column}`", first=True))
        else:
            statement = f"alter column `{column}` after `{other}`"
            self.both(statement, lambda t: t.alter_column(f"`{column}`", after=other))

    def default(self) -> None:
        found = [field["name"] for field in self.fields() if field["type"] == "string"]
        if not found:
            return
        name = self.choose.choice(found)
        if self.choose.random() < 0.5:
            self.both(f"alter column `{name}` set default 'x'", lambda t: t.alter_column(f"`{name}`", default="'x'"))
        else:
            self.both(f"alter column `{name}` drop default", lambda t: t.alter_column(f"`{name}`", default=""))

    def statistics(self) -> None:
        found = [path for path, kind in _leaves(self.fields()) if not {"element", "key", "value"} & {*path}]
        named = ",".join(_text(path) for path in self.choose.sample(found, min(2, len(found))))
        properties = {"delta.dataSkippingStatsColumns": named}
        statement = f"set tblproperties ('delta.dataSkippingStatsColumns' = '{named}')"
        self.both(statement, lambda t: t.set_properties(properties))

    def constraint(self) -> None:
        """Added, or dropped again: nothing else of the program may name the key meanwhile."""
        name = next(self.names)
        condition = f"`{self.key}` < 1000000"
        self.both(f"add constraint {name} check ({condition})", lambda t: t.add_constraint(name, condition))
        if self.choose.random() < 0.8:
            self.write()
        self.both(f"drop constraint {name}", lambda t: t.drop_constraint(name))

    def optimize(self) -> None:
        """Only the shared table: no row may change."""
        if self.choose.random() < 0.5:
            Table.open(self.shared).optimize()
        else:
            self.spark.sql(f"optimize delta.`{self.shared}`")
        self.steps.append("optimize")

    # --- judgment -------------------------------------------------------------------------------------------------

    def judge(self, read_delta: Read | None = None) -> None:
        """Compare columns, rows and histories; with ``read_delta`` also as Spark reads the rows."""
        told = "\n".join(self.steps)
        alone, shared = Table.open(self.alone), Table.open(self.shared)
        assert _definition(shared) == _definition(alone), told
        ours, theirs = shared.to_arrow(), alone.to_arrow()
        assert as_rows(ours) == as_rows(theirs), told
        assert _history(shared) == _history(alone, self.empty), told
        for column, value in ((self.key, 1), (self.key, 3)):
            found = [as_rows(each.to_arrow(where=f"`{column}` >= {value}")) for each in (alone, shared)]
            assert found[0] == found[1] == as_rows(_filtered(theirs, column, value)), told
        if read_delta is not None:
            assert as_rows(in_schema(read_delta(self.shared).toArrow(), ours.schema)) == as_rows(ours), told
            assert as_rows(in_schema(read_delta(self.alone).toArrow(), theirs.schema)) == as_rows(theirs), told
            assert verify_table(shared._open_table.store).is_sound, told
            if self.is_tracked:
                self._judge_ids(read_delta(self.shared), told)

    def _judge_ids(self, frame: DataFrame, told: str) -> None:
        """Rows have ids of their own, which stay (an update counts a key up), and new rows get greater ones."""
        found = frame.selectExpr(f"`{self.key}` as k", "_metadata.row_id as id").collect()
        ids = {row.id: row.k for row in found}
        assert None not in ids, told
        assert len(ids) == len(found), told
        assert all(ids[id] >= self.ids[id] for id in ids.keys() & self.ids.keys()), told
        assert min(ids.keys() - self.ids.keys(), default=1 << 62) > max(self.ids, default=-1), told
        self.ids |= ids


def _filtered(rows: pa.Table, column: str, value: int) -> pa.Table:
    keep = [each is not None and each >= value for each in rows[column].to_pylist()]
    return rows.filter(pa.array(keep, pa.bool_()))


def _definition(table: Table) -> Any:
    """The columns without ids and physical names, and the properties."""
    text = next(
        line["metaData"]
        for name in sorted(Path(table.uri, "_delta_log").glob("*.json"), reverse=True)
        for line in map(json.loads, name.read_text().splitlines())
        if "metaData" in line
    )
    of_one_table = ("delta.columnMapping.max", "delta.rowTracking.materialized")
    kept = {key: value for key, value in text["configuration"].items() if not key.startswith(of_one_table)}
    return _plain(json.loads(text["schemaString"])), kept


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items() if not key.startswith("delta.columnMapping.")}
    return [*map(_plain, node)] if isinstance(node, list) else node


def _history(table: Table, without: Collection[int] = ()) -> list[Any]:
    """What changes of the definition are called, oldest first, but for some versions."""
    found = []
    for entry in table.history()[::-1]:
        if entry["operation"] in DEFINES and entry["version"] not in without:
            parameters = {key: _decoded(value) for key, value in entry["operationParameters"].items()}
            found.append((entry["operation"], _plain(parameters)))
    return found


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def _paths(fields: list[dict[str, Any]], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every column and struct field."""
    for field in fields:
        path = (*prefix, field["name"])
        yield path
        for inside, members in _structs(field["type"]):
            yield from _paths(members, (*path, *inside))


def _structs(kind: Any) -> Iterator[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    if isinstance(kind, dict) and kind["type"] == "struct":
        yield (), kind["fields"]
    elif isinstance(kind, dict) and kind["type"] == "array":
        yield from ((("element", *inside), members) for inside, members in _structs(kind["elementType"]))


def _leaves(fields: list[dict[str, Any]], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in fields:
        yield from _leaves_of(field["type"], (*prefix, field["name"]))


def _leaves_of(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(kind, str):
        yield path, kind
    elif kind["type"] == "struct":
        yield from _leaves(kind["fields"], path)
    elif kind["type"] == "array":
        yield from _leaves_of(kind["elementType"], (*path, "element"))


def _neighbors(fields: list[dict[str, Any]], path: tuple[str, ...]) -> int:
    """How many columns the struct has that the last name is in."""
    return sum(len(other) == len(path) and other[:-1] == path[:-1] for other in _paths(fields))


def _text(path: tuple[str, ...]) -> str:
    return ".".join(name if name in ("element", "key", "value") else f"`{name}`" for name in path)


STEPS = (
    *(Pair.write, Pair.write, Pair.write, Pair.change_rows, Pair.change_rows, Pair.optimize),
    *(Pair.add, Pair.rename, Pair.rename, Pair.drop, Pair.widen, Pair.widen, Pair.widen),
    *(Pair.comment, Pair.move, Pair.default, Pair.statistics, Pair.constraint),
)


def run_program(spark: SparkSession, read_delta: Read, folder: Path, seed: int, steps: int) -> None:
    choose = random.Random(seed)
    pair = Pair(spark, folder, choose, choose.choice(("name", "id", "begun")))
    for number in range(steps):
        choose.choice(STEPS)(pair)
        pair.judge(read_delta if number % 5 == 4 or number == steps - 1 else None)


@pytest.fixture
def session(delta: SparkSession) -> SparkSession:
    delta.conf.set("spark.sql.session.timeZone", "UTC")
    for way in ("read", "write"):  # Spark's Delta refuses tables mapped by id without
        delta.conf.set(f"spark.sql.parquet.fieldId.{way}.enabled", "true")
    return delta


def test_every_kind_of_change_by_txlog_is_read_and_continued_by_spark(
    session: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    """What the programs leave out: NOT NULL, partition and clustering columns, rows of merged schemas."""
    path = tmp_path / "t"
    place = f"delta.`{path}`"
    table = Table.create(path, "id int, v int, p smallint", "p", FEATURES, column_mapping="name")
    table.append(
        pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32()), "p": pa.array([7], pa.int16())})
    )
    table.rename_column("p", "part")
    table.alter_column("part", type="bigint")
    table.alter_column("id", nullable=False)
    table.append(pa.table({"id": pa.array([2], pa.int32()), "v": [2**40], "part": [2**40]}), schema_mode="merge")
    session.sql(f"insert into {place} values (3, 3, 3)")
    with pytest.raises(Exception, match=r"(?i)not null|null value"):
        session.sql(f"insert into {place} values (null, 3, 3)")
    ours = txlog.Table.open(path).to_arrow()
    assert as_rows(ours) == sorted(
        map(repr, [{"id": 1, "v": 1, "part": 7}, {"id": 2, "v": 2**40, "part": 2**40}, {"id": 3, "v": 3, "part": 3}])
    )
    assert as_rows(in_schema(read_delta(path).toArrow(), ours.schema)) == as_rows(ours)
    assert read_delta(path).where(f"part = {2**40}").count() == 1

    with table.transaction() as txn:
        txn.rename_column("v", "w")
        txn.alter_column("w", comment="renamed")
        txn.append(pa.table({"id": pa.array([4], pa.int32()), "w": [4], "part": [4]}))
    assert read_delta(path).where("w = 4").count() == 1
    session.sql(f"alter table {place} rename column w to x")
    assert table.to_arrow(["x"], "x > 3 and x < 5")["x"].to_pylist() == [4]

    wider = session.sql("select 5 as id, cast(0.5 as decimal(22,2)) as x, 5L as part")
    wider.write.format("txlog").mode("append").option("mergeSchema", "true").save(str(path))
    assert dict(read_delta(path).dtypes)["x"] == "decimal(22,2)"
    assert read_delta(path).where("x < 1").count() == table.count("x < 1") == 1
    ours = table.to_arrow()
    assert as_rows(in_schema(read_delta(path).toArrow(), ours.schema)) == as_rows(ours)


@pytest.mark.hunt(part="spark")
def test_clustering_follows_a_new_name_in_both_engines(session: SparkSession, read_delta: Read, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = Table.create(path, "a int, s struct<u: int, v: int>", cluster_by=["a", "s.u"], column_mapping="name")
    table.rename_column("a", "b")
    table.rename_column("s.u", "w")
    session.sql(f"insert into delta.`{path}` select id, named_struct('w', id, 'v', id) from range(100)")
    session.sql(f"optimize delta.`{path}`")
    detail = session.sql(f"describe detail delta.`{path}`").collect()[0]
    assert list(detail["clusteringColumns"]) == ["b", "s.w"]
    table.optimize()
    assert read_delta(path).count() == table.count() == 100


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("seed", [1])
def test_a_program_of_changes_by_both_engines_in_turns_ends_as_by_spark_alone(
    session: SparkSession, read_delta: Read, tmp_path: Path, seed: int
) -> None:
    run_program(session, read_delta, tmp_path, seed, steps=8)


@pytest.mark.hunt(part="definitions")
def test_many_programs_of_changes_by_both_engines_in_turns_end_as_by_spark_alone(
    session: SparkSession, read_delta: Read, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    programs = 0
    for programs, seed in enumerate(seeds(budget_s(60)), 1):
        run_program(session, read_delta, tmp_path / str(seed), seed, steps=25 if programs == 1 else 5)
    record_property("measured", f"programs of definition changes: {programs}")
    assert programs
