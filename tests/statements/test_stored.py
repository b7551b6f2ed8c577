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
