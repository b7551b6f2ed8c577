"""The same SQL through Spark's Delta and through txlog: equal rows, columns, refusals and histories.

Each script runs three times: by Spark's Delta, by `txlog.sql` with duckdb, and by `txlog.spark.sql`. Spark's Delta then
reads what all three left.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from spark_helpers import commits
from sql_scripts import SCRIPTS, SHORT

import txlog
import txlog.spark
from txlog.spark.statements import SparkEngine
from txlog.statements.engine import Source
from txlog.statements.query import Query
from txlog.statements.sql import results_of
from txlog.statements.sql_result import SqlResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Run = Callable[[str], "pa.Table | None"]
REFUSED = "--refused "
DONE = ("done",)
COUNTED = ("update", "delete", "merge")
READ = ("select", "with", "/*", "describe", "show")
OF_ROWS = {"CREATE TABLE AS SELECT": "WRITE", "CREATE OR REPLACE TABLE AS SELECT": "WRITE", "TRUNCATE": "DELETE"}
"""What Spark's Delta calls operations that are writes and deletes of txlog."""


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return iter(range(1000))


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        pytest.param(name, engine, marks=() if (name, engine) in SHORT else pytest.mark.hunt(part="sql"))
        for name in SCRIPTS
        for engine in ("duckdb", "spark")
    ],
)
def test_a_script_does_what_it_does_in_sparks_delta(
    delta: SparkSession, tmp_path: Path, numbers: Iterator[int], name: str, engine: str
) -> None:
    session = delta.newSession()  # without the views of other tests, whose names come first
    session.conf.set("spark.sql.session.timeZone", "UTC")
    database = f"scripts_{next(numbers)}"
    catalog = txlog.Catalog(tmp_path / "ours")
    session.sql(f"create database {database} location '{tmp_path / 'theirs'}'")
    session.sql(f"use {database}")
    try:
        theirs = outcomes(SCRIPTS[name], lambda text: of_spark(session, text))
        run = {
            "duckdb": lambda text: of_arrow(txlog.sql(text, catalog)),
            "spark": lambda text: of_frame(txlog.spark.sql(session, text, catalog)),
        }[engine]
        session.sql("use default")
        ours = outcomes(SCRIPTS[name], run)
        differing = [(text, a, b) for (text, a), (_, b) in zip(theirs, ours, strict=True) if a != b]
        assert not differing, "\n\n".join(f"{text}\n  Spark: {a}\n  txlog: {b}" for text, a, b in differing)
        names = sorted(
            row.tableName for row in session.sql(f"show tables in {database}").collect() if not row.isTemporary
        )
        assert [each.removeprefix("default.") for each in catalog.tables()] == names
        for table in names:
            assert left(session, catalog.location(table)) == left(session, str(tmp_path / "theirs" / table))
    finally:
        session.sql("use default")
        session.sql(f"drop database {database} cascade")


SELF_READERS = (
    "insert into t select id + 100, day from t",
    "insert into t replace where day = 'c' select id + 100, 'c' from t",
    "create or replace table t as select id + 100 as id, day from t",
    "merge into t using (select id + 100 as id, day from t) s on t.id = s.id when not matched then insert *",
)


