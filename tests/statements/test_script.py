"""SQL text to statements: what is understood, and what is refused with its place."""

from __future__ import annotations

import datetime
import decimal
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError
from txlog.statements.changes import AddColumns, AlterColumn, AlterTable, DropColumns, NewColumn, RenameColumn
from txlog.statements.names import AsOf
from txlog.statements.query import ChangesOf, Query
from txlog.statements.rows import Clause, Delete, Insert, Merge, Update
from txlog.statements.script import ends_statement, read_statements
from txlog.statements.show import DescribeHistory, ShowTables
from txlog.statements.tables import Clone, CreateTable
from txlog.statements.upkeep import Optimize, Restore, Vacuum


def one(text: str, **parameters: object) -> Any:
    (statement,) = read_statements(text, parameters)
    return statement


def test_a_script_is_split_at_semicolons_that_end_statements() -> None:
    found = read_statements("delete from a where s = ';'; -- a; b\n/* ; */ delete from b;;")
    assert [each.table.text for each in found] == ["a", "b"]
    assert found[0].where == "s = ';'"


def test_an_alias_is_left_out_of_the_columns_of_an_update_and_a_delete() -> None:
    update = one(
        "update sales.orders as o set o.n = o.n + o.place.o.x, `a b` = 'o.n' where o.id = 1 and upper(o.s) = 'O'"
    )
    assert isinstance(update, Update)
    assert update.values == ((("n",), "n + place.o.x"), (("a b",), "'o.n'"))
    assert update.where == "id = 1 and upper(s) = 'O'"
    delete = one("delete from sales.orders where orders.id = 1")
    assert isinstance(delete, Delete)
    assert delete.where == "id = 1"


def test_the_case_of_an_alias_does_not_matter() -> None:
    update = one("update t as Old set oLD.a = OLD.b + 1, old.s.x = 2 where old.a > 0")
    assert (update.values, update.where) == (((("a",), "b + 1"), (("s", "x"), "2")), "a > 0")


def test_double_quotes_are_strings_and_comments_are_left_out() -> None:
    assert one('delete from t where a = "it\'s" -- why\n and b = 2').where == r"a = 'it\'s' and b = 2"


def test_a_case_in_a_value_does_not_end_the_clause() -> None:
    merge = one(
        "merge into t using s on t.id = s.id when matched then update set a = case when s.x > 1 then 2 end, b = 1"
        " when not matched then insert *"
    )
    assert merge.clauses[0].values == ((("a",), "case when s.x > 1 then 2 end"), (("b",), "1"))


def test_every_clause_of_a_merge_is_read() -> None:
    merge = one(
        "merge with schema evolution into a.t as x using (select * from s version as of 3 where k in (1, 2)) y"
        " on x.id = y.id and x.day = y.day"
        " when matched and y.gone then delete"
        " when matched then update set *"
        " when not matched by target and y.n > 0 then insert (id, n) values (y.id, y.n + 1)"
        " when not matched then insert *"
        " when not matched by source and x.old then update set x.n = 0"
        " when not matched by source then delete"
    )
    assert isinstance(merge, Merge)
    assert (merge.table.text, merge.alias, merge.source_alias, merge.merges_schema) == ("a.t", "x", "y", True)
    assert merge.on == "x.id = y.id and x.day = y.day"
    assert merge.query.readings[0].as_of == AsOf(version=3)
    assert merge.clauses == (
        Clause("matched", "delete", None, "y.gone"),
        Clause("matched", "update", None, None),
        Clause("not matched", "insert", ((("id",), "y.id"), (("n",), "y.n + 1")), "y.n > 0"),
        Clause("not matched", "insert", None, None),
        Clause("not matched by source", "update", ((("n",), "0"),), "x.old"),
        Clause("not matched by source", "delete", None, None),
    )


