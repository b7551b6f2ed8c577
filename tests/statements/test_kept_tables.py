"""What the statements of one script share: open tables, names that were looked up, and duckdb."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import txlog
from tests.bucket import ROW, Bucket
from txlog import table as table_module
from txlog.core.definition import create_table
from txlog.core.versions import OpenTable
from txlog.errors import TableNotFoundError
from txlog.statements.engine import LocalEngine
from txlog.statements.sql import results_of
from txlog.testing.unity_server import UnityServer


@pytest.fixture
def catalog(tmp_path: Path) -> txlog.Catalog:
    found = txlog.Catalog(tmp_path / "warehouse")
    found.create("t", "id int")
    return found


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The table ``delta.`s3://bucket/t``` in an object store."""
    found = Bucket(commits=3)
    monkeypatch.setattr(table_module, "open_store", lambda *place: found.trips.watched(found.store))
    return found


def running(text: str, catalog: txlog.Catalog | None = None) -> Iterator[Any]:
    """The results of a script, of which each statement runs when its result is asked for."""
    return results_of(text, LocalEngine(), catalog, None, None)


def ids(catalog: txlog.Catalog, name: str = "t") -> list[Any]:
    return sorted(catalog.table(name).snapshot().to_arrow()["id"].to_pylist())


def test_a_script_opens_each_table_and_starts_duckdb_once(
    catalog: txlog.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    started: list[int] = []
    connect, begin = duckdb.connect, OpenTable.__init__

    def opened(self: OpenTable, *given: Any) -> None:
        asked.append("open")
        begin(self, *given)

    def connected(*given: Any) -> Any:
        started.append(1)
        return connect(*given)

    monkeypatch.setattr(OpenTable, "__init__", opened)
    monkeypatch.setattr(duckdb, "connect", connected)
    statements = [f"insert into t select max(id) + {number} from T; delete from t where id = 7" for number in range(5)]
    merge = "merge into t using (select 3 as id) s on t.id = s.id when not matched then insert *"
    txlog.sql(f"insert into t values (0); {'; '.join(statements)}; {merge}; describe t", catalog)
    assert asked == ["open"]
    assert len(started) == 1
    assert ids(catalog) == [0, 0, 1, 3, 6, 10]


def test_a_further_statement_on_an_object_store_waits_for_a_look_an_append_and_a_look_at_what_came_of_it(
    bucket: Bucket,
) -> None:
    def trips(statements: int) -> int:
        return bucket.trips_of(lambda: txlog.sql("insert into delta.`s3://bucket/t` values (1);" * statements))

    # What follows one commit, on a thread of its own, may come between two requests of the next statement.
    assert trips(8) - trips(4) <= 4 * 4 + 1


def test_a_statement_sees_what_others_committed_since_the_one_before(bucket: Bucket) -> None:
    results = running("insert into delta.`s3://bucket/t` values (2); delete from delta.`s3://bucket/t` where id = 1")
    next(results)
    bucket.opened().append(ROW)
    next(results)
    assert bucket.rows() == 1


def test_a_table_that_others_drop_and_create_again_meanwhile_is_opened_again(catalog: txlog.Catalog) -> None:
    results = running("insert into t values (1); insert into t values (2); insert into t values (3)", catalog)
    next(results)
    catalog.drop("t")
    catalog.create("t", "id string")
    next(results)
    assert ids(catalog) == ["2"]
    catalog.drop("t")
    with pytest.raises(TableNotFoundError):
        next(results)


def test_a_name_that_others_give_to_a_table_elsewhere_meanwhile_is_that_table(
    catalog: txlog.Catalog, tmp_path: Path
) -> None:
    places = [txlog.Table.create(tmp_path / each, "id int") for each in ("one", "two")]
    catalog.register("e", places[0].uri)
    results = running("insert into e values (1);" * 3, catalog)
    next(results)
    catalog.drop("e")
    catalog.register("e", places[1].uri)
    next(results)
    assert [place.count() for place in places] == [1, 1]
    catalog.drop("e")
    with pytest.raises(TableNotFoundError):
        next(results)


def test_a_table_in_an_object_store_that_others_create_again_meanwhile_is_opened_again(bucket: Bucket) -> None:
    results = running("insert into delta.`s3://bucket/t` values (1);" * 2)
    next(results)
    bucket.log.objects.clear()
    create_table(OpenTable(bucket.store), pa.schema({"id": pa.int64()}), (), {})
    for _ in range(9):
        bucket.opened().append(ROW)
    assert next(results).version == 10
    assert bucket.rows() == 10


def test_names_that_a_script_gives_and_takes_are_those_of_its_next_statements(catalog: txlog.Catalog) -> None:
    txlog.sql(
        "insert into t values (1); alter table t rename to u; create table t (id string); insert into t values ('new');"
        "insert into u values (2); drop table t; create table t shallow clone u; insert into t values (3);"
        "create or replace table u as select 'x' as id, 5 as more; insert into u values ('y', 6)",
        catalog,
    )
    assert (ids(catalog), ids(catalog, "u")) == ([1, 2, 3], ["x", "y"])


def test_a_name_that_a_script_takes_from_a_table_elsewhere_is_free_for_another(
    catalog: txlog.Catalog, tmp_path: Path
) -> None:
    elsewhere = txlog.Table.create(tmp_path / "elsewhere", "id int")
    catalog.register("r", elsewhere.uri)
    txlog.sql(
        "insert into r values (1); drop table r; create table r (id string); insert into r values ('new')", catalog
    )
    assert (elsewhere.snapshot().count(), ids(catalog, "r")) == (1, ["new"])


@pytest.mark.parametrize("gone", ["dropped", "renamed"])
def test_a_table_of_a_catalog_that_others_drop_or_rename_meanwhile_is_looked_up_again(
    tmp_path: Path, gone: str
) -> None:
    with UnityServer(tmp_path / "server") as server:
        catalog = txlog.Catalog(server.uri)
        catalog.create("main.s.t", "id int")
        results = running("insert into main.s.t values (1);" * 3, catalog)
        next(results)
        for makes_another in (True, False):
            if gone == "dropped":
                catalog.drop("main.s.t")
            else:
                catalog.rename("main.s.t", f"main.s.u{makes_another}")
            if makes_another:
                catalog.create("main.s.t", "id string")
                next(results)
                assert ids(catalog, "main.s.t") == ["1"]
        with pytest.raises(TableNotFoundError):
            next(results)


def test_rows_of_a_query_are_read_after_the_next_query_has_begun(catalog: txlog.Catalog) -> None:
    catalog.write("f", pa.table({"x": [1.5, float("nan")]}))
    catalog.write("g", pa.table({"x": [2.5]}))
    first, second = running("select x from f where x > 1 order by x; select x + 1 as x from g where x > 1", catalog)
    assert second.read_all()["x"].to_pylist() == [3.5]
    assert str(first.read_all()["x"].to_pylist()) == "[1.5, nan]"


def test_a_table_that_moved_away_is_an_error_of_the_next_statement(catalog: txlog.Catalog) -> None:
    results = running("insert into t values (1); select count(*) from t", catalog)
    next(results)
    shutil.rmtree(catalog.location("t"))
    with pytest.raises(TableNotFoundError):
        next(results)