@pytest.mark.parametrize(
    "text", [SELF_READERS[0], *(pytest.param(each, marks=pytest.mark.hunt(part="sql")) for each in SELF_READERS[1:])]
)
def test_a_statement_that_reads_its_own_table_conflicts_with_a_change_of_what_it_read(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    catalog = txlog.Catalog(tmp_path)
    txlog.sql("create table t (id bigint, day string); insert into t values (1, 'a'), (2, 'b')", catalog)

    class EngineWithARival(SparkEngine):
        def query(self, query: Query, sources: Sequence[Source | None]) -> DataFrame:
            catalog.table("t").delete("id = 1")
            return super().query(query, sources)

    with pytest.raises(txlog.ConflictError):
        list(results_of(text, EngineWithARival(spark), catalog, None, None))
    assert catalog.table("t").to_arrow()["id"].to_pylist() == [2]
    txlog.spark.sql(spark, text, catalog)
    assert sorted(catalog.table("t").to_arrow()["id"].to_pylist()) == ([102] if "replace table" in text else [2, 102])
    assert not catalog.table("t").history(1)[0]["isBlindAppend"]


OWN_VIEWS = {
    "txlog.spark.read": lambda spark, uri: txlog.spark.read(spark, uri),
    "the source": lambda spark, uri: spark.read.format("txlog").load(uri),
    "a subquery": lambda spark, uri: spark.sql(
        "select * from values (7L, 'x') v(id, day) where id > (select max(id) from {own})",
        own=spark.read.format("txlog").load(uri),
    ),
}
"""Views of a table that Spark keeps. At which version each reads it, nobody is told."""


@pytest.mark.parametrize("how", OWN_VIEWS)
def test_a_statement_is_refused_whose_rows_come_from_a_view_of_the_table_that_it_changes(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    catalog = txlog.Catalog(tmp_path)
    txlog.sql("create table t (id bigint, day string); insert into t values (1, 'a'); create table u clone t", catalog)
    OWN_VIEWS[how](spark, catalog.location("t")).createOrReplaceTempView("own")
    for text in (
        "merge into t using own s on t.id = s.id when matched then update set *",
        "insert overwrite t select * from own",
        "delete from t where id in (select id from own)",
    ):
        with pytest.raises(txlog.InvalidInputError, match=r"own, which is named at line 1, .* reads the table"):
            txlog.spark.sql(spark, text, catalog)
    assert catalog.table("t").version == 1
    txlog.spark.sql(spark, "merge into u using own s on u.id = s.id when not matched then insert *", catalog)
    spark.catalog.dropTempView("own")


CONDITIONS = (
    "k in (select k from u)",
    "k not in (select k from u)",
    "k not in (select nullif(k, 4) from u)",
    "k not in (select k from u where w > 100)",
    "not (k in (select k from u)) or v = 3",
    "exists (select 1 from u where u.k = t.k and w > 10)",
    "not exists (select 1 from u where u.k = t.k) and v < 9",
    "v > (select avg(w) / 10 from u)",
    "d >= (select max(e) from u where u.k = t.k) or d is null",
    "(k, v) in (select k, w div 10 from u)",
    "(k, v) not in (select nullif(k, 1), w div 10 from u)",
    "(select count(*) from u where u.k = t.k) = 0",
    "case when v > 2 then k in (select k from u) else s = 'a' end",
)
"""Conditions with queries, of which Spark's Delta takes none in DELETE and UPDATE: its SELECT says what they mean."""


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.hunt(part="sql"))])
def test_a_change_by_a_condition_with_queries_changes_the_rows_that_sparks_query_finds(
    delta: SparkSession, tmp_path: Path, engine: str
) -> None:
    spark, catalog = delta, txlog.Catalog(tmp_path)
    made = (
        "create table {0} (k bigint, v int, s string, d double); insert into {0} values (1, 1, 'a', 0.5),"
        " (2, 2, 'b', double('nan')), (null, 3, 'c', -0.0), (4, 4, null, null), (4, 5, 'e', 1.0), (9, 6, 'a', 7.5)"
    )
    other = "create table u (k bigint, w int, e double); insert into u values (1, 10, 0.25), (4, 40, 1), (4, 41, 2)"
    txlog.sql(other, catalog)
    txlog.sql(made.format("t"), catalog)
    for name in ("t", "u"):
        txlog.spark.read(spark, catalog.location(name)).createOrReplaceTempView(name)
    run = {"duckdb": lambda text: txlog.sql(text, catalog), "spark": lambda text: txlog.spark.sql(spark, text, catalog)}
    value = "(select max(w) from u where u.k = t.k)"
    for number, condition in enumerate(CONDITIONS):
        found = spark.sql(f"select v, {value} from t where {condition}").collect()
        theirs = {row[0]: row[1] for row in found}
        name = f"t{number}"
        text = condition.replace("t.k", f"{name}.k")
        txlog.sql(made.format(name), catalog)
        run[engine](f"update {name} set k = {value.replace('t.k', name + '.k')}, s = 'new' where {text}")
        ours = catalog.table(name).to_arrow(where="s = 'new'").to_pylist()
        assert {row["v"]: row["k"] for row in ours} == theirs, condition
        catalog.table(name).restore(1)
        run[engine](f"delete from {name} where {text}")
        assert {*catalog.table(name).to_arrow()["v"].to_pylist()} == {1, 2, 3, 4, 5, 6} - theirs.keys(), condition
    with pytest.raises(Exception, match=r"[sS]ubquer"):  # Spark's Delta takes none
        spark.sql(f"delete from delta.`{catalog.location('t')}` where v in (select w from u)")


