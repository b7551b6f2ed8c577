"""`txlog.sql`: statements on tables of a folder, with duckdb for queries."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.schema import Struct
from txlog.errors import (
    InvalidInputError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from txlog.result import in_milliseconds
from txlog.statements.engine import LocalEngine, Source
from txlog.statements.query import Query
from txlog.statements.script import read_statements
from txlog.statements.sql import results_of
from txlog.testing.unity_server import UnityServer


@pytest.fixture
def catalog(tmp_path: Path) -> txlog.Catalog:
    return txlog.Catalog(tmp_path / "warehouse")


class EngineWithARival(LocalEngine):
    """Another writer commits after the query has its versions, when its first rows are asked for."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.meanwhile = meanwhile

    def query(self, query: Query, sources: Sequence[Source | None]) -> pa.RecordBatchReader:
        found = super().query(query, sources)

        def batches() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(found):
                yield batch
                if not number:
                    self.meanwhile()

        return pa.RecordBatchReader.from_batches(found.schema, batches())


def rows(catalog: txlog.Catalog, text: str, **parameters: object) -> list[tuple[Any, ...]]:
    table = txlog.sql(text, catalog, parameters).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


ORDERS = """
create table sales.orders (id bigint not null, day date, amount decimal(10, 2), note string) partitioned by (day);
insert into sales.orders values (1, '2026-01-01', 1.5, 'a'), (2, '2026-01-01', 2.5, "it's"), (3, '2026-01-02', 3, null);
"""


def test_rows_are_created_changed_merged_and_read_and_another_reader_sees_them(catalog: txlog.Catalog) -> None:
    txlog.sql(ORDERS, catalog)
    assert (
        txlog.sql(
            "update sales.orders o set o.amount = o.amount * 2 where o.id = :id", catalog, {"id": 2}
        ).result.version
        == 2
    )
    txlog.sql(
        "merge into sales.orders t using (select 1 as id, 9.99 as amount union all select 7, 1) s on t.id = s.id"
        " when matched then update set amount = s.amount"
        " when not matched then insert (id, day, amount) values (s.id, '2026-02-01', s.amount)"
        " when not matched by source and t.note is null then delete",
        catalog,
    )
    expected = [
        (1, datetime.date(2026, 1, 1), Decimal("9.99"), "a"),
        (2, datetime.date(2026, 1, 1), Decimal("5.00"), "it's"),
        (7, datetime.date(2026, 2, 1), Decimal("1.00"), None),
    ]
    assert rows(catalog, "select * from sales.orders order by id") == expected
    read = deltalake.DeltaTable(catalog.location("sales.orders")).to_pyarrow_table().sort_by("id")
    assert list(zip(*(read[name].to_pylist() for name in ("id", "day", "amount", "note")), strict=True)) == expected


def test_a_query_reads_versions_times_and_changes(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int) tblproperties (delta.enableChangeDataFeed = true)", catalog)
    for number in range(3):
        txlog.sql("insert into t values (:n)", catalog, {"n": number})
    assert rows(catalog, "select count(*) from t version as of 2") == [(2,)]
    assert rows(catalog, "select a.id from t@v1 a join t b on a.id = b.id") == [(0,)]
    moment = in_milliseconds(catalog.table("t").snapshot(1).timestamp)
    at = datetime.datetime.fromtimestamp(moment / 1000, datetime.timezone.utc)
    assert rows(catalog, "select max(id) from t timestamp as of :at", at=at) == [(0,)]
    assert rows(catalog, "select id, _change_type from table_changes('t', 2) order by id") == [
        (1, "insert"),
        (2, "insert"),
    ]
    path = catalog.table("t").uri
    for name in (path, f"delta.`{path}`"):
        assert rows(catalog, f"select count(*) from table_changes('{name}', 2)") == [(2,)]