def test_the_forms_of_insert_are_read() -> None:
    plain = one("insert into table t select 1")
    assert isinstance(plain, Insert)
    assert (plain.overwrites, plain.columns, plain.by_name) == (False, None, False)
    assert one("insert into t (a, `b c`) values (1, 2)").columns == ("a", "b c")
    assert one("insert into t by name select 1 as a").by_name
    assert one("insert overwrite t partition (p = 'x') select 1").partition == (("p", "'x'"),)
    assert (
        one("insert into t replace where day = '2026-01-01' and n in (1) select 1").where
        == "day = '2026-01-01' and n in (1)"
    )
    assert one("insert with schema evolution into t table s").merges_schema
    assert one("insert into t (select 1)").query.text() == "(select 1)"


def test_a_table_of_a_query_is_a_placeholder_and_a_part_of_the_query_is_none() -> None:
    query = one(
        "with c as (select * from a.b) select c.x, d.y from c join `D` d on c.x = d.x"
        " where x > (select max(x) from e@v7)"
    )
    assert isinstance(query, Query)
    assert [each.table.text for each in query.readings] == ["a.b", "D", "e"]
    assert [each.as_of.version for each in query.readings] == [None, None, 7]
    assert query.text("t0", "t1", "t2") == (
        "with c as (select * from t0 AS `b`) select c.x, d.y from c join t1 d on c.x = d.x"
        " where x > (select max(x) from t2 AS `e`)"
    )


def test_a_name_of_a_query_hides_a_table_only_where_the_query_has_it() -> None:
    assert [each.table.text for each in one("with a as (select * from a) select * from a").readings] == ["a"]
    recursive = "with recursive r as (select 1 x union all select x + 1 from r where x < 5) select * from r"
    assert one(recursive).readings == ()


def test_versions_times_and_changes_are_taken_out_of_a_query() -> None:
    query = one(
        "select * from a for version as of 3, b timestamp as of '2026-01-01' x, c for timestamp as of"
        " current_timestamp() - interval 1 day as y, table_changes('s.t', 2, 5) z, delta.`/data/x` version as of '4'"
    )
    assert [each.as_of for each in query.readings] == [
        AsOf(version=3),
        AsOf(timestamp="'2026-01-01'"),
        AsOf(timestamp="current_timestamp() - interval 1 day"),
        AsOf(),
        AsOf(version=4),
    ]
    assert query.readings[3].changes == ChangesOf("2", "5")
    assert query.readings[4].table.location == "/data/x"


def test_the_columns_and_the_rest_of_a_table_are_read_in_any_order() -> None:
    made = one(
        "create table if not exists s.t (id bigint generated always as identity (start with 5), d decimal(10, 2)"
        " comment 'a, b', constraint positive check (d > 0 and (d < 9))) comment 'x' tblproperties ('a.b' = 'c', d = 1,"
        " e = true) partitioned by (id) using delta location '/x'"
    )
    assert isinstance(made, CreateTable)
    identity = "generated always as identity (start with 5)"
    assert made.columns == f"id bigint {identity}, d decimal(10, 2) comment 'a, b'"
    assert made.constraints == (("positive", "d > 0 and (d < 9)"),)
    assert made.properties == (("a.b", "c"), ("d", "1"), ("e", "true"))
    assert (made.partition_by, made.comment, made.location, made.if_not_exists) == (("id",), "x", "/x", True)
    copied = one("create or replace table t cluster by (a, b.c) as select * from s")
    assert (copied.cluster_by, copied.replaces, copied.query.readings[0].table.text) == (("a", "b.c"), True, "s")
    clone = one("create table t shallow clone s timestamp as of '2026-01-01' tblproperties (a = 'b')")
    assert clone == Clone(clone.table, clone.source, AsOf(timestamp="'2026-01-01'"), True, (("a", "b"),))


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            "add columns (a int comment 'x' first, s.b string after c)",
            AddColumns((NewColumn("a", "int comment 'x'", (), ""), NewColumn("b", "string", ("s",), "c"))),
        ),
        ("rename column a.b to c", RenameColumn("a.b", "c")),
        ("drop column if exists `a b`", DropColumns(("`a b`",), True)),
        ("drop columns (a, b.c)", DropColumns(("a", "b.c"))),
        ("alter column a type bigint", AlterColumn("a", type="bigint")),
        ("alter column a.b set not null", AlterColumn("a.b", nullable=False)),
        ("alter column a set default 1 + 1", AlterColumn("a", default="1 + 1")),
        ("alter column a drop default", AlterColumn("a", default="")),
        ("alter column a after b", AlterColumn("a", after="b")),
        ("change column a a bigint comment 'x' first", AlterColumn("a", "bigint", comment="x", after="")),
    ],
)
def test_changes_of_columns_are_read(text: str, change: object) -> None:
    statement = one(f"alter table t {text}")
    assert isinstance(statement, AlterTable)
    assert statement.change == change