def test_a_merge_may_read_an_older_version_of_its_own_table(spark: SparkSession, tmp_path: Path) -> None:
    catalog = txlog.Catalog(tmp_path)
    rows = "create table t (id bigint, day string); insert into t values (1, 'a'), (2, 'b')"
    txlog.sql(f"{rows}; update t set day = 'c' where id = 1", catalog)
    merge = "merge into t using (select * from t version as of 1) s on t.id = s.id when matched then update set *"
    txlog.spark.sql(spark, merge, catalog)
    assert sorted(catalog.table("t").to_arrow()["day"].to_pylist()) == ["a", "b"]


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.hunt(part="sql"))])
def test_what_an_insert_stores_does_not_depend_on_sparks_ansi_mode(
    spark: SparkSession, tmp_path: Path, ansi: str
) -> None:
    catalog = txlog.Catalog(tmp_path)
    txlog.sql(
        "create table t (i int, l array<int>, m map<int,int>, s struct<`the-x`: int, n: struct<z: int>>, d date)",
        catalog,
    )
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    for values in (
        "i) select 99999999999",
        "i) select 'abc'",
        "d) select 'never'",
        "l) select array('1', 'b')",
        "m) select map('k', 1)",
        "m) select map(1, 99999999999)",
        "s) select struct(1, struct('deep'))",
    ):
        with pytest.raises(txlog.InvalidInputError, match=r"column [ilmsd.a-z]+ is a (int|date): it cannot store"):
            txlog.spark.sql(spark, f"insert into t ({values}", catalog)
    with pytest.raises(txlog.InvalidInputError):
        txlog.spark.sql(spark, "insert into t (d) select 7", catalog)
    assert catalog.table("t").version == 0
    everything = "'7', array(null, '8'), map('1', '2', 3, null), struct(a.x, struct(a.x)), '2026-01-02'"
    by_name = "select named_struct('n', named_struct('Z', 6L), 'the-x', '5') as s, null as l, map() as m"
    for text in (
        f"insert into t select {everything} from (select '9' as x) a",
        "insert into t select null, array(), null, null, null",
        f"insert into t by name {by_name}",
    ):
        txlog.spark.sql(spark, text, catalog)
    found = txlog.sql("select i, l, m, s, cast(d as string) as d from t", catalog).read_all()
    assert sorted(map(str, zip(*(column.to_pylist() for column in found.columns), strict=True)), key=len) == [
        "(None, [], None, None, None)",
        "(None, None, [], {'the-x': 5, 'n': {'z': 6}}, None)",
        "(7, [None, 8], [(1, 2), (3, None)], {'the-x': 9, 'n': {'z': 9}}, '2026-01-02')",
    ]


def test_the_constants_and_defaults_of_an_insert_are_those_of_the_statement(
    spark: SparkSession, tmp_path: Path
) -> None:
    catalog = txlog.Catalog(tmp_path)
    txlog.sql(
        "create table t (day string, at timestamp, id bigint default 5, v string default 'V') partitioned by (day, at)"
        " tblproperties (delta.feature.allowColumnDefaults = supported)",
        catalog,
    )
    insert = "insert into t partition (day = 'it''s', at = timestamp '2026-01-02 03:04:05.678Z')"
    for _ in range(2):
        txlog.spark.sql(spark, f"{insert.replace('into', 'overwrite')} values (1, default), (default, 'w')", catalog)
    found = txlog.sql("select day, cast(at as string) as at, id, v from t order by id", catalog).read_all()
    expected = {"day": "it's", "at": "2026-01-02 03:04:05.678"}
    assert found.to_pylist() == [{**expected, "id": 1, "v": "V"}, {**expected, "id": 5, "v": "w"}]
    for fault in ("partition (day = c0) select now(), 77, 'x'", "(id, v) values (1, default, 3)", "(id) select 1, 2"):
        with pytest.raises(txlog.InvalidInputError):
            txlog.spark.sql(spark, f"insert into t {fault}", catalog)
    assert catalog.table("t").version == 2