def test_a_query_that_is_all_of_a_table_needs_no_duckdb(
    catalog: txlog.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.write("t", pa.table({"id": [1]}))
    catalog.write("many", pa.table({"id": range(100_000)}))
    monkeypatch.setitem(sys.modules, "txlog.statements.duckdb_query", None)
    assert rows(catalog, "table t") == rows(catalog, "select * from t") == [(1,)]
    assert rows(catalog, "/* all */ Select *\nFrom default.t version as of 0 Limit :n; ", n=7) == [(1,)]
    assert rows(catalog, "select * from many limit 70000") == [(id,) for id in range(70_000)]
    assert rows(catalog, "select * from many limit 0") == []
    txlog.sql("create table copied as select * from many limit 3; insert into copied select * from t", catalog)
    assert sorted(rows(catalog, "table copied")) == [(0,), (1,), (1,), (2,)]
    txlog.sql("merge into t using t s on t.id = s.id when matched then delete", catalog)
    for query in ("select id from t", "select * from t limit 1 offset 1", "select * from t, many", "select * from t x"):
        with pytest.raises(InvalidInputError, match=r"duckdb, which is not installed: .*\[sql\]"):
            txlog.sql(query, catalog)
    with pytest.raises(InvalidInputError, match="Nothing was run"):
        txlog.sql("create table new (id bigint); insert into new values (1)", catalog)
    assert not catalog.exists("new")


def test_a_query_sees_the_tables_alone(catalog: txlog.Catalog, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    here = pa.table({"a": [1]})
    assert here.num_rows
    for text in (f"select * from read_csv('{tmp_path}/secret.csv')", "copy (select 1) to 'x'"):
        with pytest.raises(InvalidInputError):
            txlog.sql(text, catalog)
    with pytest.raises(TableNotFoundError, match="there is no table here"):
        txlog.sql("select * from here", catalog)


def test_rows_are_streamed_and_an_error_in_the_stream_is_typed(catalog: txlog.Catalog) -> None:
    late = "select cast(if(id = 2999999, 'no', '1') as int) from range(3000000) r(id)"
    found = txlog.sql(late, catalog)
    batches = found.to_batches()
    assert batches.read_next_batch().num_rows
    with pytest.raises(
        InvalidInputError, match=r"^cannot compute CAST.*'no' is .*\(in the query at line 1, column 1, sel"
    ):
        batches.read_all()


def test_a_script_with_a_fault_runs_nothing(catalog: txlog.Catalog) -> None:
    for fault in (
        "delete form t",
        "insert into absent values (1)",
        "select * from t join absent",
        "create tabel x (a int)",
        "select frobnicate(a) from t",
        "create table x as select try_to_number('1', '9') as a",
        "insert into t select make_interval(a) from t",
    ):
        with pytest.raises((InvalidInputError, TableNotFoundError), match="nothing was run"):
            txlog.sql(f"create table t (a int); insert into t values (1); {fault}", catalog)
        assert catalog.tables() == []


def test_a_query_of_a_script_may_call_all_that_a_query_alone_may(catalog: txlog.Catalog) -> None:
    calls = "any_value(a), listagg(c), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), count(*), POSITION('x' IN c)"
    rows = "explode(sequence(1, 3))"
    ranks = "rank() OVER (ORDER BY a), ntile(2) OVER (ORDER BY a), transform(array(a), x -> x + 1), current_date"
    txlog.sql(
        f"create table t (a int, c string); select {calls} from t group by c; select {rows}; select {ranks} from t;"
        "select dateadd(DAY, 1, date'2026-11-20'), struct(a AS b), date_part('year', current_date()) from t, range(2)",
        catalog,
    )


def test_text_that_is_no_number_is_wrong_in_every_engine(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (a int)", catalog)
    with pytest.raises(InvalidInputError, match=r"the string is not a number \(in the query at [^()]*\)$"):
        txlog.sql("select * from t where a = :a", catalog, {"a": "2 or 1=1"})


def test_a_merge_says_where_the_names_of_its_sources_columns_go(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (a int)", catalog)
    names = "MERGE INTO t USING (VALUES (1)) AS s(a) ON t.a = s.a WHEN MATCHED THEN DELETE"
    with pytest.raises(InvalidInputError, match=r"USING \(SELECT \* FROM VALUES \(\.\.\.\) AS v\(id, name\)\) AS s;"):
        txlog.sql(names, catalog)


def test_a_script_may_use_what_it_makes_and_not_what_it_drops(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table a (x int); create table b clone a; alter table b rename to c; insert into c values (1)", catalog
    )
    assert catalog.tables() == ["default.a", "default.c"]
    with pytest.raises(TableNotFoundError, match="there is no table c, which is named at line 1, column 29"):
        txlog.sql("drop table c; select * from c", catalog)


def test_every_kind_of_value_is_stored(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (a array<int>, m map<string, bigint>, s struct<x: int, y: string>, t timestamp, "
        " n timestamp_ntz, b binary, f double, y tinyint, o boolean)",
        catalog,
    )
    txlog.sql(
        "insert into t values (array(1, 2), map('k', 1), named_struct('x', 1, 'y', 'b'), '2026-01-01 10:00:00',"
        " '2026-01-01 10:00:00', X'01', 1, 2, true)",
        catalog,
    )
    at = datetime.datetime(2026, 1, 1, 10)
    utc = at.replace(tzinfo=datetime.timezone.utc)
    stored = ([1, 2], [("k", 1)], {"x": 1, "y": "b"}, utc, at, b"\x01", 1.0, 2, True)
    assert rows(catalog, "select * from t") == [stored]


def test_partitions_of_nulls_and_one_property_are_told(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (p string, q int, v int) partitioned by (p, q) tblproperties (a = 'b', c = 'd')", catalog)
    txlog.sql("insert into t values ('x', 2, 0), (null, 1, 0), ('x', null, 0), (null, null, 0), ('x', 2, 1)", catalog)
    assert rows(catalog, "show partitions t") == [(None, None), (None, "1"), ("x", None), ("x", "2")]
    assert rows(catalog, "show tblproperties t (c)") == [("c", "d")]


def test_partitions_are_told_under_the_names_that_renamed_columns_have_now(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (q int, v int, p string) partitioned by (p, q)"
        " tblproperties (delta.columnMapping.mode = 'name');"
        "insert into t values (1, 0, 'x'), (2, 0, 'x'); alter table t rename column p to tag;"
        "insert into t values (2, 1, 'x'), (2, 1, null)",
        catalog,
    )
    told = txlog.sql("show partitions t", catalog)
    assert told.read_all().to_pylist() == [{"tag": None, "q": "2"}, {"tag": "x", "q": "1"}, {"tag": "x", "q": "2"}]


def test_a_comment_is_for_a_column_or_for_a_field_of_a_struct_whose_table_has_the_longest_name(
    catalog: txlog.Catalog,
) -> None:
    txlog.sql(
        "create table s.t (a struct<b: int, `c-d`: int>, x int);"
        "comment on column s.t.a.b is 'nested'; comment on column s.t.a.`c-d` is 'quoted';"
        "comment on column s.t.x is 'top'",
        catalog,
    )
    a, x = catalog.table("s.t").snapshot().delta_schema.fields
    assert isinstance(a.type, Struct)
    assert [each.metadata["comment"] for each in (*a.type.fields, x)] == ["nested", "quoted", "top"]
    txlog.sql("create table t (x struct<y: int>); comment on column t.x.y is 'of t'", catalog)
    txlog.sql(f"comment on column delta.`{catalog.location('t')}`.x is 'at a location'")
    txlog.sql("create table t.x (y int); comment on column t.x.y is 'of t.x'", catalog)
    (x,), (y,) = (catalog.table(name).snapshot().delta_schema.fields for name in ("t", "t.x"))
    assert isinstance(x.type, Struct)
    comments = (x.metadata["comment"], x.type.fields[0].metadata["comment"], y.metadata["comment"])
    assert comments == ("at a location", "of t", "of t.x")


def test_a_comment_on_a_column_of_no_table_says_where_it_is(catalog: txlog.Catalog) -> None:
    for column in ("s.nope.x", "s.nope.x.y.z"):
        with pytest.raises(
            TableNotFoundError, match=r"there is no table s\.nope, .*at line 1, column 19, s; nothing was run"
        ):
            txlog.sql(f"comment on column {column} is 'x'", catalog)
    with pytest.raises(InvalidInputError, match="there is no catalog"):
        txlog.sql("comment on column s.t.x is 'x'")
    for no_column in ("x", "delta.`/data/orders`"):
        with pytest.raises(InvalidInputError, match=r"expected table\.column"):
            txlog.sql(f"comment on column {no_column} is 'x'", catalog)


def test_null_is_a_value_of_every_type(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (a date, b binary, c struct<x: int>, d map<string, int>, e array<int>, f timestamp, g boolean);"
        " insert into t values (null, null, null, null, null, null, null); insert into t (g) select null",
        catalog,
    )
    assert rows(catalog, "table t") == [(None,) * 7] * 2


def test_a_value_that_does_not_fit_is_an_error_and_nothing_lands(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (a tinyint, b int not null)", catalog)
    for values in ("(300, 1)", "('x', 1)", "(1, null)"):
        with pytest.raises(InvalidInputError):
            txlog.sql(f"insert into t values {values}", catalog)
    with pytest.raises(InvalidInputError, match="the query has 1 column, and the statement fills 2: a, b"):
        txlog.sql("insert into t select 1", catalog)
    assert catalog.table("t").version == 0


def test_columns_that_an_insert_leaves_out_get_their_defaults(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (id bigint generated always as identity, a int default 7, b int, c int generated always as"
        " (b + 1)) tblproperties (delta.feature.allowColumnDefaults = supported)",
        catalog,
    )
    txlog.sql("insert into t (b) values (1), (2); insert into t by name select 3 as b, 5 as a", catalog)
    assert rows(catalog, "select a, b, c from t order by b") == [(7, 1, 2), (7, 2, 3), (5, 3, 4)]
    txlog.sql("update t set a = default where b = 3", catalog)
    assert rows(catalog, "select distinct a from t") == [(7,)]


def test_overwrites_replace_all_rows_some_rows_or_a_partition(catalog: txlog.Catalog) -> None:
    txlog.sql(ORDERS, catalog)
    txlog.sql("insert into sales.orders replace where day = '2026-01-02' values (4, '2026-01-02', 4, 'new')", catalog)
    assert rows(catalog, "select id from sales.orders order by id") == [(1,), (2,), (4,)]
    txlog.sql("insert overwrite sales.orders partition (day = '2026-01-01') select 9, 9, 'nine'", catalog)
    assert rows(catalog, "select id, cast(day as string) from sales.orders order by id") == [
        (4, "2026-01-02"),
        (9, "2026-01-01"),
    ]
    with pytest.raises(InvalidInputError):
        txlog.sql("insert into sales.orders replace where day = '2026-01-02' values (5, '2026-01-03', 4, 'x')", catalog)
    common = "with c as (select id + 1 as id from sales.orders where id = 9)"
    merge = "merge into sales.orders t using c on t.id = c.id when not matched then insert (id) values (c.id)"
    txlog.sql(f"{common} {merge}; {common} insert into sales.orders (id) table c", catalog)
    assert rows(catalog, "select id from sales.orders order by id") == [(4,), (9,), (10,), (10,)]
    txlog.sql("insert overwrite sales.orders partition (day) select * from sales.orders where id = 9", catalog)
    assert rows(catalog, "select id from sales.orders") == [(9,)]


def test_an_overwrite_from_the_table_itself_conflicts_with_rows_that_others_add(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (id int) tblproperties (delta.isolationLevel = Serializable); insert into t values (1)", catalog
    )
    five = pa.table({"id": pa.array([5], pa.int32())})
    engine = EngineWithARival(lambda: catalog.table("t").append(five))
    with pytest.raises(txlog.ConflictError):
        list(results_of("insert overwrite t select id + 1 from t", engine, catalog, None, None))
    assert sorted(rows(catalog, "select id from t")) == [(1,), (5,)]


@pytest.mark.parametrize("text", ["insert overwrite t", "create or replace table t as"])
def test_an_overwrite_that_reads_other_tables_replaces_rows_that_others_add(catalog: txlog.Catalog, text: str) -> None:
    txlog.sql(
        "create table t (id int) tblproperties (delta.isolationLevel = Serializable); create table s as select 7 as id",
        catalog,
    )
    five = pa.table({"id": pa.array([5], pa.int32())})
    engine = EngineWithARival(lambda: catalog.table("t").append(five))
    list(results_of(f"{text} select id from s", engine, catalog, None, None))
    assert rows(catalog, "table t") == [(7,)]


SELF_READERS = {
    "insert": "insert into t select id + 100, day from t",
    "insert into new columns": "insert with schema evolution into t by name select id + 100 as id, day, 1 as n from t",
    "overwrite": "insert overwrite t select id + 100, day from t",
    "overwrite of a part": "insert into t replace where day = 'c' select id + 100, 'c' from t",
    "overwrite of a partition": "insert overwrite t partition (day = 'c') select id + 100 from t",
    "replacement": "create or replace table t as select id + 100 as id, day from t",
    "merge": "merge into t using (select id + 100 as id, day from t) s on t.id = s.id when not matched then insert *",
    "merge of columns": (
        "merge with schema evolution into t using (select id + 100 as id, day, 1 as n from t) s on t.id = s.id"
        " when not matched then insert *"
    ),
    "insert of changes": "insert into t select id + 100, day from table_changes('t', 1)",
}
"""Statements whose rows are made from rows that they neither match nor replace."""
CHANGES: dict[str, Callable[[txlog.Table], object]] = {
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"id": txlog.expr("9")}, "id = 1"),
    "upsert": lambda table: table.upsert(one_more(), ["id"]),
}


def one_more() -> pa.Table:
    return pa.table({"id": pa.array([5], pa.int32()), "day": ["b"]})


def fill(catalog: txlog.Catalog, **properties: str) -> txlog.Table:
    given = {"delta.enableChangeDataFeed": "true", **properties}
    table = catalog.create("t", pa.schema([("id", pa.int32()), ("day", pa.string())]), ["day"], given)
    txlog.sql("insert into t values (1, 'a'), (2, 'b')", catalog)
    return table


def run_beside(catalog: txlog.Catalog, text: str, meanwhile: Callable[[txlog.Table], object]) -> Any:
    engine = EngineWithARival(lambda: meanwhile(catalog.table("t")))
    *_, last = results_of(text, engine, catalog, None, None)
    return last


@pytest.mark.parametrize(
    ("statement", "change"),
    [
        pytest.param(statement, change, marks=() if (at + number) % 3 == 0 else pytest.mark.hunt(part="sql"))
        for at, statement in enumerate(SELF_READERS)
        for number, change in enumerate(CHANGES)
    ],
)
def test_a_statement_that_reads_its_own_table_conflicts_with_a_change_of_what_it_read(
    catalog: txlog.Catalog, statement: str, change: str
) -> None:
    fill(catalog)
    with pytest.raises(txlog.ConflictError):
        run_beside(catalog, SELF_READERS[statement], CHANGES[change])
    assert catalog.table("t").version == 2
    txlog.sql(SELF_READERS[statement], catalog)
    assert catalog.table("t").version == 3


@pytest.mark.parametrize(
    "statement",
    [name for name in SELF_READERS if name not in ("insert into new columns", "replacement", "merge of columns")],
)
def test_a_blind_append_beside_a_statement_that_reads_its_own_table_counts_as_later_unless_serializable(
    catalog: txlog.Catalog, statement: str
) -> None:
    fill(catalog)
    run_beside(catalog, SELF_READERS[statement], lambda table: table.append(one_more()))
    assert (5,) in rows(catalog, "select id from t")
    assert (105,) not in rows(catalog, "select id from t")
    txlog.sql("alter table t set tblproperties ('delta.isolationLevel' = 'Serializable')", catalog)
    with pytest.raises(txlog.ConflictError):
        run_beside(catalog, SELF_READERS[statement], lambda table: table.append(one_more()))


def test_a_compaction_beside_an_insert_from_the_same_table_does_not_conflict(catalog: txlog.Catalog) -> None:
    fill(catalog)
    txlog.sql("insert into t values (3, 'a')", catalog)
    run_beside(catalog, SELF_READERS["insert"], lambda table: table.optimize())
    assert sorted(rows(catalog, "select id from t")) == [(1,), (2,), (3,), (101,), (102,), (103,)]
    operations = [(each["operation"], each["isBlindAppend"]) for each in catalog.table("t").history(2)]
    assert operations == [("WRITE", False), ("OPTIMIZE", False)]


@pytest.mark.parametrize("source", ["t version as of 1", "s", "table_changes('t', 1, 1)"])
@pytest.mark.parametrize("verb", ["insert into", "insert overwrite"])
def test_rows_of_an_older_version_or_another_table_do_not_depend_on_the_table(
    catalog: txlog.Catalog, verb: str, source: str
) -> None:
    fill(catalog)
    txlog.sql("create table s as select * from t", catalog)
    run_beside(catalog, f"{verb} t select id + 100, day from {source}", CHANGES["delete"])
    kept = [] if verb == "insert overwrite" else [(2,)]
    assert sorted(rows(catalog, "select id from t")) == [*kept, (101,), (102,)]


def test_a_merge_from_the_table_itself_conflicts_with_rows_that_it_could_match(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int); insert into t values (1), (10)", catalog)
    five = pa.table({"id": pa.array([5], pa.int32())})
    engine = EngineWithARival(lambda: catalog.table("t").append(five))
    merge = "merge into t using (select id + 1 as id from t) s on t.id = s.id when not matched then insert *"
    with pytest.raises(txlog.ConflictError):
        list(results_of(merge, engine, catalog, None, None))
    assert sorted(rows(catalog, "table t")) == [(1,), (5,), (10,)]


def test_a_replaced_table_loses_the_rules_of_its_columns(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int not null, twice int generated always as (id * 2))", catalog)
    txlog.sql("create or replace table t as select -1 as id, 'x' as twice", catalog)
    assert rows(catalog, "table t") == [(-1, "x")]


def test_a_table_as_a_query_is_one_version_with_its_rows(catalog: txlog.Catalog) -> None:
    txlog.sql(ORDERS, catalog)
    made = txlog.sql(
        "create table totals cluster by (day) tblproperties (delta.targetFileSize = '1mb')"
        " as select day, sum(id) as ids, count(*) n from sales.orders group by day",
        catalog,
    )
    assert made.result.version == 0
    table = catalog.table("totals")
    assert table.schema.field("ids").type == pa.int64()
    assert table.clustering_columns == ("day",)
    with pytest.raises(TableExistsError):
        txlog.sql("create table totals as select 1 a", catalog)
    assert txlog.sql("create table if not exists totals as select 1 a", catalog).result is None
    txlog.sql("create or replace table totals as select date '2026-01-01' as day", catalog)
    assert rows(catalog, "select * from totals") == [(datetime.date(2026, 1, 1),)]
    assert [each["version"] for each in catalog.table("totals").history()] == [1, 0]


def test_definitions_change(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (id int, place struct<city: string>) tblproperties (delta.columnMapping.mode = name) comment"
        " 'x'; alter table t add columns (note string comment 'n' first, place.zip string);"
        " alter table t rename column note to said;"
        " alter table t alter column id comment 'key'; alter table t add constraint positive check (id > 0);"
        " comment on table t is 'all'; alter table t set tblproperties (a = 'b'); alter table t drop column place.city",
        catalog,
    )
    assert rows(catalog, "describe t") == [
        ("said", "string", "n"),
        ("id", "int", "key"),
        ("place", "struct<zip:string>", None),
    ]
    assert catalog.table("t").version == 7
    assert ("a", "b") in rows(catalog, "show tblproperties t")
    assert rows(catalog, "describe detail t")[0][3] == "all"
    with pytest.raises(InvalidInputError, match="positive"):
        txlog.sql("insert into t by name select 0 as id", catalog)


def test_columns_move_first_and_after_others(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (a int, b int, c int); alter table t alter column c first", catalog)
    txlog.sql("alter table t alter a after b; alter table t change column a a int comment 'x' first", catalog)
    assert [row[0] for row in rows(catalog, "describe t")] == ["a", "c", "b"]


def test_a_column_that_is_there_is_not_added_again(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int)", catalog)
    with pytest.raises(InvalidInputError, match="there is a column ID already"):
        txlog.sql("alter table t add columns (other string, ID int)", catalog)
    assert catalog.table("t").version == 0


def test_properties_are_unset_as_spark_does_whether_they_are_set_or_not(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int) tblproperties (a = 'b', A = 'c', delta.appendOnly = 'true')", catalog)
    txlog.sql("alter table t unset tblproperties (a, absent, 'DELTA.appendonly')", catalog)
    assert catalog.table("t").snapshot().properties == {"A": "c"}
    assert txlog.sql("alter table t unset tblproperties if exists (absent)", catalog).result.version == 1


def test_names_have_any_character(catalog: txlog.Catalog) -> None:
    names = ["a``b", "c.d", "e'f", 'g"h', "i;j", "k -- l", "{m}", ":n", "select", "日本"]
    columns, values = (", ".join(each) for each in ([f"`{n}` int" for n in names], [str(n) for n in range(len(names))]))
    properties = "tblproperties ('delta.columnMapping.mode' = 'name')"
    txlog.sql(f"create table `t-1` ({columns}, s struct<`x``'y`: int, z: int>) {properties}", catalog)
    txlog.sql(f"insert into `t-1` values ({values}, named_struct('x`\\'y', 1, 'z', 2))", catalog)
    for number, name in enumerate(names):
        assert rows(catalog, f"select q.`{name}` from `t-1` q where `{name}` = {number}") == [(number,)]
        txlog.sql(f"update `t-1` set `{name}` = `{name}` + 10 where `t-1`.`{name}` = {number}", catalog)
        given = f"select {number + 10} as `{name}`, 7 as seven"
        merge = f"merge into `t-1` as `x``y` using ({given}) as `u``v` on `x``y`.`{name}` = `u``v`.`{name}`"
        txlog.sql(f"{merge} when matched then update set `x``y`.`{name}` = `x``y`.`{name}` + 10", catalog)
        assert txlog.sql(f"delete from `t-1` w where w.`{name}` <> {number + 20}", catalog).result.version
        txlog.sql(f"alter table `t-1` alter column `{name}` comment 'c'", catalog)
        txlog.sql(f"alter table `t-1` rename column `{name}` to `{name}!`", catalog)
        txlog.sql(f"alter table `t-1` add columns (`new {name}` int after `{name}!`, s.`in {name}` int)", catalog)
        txlog.sql(f"alter table `t-1` drop columns if exists (`new {name}`, `absent {name}`, s.`in {name}`)", catalog)
    txlog.sql("update `t-1` set s.`x``'y` = s.`x``'y` + 1", catalog)
    (found,) = rows(catalog, "table `t-1`")
    assert found == (*range(20, 20 + len(names)), {"x`'y": 2, "z": 2})


def test_an_overwrite_of_the_partition_of_nulls_replaces_it(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int, p string) partitioned by (p); insert into t values (1, null), (2, 'a')", catalog)
    for _ in range(2):
        txlog.sql("insert overwrite t partition (p = null) select 3 as id", catalog)
    assert sorted(rows(catalog, "table t"), key=str) == [(2, "a"), (3, None)]


def test_a_parameter_is_the_value_to_the_last_bit(catalog: txlog.Catalog) -> None:
    here = datetime.timezone(datetime.timedelta(hours=2))
    values = {
        "double": (-0.0, 0.027974984083842358, 1.7976931348623157e308, 5e-324, float("inf"), float("-inf")),
        "decimal(38, 30)": (Decimal("1E-30"), Decimal("-12345678.000000000000000000000000000009")),
        "string": ("it's \\ \" ` ; -- \n\t {m} :a 日本 \U0001f600", ""),
        "timestamp": (
            datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=here),
            datetime.datetime(1, 1, 1, 2, tzinfo=here),
        ),
        "timestamp_ntz": (datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),),
        "binary": (b"\x00\xff'", b""),
        "bigint": (-(2**63), 2**63 - 1),
    }
    for number, (kind, given) in enumerate(values.items()):
        txlog.sql(f"create table t{number} (v {kind})", catalog)
        for value in given:
            txlog.sql(f"insert into t{number} values (:v)", catalog, {"v": value})
            txlog.sql(f"update t{number} set v = :v", catalog, {"v": value})
            found = rows(catalog, f"select v, :v from t{number} where v = :v", v=value)
            shown = found[0][1].replace(tzinfo=None) if kind == "timestamp_ntz" else found[0][1]
            assert found[0][0] == shown == value
            assert str(found[0][0]) == str(shown) or kind.startswith(("timestamp", "decimal"))
            assert txlog.sql(f"delete from t{number} where v = :v", catalog, {"v": value}).result.metrics
    for value in (Decimal("NaN"), Decimal("Infinity"), object()):
        with pytest.raises(InvalidInputError, match=":v"):
            txlog.sql("select :v", catalog, {"v": value})


def test_a_parameter_of_a_statement_has_the_type_and_the_name_that_spark_gives_it(catalog: txlog.Catalog) -> None:
    """integration/test_spark_sql.py asks Spark."""
    txlog.sql("create table t (s string); insert into t values ('a')", catalog)
    moment = datetime.datetime(2026, 1, 2, 3)
    values = {
        "int 7": 7,
        "bigint CAST(7 AS BIGINT)": np.int64(7),
        "tinyint CAST(7 AS TINYINT)": pa.scalar(7, pa.int8()),
        "double 1.23456789E7": 12345678.9,
        "double -2.5": -2.5,
        "float CAST(0.10000000149011612 AS FLOAT)": np.float32(0.1),
        "decimal(3,2) 1.50": Decimal("1.50"),
        "decimal(10,2) CAST(1.50 AS DECIMAL(10,2))": pa.scalar(Decimal("1.5"), pa.decimal128(10, 2)),
        "timestamp TIMESTAMP '2026-01-02 03:00:00'": moment,
        "timestamp_ntz TIMESTAMP_NTZ '2026-01-02 03:00:00'": pa.scalar(moment),
        "string it's": txlog.lit("it's"),
    }
    for expected, value in values.items():
        found = txlog.sql("select :v, typeof(:v) as t", catalog, {"v": value}).read_all()
        assert f"{found['t'][0]} {found.column_names[0]}" == expected
        txlog.sql("update t set s = typeof(:v)", catalog, {"v": value})
        assert rows(catalog, "table t") == [(expected.split()[0],)]


def test_a_cast_with_colons_is_named_as_one_with_the_word(catalog: txlog.Catalog) -> None:
    text = "select '2026-11-20'::date, cast('2026-11-20' as date), date '2026-11-20'"
    cast = "CAST(2026-11-20 AS DATE)"
    assert txlog.sql(text, catalog).read_all().schema.names == [cast, cast, "DATE '2026-11-20'"]


def test_a_sign_and_a_suffix_of_a_number_are_named_as_in_spark(catalog: txlog.Catalog) -> None:
    expected = {
        "+5": ("(+ 5)", 5),
        "+(1 + 1)": ("(+ (1 + 1))", 2),
        "- +5": ("(- (+ 5))", -5),
        "5D": ("5.0", 5.0),
        "double(5)": ("5", 5.0),
        "12345678.9D": ("1.23456789E7", 12345678.9),
        "-1.5F": ("-1.5", -1.5),
        "1.5BD": ("1.5", Decimal("1.5")),
        "-5BD": ("-5", Decimal(-5)),
        "-7L": ("-7", -7),
        "-bigint(7)": ("(- 7)", -7),
        "0.0000001": ("1E-7", Decimal("1E-7")),
        "X'aff'": ("X'0AFF'", b"\x0a\xff"),
    }
    for text, shown in expected.items():
        found = txlog.sql(f"select {text}", catalog).read_all()
        assert (found.column_names[0], found[0][0].as_py()) == shown


def test_tables_are_told_of(catalog: txlog.Catalog) -> None:
    txlog.sql(ORDERS, catalog)
    assert rows(catalog, "show tables") == [("sales", "orders")]
    assert rows(catalog, "show tables in sales like 'X* | Ord*'") == [("sales", "orders")]
    assert (
        rows(catalog, "show tables like 'ORD*'") == rows(catalog, "show tables like 'x|*ers'") == [("sales", "orders")]
    )
    for no_wildcard in ("order?", "order[s]", "*[a-z]", "order.", "orders+"):
        assert rows(catalog, f"show tables like '{no_wildcard}'") == []
    with pytest.raises(InvalidInputError, match="expected schema"):
        rows(catalog, "show tables in main.sales")
    assert rows(catalog, "show partitions sales.orders") == [("2026-01-01",), ("2026-01-02",)]
    assert rows(catalog, "show columns in sales.orders") == [("id",), ("day",), ("amount",), ("note",)]
    history = txlog.sql("describe history sales.orders", catalog)
    assert history.read_all()["operation"].to_pylist() == ["WRITE", "CREATE TABLE"]
    told = dict(row[:2] for row in rows(catalog, "describe extended sales.orders"))
    assert (told["Name"], told["Location"]) == ("sales.orders", catalog.location("sales.orders"))


def test_upkeep_runs(catalog: txlog.Catalog) -> None:
    txlog.sql(ORDERS + "insert into sales.orders values (4, '2026-01-01', 1, 'x')", catalog)
    assert txlog.sql("optimize sales.orders where day = '2026-01-01'", catalog).result.files_removed == 2
    assert txlog.sql("vacuum sales.orders dry run", catalog).result.dry_run
    with pytest.raises(InvalidInputError, match=r"RETAIN 1 HOURS is shorter than .* force=True\) in Python"):
        txlog.sql("vacuum sales.orders retain 1 hours", catalog)
    assert txlog.sql("restore sales.orders to version as of 1", catalog).result.restored_version == 1
    assert txlog.sql("delete from sales.orders", catalog).result.metrics.rows_deleted == 3


def test_tables_are_named_by_location_without_a_catalog(tmp_path: Path) -> None:
    txlog.sql(f"create table delta.`{tmp_path}/t` (a int); insert into delta.`{tmp_path}/t` values (1)")
    assert txlog.sql(f"select * from delta.`{tmp_path}/t`").read_all().to_pylist() == [{"a": 1}]
    with pytest.raises(InvalidInputError, match=r"t is a name, and there is no catalog"):
        txlog.sql("select * from t")
    with pytest.raises(InvalidInputError, match=r"a location, which has a slash, as delta\.`\./t`"):
        txlog.sql("select * from delta.`t`")
    with pytest.raises(InvalidInputError, match=rf"a location, which has a slash, as delta\.`{tmp_path}/t`"):
        txlog.sql(f"select * from `{tmp_path}/t`")


def test_a_schema_may_be_called_delta(catalog: txlog.Catalog) -> None:
    txlog.sql("create table delta.orders as select 1 as id from (values (1)) v", catalog)
    assert rows(catalog, "select id from delta.orders o where o.id = 1") == [(1,)]
    assert catalog.tables() == ["delta.orders"]


def test_a_table_at_a_location_gets_a_name(catalog: txlog.Catalog, tmp_path: Path) -> None:
    txlog.sql(f"create table t (a int) location '{tmp_path}/there'", catalog)
    txlog.sql("insert into t values (1)", catalog)
    txlog.sql(f"drop table t; create table u location '{tmp_path}/there'", catalog)
    assert rows(catalog, "select * from u") == [(1,)]


@pytest.mark.parametrize("what", ["(a int) {at}", "{at} as select 1 as a", "clone delta.`{source}` {at}"])
def test_nothing_is_made_at_a_location_that_the_catalog_cannot_name(tmp_path: Path, what: str) -> None:
    txlog.Table.create(tmp_path / "source", "a int")
    with UnityServer(tmp_path / "server") as server:
        made = what.format(source=tmp_path / "source", at=f"location '{tmp_path}/there'")
        with pytest.raises(UnsupportedFeatureError, match="txlog creates managed tables"):
            txlog.sql(f"create table main.s.t {made}", server.uri)
    assert not (tmp_path / "there").exists()


def test_files_are_copied_into_a_table(catalog: txlog.Catalog, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id;name\n1;x\n")
    txlog.sql(
        f"create table t (id int, name string); copy into t from '{tmp_path}/in' fileformat = csv"
        " format_options ('header' = 'true', 'sep' = ';', 'inferSchema' = 'true')"
        " copy_options ('mergeSchema' = 'false')",
        catalog,
    )
    assert rows(catalog, "select * from t") == [(1, "x")]
    (tmp_path / "in" / "b.csv").write_text("2,y\n3,z\n")
    copied = txlog.sql(f"copy into t from '{tmp_path}/in' fileformat = csv", catalog)
    assert copied.read_all().to_pylist() == [
        {"num_affected_rows": 2, "num_updated_rows": 0, "num_deleted_rows": 0, "num_inserted_rows": 2, "version": 2}
    ]
    assert copied.result.files == ("b.csv",)


def test_a_constraint_that_rows_violate_is_refused_with_how_to_find_them_in_sql(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int); insert into t values (1)", catalog)
    with pytest.raises(InvalidInputError, match=r"one with id = 1: .* Find the rows with SELECT \.\.\. WHERE, correct"):
        txlog.sql("alter table t add constraint c check (id > 5)", catalog)


def test_the_rows_of_an_array_that_is_computed_have_its_order(catalog: txlog.Catalog) -> None:
    """As in Spark, where collect_list makes the array again."""
    txlog.sql("create table t (id int, s string); insert into t values (1, 'a,b,c'), (2, null), (3, 'd,e')", catalog)
    assert rows(catalog, "select id, explode_outer(split(s, ',')) from t") == [
        *((1, "a"), (1, "b"), (1, "c"), (2, None), (3, "d"), (3, "e"))
    ]
    made = "select collect_list(x) from (select id, x from t lateral view explode(split(s, ',')) e as x) group by id"
    assert sorted(rows(catalog, made)) == [(["a", "b", "c"],), (["d", "e"],)]


def test_the_first_line_of_csv_is_a_row_unless_it_is_said_to_be_a_header(
    catalog: txlog.Catalog, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1,x\n2,y\n")
    txlog.sql(f"create table t (id int, name string); copy into t from '{tmp_path}/in' fileformat = csv", catalog)
    assert rows(catalog, "table t") == [(1, "x"), (2, "y")]


def test_new_columns_come_with_schema_evolution_and_not_without(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int); insert into t values (1)", catalog)
    txlog.sql("insert with schema evolution into t by name select cast(2 as int) as id, 'x' as more", catalog)
    txlog.sql(
        "merge with schema evolution into t using (select cast(1 as int) id, 'y' more, cast(5 as int) five) s"
        " on t.id = s.id when matched then update set *",
        catalog,
    )
    assert rows(catalog, "select * from t order by id") == [(1, "y", 5), (2, "x", None)]
    with pytest.raises((InvalidInputError, SchemaMismatchError)):
        txlog.sql("insert into t by name select 1 as id, 1 as absent", catalog)


def test_a_feature_is_dropped_with_the_history_that_needs_it_once_that_is_old(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int) tblproperties ('delta.enableDeletionVectors' = 'true')", catalog)
    txlog.sql("insert into t values (1), (2); delete from t where id = 1", catalog)
    with pytest.raises(InvalidInputError, match=r"need the feature deletionVectors.*run this again after"):
        txlog.sql("alter table t drop feature deletionVectors truncate history", catalog)
    txlog.sql("alter table t drop feature deletionVectors", catalog)
    assert rows(catalog, "select id from t") == [(2,)]


def test_times_are_in_utc_wherever_the_program_runs(catalog: txlog.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        query = "select hour(timestamp '2026-01-01 12:00:00+00:00'), cast(timestamp '2026-01-01 02:00:00Z' as date)"
        assert rows(catalog, query) == [(12, datetime.date(2026, 1, 1))]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_functions_on_dates_give_dates_as_in_spark(catalog: txlog.Catalog) -> None:
    of_day = "date_add(date_add(d, 1), -1) a, date_sub(d, 1) b, add_months(d, 1) c, trunc(d, 'month') e"
    found = txlog.sql(f"select {of_day}, cast(date_add(d, 1) as string) f from (select date'2026-01-31' d)", catalog)
    (row,) = found.read_all().to_pylist()
    day = datetime.date
    assert list(row.values()) == [day(2026, 1, 31), day(2026, 1, 30), day(2026, 2, 28), day(2026, 1, 1), "2026-02-01"]


def test_a_doubled_quote_is_a_quote_in_queries_and_expressions_alike(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table t (id int, v string default 'it''s') tblproperties (delta.feature.allowColumnDefaults ="
        " supported); insert into t values (1, 'it''s'), (2, default), (3, \"it's\"), (4, 'x');"
        "insert into t (id) values (5); update t set v = 'it''s' where id = 4; insert into t select 6, 'it''s';"
        'insert into t values (7, \'""\'), (8, """"), (9, r\'\\d\');',
        catalog,
    )
    alike = [(number,) for number in range(1, 7)]
    assert rows(catalog, "select id from t where v = 'it''s' order by id") == alike
    assert rows(catalog, "select v from t where id > 6 order by id") == [('""',), ('"',), ("\\d",)]
    assert txlog.sql("delete from t where v = 'it''s'", catalog).result.metrics.rows_deleted == 6


def test_spark_gets_a_doubled_quote_in_words_that_all_its_versions_read_alike() -> None:
    (query,) = read_statements("select 'it''s', '', r'a', 'it\\'s', \"it\"\"s\"", None)
    assert query.text() == "select 'it\\'s', '', r'a', 'it\\'s', 'it\"s'"


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("d > 0", [1, 2]),
        ("f >= 1", [1, 2]),
        ("s.d > 0", [1, 2]),
        ("d between 0 and cast('NaN' as double)", [1, 2]),
        ("d = cast('NaN' as double)", [1]),
        ("d is null", [3]),
        ("d > (select min(d) - 1 from t)", [1, 2]),
        ("id in (select id from t order by d desc nulls last limit 1)", [1]),
    ],
)
def test_a_query_has_nan_above_every_number(catalog: txlog.Catalog, condition: str, found: list[int]) -> None:
    txlog.sql("create table t (id int, d double, f float, s struct<d: double>)", catalog)
    values = [float("nan"), 1.0, None]
    structs = [None if value is None else {"d": value} for value in values]
    single = pa.array(values, pa.float32())
    catalog.table("t").append(pa.table({"id": [1, 2, 3], "d": values, "f": single, "s": structs}))
    txlog.sql(f"create table made as select * from t where {condition}", catalog)
    assert rows(catalog, "select id from made order by id") == [(id,) for id in found]


def test_a_query_on_a_table_with_floats_skips_the_files_that_other_columns_exclude(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int, d double); insert into t values (1, 1)", catalog)
    (first,) = Path(catalog.location("t")).glob("*.parquet")
    txlog.sql("insert into t values (2, 2)", catalog)
    first.unlink()
    assert rows(catalog, "select d from t where id = 2 and d > 0") == [(2.0,)]


def test_a_merge_inserts_into_columns_of_its_target_alone(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (k int, x int, st struct<x: int>)", catalog)
    merge = "merge into t as a using (select {k} as k) s on a.k = s.k when not matched then insert ({columns}) values "
    for column in ("st.x", "nope.x", "s.x", "a.st.x"):
        with pytest.raises(
            InvalidInputError, match=f"at line 1, column .*, {column.split('.')[0]}: INSERT names columns of a"
        ):
            txlog.sql(merge.format(k=1, columns=f"k, {column}") + "(s.k, 5)", catalog)
    txlog.sql(merge.format(k=2, columns="A.k, t.x") + "(s.k, 5)", catalog)
    assert rows(catalog, "table t") == [(2, 5, None)]


def test_partition_names_each_partition_column_once_and_no_other(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (k int, p string) partitioned by (p); create table u (k int)", catalog)
    for insert, fault in (
        ("overwrite t partition (p = 'y', P = 'z') (k) values (1)", "PARTITION has P twice"),
        ("overwrite t partition (k = 1) (p) values ('q')", "PARTITION names k, .* of t, which has p: .*REPLACE WHERE"),
        ("overwrite t partition (k) values ('q', 1)", "PARTITION names k, .* of t, which has p"),
        ("into u partition (k = 1) select 1", "not a partition column of u, which is not partitioned"),
    ):
        with pytest.raises(InvalidInputError, match=fault):
            txlog.sql(f"insert {insert}", catalog)
    txlog.sql("insert into t partition (P = 'y') (k) values (1)", catalog)
    assert rows(catalog, "table t") == [(1, "y")]


def test_a_time_has_intervals_in_sparks_forms(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (k int); insert into t values (1), (2)", catalog)
    for interval in ("'1 day'", "'1' day", "1 days", ":n day"):
        query = f"select k from t timestamp as of current_timestamp() + interval {interval} where k = 1"
        assert rows(catalog, query, **({"n": 1} if ":n" in interval else {})) == [(1,)]
    for interval in ("", " 1", " '1'", " '1' where k = 1", " day"):
        with pytest.raises(InvalidInputError, match=r"expected a (number and a )?unit, such as .*INTERVAL 1 DAY"):
            txlog.sql(f"select k from t timestamp as of now() - interval{interval}", catalog)


def test_a_query_without_from_may_have_a_function_that_makes_rows(catalog: txlog.Catalog) -> None:
    assert txlog.sql("select explode(array(1, 2)) as x", catalog).read_all().to_pydict() == {"x": [1, 2]}


@pytest.mark.parametrize(
    "query",
    [
        "select d, sum(k) as s from t group by all",
        "select d, sum(k) as s from t group by all order by d",
        "select * from (select d, sum(k) as s from t group by all)",
    ],
)
def test_group_by_all_groups_by_what_is_no_aggregate(catalog: txlog.Catalog, query: str) -> None:
    txlog.sql("create table t (k int, d int); insert into t values (1, 7), (2, 7)", catalog)
    assert rows(catalog, query) == [(7, 3)]
    with pytest.raises(InvalidInputError, match="a value is missing in a list"):
        txlog.sql("select concat(all) from t", catalog)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("select 1 as x union all select null", [(1,), (None,)]),
        ("select null as x union all select 'a'", [(None,), ("a",)]),
        ("select array(1) as x union all select null union all select array(9, null)", [([1],), (None,), ([9, None],)]),
        ("values (array(1)), (null), (array(9, null))", [([1],), (None,), ([9, None],)]),
        ("values (map('a', 1)), (map('b', null))", [([("a", 1)],), ([("b", None)],)]),
        ("select coalesce(x, 5), x + 1 from (select null as x)", [(5, None)]),
        ("select coalesce(x, array(7)) from (values (array(null)), (null)) v(x)", [([None],), ([7],)]),
    ],
)
def test_null_without_a_type_takes_that_of_the_values_beside_it(
    catalog: txlog.Catalog, query: str, found: list[tuple[object, ...]]
) -> None:
    assert rows(catalog, query) == found


def test_concat_casts_what_is_no_text_in_a_query_and_in_an_update(catalog: txlog.Catalog) -> None:
    """Spark 4.2 gives these texts: a number, a day, a time in the session's zone, and a boolean have one."""
    txlog.sql("create table s.texts (id bigint, day date, price decimal(10, 2), at timestamp, s string)", catalog)
    row = "1, date'2026-01-02', 1.5, timestamp'2026-01-02 03:04:05', null"
    txlog.sql(f"insert into s.texts values ({row})", catalog)
    text = "concat_ws('|', concat(id, 'a'), day || 'b', concat(price), concat(at, true))"
    found = txlog.sql(f"select {text} as found from s.texts", catalog).read_all()["found"].to_pylist()
    txlog.sql(f"update s.texts set s = {text}", catalog)
    assert found == ["1a|2026-01-02b|1.50|2026-01-02 03:04:05true"]
    assert catalog.table("s.texts").to_arrow()["s"].to_pylist() == found
    assert txlog.sql("select concat(1.5e0, 'a', 1e10) as v").read_all()["v"].to_pylist() == ["1.5a1.0E10"]


def test_weekdays_and_substrings_are_the_same_in_a_query_and_in_an_update(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int, d date, a int, b int, c string)", catalog)
    values = "dayofweek(d), weekday(d), substring('abc', 0, 2)"
    days = "(1, date '2026-11-21'), (2, date '2026-11-22'), (3, date '2026-11-23')"
    txlog.sql(f"insert into t select id, d, {values} from (values {days}) as v(id, d)", catalog)
    inserted = rows(catalog, "select a, b, c from t order by id")
    assert inserted == [(7, 5, "ab"), (1, 6, "ab"), (2, 0, "ab")]
    txlog.sql("update t set a = dayofweek(d), b = weekday(d), c = substring('abc', 0, 2)", catalog)
    assert rows(catalog, "select a, b, c from t order by id") == inserted


def test_the_from_of_is_distinct_from_does_not_end_a_condition(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (k int); insert into t values (1), (2), (null)", catalog)
    txlog.sql("insert into t replace where k is not distinct from 1 select 1 union all select 1", catalog)
    txlog.sql("insert into t replace where k is not distinct from 2 from t select k where k = 2", catalog)
    assert rows(catalog, "select k from t order by k nulls last") == [(1,), (1,), (2,), (None,)]


# --- names in front of columns ------------------------------------------------------------------------------------

TWO_OF_ONE_NAME = """
create table s.t (k int, v int, at struct<n: int>); insert into s.t values (1, 1, named_struct('n', 1)), (2, 2, null);
create table r.t (k int, v int); insert into r.t values (1, 100), (3, 300);
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select s.t.k from s.t where S.T.v > 1 order by s.t.k", [(2,)]),
        ("select `s`.`t`.at.n, s.t.* from `s`.`t` where s.t.k = 1", [(1, 1, 1, {"n": 1})]),
        ("select s.t.k from s.t join (select s.t.k as q from s.t) z on z.q = s.t.k where z.q = 2", [(2,)]),
        ("select s.t.k from s.t version as of 1 group by s.t.k having s.t.k > 1", [(2,)]),
        ("select s.t.n from (select at as t from s.t where k = 1) s", [(1,)]),
        ("select 's.t.k' from s.t where k = 1 -- s.t.k", [("s.t.k",)]),
    ],
)
def test_columns_of_a_query_may_have_the_whole_name_of_their_table(
    catalog: txlog.Catalog, query: str, expected: list[Any]
) -> None:
    txlog.sql(TWO_OF_ONE_NAME, catalog)
    assert rows(catalog, query) == expected


def test_columns_of_changes_may_have_the_whole_name_of_their_table(catalog: txlog.Catalog) -> None:
    txlog.sql(TWO_OF_ONE_NAME, catalog)
    txlog.sql("update s.t set s.t.v = s.t.v + t.v + v, s.t.at.n = s.t.k where s.t.k = 2 and 's.t.k' != ''", catalog)
    assert rows(catalog, "select k, v, at.n from s.t order by k") == [(1, 1, 1), (2, 6, 2)]
    txlog.sql(
        "merge into s.t using r.t on s.t.k = r.t.k when matched then update set s.t.v = s.t.v + r.t.v, at.n = null"
        " when not matched and r.t.v > 1 then insert (s.t.k, v) values (r.t.k, (r.t.v))"
        " when not matched by source and s.t.k = 2 then delete",
        catalog,
    )
    assert rows(catalog, "select k, v, at.n from s.t order by k") == [(1, 101, None), (3, 300, None)]
    txlog.sql("delete from s.t where (s.t.k) = 3", catalog)
    assert rows(catalog, "select k from s.t") == [(1,)]
    merge = "using r.t on s.t.k = r.t.k when matched then update set * when not matched then insert *"
    txlog.sql(f"merge with schema evolution into s.t {merge}", catalog)
    assert rows(catalog, "select k, v from s.t order by k") == rows(catalog, "select k, v from r.t order by k")


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("merge into s.t using r.t on t.k = t.k when matched then delete", "t.k does not say which side it belongs to"),
        ("merge into s.t using s.t on s.t.k = s.t.k when matched then delete", "the source are both called s.t"),
        ("merge into s.t a using r.t A on a.k = a.k when matched then delete", "the source are both called a"),
        ("delete from s.t x where s.t.k = 1", r"there is no column s\.t\.k"),
    ],
)
def test_a_name_in_front_of_a_column_that_may_be_of_either_side_or_of_none_is_refused(
    catalog: txlog.Catalog, statement: str, reason: str
) -> None:
    txlog.sql(TWO_OF_ONE_NAME, catalog)
    with pytest.raises(txlog.InvalidInputError, match=reason):
        txlog.sql(statement, catalog)
    assert rows(catalog, "select count(*) from s.t") == [(2,)]


def test_a_query_and_an_update_have_one_value_where_duckdb_has_another(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int, h bigint, n int, s string); insert into t values (1, 0, 0, 'a\\_b')", catalog)
    txlog.sql("update t set h = hash(id), n = cast(2.7 as int)", catalog)
    assert rows(catalog, "select h = hash(id), n = cast(2.7 as int), s like 'a\\\\_b' from t") == [(True, True, False)]
    with pytest.raises(
        InvalidInputError, match=r"^cannot compute .* div .*: divide by zero; a div nullif\(b, 0\) is NULL"
    ):
        txlog.sql("select id div 0 from t", catalog).read_all()
    assert rows(catalog, "select if(id = 1, 5, id div 0) from t where id <> 0 and 7 div id = 7") == [(5,)]


def test_a_query_skips_files_also_where_other_conditions_are_functions(catalog: txlog.Catalog) -> None:
    catalog.write("t", pa.table({"id": [1, 2], "s": ["a", "b"]}))
    table = catalog.table("t")
    before = {*table.files()["path"].to_pylist()}
    table.append(pa.table({"id": [11, 12], "s": ["a", "b"]}))
    (later,) = {*table.files()["path"].to_pylist()} - before
    (Path(table.uri) / later).unlink()
    where = "t.id < 10 and upper(s) = 'A' and 10 div id > 1 and s in (select max(s) from t where id <= 1)"
    assert rows(catalog, f"select lower(s), hash(id) = hash(1L) from t where {where}") == [("a", True)]
    with pytest.raises((InvalidInputError, txlog.TxlogError)):
        rows(catalog, "select s from t where upper(s) = 'A'")


def test_a_query_in_duckdbs_own_sql_has_duckdbs_values(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (id int, s string); insert into t values (1, 'a'), (2, 'b')", catalog)

    def run(text: str, **parameters: object) -> list[tuple[Any, ...]]:
        found = txlog.sql(text, catalog, parameters, dialect="duckdb").read_all()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    query = """select list_transform([1, 2], lambda x: x + id)[2], cast(2.7 as int), "s" from t where s = :s"""
    assert run(query, s="a") == [(3, 3, "a")]
    assert run("select 'it''s \\', t.id from t version as of 1 order by all desc limit 1") == [("it's \\", 2)]
    assert run("from `default`.t select sum(id) as n") == [(3,)]
    with pytest.raises(InvalidInputError, match="runs only queries: append their rows"):
        txlog.sql("insert into t select 1, 'x'", catalog, dialect="duckdb")
    for call in ("product(id)", "median_absolute(id)", "asinh(id)", "approx_count_distinct(id)"):
        ways = 'txlog.spark.sql runs .* in Spark. Without Java, engine="sail" .* and dialect="duckdb"'
        refused = rf"{call.split('(')[0]}\(\) is not supported.*{ways}"
        with pytest.raises(InvalidInputError, match=refused):
            txlog.sql(f"select {call} from t", catalog)
    with pytest.raises(InvalidInputError, match="one of 'spark', 'duckdb'"):
        txlog.sql("select 1", catalog, dialect="mysql")  # type: ignore[arg-type]


def test_an_engine_runs_only_the_queries_that_it_reads(catalog: txlog.Catalog) -> None:
    with pytest.raises(InvalidInputError, match="expected 'duckdb' or 'sail'"):
        txlog.sql("select 1", catalog, engine="spark")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="duckdb's own SQL, which engine='sail' does not read"):
        txlog.sql("select 1", catalog, dialect="duckdb", engine="sail")


LISTS: list[tuple[str, object, list[int]]] = [
    ("id in (:ids)", [1, 3], [1, 3]),
    ("id in (2, :ids)", (3, 1), [1, 2, 3]),
    ("id not in (:ids)", {1, 2}, [3]),
    ("id not in (:ids)", [1, None], []),
    ("s in (:ids)", ["a", "') or 1 = 1 --"], [1]),
    ("(id + 1) in (:ids)", [Decimal(2), Decimal("3.5")], [1]),
    ("id in (select id from t where id in (:ids))", [3], [3]),
]


@pytest.mark.parametrize(("condition", "values", "expected"), LISTS)
def test_a_list_is_a_parameter_for_in_at_every_statement(
    condition: str, values: object, expected: list[int], catalog: txlog.Catalog
) -> None:
    txlog.sql("create table t (id int, s string); insert into t values (1, 'a'), (2, 'b'), (3, null)", catalog)
    assert rows(catalog, f"select id from t where {condition} order by id", ids=values) == [(id,) for id in expected]
    assert txlog.sql(f"update t set s = 'new' where {condition}", catalog, {"ids": values}).read_all()[0][
        0
    ].as_py() == len(expected)
    txlog.sql("restore table t to version as of 1", catalog)
    txlog.sql(f"delete from t where {condition}", catalog, {"ids": values})
    left = [(id,) for id in (1, 2, 3) if id not in expected]
    assert rows(catalog, "select id from t order by id") == left


@pytest.mark.parametrize(
    ("text", "values", "refused"),
    [
        ("select 1 in (:v)", [], "the list of :v is empty"),
        ("select :v as a", [1], "is a list, which only IN accepts"),
        ("select 1 in (1 + :v)", [1], "is a list, which only IN accepts"),
        ("select 1 in (:v)", [[1]], "expected None, a boolean, a number"),
        ("select 1 in (:v)", {"a": 1}, "expected None, a boolean, a number"),
    ],
)
def test_a_list_elsewhere_or_without_values_is_refused(text: str, values: object, refused: str) -> None:
    with pytest.raises(InvalidInputError, match=refused):
        txlog.sql(text, parameters={"v": values})


def test_a_parameter_is_one_value_of_its_own_type_whatever_is_around_it() -> None:
    text = "select :x::string as a, 2 - :x as b, -:x as c, typeof(:y) as d, typeof(:z) as e, typeof(:w) as f"
    given = {"x": -5, "y": Decimal(5), "z": Decimal("1E+2"), "w": Decimal("-0.50")}
    (row,) = txlog.sql(text, parameters=given).read_all().to_pylist()
    assert [*row.values()] == ["-5", 7, 5, "decimal(1,0)", "decimal(3,0)", "decimal(2,2)"]
    assert txlog.sql("select :x::varchar as a", parameters={"x": -5}, dialect="duckdb").read_all()["a"].to_pylist() == [
        "-5"
    ]


@pytest.mark.parametrize(
    ("zone", "hours"), [("America/New_York", 5), ("Asia/Kolkata", -5.5), ("GMT-2", 2), ("+14", -14), ("UTC", 0)]
)
def test_queries_and_statements_read_times_in_one_zone(zone: str, hours: float, catalog: txlog.Catalog) -> None:
    midnight = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(hours=hours)
    moments = [midnight + datetime.timedelta(minutes=30 * count) for count in range(-60, 60)]
    catalog.write("t", pa.table({"id": pa.array(range(-60, 60), pa.int32()), "ts": moments}))

    def run(text: str) -> Any:
        return txlog.sql(text, catalog, time_zone=zone)

    where = "ts >= '2024-01-01 00:00:00' and cast(ts as date) = '2024-01-01' and hour(ts) < 3"
    assert sorted(run(f"select id from t where {where}").read_all()["id"].to_pylist()) == [*range(6)]
    run("insert into t values (100, timestamp '2024-01-01 00:00:00'), (101, date '2024-01-01')")
    run("insert into t select 102, cast('2024-01-01' as date)")
    run("update t set ts = timestamp '2024-01-01 00:00:00' where id = 20")
    found = run("select id, ts from t where ts = '2024-01-01 00:00:00' order by id").read_all()
    assert found["id"].to_pylist() == [0, 20, 100, 101, 102]
    assert {*found["ts"].to_pylist()} == {midnight}
    run(f"delete from t where {where}")
    assert {*range(6), 20, 100} & {row["id"] for row in catalog.table("t").to_arrow().to_pylist()} == set()


def test_a_zone_that_duckdb_lacks_is_one_of_queries_too(catalog: txlog.Catalog) -> None:
    catalog.write("t", pa.table({"id": [1], "ts": [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)]}))
    count = "select count(*) as n from t where ts < '2024-01-01 0{}:31:00' and cast(ts as timestamp_ntz) is not null"
    for hour, number in ((5, 1), (4, 0)):
        found = txlog.sql(count.format(hour), catalog, time_zone="+05:30").read_all()
        assert found.to_pylist() == [{"n": number}]
    with pytest.raises(InvalidInputError, match=r"has no time zone \+05:30: name a region"):
        txlog.sql(count.format(5), catalog, time_zone="+05:30", dialect="duckdb")
    txlog.sql("delete from t where ts < '2024-01-01 05:31:00'", catalog, time_zone="+05:30")
    assert catalog.table("t").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    "statement",
    [
        "merge {}into t using s on t.id = s.id when matched then update set *",
        "merge {}into t using s on t.id = s.id when not matched then insert *",
        "merge {}into t using s on t.id = s.id when matched then update set extra = s.extra",
        "insert {}into t by name select id, r from s",
        "insert {}into t by name select id, named_struct('a', 1) as r, extra from s",
    ],
)
def test_a_statement_that_sets_what_only_the_query_has_names_schema_evolution(
    catalog: txlog.Catalog, statement: str
) -> None:
    catalog.write("t", pa.table({"id": [1], "r": [{"a": 1}]}))
    catalog.write("s", pa.table({"id": [1], "r": [{"a": 2, "b": 3}], "extra": [4]}))
    with pytest.raises(InvalidInputError, match="; WITH SCHEMA EVOLUTION adds "):
        txlog.sql(statement.format(""), catalog)
    txlog.sql(statement.format("with schema evolution "), catalog)


def test_copy_into_names_its_own_option_for_new_columns(catalog: txlog.Catalog, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.csv").write_text("id,extra\n1,2\n")
    catalog.create("t", "id bigint")
    copy = f"copy into t from '{tmp_path}/files' fileformat = csv format_options ('header' = 'true') "
    with pytest.raises(SchemaMismatchError, match=r"add it with COPY_OPTIONS \('mergeSchema' = 'true'\)"):
        txlog.sql(copy, catalog)
    txlog.sql(copy + "copy_options ('mergeSchema' = 'true')", catalog)
    assert rows(catalog, "select id, extra from t") == [(1, 2)]


def test_order_by_means_the_querys_own_column_where_a_group_has_the_same_name(catalog: txlog.Catalog) -> None:
    txlog.sql("create table t (s string); insert into t values ('b'), ('a'), ('b')", catalog)
    own = "select coalesce(s, 'all') as s, count(*) as n from t group by rollup(s) order by s"
    assert rows(catalog, own) == [("a", 1), ("all", 3), ("b", 2)]
    assert rows(catalog, "select upper(s) as s, count(*) as n from t group by s order by all desc") == [
        ("B", 2),
        ("A", 1),
    ]


def test_functions_make_rows_of_structs_and_of_values(catalog: txlog.Catalog) -> None:
    assert rows(catalog, "select inline(array(named_struct('a', 1, 'b', 'x'), null))") == [(1, "x"), (None, None)]
    assert rows(catalog, "select stack(2, 'p', 1, 'q') as (k, v)") == [("p", 1), ("q", None)]
    assert rows(
        catalog, "select x.v, e.c from (select array(1, 2) as v) x, lateral explode(x.v) as e(c) order by 2"
    ) == [
        ([1, 2], 1),
        ([1, 2], 2),
    ]
    for text in ("select stack(2, 1, 'x')", "select explode(array(1)) as v, count(*) from range(1) group by v"):
        with pytest.raises(InvalidInputError, match=r"CAST them to one|use LATERAL VIEW"):
            txlog.sql(text, catalog)
