"""`SqlSession`: views, USE and what SHOW tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import txlog
from txlog.errors import InvalidInputError, TableExistsError, TableNotFoundError


@pytest.fixture
def session(tmp_path: Path) -> txlog.SqlSession:
    session = txlog.SqlSession(tmp_path / "warehouse")
    session.sql("create table sales.orders (id bigint, amount int); create table u (id bigint)")
    session.sql("insert into sales.orders values (1, 10), (2, 20), (3, 30); insert into u values (2)")
    return session


def rows(session: txlog.SqlSession, text: str) -> list[tuple[Any, ...]]:
    table = session.sql(text).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_view_is_its_query_on_the_newest_rows(session: txlog.SqlSession) -> None:
    session.sql("create temporary view big as select * from sales.orders where amount > 10")
    assert rows(session, "select id from big order by id") == [(2,), (3,)]
    session.sql("insert into sales.orders values (4, 40)")
    assert rows(session, "select b.id, big.amount from big join big b using (id) order by id") == [
        (2, 20),
        (3, 30),
        (4, 40),
    ]
    session.sql("create temp view ids(k, twice) as select id, id * 2 from big")
    assert rows(session, "select twice from ids where k = (select max(k) from IDS)") == [(8,)]
    session.sql("create or replace temporary view big as values (9, 90)")
    session.sql("delete from sales.orders where id in (select col1 - 5 from big)")
    session.sql(
        "merge into sales.orders t using big s on t.id = s.col1 when not matched then insert (id) values (col1)"
    )
    session.sql("insert into u select col1 from big; create table made as select * from big")
    assert rows(session, "select id from sales.orders order by id") == [(1,), (2,), (3,), (9,)]
    assert rows(session, "select * from made") == [(9, 90)]
    assert rows(session, "describe big") == [("col1", "int", None), ("col2", "int", None)]
    assert rows(session, "show columns in big") == [("col1",), ("col2",)]
    assert rows(session, "show views like 'b*'") == [("", "big", True)]
    session.sql("drop view big; drop view if exists big")
    with pytest.raises(TableNotFoundError, match="there is no table big"):
        session.sql("select * from big")


def test_a_view_hides_a_table_and_is_none(session: txlog.SqlSession) -> None:
    session.sql("create temp view u as select 7 as id")
    assert rows(session, "select id from u") == [(7,)]
    assert rows(session, "select id from default.u") == [(2,)]
    for text in ("insert into u values (1)", "delete from u", "drop table u", "optimize u", "describe history u"):
        with pytest.raises(InvalidInputError, match=r"u, which is named at line 1, column .*, is a temporary view"):
            session.sql(text)
    with pytest.raises(InvalidInputError, match="is a view, which has no versions"):
        session.sql("select * from u version as of 0")
    with pytest.raises(TableExistsError, match="CREATE OR REPLACE"):
        session.sql("create temp view u as select 1")
    with pytest.raises(InvalidInputError, match="the view u reads itself"):
        session.sql("create or replace temp view u as select * from u; select * from u")
    with pytest.raises(TableNotFoundError, match="there is no temporary view x"):
        session.sql("drop view x")
    with pytest.raises(InvalidInputError, match="write CREATE TEMPORARY VIEW"):
        session.sql("create view v as select 1")


def test_use_puts_a_schema_in_front_of_names_without_one(session: txlog.SqlSession) -> None:
    session.sql("use sales")
    assert rows(session, "select count(*) from orders o where o.id in (select id from default.u)") == [(1,)]
    assert rows(session, "show tables") == [("sales", "orders")]
    session.sql("create table n (a int); alter table n rename to m; comment on column m.a is 'x'")
    assert rows(session, "show tables in sales") == [("sales", "m"), ("sales", "orders")]
    assert rows(session, "describe m") == [("a", "int", "x")]
    session.sql("create temp view v as select id from orders; use default")
    assert len(rows(session, "select * from v")) == 3
    assert rows(session, "show schemas") == rows(session, "show databases") == [("default",), ("sales",)]
    with pytest.raises(InvalidInputError, match="a session has one catalog"):
        session.sql("use catalog main")


def test_a_statement_for_those_that_follow_it_is_refused_where_none_does(session: txlog.SqlSession) -> None:
    for text in ("use sales", "create temp view v as select 1"):
        with pytest.raises(InvalidInputError, match=r"txlog\.SqlSession\(catalog\)\.sql\(text\); nothing was run"):
            txlog.sql(text)
    assert txlog.sql("create temp view v as select 1 as a; select a from v").read_all().to_pylist() == [{"a": 1}]