def test_times_without_a_zone_are_not_instants_in_changes(spark: SparkSession, tmp_path: Path) -> None:
    catalog = txlog.Catalog(tmp_path)
    skipped = "2024-03-10 02:30:00"  # an hour that clocks in the session's time zone left out
    create = "create table t (n timestamp_ntz) tblproperties (delta.enableChangeDataFeed = true)"
    txlog.sql(f"{create}; insert into t values (timestamp_ntz '{skipped}')", catalog)
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    txlog.spark.sql(spark, "create table u as select n from table_changes('t', 0)", catalog)
    assert txlog.spark.sql(spark, "select string(n) from table_changes('t', 0)", catalog).first()[0] == skipped
    assert catalog.table("u").to_arrow().equals(catalog.table("t").to_arrow())


VIEWS = {
    "changes": "select * from values ('a', 1L, 'new'), ('{b}', 3L, 'added') as changes (k, id, v)",
    "of_all_sessions": "select 'a' as k, 2L as id, 'global' as v",
}
WITH_VIEWS = (
    "merge into {t} t using changes s on t.id = s.id when matched then update set v = s.v",
    "merge into {t} t using changes on t.id = changes.id when matched then delete when not matched then insert *",
    "merge into {t} using global_temp.of_all_sessions s on s.id = t.id when matched then update set *",
    "with c as (select * from changes where id = 3) merge into {t} t using c on t.id = c.id when matched then delete",
    "insert into {t} table changes",
    "insert into {t} by name select v, id, '{{}}' as k from other.plain",
    "with c (k, id, v) as (select k, id + 10, v from changes) insert into {t} table c",
    "insert overwrite {t} partition (k) select k, id, 'left' from changes",
    "insert overwrite table {t} partition (k = 'a') select id, v from other.plain where false",
)


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(WITH_VIEWS[::3], id="some"),
        pytest.param(WITH_VIEWS, id="all", marks=pytest.mark.hunt(part="sql")),
    ],
)
def test_statements_read_the_views_of_a_session_as_they_do_in_sparks_delta(
    delta: SparkSession, tmp_path: Path, texts: tuple[str, ...]
) -> None:
    """Each statement runs on a table of its own side; Spark's Delta reads both afterwards."""
    session = delta.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.sql(VIEWS["changes"]).createOrReplaceTempView("changes")
    session.sql(VIEWS["of_all_sessions"]).createOrReplaceGlobalTempView("of_all_sessions")
    session.sql("create database other")
    try:
        session.sql("create table other.plain using parquet as select 7L as id, 'p' as v")
        sides = [f"delta.`{tmp_path / side}`" for side in ("theirs", "ours")]
        for side in ("theirs", "ours"):
            table = txlog.Table.create(str(tmp_path / side), "k string, id long, v string", partition_by=["k"])
            table.append(pa.table({"k": ["a", "b"], "id": [1, 2], "v": ["old", "old"]}))
        for text in texts:
            overwrites = "dynamic" if "overwrite" in text else "static"
            session.conf.set("spark.sql.sources.partitionOverwriteMode", overwrites)
            aliased = [text.format(t=side).replace("` using", "` t using") for side in sides]
            session.sql(aliased[0])
            txlog.spark.sql(session, aliased[1])
            theirs, ours = (sorted(map(repr, session.sql(f"select * from {side}").collect())) for side in sides)
            assert theirs == ours, text
    finally:
        session.sql("drop database other cascade")


def test_a_version_of_what_only_spark_knows_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).createOrReplaceTempView("numbers")
    txlog.Table.create(str(tmp_path), "id long")
    with pytest.raises(txlog.InvalidInputError, match=r"(?i)time ?travel"):
        txlog.spark.sql(spark, f"insert into delta.`{tmp_path}` select * from numbers version as of 3")
    assert txlog.Table.open(str(tmp_path)).count() == 0


def test_a_table_is_replaced_in_a_session_that_overwrites_partitions(spark: SparkSession, tmp_path: Path) -> None:
    catalog = txlog.Catalog(tmp_path)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    for rows in ("1 as id, 'a' as p", "2 as id, 'b' as p"):
        txlog.spark.sql(spark, f"create or replace table t partitioned by (p) as select {rows}", catalog)
    assert catalog.table("t").to_arrow().to_pylist() == [{"id": 2, "p": "b"}]