def test_upkeep_is_read() -> None:
    optimize = one("optimize s.t where day >= '2026-01-01' zorder by (a, b)")
    assert optimize == Optimize(optimize.table, "day >= '2026-01-01'", ("a", "b"))
    vacuum = one("vacuum '/data/x' lite retain 0.5 hours dry run")
    assert vacuum == Vacuum(vacuum.table, 0.5, True, True)
    assert vacuum.table.location == "/data/x"
    assert one("restore table t to version as of 3").to == AsOf(version=3)
    assert isinstance(one("restore t to timestamp as of '2026-01-01'"), Restore)
    assert one("reorg table t where a = 1 apply (purge)").where == "a = 1"
    assert one("describe history t limit 5") == DescribeHistory(one("describe history t").table, 5)
    assert one("show tables in s like 'a*'") == ShowTables("s", "a*")
    assert one("show tables in main.s") == ShowTables("main.s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("it's \\", r"'it\'s \\'"),
        (7, "7"),
        (None, "NULL"),
        (True, "TRUE"),
        (decimal.Decimal("1.50"), "1.50"),
        (1.5, "1.5D"),
        (1e20, "1e+20D"),
        (1e23, "CAST('1e+23' AS DOUBLE)"),
        (np.int64(7), "CAST(7 AS BIGINT)"),
        (np.float32(0.1), "CAST('0.10000000149011612' AS FLOAT)"),
        (pa.scalar(Decimal("1.5"), pa.decimal128(10, 2)), "CAST(1.50 AS DECIMAL(10,2))"),
        (pa.scalar(datetime.datetime(2026, 1, 2, 3)), "TIMESTAMP_NTZ '2026-01-02 03:00:00'"),
        (pa.scalar(None, pa.int8()), "CAST(NULL AS TINYINT)"),
        (pa.scalar(None), "NULL"),
        (txlog.lit("it's"), r"'it\'s'"),
        (txlog.lit(np.int8(7)), "CAST(7 AS TINYINT)"),
        (Decimal("1E-3"), "0.001"),
        (b"\x01\xff", "X'01ff'"),
        (datetime.date(2026, 1, 2), "DATE '2026-01-02'"),
        (datetime.datetime(2026, 1, 2, 3), "TIMESTAMP '2026-01-02 03:00:00'"),
    ],
)
def test_a_parameter_is_a_literal_and_never_text(value: object, text: str) -> None:
    assert one("delete from t where a = :v or b=:v", v=value).where == f"a = {text} or b={text}"


def test_a_negative_parameter_behind_a_minus_does_not_begin_a_comment() -> None:
    assert one("delete from t where a = 5 -:v and b = 1", v=-3).where == "a = 5 - -3 and b = 1"


def test_a_colon_behind_an_operator_begins_a_parameter_and_behind_a_value_a_part_of_it() -> None:
    for operator in ("=", "<>", "!=", "<=", ">=", "<=>", "||", "%", "&", "(", ","):
        assert one(f"delete from t where a {operator}:v", v=1).where == f"a {operator}1"
    text = "a:v = :v and `b`:v = 1 and f(c):v = 1 and d[0]:v = 1 and e::int = 1"
    assert one(f"select * from t where {text}", v=1).text("x").endswith(text.replace(" :v", " 1"))


