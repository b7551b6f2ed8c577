"""What an INSERT stores of a query's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import txlog
from txlog.errors import InvalidInputError


@pytest.fixture
def catalog(tmp_path: Path) -> txlog.Catalog:
    made = txlog.Catalog(tmp_path / "warehouse")
    txlog.sql(
        "create table t (id int, s struct<x:int,n:struct<y:bigint,z:string>>, l array<struct<x:int,y:int>>,"
        " m map<string,struct<x:int,y:int>>)",
        made,
    )
    return made


def stored(catalog: txlog.Catalog, *columns: str) -> list[tuple[Any, ...]]:
    found = txlog.sql(f"select {', '.join(columns)} from t order by id", catalog).read_all()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_the_fields_of_a_struct_go_by_position_in_lists_and_maps_too(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "insert into t (id, s, l, m) values"
        " (1, struct(3, struct(4, 5)), array(struct(6, 7)), map('k', struct(8, 9))), (2, null, null, null);"
        "insert into t select 3, named_struct('a', 1, 'b', null), array(null, named_struct('y', 1, 'x', '2')),"
        " map('k', null, 'l', named_struct('X', 1, 'Y', 2));"
        "insert overwrite t select * from t",
        catalog,
    )
    assert stored(catalog, "id", "s", "l", "m") == [
        (1, {"x": 3, "n": {"y": 4, "z": "5"}}, [{"x": 6, "y": 7}], [("k", {"x": 8, "y": 9})]),
        (2, None, None, None),
        (3, {"x": 1, "n": None}, [None, {"x": 1, "y": 2}], [("k", None), ("l", {"x": 1, "y": 2})]),
    ]


def test_by_name_gives_the_fields_of_a_struct_by_their_names_in_any_case(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "insert into t by name select array(named_struct('Y', 2, 'x', 1)) as l,"
        " named_struct('n', named_struct('z', 'a', 'y', 5), 'X', 7) as S, 1 as id,"
        " map('k', named_struct('y', 4, 'X', 3)) as m",
        catalog,
    )
    expected = ({"x": 7, "n": {"y": 5, "z": "a"}}, [{"x": 1, "y": 2}], [("k", {"x": 3, "y": 4})])
    assert stored(catalog, "s", "l", "m") == [expected]


@pytest.mark.parametrize(
    ("insert", "fault"),
    [
        ("into t (id, s) select 1, struct(1)", "column s is a struct of x, n, and the query has one of .*: give it"),
        ("into t (id, s) select 1, struct(1, struct(1, 2, 3))", "column s.n is a struct of y, z"),
        ("into t (id, l) select 1, array(struct(1, 2, 3))", "column l.element is a struct of x, y"),
        ("overwrite t (id, m) select 1, map('k', struct(1))", "column m.value is a struct of x, y"),
        ("into t by name select named_struct('x', 1, 'y', 2) as s", "BY NAME needs each of them once, by its name"),
        ("into t (id, s) select 1, 'text'", "column s is a struct<.*>: it cannot store string"),
    ],
)
def test_a_struct_with_other_fields_is_refused_and_nothing_lands(
    catalog: txlog.Catalog, insert: str, fault: str
) -> None:
    with pytest.raises(InvalidInputError, match=fault):
        txlog.sql(f"insert {insert}", catalog)
    assert catalog.table("t").version == 0


def test_a_value_in_a_struct_that_does_not_fit_is_an_error_and_one_below_null_is_not(catalog: txlog.Catalog) -> None:
    with pytest.raises(InvalidInputError):
        txlog.sql("insert into t (id, s) values (1, struct('no number', null))", catalog)
    txlog.sql("insert into t (id, s) select 1, if(id = 1, null, struct(id, null)) from range(1, 3) r(id)", catalog)
    assert stored(catalog, "s") == [(None,), ({"x": 2, "n": None},)]


DEFAULTS = (
    "create table d (day string default 'D', id bigint default 5, v string default 'V') partitioned by (day)"
    " tblproperties (delta.feature.allowColumnDefaults = supported)"
)


@pytest.mark.parametrize(
    ("insert", "fault"),
    [
        ("d (id, v) values (1, default, 3)", "row 1 of VALUES has 3 values, and the statement fills 2: id, v"),
        ("d (id, v) values (1, 'x'), (default)", "row 2 of VALUES has 1 value, and"),
        ("d partition (day = 'a') values ('b', 1, default)", "row 1 of VALUES has 3 values, and .* 2: id, v"),
        ("d (id, ID) values (1, default)", "column id is given twice"),
        ("d (id, id) select 1, 2", "column id is given twice"),
        ("d partition (day = v) values (1, 'x')", "there is no column v"),
        ("d partition (day = 'a') select 1", "the query has 1 column, and the statement fills 2: id, v"),
    ],
)
def test_an_insert_fills_each_column_once_from_values_alone(catalog: txlog.Catalog, insert: str, fault: str) -> None:
    txlog.sql(DEFAULTS, catalog)
    with pytest.raises(InvalidInputError, match=fault):
        txlog.sql(f"insert into {insert}", catalog)
    assert catalog.table("d").version == 0


def test_default_is_that_of_its_own_column_beside_partition_too(catalog: txlog.Catalog) -> None:
    txlog.sql(f"{DEFAULTS}; insert into d partition (day = 'a') values (1, default), (default, 'w')", catalog)
    txlog.sql("insert into d partition (day = 'a') (v) values (default)", catalog)
    found = txlog.sql("select * from d order by id, v", catalog).read_all().to_pylist()
    assert [tuple(row.values()) for row in found] == [("a", 1, "V"), ("a", 5, "V"), ("a", 5, "w")]


@pytest.mark.parametrize("column", ["id", "b"])
def test_an_update_of_a_column_to_default_that_the_table_computes_is_refused(
    catalog: txlog.Catalog, column: str
) -> None:
    txlog.sql(
        "create table g (id bigint generated always as identity, a int, b int generated always as (a * 2));"
        "insert into g (a) values (1)",
        catalog,
    )
    with pytest.raises(InvalidInputError, match=f"column {column} is set to DEFAULT, and the table computes it"):
        txlog.sql(f"update g set a = 2, {column} = default", catalog)


def test_default_has_the_table_compute_a_column(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "create table g (id bigint generated always as identity, a int, b int generated always as (a * 2));"
        "insert into g values (default, 1, default), (default, 2, default);"
        "insert into g values (default, 3, 6);"
        "merge into g using (select 4 as a) s on g.a = s.a"
        " when not matched then insert (id, a, b) values (default, s.a, default)",
        catalog,
    )
    found = txlog.sql("select * from g order by a", catalog).read_all()
    assert len(set(found["id"].to_pylist())) == 4
    assert found["b"].to_pylist() == [2, 4, 6, 8]
    for values, fault in (
        (
            "(default, 1, 2), (default, 2, default)",
            "row 2 of VALUES has DEFAULT for column b, .* and row 1 has a value",
        ),
        ("(default)", "VALUES has DEFAULT for all of id, which the table computes: give a value to another column"),
    ):
        columns = "" if "," in values else "(id)"
        with pytest.raises(InvalidInputError, match=fault):
            txlog.sql(f"insert into g {columns} values {values}", catalog)


def test_an_insert_by_name_that_adds_columns_takes_no_partition(catalog: txlog.Catalog) -> None:
    txlog.sql(DEFAULTS, catalog)
    with pytest.raises(InvalidInputError, match="have the query say 'x' AS day"):
        txlog.sql("insert with schema evolution into d partition (day = 'x') by name select 2 as id, 3 as w", catalog)
    assert catalog.table("d").version == 0


def test_a_constant_of_partition_is_one_value_for_all_rows_and_for_what_they_replace(catalog: txlog.Catalog) -> None:
    txlog.sql("create table c (id int, at timestamp, n decimal(5,2)) partitioned by (at, n)", catalog)
    for _ in range(2):
        txlog.sql(
            "insert overwrite c partition (at = timestamp '2026-01-02 03:04:05.678+01:00', n = 1 + 0.5)"
            " values (1), (2)",
            catalog,
        )
    found = txlog.sql("select id, cast(at as string) as at, n from c order by id", catalog).read_all().to_pylist()
    assert [str(tuple(row.values())) for row in found] == [
        f"({number}, '2026-01-02 02:04:05.678', Decimal('1.50'))" for number in (1, 2)
    ]
    txlog.sql("insert overwrite c partition (at = current_timestamp(), n = 2) values (3)", catalog)
    assert len(txlog.sql("select id from c", catalog).read_all()) == 3