def test_no_property_of_a_table_as_a_query_is_an_option_of_the_write(spark: SparkSession, tmp_path: Path) -> None:
    catalog = txlog.Catalog(tmp_path)
    properties = {
        "delta.appendOnly": "true",
        "mergeSchema": "true",
        "parquet.compression": "zstd",
        "path": "elsewhere",
        "storage.region": "nowhere",
        "Team": "a",
        "userMetadata": "none",
    }
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    txlog.spark.sql(spark, f"create table t tblproperties ({listed}) as select 1 as a", catalog)
    txlog.spark.sql(spark, f"create table u (a int) tblproperties ({listed})", catalog)
    for name in ("t", "u"):
        found = txlog.sql(f"show tblproperties {name}", catalog).read_all().to_pylist()
        assert properties.items() <= {row["key"]: row["value"] for row in found}.items()
    assert catalog.table("t").to_arrow().to_pylist() == [{"a": 1}]
    assert "userMetadata" not in catalog.table("t").history(1)[0]


HOSTILE = ("b", "it's", 'a"b', "a\\\\'b", "') OR 1 = 1 --", "{x} {{y}}", ":s", "%s", "line\nbreak", "é😀", "/* */", "")


def test_a_parameter_is_a_value_at_every_door_of_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads back what was written, and each text finds its own row alone."""
    catalog = txlog.Catalog(tmp_path)
    location = f"{tmp_path}/s/t"

    def run(text: str, **parameters: object) -> Any:
        return txlog.spark.sql(spark, text, catalog, parameters)

    def kept(where: str, **parameters: object) -> list[int]:
        frame = txlog.spark.read(spark, location, where=where, parameters=parameters)
        return sorted(row.id for row in frame.collect())

    run("CREATE TABLE s.t (id BIGINT, s STRING, n DECIMAL(9, 2), d DOUBLE)")
    values = ", ".join(f"({at}, :s{at}, :n, :d)" for at in range(len(HOSTILE)))
    texts = {f"s{at}": text for at, text in enumerate(HOSTILE)}
    run(f"INSERT INTO s.t VALUES {values}", **texts, n=Decimal(-5), d=math.nan)
    read = {row.id: row.s for row in txlog.spark.read(spark, location).collect()}
    assert [read[at] for at in range(len(HOSTILE))] == [*HOSTILE]
    found = run(
        "SELECT collect_set(id) AS ids FROM s.t WHERE s IN (:all) AND n = :n AND d = :d AND s != :no",
        all=HOSTILE,
        n=Decimal(-5),
        d=math.nan,
        no="b",
    )
    assert sorted(found.collect()[0].ids) == [*range(1, len(HOSTILE))]
    alone = run(
        f"SELECT {', '.join(f':s{at} AS c{at}' for at in range(len(HOSTILE)))}, typeof(:n) AS kind, :m::string AS m",
        **texts,
        n=Decimal(-5),
        m=-5,
    )
    assert [*alone.collect()[0]] == [*HOSTILE, "decimal(1,0)", "-5"]
    for at, text in enumerate(HOSTILE):
        assert kept("s = :s", s=text) == [at], text
    txlog.spark.update(
        spark, location, {"s": txlog.expr("concat(:a, s)")}, "s IN (:s)", parameters={"a": "'", "s": HOSTILE[:3]}
    )
    assert kept("s IN (:s)", s=[f"'{text}" for text in HOSTILE[:3]]) == [0, 1, 2]
    run("UPDATE s.t SET s = concat(s, :a) WHERE s IN (:s)", a="\\", s=HOSTILE[3:5])
    assert kept("s IN (:s)", s=[f"{text}\\" for text in HOSTILE[3:5]]) == [3, 4]
    source = spark.createDataFrame([(5, HOSTILE[5]), (99, "new")], "k bigint, t string")
    merge = txlog.spark.merge(
        spark, location, source, "target.s = source.t AND source.t = :s", parameters={"s": HOSTILE[5], "v": "'"}
    )
    merge.when_matched_update({"s": txlog.expr(":v")}).execute()
    assert kept("s = :s", s="'") == [5]
    merging = "MERGE INTO s.t USING (SELECT 6 AS k) u ON t.id = u.k AND t.s = :s WHEN MATCHED THEN UPDATE SET s = :v"
    run(merging, s=HOSTILE[6], v="'--")
    assert kept("s = :s", s="'--") == [6]
    txlog.spark.delete(spark, location, "s IN (:s)", parameters={"s": HOSTILE[7:9]})
    run("DELETE FROM s.t WHERE s IN (:s)", s=HOSTILE[9:])
    assert kept("true") == [*range(7)]
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        with pytest.raises(txlog.errors.InvalidInputError, match="escapes nothing in this session"):
            run("SELECT :s AS s", s="it's")
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")


NAIVE = datetime.datetime(2026, 11, 20, 8, 15, 0, 123456)
NUMBERS = (7, -7, 2**31, -(2**31), 2**63 - 1, 0.1, -0.0, 1e300, 12345678.9, math.nan, math.inf, -math.inf)
TYPED = {
    **{str(number): number for number in NUMBERS},
    **{f"decimal {text}": Decimal(text) for text in ("1.50", "-0.05", "7", "1E+3", "1E-30", str(2**70))},
    **{"true": True, "null": None, "text": "it's \\ :v", "empty": "", "bytes": b"\x00\xff'"},
    **{"date": NAIVE.date(), "time": NAIVE.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))},
    "naive": NAIVE,
}
"""Values of parameters that Spark takes too."""
TYPES = {
    "tinyint": (np.int8(7), pa.scalar(7, pa.int8())),
    "smallint": (np.int16(7), np.uint8(7)),
    "int": (np.int32(7),),
    "bigint": (np.int64(7), pa.scalar(7, pa.int64()), pa.scalar(None, pa.int64())),
    "float": (np.float32(0.1), pa.scalar(0.1, pa.float32())),
    "double": (np.float64(0.1),),
    "boolean": (np.bool_(True),),
    "string": (np.str_("x"), pa.scalar("x")),
    "decimal(10,2)": (pa.scalar(Decimal("1.5"), pa.decimal128(10, 2)),),
    "timestamp_ntz": (pa.scalar(NAIVE, pa.timestamp("us")),),
    "timestamp": (pa.scalar(NAIVE, pa.timestamp("us", "UTC")), np.datetime64("2026-11-20T08:15:00", "us")),
}
"""Types in Spark, each with scalars of numpy and pyarrow, which Spark does not take as parameters."""


@pytest.mark.hunt(part="spark")
def test_a_parameter_has_the_type_that_spark_gives_it_at_every_door(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's are those of `lit`, which its `sql` makes of each value of ``args``; the parser of Spark's Delta drops
    them."""
    from pyspark.sql.functions import lit, typeof

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = txlog.Table.create(tmp_path / "t", "id int, s string")
    table.append(pa.table({"id": pa.array([1], pa.int32()), "s": ["a"]}))
    one = pa.table({"k": pa.array([1], pa.int32())})
    differing = []
    cases = [*TYPED.items(), *((kind, value) for kind, values in TYPES.items() for value in values)]
    for name, value in cases:
        given = {"v": value}
        ours = txlog.sql("select :v, typeof(:v) as t", tmp_path, given).read_all()
        in_spark = txlog.spark.sql(spark, "select :v, typeof(:v) as t", str(tmp_path), given).toArrow()
        found = {"in Spark": in_spark.column("t")[0].as_py()}
        if name not in TYPES:
            theirs = spark.range(1).select(lit(value), typeof(lit(value)).alias("t")).toArrow()
            if isinstance(value, float) and not math.isfinite(value):  # as a parameter it has another name in Spark
                theirs = theirs.rename_columns([f"CAST({theirs.column_names[0]} AS DOUBLE)", "t"])
            expected = theirs["t"][0].as_py()
            is_naive = name == "naive"  # Spark's is in the zone of the process
            for door, rows in {"txlog.sql": ours, "txlog.spark.sql": in_spark}.items():
                if (rows.column_names, repr(rows[0][0].as_py())) != (theirs.column_names, repr(theirs[0][0].as_py())):
                    differing += [] if is_naive else [f"{name} {door}: {rows.to_pylist()}, Spark {theirs.to_pylist()}"]
        else:
            expected = name
        found["txlog.sql"] = ours["t"][0].as_py()
        table.update({"s": txlog.expr("typeof(:v)")}, parameters=given)
        found["update"] = table.to_arrow()["s"][0].as_py()
        txlog.sql(f"update delta.`{table.uri}` set s = concat(typeof(:v), '!')", tmp_path, given)
        found["UPDATE"] = table.to_arrow()["s"][0].as_py().removesuffix("!")
        merge = table.merge(one, "target.id = source.k", parameters=given)
        merge.when_matched_update({"s": txlog.expr("concat(typeof(:v), '?')")}).execute()
        found["merge"] = table.to_arrow()["s"][0].as_py().removesuffix("?")
        found["where"] = expected if table.count("typeof(:v) = :t", parameters={**given, "t": expected}) else "another"
        differing += [f"{name} {door}: {kind}, Spark {expected}" for door, kind in found.items() if kind != expected]
    assert not differing, "\n".join(differing)