def test_a_negative_parameter_behind_a_minus_in_a_query_begins_no_comment() -> None:
    assert one("select 1 -:x as v", x=-5).text() == "select 1 - -5 as v"
    assert one("insert into t values (-:x)", x=-5).query.text() == "values (- -5)"


@pytest.mark.parametrize("version", [3, "3"])
def test_a_version_or_a_limit_as_a_parameter_may_be_text_as_it_is_on_a_command_line(version: object) -> None:
    assert one("restore table t to version as of :v", v=version) == Restore(
        one("select * from t").readings[0].table, AsOf(3)
    )
    assert one("describe history t limit :v", v=version).limit == 3
    assert one("select * from t version as of :v", v=version).readings[0].as_of == AsOf(3)
    changes = one("select * from table_changes('t', :v, :v)", v=version).readings[0].changes
    assert changes == ChangesOf("3", "3")


def test_a_time_as_a_parameter_of_table_changes_is_a_time() -> None:
    changes = one("select * from table_changes('t', :day)", day="2026-11-20").readings[0].changes
    assert changes == ChangesOf("'2026-11-20'")


def test_hours_as_a_parameter_may_have_a_fraction() -> None:
    assert one("vacuum t retain :h hours", h=200.5).retention_hours == 200.5


@pytest.mark.parametrize("hours", [-1, float("inf"), float("nan"), "many", True, None])
def test_hours_that_are_no_number_or_negative_are_refused_with_their_value(hours: object) -> None:
    with pytest.raises(InvalidInputError, match=f"at line 1, column 17, :h: expected a number of hours.*{hours!r}"):
        one("vacuum t retain :h hours", h=hours)


@pytest.mark.parametrize(
    ("value", "text"),
    [("true", "true"), ("it's", "it's"), (True, "true"), (7, "7"), (Decimal("1.50"), "1.50"), ("", "")],
)
def test_a_parameter_of_a_property_is_its_text(value: object, text: str) -> None:
    assert one("alter table t set tblproperties ('k' = :v)", v=value).change.properties == (("k", text),)
    assert dict(
        one("copy into t from '/x' fileformat = csv format_options ('delimiter' = :v)", v=value).format_options
    ) == {"delimiter": text}


@pytest.mark.parametrize("value", [None, b"x", datetime.date(2026, 11, 20)])
def test_a_parameter_of_a_property_that_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="expected a string, a number or a boolean, and its value is"):
        one("alter table t set tblproperties ('k' = :v)", v=value)


def test_a_parameter_of_a_comment_is_text_or_none() -> None:
    assert one("comment on table t is :c", c="what's in it").change.text == "what's in it"
    assert one("comment on column t.a is :c", c=None).text == ""
    for value in (-5, 1.5):
        with pytest.raises(InvalidInputError, match=f"expected a string or NULL, and its value is {value}"):
            one("comment on table t is :c", c=value)
    with pytest.raises(InvalidInputError, match="expected a string, and its value is None"):
        one("create table t (a int) comment :c", c=None)


def test_what_a_type_has_in_angle_brackets_does_not_end_it() -> None:
    added = one(
        "alter table t add columns (p struct<x: int, id: string>, m map<string, decimal(10, 2)> after id,"
        " a array<struct<first: int, comment: map<int, array<int>>>> comment 'c' first)"
    )
    assert added.change.columns == (
        NewColumn("p", "struct<x: int, id: string>"),
        NewColumn("m", "map<string, decimal(10, 2)>", (), "id"),
        NewColumn("a", "array<struct<first: int, comment: map<int, array<int>>>> comment 'c'", (), ""),
    )
    changed = one("alter table t change column a a struct<first: int, after: int> comment 'c' after b").change
    assert changed == AlterColumn("a", "struct<first: int, after: int>", comment="c", after="b")


def test_a_value_that_compares_columns_with_names_of_types_ends_at_its_comma() -> None:
    assert one("update t set a = map < b, c = 1").values == ((("a",), "map < b"), (("c",), "1"))