def outcomes(script: str, run: Run) -> list[tuple[str, Any]]:
    """What each statement does: rows, nothing to show, or a refusal."""
    found: list[tuple[str, Any]] = []
    for statement in script.strip().split(";\n"):
        text = statement.removeprefix(REFUSED).strip().rstrip(";")
        try:
            rows = run(text)
        except Exception as error:
            found.append((text, "refused" if statement.startswith(REFUSED) else f"refused: {error}"))
        else:
            found.append((text, shown(text, rows)))
    return found


def of_spark(spark: SparkSession, text: str) -> pa.Table:
    found = spark.sql(text)
    return found.toArrow() if text.split()[0].lower() in READ + COUNTED else None  # pyarrow reads no metrics with nulls


def of_arrow(found: SqlResult) -> pa.Table:
    return found.read_all()


def of_frame(found: Any) -> pa.Table | None:
    return found.toArrow() if hasattr(found, "toArrow") else SqlResult(found).read_all()


def shown(text: str, rows: Any) -> Any:
    word = text.split()[0].lower()
    if text.lower().startswith("describe history"):
        return [(row["version"], OF_ROWS.get(row["operation"], row["operation"])) for row in rows.to_pylist()]
    if text.lower().startswith("describe"):
        columns = [(row["col_name"], row["data_type"], row["comment"] or None) for row in rows.to_pylist()]
        return columns[: next((at for at, row in enumerate(columns) if not row[0] or row[0][0] == "#"), len(columns))]
    if word in COUNTED:
        names = [f"num_{what}_rows" for what in ("affected", "updated", "deleted", "inserted")]
        return [(name, rows[name].to_pylist()) for name in names[: 4 if word == "merge" else 1]]
    if word == "show":
        return sorted(" ".join(map(str, row.values())) for row in rows.to_pylist())
    if word in ("select", "with", "/*"):
        return [tuple(map(plain, row)) for row in zip(*(column.to_pylist() for column in rows.columns), strict=True)]
    return DONE


def plain(value: Any) -> Any:
    """A value as it compares, whatever type of number it is."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 9)
    if isinstance(value, Decimal):
        return plain(float(value))
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) else value


def left(spark: SparkSession, location: str) -> Any:
    """What Spark's Delta finds at a location: columns, rows, partitioning and operations."""
    frame = spark.read.format("delta").load(location)
    detail = spark.sql(f"describe detail delta.`{location}`").first()
    commits = spark.sql(f"describe history delta.`{location}`").collect()
    history = [OF_ROWS.get(row.operation, row.operation) for row in commits if row.operation != "RESERVE IDENTITY"]
    identity = identity_columns(Path(location))
    rows = sorted(
        repr({key: value for key, value in row.asDict().items() if key not in identity}) for row in frame.collect()
    )
    fields = [
        (field.name, field.dataType.simpleString(), field.nullable, field.metadata.get("comment"))
        for field in frame.schema
    ]
    return fields, rows, detail.partitionColumns, detail.clusteringColumns, detail.description, history


def identity_columns(location: Path) -> set[str]:
    """Columns whose numbers each engine counts as it likes; Spark's schemas do not show which."""
    actions = [line["metaData"] for commit in commits(location) for line in commit if "metaData" in line]
    fields = json.loads(actions[-1]["schemaString"])["fields"]
    return {field["name"] for field in fields if "delta.identity.start" in field["metadata"]}