def test_a_parameter_may_be_a_version_or_a_limit() -> None:
    assert one("select * from t version as of :v", v=3).readings[0].as_of == AsOf(version=3)
    assert one("vacuum t retain :hours hours", hours=24).retention_hours == 24


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("selct 1", "line 1, column 1, selct"),
        ("create global temporary view v as select 1", "line 1, column 8, global: .*: write CREATE TEMPORARY VIEW"),
        (
            "create schema if not exists s",
            "column 8, schema: only tables are created: in a folder of tables, the first",
        ),
        ("create database s", "column 8, database: only tables are created"),
        ("delete from t;\nupdate t set a 1", "line 2, column 16, 1"),
        ("delete from t where", "line 1, column 20, the end"),
        ("merge into t using s on t.a = s.a", "line 1, column 34, the end"),
        ("optimize t bin packing", "line 1, column 12, bin"),
        ("optimize t cluster by (a)", "line 1, column 12, cluster: ZORDER BY"),
        ("create table t (a int) using parquet", "line 1, column 30, parquet"),
        ("alter table t replace columns (a int)", "line 1, column 15, replace"),
        ("vacuum t retain many hours", "line 1, column 17, many"),
        (
            "merge into t using s on a when not matched then insert (a, b) values (1)",
            "there are 2 columns and 1 value",
        ),
        ("merge into t using s on a when not matched by source then update set *", "a row without a source"),
        ("insert overwrite t replace where a = 1 select 1", "REPLACE WHERE goes with INSERT INTO"),
        ("vacuum t retain nan hours", "line 1, column 17, nan"),
        ("select * from t version as of infinity", "line 1, column 31, infinity"),
        ("drop table t cascade now", "line 1, column 14, cascade"),
        ("delete from t where a = :x", "line 1, column 25, :"),
        ("restore t to 3", "line 1, column 14, 3"),
        ("select map('k', )", "the query at line 1, column 1, select cannot be read"),
        ("insert into t\nselect at, n from t  $ by at", "the query at line 2, column 1, select cannot be read"),
        (f"select {'(' * 5_000}1{')' * 5_000}", "the query at line 1, column 1, select cannot be read"),
        ("insert into t values (1) on conflict", "line 1, column 15"),
        ("show functions", "line 1, column 6, functions: expected TABLES, SCHEMAS, VIEWS, COLUMNS"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(InvalidInputError, match=place):
        read_statements(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("delete from t;\noptimize t where id in (select id from s)", "line 2, column 24"),
        ("insert into t replace where not exists (with a as (select 1) select * from a) select 1", "line 1, column 40"),
        ("merge into t using s on t.id = s.id and s.v > (select 1) when matched then delete", "line 1, column 47"),
    ],
)
def test_a_subquery_is_refused_with_its_place_where_none_can_be(text: str, place: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{place}.*WHERE of DELETE and UPDATE takes them") as raised:
        read_statements(text)
    assert "nothing was run" in raised.value.message


def test_statistics_are_not_computed_since_each_write_has_them() -> None:
    with pytest.raises(InvalidInputError, match="Each write stores statistics of its files"):
        read_statements("analyze table t compute delta statistics")
    with pytest.raises(InvalidInputError) as raised:
        read_statements("selct 1")
    assert "ANALYZE" not in raised.value.message


def test_a_parameter_without_a_value_is_named_where_it_is() -> None:
    with pytest.raises(
        InvalidInputError, match=r"at line 2, column 11, :low: there is no value for the parameter :low;"
    ):
        read_statements("delete from t\nwhere a > :low")


def test_a_value_without_a_parameter_and_text_without_a_statement_are_refused() -> None:
    for empty in ("", " ", ";", "-- nothing", "/* ; */;;"):
        with pytest.raises(InvalidInputError, match="expected an SQL statement"):
            read_statements(empty)
    with pytest.raises(InvalidInputError, match=r"Invalid parameters \[1\]: expected values by name"):
        read_statements("delete from t", [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="has no :x, for which there is a value"):
        read_statements("delete from t", {"x": 1})
    with pytest.raises(InvalidInputError, match="expected an SQL statement"):
        read_statements("  ")
    with pytest.raises(InvalidInputError, match="the SQL text cannot be read"):
        read_statements("select 'open")


@pytest.mark.parametrize(
    "text",
    [
        "with c as (select 1) create table t as select * from c",
        "from s insert into t select 1",
        "select * into t from s",
    ],
)
def test_a_query_that_changes_a_table_is_refused_before_the_statement_in_front_of_it_runs(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"write INSERT INTO t WITH c AS \(...\) SELECT"):
        read_statements(f"delete from t where id = 2; {text}")


@pytest.mark.parametrize("statement", ["update t set a = 1", "delete from t"])
def test_a_statement_without_a_query_has_no_queries_in_front_of_it(statement: str) -> None:
    with pytest.raises(InvalidInputError, match="UPDATE and DELETE cannot use the queries of WITH: leave WITH out"):
        read_statements(f"with c as (select 1) {statement}")


def test_the_query_of_a_statement_has_the_queries_in_front_of_it() -> None:
    found = one(
        "with recursive c (n) as (select 1), d as (select * from sales.u version as of 3) insert into t table d"
    )
    assert found.table.parts == ("t",)
    [reading] = found.query.readings
    assert (reading.table.parts, reading.as_of.version) == (("sales", "u"), 3)
    assert found.query.text("x") == (
        "with recursive c (n) as (select 1), d as (select * from x AS `u`) SELECT * FROM `d`"
    )
    merge = one("with c as (select 1 as id) merge into t using c s on t.id = s.id when matched then delete")
    assert (merge.query.text(), merge.source_alias) == ("with c as (select 1 as id) SELECT * FROM `c`", "s")
    assert [each.table.text for each in one("with c as (select 1) insert into t table u").query.readings] == ["u"]
    with pytest.raises(InvalidInputError, match="the statement already begins with WITH"):
        one("with c as (select 1) insert into t with d as (select 2) select * from c, d")


def test_the_partition_of_an_insert_has_columns_with_a_value_and_columns_that_the_rows_fill() -> None:
    found = one("insert overwrite table t partition (day = 'x', hour) select 1")
    assert (found.partition, found.left_to_rows) == ((("day", "'x'"),), ("hour",))


@pytest.mark.parametrize(
    "text",
    [
        "select * from :name",
        "select * from 'name'",
        "select * from delta.:name",
        "select a as :name from t",
        "select * from t as :name",
        "with :name as (select 1) select 2",
    ],
)
def test_a_string_or_a_parameter_is_no_name_in_a_query(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"it is a value: write the name.*`name`; nothing was run"):
        read_statements(text, {"name": "name"} if ":name" in text else {})


def test_a_comment_without_an_end_is_said_to_have_none() -> None:
    with pytest.raises(InvalidInputError, match="a comment is not closed"):
        read_statements("select 1 /* unterminated")


@pytest.mark.parametrize(
    "text",
    [
        "select 1;",
        "select 1; ",
        "select 1; -- one",
        "select 1; /* one */",
        "select 'a;\nb';",
        "select 1; select 2;",
        ";",
    ],
)
def test_a_statement_ends_with_its_semicolon(text: str) -> None:
    assert ends_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select 'it''s;",
        'select "a;',
        "select `a;",
        "select 1 -- one;",
        "-- one;",
        "select 1 /* one;",
        "select 1; select 'a;",
        "select 1;\nselect 2",
    ],
)
def test_a_semicolon_in_a_string_a_name_or_a_comment_ends_no_statement(text: str) -> None:
    assert not ends_statement(text)


def test_a_statement_that_nothing_behind_it_makes_readable_ends_with_its_semicolon() -> None:
    assert ends_statement("select X'zz';")
    assert not ends_statement("select X'zz'")
