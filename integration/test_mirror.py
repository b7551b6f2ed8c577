"""Mirrors of a real PostgreSQL server: deltalake reads the same rows as the server's own SELECT.

In: a server of the machine's packages, whose database a test changes by psycopg. Skipped where there is no PostgreSQL.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import psycopg
import pyarrow as pa
import pytest
from pages import blocks
from postgres import MIRRORED, NO_SERVER, Postgres, postgres
from typer.testing import CliRunner

import txlog
from tests.mirror.envelopes import ORDERS, event
from txlog.cli.app import app
from txlog.core.sink._checkpoint_commits import CheckpointCommits
from txlog.errors import AccessError, InvalidInputError, NotFoundError, SchemaMismatchError, StorageError
from txlog.mirror import commits, connection
from txlog.mirror.postgres import Mirror
from txlog.mirror.progress import MirrorCommit
from txlog.mirror.target import MirrorTable


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres(MIRRORED) as found:
        if found is None:
            pytest.skip(NO_SERVER)
        yield found


def shown(row: tuple[Any, ...]) -> str:
    """A row as text, in which NaN equals itself, and times are those of UTC."""
    return repr([value.isoformat() if isinstance(value, datetime) else value for value in row])


class Database:
    """A database of the server, and a mirror of it."""

    def __init__(self, server: Postgres, name: str, target: Path) -> None:
        self.address = server.new_database(name)
        self.target = target
        self._connection: psycopg.Connection[Any] | None = None
        self.commits: list[MirrorCommit] = []

    def run(self, *statements: str) -> None:
        """Run statements, each a transaction of its own unless it begins one."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.address, autocommit=True)
        for statement in statements:
            self._connection.execute(statement)

    def close(self) -> None:
        """Forget the connection, which a server that was killed does not answer any more."""
        if self._connection is not None:
            self._connection.close()

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        self.run("set timezone = 'UTC'")
        assert self._connection is not None
        return self._connection.execute(text).fetchall()

    def drop_slots(self) -> None:
        """Drop the slots of this database, once who used them is gone."""
        of_it = "from pg_replication_slots where database = current_database()"
        while self.rows(f"select pg_terminate_backend(active_pid) {of_it} and active_pid is not null"):
            pass
        self.rows(f"select pg_drop_replication_slot(slot_name) {of_it}")

    def mirror(self, tables: Sequence[str] | None = None, **options: Any) -> Mirror:
        given: dict[str, Any] = {"max_delay_s": 3600.0, "on_commit": self.commits.append, **options}
        return Mirror(self.address, self.target, tables=tables, **given)

    def catch_up(self, tables: Sequence[str] | None = None, *, resync: Sequence[str] = (), **options: Any) -> None:
        self.mirror(tables, **options).run(until_current=True, resync=resync)

    def table(self, name: str) -> txlog.Table:
        return txlog.Catalog(self.target).table(f"public.{name}")

    def mirrored(self, name: str) -> list[tuple[Any, ...]]:
        """The rows that deltalake reads, in order."""
        rows = deltalake.DeltaTable(self.table(name).uri).to_pyarrow_table().to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=shown)

    def require_equal(self, name: str, columns: str = "*") -> None:
        mirrored = [*map(shown, self.mirrored(name))]
        assert mirrored == sorted(map(shown, self.rows(f"select {columns} from {name}")))
        assert mirrored or not self.rows(f"select 1 from {name}")


@pytest.fixture
def database(server: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    name = f"test_{abs(hash(request.node.name)) % 10**9}"
    found = Database(server, name, tmp_path / "mirror")
    yield found
    found.drop_slots()


EXACT = """
id bigint primary key, b bool, i2 smallint, i4 int, f4 real, f8 float8, n numeric(20,5), n_wide numeric(38,10), t text,
v varchar(20), c char(5), raw bytea, d date, ts timestamp, tz timestamptz, ints int[], texts text[]
"""
AS_TEXT = ["num", "u", "j", "jb", "iv", "tm", "e", "ip", "r", "big"]


def test_every_type_has_the_same_values_and_what_delta_lacks_is_the_text_of_postgresql(database: Database) -> None:
    database.run(
        "create type mood as enum ('sad', 'happy')",
        "create domain cents as numeric(10,2)",
        f"create table exact ({EXACT}, price cents)",
        "create table texts (id int primary key, num numeric, u uuid, j json, jb jsonb, iv interval, tm time, e mood,"
        " ip inet, r int4range, big numeric(50,3))",
    )
    first = r"""insert into exact values
        (1, true, -7, 2147483647, 0.5, 1e300, 12.5, 1234567890123456789012345678.0123456789, E'a\n"b",\\', '', 'ab',
         '\x00ff', '0001-01-01', '2024-02-29 12:34:56.123456', '2024-02-29 23:00:00-05', '{1,NULL,3}',
         E'{"a,\\"b",NULL,"NULL",""}', 1.25),
        (2, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
        (3, false, 32767, -1, 'NaN', '-Infinity', -0.00001, 0, '', 'v', '', '', '9999-12-31',
         '1969-12-31 23:59:59.9', '0001-01-01 00:00:00+00', '{}', '{}', -0.01)"""
    texts = """insert into texts values
        (1, 1.50, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": 1}', '{"b":2}', '1 day 02:03:04', '24:00:00', 'happy',
         '10.0.0.1/8', '[1,5)', 12345678901234567890123456789012345678901234567.125),
        (2, null, null, null, null, null, null, null, null, null, null)"""
    database.run(first, texts)
    database.catch_up()
    listed = ", ".join(["id", *(f"{name}::text" for name in AS_TEXT)])
    database.require_equal("exact")
    database.require_equal("texts", listed)
    exact, as_text = (commit.differs for commit in database.commits)
    assert (exact, sorted(as_text)) == ({}, sorted(AS_TEXT))
    assert as_text["num"] == "numeric is text: decimals of Delta have a fixed scale"
    database.run(
        "update exact set id = id + 10",
        first.replace("(1,", "(21,").replace("(2,", "(22,").replace("(3,", "(23,"),
        "update texts set id = 5, num = 'NaN' where id = 1",
        "insert into texts (id, iv) values (7, '-1 year 2 days')",
    )
    database.catch_up()
    database.require_equal("exact")
    database.require_equal("texts", listed)
    assert len(database.mirrored("exact")) == 6


def test_the_rows_follow_inserts_updates_deletes_and_changes_of_keys(database: Database) -> None:
    database.run(
        "create table plain (id int primary key, v text)",
        "create table pairs (a int, b text, v int, primary key (b, a))",
        'create schema "Shop"; create table "Shop"."The Orders" (id int primary key, "unit price" numeric(8,2))',
        "insert into plain select n, 'row ' || n from generate_series(1, 1000) n",
        "insert into pairs select n, 'k' || n % 3, n from generate_series(1, 30) n",
    )
    database.catch_up(["plain", "pairs"])
    database.run(
        "begin; update plain set id = id + 5000 where id <= 10; delete from plain where id > 990;"
        " insert into plain values (1, 'again'); update plain set v = null where id = 1;"
        " update plain set id = -1 where id = 1; insert into plain values (1, 'and again'); commit",
        "begin; insert into plain values (70000, 'never'); rollback",
        "update pairs set b = b || 'x', v = v + 1 where a % 2 = 0",
        "delete from pairs where a > 20",
    )
    database.catch_up()  # the publication names the tables
    database.require_equal("plain")
    database.require_equal("pairs")


def test_keys_shift_and_swap_within_one_statement(database: Database) -> None:
    database.run(
        "create table places (id int, v text, primary key (id) deferrable initially deferred)",
        "insert into places select n, 'v' || n from generate_series(1, 50) n",
    )
    with pytest.raises(InvalidInputError, match="REPLICA IDENTITY FULL"):
        database.catch_up()
    database.run("alter table places replica identity full")
    database.catch_up()
    database.run("update places set id = id + 1")
    database.catch_up()
    database.require_equal("places")
    database.run(
        "begin; update places set id = 52 - id; delete from places where id = 7;"
        " insert into places values (8, 'new'); delete from places where id = 8 and v <> 'new'; commit"
    )
    database.catch_up()
    database.require_equal("places")


def test_large_values_that_an_update_does_not_touch_stay_also_when_the_key_changes(database: Database) -> None:
    database.run(
        "create table docs (id int primary key, title text, body text, extra text)",
        "alter table docs alter body set storage external, alter extra set storage external",
        "create table whole (id int primary key, n int, body text); alter table whole replica identity full",
        "alter table whole alter body set storage external",
    )
    large = "(select string_agg(md5(n::text || {}::text), '') from generate_series(1, 200) n)"
    fill = "insert into docs select m, 't' || m, " + large.format("m") + ", " + large.format("(-m)")
    database.run(f"{fill} from generate_series(1, 20) m")
    database.run(f"insert into whole select m, 0, {large.format('m')} from generate_series(1, 5) m")
    database.catch_up()
    database.run(
        "update docs set title = 'changed' where id <= 5",
        "update docs set id = id + 100 where id between 3 and 8",
        "begin; update docs set id = id + 100 where id > 100; update docs set title = 'twice' where id > 200;"
        " update docs set extra = 'short' where id = 203; update docs set title = 'x' where id = 203; commit",
        "delete from docs where id = 9",
        f"{fill} from generate_series(9, 9) m",
        "update docs set id = 999 where id = 9",
        "update whole set n = 1 where id < 3; update whole set id = 77 where id = 1",
    )
    database.catch_up()
    database.require_equal("docs")
    database.require_equal("whole")


def test_a_truncate_empties_the_table_and_what_follows_it_is_there(database: Database) -> None:
    database.run(
        "create table a (id int primary key, v text); create table b (id int primary key references a, w int)",
        "insert into a select n, 'x' from generate_series(1, 9) n",
        "insert into b select n, n from generate_series(1, 9) n",
    )
    database.catch_up()
    database.run(
        "begin; insert into a values (50, 'before'); truncate a cascade;"
        " insert into a values (1, 'after'), (2, 'gone');"
        " update a set id = 3 where id = 1; delete from a where id = 2; commit"
    )
    database.catch_up()
    database.require_equal("a")
    assert database.mirrored("a") == [(3, "after")]
    assert database.mirrored("b") == []
    database.run("insert into b values (3, 3)")
    database.catch_up()
    database.require_equal("b")


def test_a_table_without_a_key_is_a_log_of_its_changes(database: Database) -> None:
    database.run("create table events (what text, n int)", "insert into events values ('a', 1), ('a', 1)")
    with pytest.raises(InvalidInputError, match=r'ALTER TABLE "public"\."events" REPLICA IDENTITY FULL'):
        database.catch_up()
    database.run("update events set n = 2")  # the source still may
    database.run("alter table events replica identity full")
    database.catch_up()
    database.run(
        "begin; insert into events values ('b', 3); update events set n = 4 where what = 'b'; commit",
        "delete from events where what = 'b'",
        "truncate events",
    )
    database.catch_up()
    rows = database.table("events").to_arrow(columns=["_change", "what", "n", "_lsn", "_number"]).to_pylist()
    rows.sort(key=lambda row: (row["_lsn"], row["_number"]))
    assert [(row["_change"], row["what"], row["n"]) for row in rows] == [
        ("+I", "a", 2),
        ("+I", "a", 2),
        ("+I", "b", 3),
        ("-U", "b", 3),
        ("+U", "b", 4),
        ("-D", "b", 4),
        ("T", None, None),
    ]


def test_columns_that_are_added_dropped_and_renamed_are_followed(database: Database) -> None:
    database.run(
        "create table people (id int primary key, name text, age int)",
        "insert into people select n, 'p' || n, n from generate_series(1, 20) n",
    )
    database.catch_up()
    database.run(
        "begin; update people set age = 0 where id = 1; alter table people add city text; update people set city = 'x'"
        " where id < 4; commit",
        "alter table people add score int default 7",
        "insert into people values (100, 'new', 1, 'y', 8)",
    )
    database.catch_up()
    database.require_equal("people")
    database.run(
        "alter table people drop age",
        "begin; alter table people rename name to full_name;"
        " update people set full_name = 'renamed' where id = 2; commit",
        "alter table people add tags text[] default '{a,b}'",
        "delete from people where id = 3",
    )
    database.catch_up()
    database.require_equal("people")
    assert "full_name" in database.table("people").schema.names


def test_a_table_that_maps_its_columns_follows_without_a_rewrite(database: Database) -> None:
    database.run("create table t (id int primary key, a text, b int)", "insert into t values (1, 'x', 1)")
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    database.catch_up(properties=properties)
    files = database.table("t").files()["path"].to_pylist()
    database.run(
        "alter table t rename a to c; alter table t drop b; alter table t add d int", "insert into t values (2)"
    )
    database.catch_up()
    assert set(files) < set(database.table("t").files()["path"].to_pylist())
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(database.table("t").uri))
    read = pa.table(query.execute("select * from t order by id")).to_pylist()
    assert read == [{"id": 1, "c": "x", "d": None}, {"id": 2, "c": None, "d": None}]


def test_a_change_of_columns_that_is_broken_off_is_ended_by_the_next_run(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run("create table t (id int primary key, a text, b int)", "insert into t values (1, 'x', 1)")
    database.catch_up()
    database.run(
        "begin; insert into t values (2, 'y', 2); alter table t rename a to c; alter table t drop b;"
        " alter table t add d int default 5; insert into t values (3, 'z'); commit"
    )
    for dying, step in ((MirrorTable, "end_change"), (MirrorTable, "staged")):
        with monkeypatch.context() as patched:
            patched.setattr(dying, step, _dies_after(1 if step == "end_change" else 0, getattr(dying, step)))
            with pytest.raises(Died):
                database.catch_up()
    database.catch_up()
    database.require_equal("t")
    assert database.mirrored("t") == [(1, "x", 5), (2, "y", 5), (3, "z", 5)]


def test_a_change_of_columns_that_cannot_be_followed_is_refused_until_a_new_snapshot(database: Database) -> None:
    database.run(
        "create table t (id int primary key, v int)",
        "insert into t values (1, 1)",
        "create table other (id int primary key)",
    )
    database.catch_up()
    database.run("insert into other values (1); alter table t alter v type text", "update t set v = 'one'")
    with pytest.raises(SchemaMismatchError, match=r"public\.t: the type of the column v changed.*--resync public\.t"):
        database.catch_up()
    database.catch_up(resync=["t"])
    database.require_equal("t")
    database.require_equal("other")
    database.run("alter table t add random float default random()", "update t set v = 'two'")
    with pytest.raises(SchemaMismatchError, match="random has a default"):
        database.catch_up()
    database.catch_up(resync=["t"])
    database.require_equal("t")


def test_a_value_that_delta_lacks_is_refused_and_can_be_text(database: Database) -> None:
    database.run("create table days (id int primary key, d date)", "insert into days values (1, '2024-01-01')")
    database.catch_up()
    database.run("insert into days values (2, 'infinity')")
    with pytest.raises(InvalidInputError, match=r"column d: date 'infinity'.*--text public\.days\.d"):
        database.catch_up()
    assert len(database.mirrored("days")) == 1
    database.catch_up(as_text=["days.d"], resync=["days"])
    database.require_equal("days", "id, d::text")


def test_a_history_has_the_rows_of_every_moment_since_its_snapshot(database: Database) -> None:
    database.run("create table t(id int primary key, v text, body text)")
    database.run("insert into t values (1, 'a', repeat(md5('x'), 300)), (2, 'b', null)")
    moments: dict[int, list[tuple[Any, ...]]] = {}

    def remember() -> None:
        ((lsn,),) = database.rows("select (pg_current_wal_lsn() - '0/0')::bigint")
        moments[lsn] = sorted(database.rows("select * from t"))

    database.catch_up(["t"], stored_as_scd_type=2)
    remember()
    for number, statements in enumerate(
        (
            ["update t set v = 'c' where id = 1"],  # the large value stays as it is
            ["insert into t values (3, 'd')", "update t set v = 'e' where id = 3", "update t set v = 'x' where id < 3"],
            ["insert into t values (4, 'gone')", "delete from t where id = 4", "delete from t where id = 2"],
            ["update t set id = 5 where id = 1", "insert into t values (2, 'again')"],
        )
    ):
        database.run("begin", *statements, "commit")
        remember()
        if number != 1:
            database.catch_up(["t"], stored_as_scd_type=2)
    rows = deltalake.DeltaTable(database.table("t").uri).to_pyarrow_table().to_pylist()
    for lsn, expected in moments.items():
        there = [row for row in rows if row["__START_AT"] <= lsn and (row["__END_AT"] or lsn + 1) > lsn]
        assert sorted((row["id"], row["v"], row["body"]) for row in there) == expected
    assert len({(row["id"], row["__START_AT"]) for row in rows}) == len(rows)
    assert all(row["__END_AT"] is None or row["__START_AT"] < row["__END_AT"] for row in rows)
    with pytest.raises(InvalidInputError, match=r"SCD type 2\), but the mirror was asked for type 1"):
        database.catch_up(["t"])
    database.run("truncate t")
    with pytest.raises(InvalidInputError, match="was truncated, which SCD type 2 does not follow"):
        database.catch_up(["t"], stored_as_scd_type=2)
    database.run("create table log(x text)", "alter table log replica identity full")
    with pytest.raises(InvalidInputError, match="has no key, so its mirror is a log of changes already"):
        database.catch_up(["log"], stored_as_scd_type=2, name="other")


def test_a_table_joins_a_mirror_later_and_the_rest_goes_on(database: Database) -> None:
    database.run("create table one (id int primary key)", "insert into one select generate_series(1, 10)")
    database.catch_up(["one"])
    database.run(
        "create table two (id int primary key)",
        "insert into two select generate_series(1, 10); insert into one select generate_series(11, 20)",
    )
    database.catch_up(["one", "two"])
    database.run("begin; delete from one where id > 15; delete from two where id > 5; commit")
    database.catch_up(["one", "two"])
    database.require_equal("one")
    database.require_equal("two")
    with pytest.raises(NotFoundError, match=r"no table public\.three"):
        database.catch_up(["three"])


@pytest.mark.hunt(part="mirror")
def test_tables_with_names_that_no_catalog_takes_get_names_that_it_takes(database: Database) -> None:
    made = [('"Order Items"', "order_items"), ('"größe.2"', "gr__e_2"), ("_hidden", "t_hidden"), ('"Über"', "t_ber")]
    for name, _ in made:
        database.run(f"create table {name} (id int primary key)", f"insert into {name} values (1), (2)")
    database.catch_up()
    database.run(f"delete from {made[0][0]} where id = 1")
    database.catch_up()
    names = [name for _, name in made]
    assert txlog.Catalog(str(database.target)).tables("public") == sorted(f"public.{name}" for name in names)
    counts = [txlog.Catalog(str(database.target)).table(f"public.{name}").count() for name in names]
    assert counts == [1, 2, 2, 2]
    database.run('create table "order items" (id int primary key)')
    with pytest.raises(InvalidInputError, match=r"order items and public\.Order Items would both be mirrored to"):
        database.catch_up(["order items", "Order Items"])


def test_a_mirror_says_what_is_missing_at_the_source(database: Database, tmp_path: Path) -> None:
    database.run("create table t (id int primary key)", "insert into t values (1)")
    database.catch_up()
    with pytest.raises(InvalidInputError, match="belongs to the mirror"):
        database.catch_up(name="another")
    database.drop_slots()
    database.run("insert into t values (2)")
    with pytest.raises(InvalidInputError, match=r"the slot is gone.*--resync public\.t"):
        database.catch_up()
    database.catch_up(resync=["t"])
    database.require_equal("t")


def test_a_table_that_was_made_again_or_not_published_for_a_while_needs_a_new_snapshot(database: Database) -> None:
    fill = "insert into t select n, n from generate_series(1, 3) n"
    database.run("create table t (id int primary key, v int); create table other (id int primary key)", fill)
    database.catch_up()
    database.run("drop table t; create table t (id int primary key, v int)", "insert into t values (1, 100)")
    with pytest.raises(InvalidInputError, match=r"public\.t: the table was dropped and made again.*--resync public\.t"):
        database.catch_up(["t", "other"])
    assert len(database.mirrored("t")) == 3
    database.catch_up(["t", "other"], resync=["t"])
    database.require_equal("t")

    ((publication,),) = database.rows("select pubname from pg_publication")
    database.run(f"alter publication {publication} drop table t", "insert into t values (2, 200)")
    database.run(f"alter publication {publication} add table t", "insert into t values (3, 300)")
    with pytest.raises(InvalidInputError, match=r"without the table for a while.*--resync public\.t"):
        database.catch_up()
    database.catch_up(resync=["t"])
    database.require_equal("t")


def test_a_table_that_is_followed_cannot_be_left_out_for_a_while(database: Database) -> None:
    database.run("create table a (id int primary key)", "create table b (id int primary key)")
    database.run("insert into a values (1)", "insert into b values (1)")
    database.catch_up(["a", "b"])
    database.run("insert into a values (2)", "insert into b values (2)")
    with pytest.raises(InvalidInputError, match=r"follows public\.b too.*DROP TABLE") as refused:
        database.catch_up(["a"])
    database.run(refused.value.message.partition("its mirror: ")[2])
    database.catch_up(["a"])
    database.run("insert into a values (3)")
    database.catch_up()
    database.require_equal("a")
    with pytest.raises(InvalidInputError, match=r"without the table for a while.*--resync public\.b"):
        database.catch_up(["a", "b"])
    database.catch_up(["a", "b"], resync=["b"])
    database.require_equal("b")


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (("alter table t rename to t2", "insert into t2 values (2, 2)"), r"public\.t was renamed to public\.t2"),
        (("alter table t drop constraint t_pkey, add primary key (v)", "insert into t values (9, 9)"), "key .* is v"),
        (("alter publication {0} drop table t", "alter publication {0} add table t", "delete from t"), "taken out of"),
    ],
)
def test_a_mirror_that_runs_stops_where_its_table_is_another_one(
    database: Database, statements: Sequence[str], reason: str
) -> None:
    database.run("create table t (id int primary key, v int)", "insert into t values (1, 1)")
    has_rows = threading.Event()
    mirror = database.mirror(max_delay_s=0.0, on_commit=lambda commit: has_rows.set())
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(mirror.run)
        assert has_rows.wait(30)
        ((publication,),) = database.rows("select pubname from pg_publication")
        database.run(*(statement.format(publication) for statement in statements))
        with pytest.raises(SchemaMismatchError, match=reason):
            ended.result(30)
    assert database.mirrored("t") == [(1, 1)]


def test_a_key_that_changes_alone_is_refused_also_where_whole_rows_are_logged(database: Database) -> None:
    database.run(
        "create table t (id int primary key, u int not null); alter table t replica identity full",
        "insert into t values (1, 1), (2, 2)",
    )
    database.catch_up()
    database.run("alter table t drop constraint t_pkey, add primary key (u)", "insert into t values (1, 3)")
    with pytest.raises(SchemaMismatchError, match=r"the key of public\.t is u, and was id.*--resync public\.t"):
        database.catch_up()
    database.catch_up(resync=["t"])
    database.require_equal("t")


def test_a_snapshot_waits_for_the_slot_of_a_connection_that_is_about_to_end(database: Database) -> None:
    database.run("create table t (id int primary key); insert into t values (1)")
    mirror = database.mirror(["t"])
    earlier = connection.Stream(database.address)
    earlier.exported_snapshot(f"{mirror.name}_snapshot")
    ends = threading.Timer(0.3, earlier.close)
    ends.start()
    mirror.run(until_current=True)
    ends.join()
    database.require_equal("t")


def test_a_user_who_does_not_see_all_rows_is_refused(server: Postgres, database: Database) -> None:
    database.run("create table t (id int primary key, owner text); insert into t values (1, 'a'), (2, 'b')")
    database.run("create role one_of_many login replication; grant select on t to one_of_many")
    database.run("alter table t enable row level security", "create policy own on t using (owner = 'a')")
    database.run("create publication own for table t")
    address = database.address.replace("user=postgres", "user=one_of_many")
    with pytest.raises(AccessError, match="row-level security"):
        Mirror(address, database.target, name="own").run(until_current=True)
    database.run("alter role one_of_many bypassrls")
    Mirror(address, database.target, name="own").run(until_current=True)
    database.require_equal("t")
    database.drop_slots()
    database.run("drop owned by one_of_many; drop role one_of_many")


def test_a_snapshot_says_for_which_transactions_it_waits(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TOLD_AFTER_S", 0.05)
    database.run("create table t (id int primary key)", "set application_name = 'nightly'")
    database.run("begin", "insert into t values (1)")
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(database.catch_up, ["t"])
        while not any("nightly" in record.getMessage() for record in caplog.records):
            assert not ended.done()
            time.sleep(0.01)
        database.run("commit")
        ended.result(30)
    database.require_equal("t")


def test_a_publication_that_leaves_changes_out_is_refused(database: Database) -> None:
    database.run(
        "create table t (id int primary key); insert into t values (1)",
        "create table parts (id int primary key) partition by range (id)",
        "create table part partition of parts for values from (0) to (10); insert into parts values (1)",
        "create publication own for table t, parts with (publish = 'insert, update')",
    )
    with pytest.raises(InvalidInputError, match=r"SET \(publish = 'insert, update, delete, truncate'\)"):
        database.catch_up(name="own")
    database.run("alter publication own set (publish = 'insert, update, delete, truncate')")
    with pytest.raises(InvalidInputError, match=r"SET \(publish_via_partition_root = true\)"):
        database.catch_up(name="own")
    database.run("alter publication own set (publish_via_partition_root = true)")
    database.catch_up(name="own")
    (told,) = [commit.differs["its partitions"] for commit in database.commits if "public.parts" in commit.rows]
    assert "truncated by itself" in told
    database.run("insert into parts values (2)", "delete from t")
    database.catch_up(name="own")
    database.require_equal("parts")
    database.require_equal("t")


def test_a_mirror_says_which_partitions_are_gone_and_keeps_their_rows(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.run("create table parts (id int primary key) partition by range (id)")
    for first in (0, 10, 20):
        database.run(f"create table part{first} partition of parts for values from ({first}) to ({first + 10})")
    database.run("insert into parts values (1), (11), (21)")
    database.catch_up()
    database.run("insert into parts values (2)", "drop table part10", "insert into parts values (22)")
    database.catch_up()
    said = [record.getMessage() for record in caplog.records if "part10" in record.getMessage()]
    assert said
    assert all("no longer has the partitions public.part10," in each and "keeps their rows" in each for each in said)
    database.run("alter table parts detach partition part20")
    caplog.clear()
    for _ in range(2):
        database.catch_up()
    assert ["part20" in record.getMessage() for record in caplog.records] == [True]
    assert database.mirrored("parts") == [(11,), (1,), (21,), (22,), (2,)]
    database.catch_up(resync=["parts"])
    database.require_equal("parts")


def test_a_slot_that_was_made_again_or_advanced_by_hand_is_refused_until_a_new_snapshot(database: Database) -> None:
    database.run("create table t(id int primary key)", "insert into t values (1)")
    database.catch_up(["t"])
    ((name,),) = database.rows("select slot_name from pg_replication_slots where database = current_database()")
    rows = "select repeat('x', 1000) from generate_series(1, 20000)"
    database.run("create table beside(x text)", f"insert into beside {rows}")
    database.catch_up(["t"])
    passed = database.table("t").snapshot().transaction_version(f"{name}/passed")
    assert passed is not None  # what is not the table's may go, since it knows
    database.drop_slots()
    database.run("insert into t values (2)", f"select pg_create_logical_replication_slot('{name}', 'pgoutput')")
    with pytest.raises(
        InvalidInputError, match=r"the slot txlog_\w+ begins at .* recreated or advanced it.*--resync public\.t"
    ):
        database.catch_up(["t"])
    database.catch_up(["t"], resync=["public.t"])
    database.require_equal("t")
    database.run("insert into t values (3)", f"select pg_replication_slot_advance('{name}', pg_current_wal_lsn())")
    with pytest.raises(InvalidInputError, match=r"or advanced it"):
        database.catch_up(["t"])
    database.catch_up(["t"], resync=["t"])
    database.run("insert into t values (4)")
    database.catch_up(["t"])
    database.require_equal("t")


@pytest.mark.parametrize("writes", [0, 2000], ids=["whose log ends before the tables", "that wrote on since"])
def test_a_database_that_was_restored_to_an_earlier_time_is_refused_until_a_new_snapshot(
    server: Postgres, database: Database, writes: int
) -> None:
    database.run("create table t(id int primary key, v text)", "insert into t values (1, 'a')")
    database.catch_up(["t"])
    database.run("insert into t values (2, 'before')")
    database.catch_up(["t"])
    database.close()
    server.stop()
    copy = server.copied_to("copy")
    server.start()
    database.run("insert into t values (3, 'lost')")
    database.catch_up(["t"])
    assert len(database.mirrored("t")) == 3
    database.close()
    server.stop()
    server.restore(copy)
    server.start()
    other = "insert into t select n, repeat('other', 100) from generate_series(100, {}) n"
    database.run(other.format(100), *(other.format(100 + writes).replace("100,", "101,") for _ in range(bool(writes))))
    for _ in range(2):
        with pytest.raises(InvalidInputError, match=r"restored to an earlier time.*--resync public\.t"):
            database.catch_up(["t"])
    database.catch_up(["t"], resync=["t"])
    database.require_equal("t")
    database.run("insert into t values (4, 'after')", "delete from t where id = 1")
    database.catch_up(["t"])
    database.require_equal("t")


@pytest.mark.hunt(part="mirror")
@pytest.mark.parametrize("standby_has", ["no slot", "the slot and all changes", "the slot and too few changes"])
def test_a_standby_that_takes_over_goes_on_exactly_or_is_refused_by_name(standby_has: str, tmp_path: Path) -> None:
    """The slot comes to the standby as failover slots do, from before the last changes."""
    with postgres(MIRRORED) as primary:
        if primary is None:
            pytest.skip(NO_SERVER)
        database = Database(primary, "shop", tmp_path / "mirror")
        standby = primary.standby()
        standby.start()
        try:
            database.run("create table t(id int primary key, v text)", "insert into t values (1, 'a')")
            database.catch_up(["t"], name="shop")
            if standby_has != "no slot":
                database.run("checkpoint")
                standby.stop()
                standby.take_slots(primary)
                standby.start()
            database.run("insert into t values (2, 'b')")
            await_replay(primary, standby)
            if standby_has == "the slot and too few changes":
                standby.stop()
            database.run("insert into t select n, 'c' from generate_series(3, 300) n", "delete from t where id = 1")
            if standby_has != "the slot and too few changes":
                await_replay(primary, standby)
            database.catch_up(["t"], name="shop")
            database.close()
            primary.stop()
            if standby_has == "the slot and too few changes":
                standby.start()
            database.address = standby.address_of("shop")
            with pytest.raises(StorageError, match="it is a standby that has not taken over"):
                database.catch_up(["t"], name="shop", patience_s=0.0)
            standby.ask("select pg_promote()")
            database.run("insert into t values (400, 'after')")  # at a position that the tables may have passed
            standby.ask("select pg_switch_wal()")
            if standby_has == "the slot and all changes":
                for more in ("update t set v = 'd' where id = 2", "delete from t where id = 3"):
                    database.catch_up(["t"], name="shop")
                    database.require_equal("t")
                    database.run(more)
            else:
                why = "the slot is gone" if standby_has == "no slot" else r"it took over at .* that it never had"
                for _ in range(2):
                    with pytest.raises(InvalidInputError, match=rf"{why}.*--resync public\.t"):
                        database.catch_up(["t"], name="shop")
                database.catch_up(["t"], name="shop", resync=["t"])
                database.require_equal("t")
                database.run("insert into t values (500, 'on')")
            database.catch_up(["t"], name="shop")
            database.require_equal("t")
        finally:
            database.close()
            standby.stop(signal.SIGQUIT)


def await_replay(primary: Postgres, standby: Postgres) -> None:
    """Wait until the standby has all that the primary has written."""
    end = primary.ask("select pg_current_wal_lsn()")
    while standby.ask(f"select pg_last_wal_replay_lsn() >= '{end}'") != "t":
        pass


def test_the_programs_of_the_page_run(database: Database, tmp_path: Path) -> None:
    database.run("create table orders (id int primary key); create table lines (id int primary key)")
    database.run("insert into orders values (1)")
    lines = tmp_path / "orders.jsonl"
    lines.write_bytes(event("c", {"id": 2}, fields=ORDERS[:1]))
    postgres_program, events_program, _ = blocks("docs/mirror.md")
    target = "s3://bucket/shop"
    exec(
        postgres_program.replace("postgres://replicator@db/shop", database.address).replace(target, str(tmp_path / "a"))
    )
    exec(events_program.replace('"orders.jsonl", "rb"', f'"{lines}", "rb"').replace(target, str(tmp_path / "b")))
    assert txlog.Catalog(tmp_path / "a").table("public.orders").to_arrow().to_pylist() == [{"id": 1}]
    assert txlog.Catalog(tmp_path / "b").table("public.orders").to_arrow().to_pylist() == [{"id": 2}]


def test_the_example_runs(database: Database, tmp_path: Path) -> None:
    example = Path(__file__).parent.parent / "examples" / "mirror_postgres.py"
    variables = {**os.environ, "DATABASE_URL": database.address}
    run = subprocess.run([sys.executable, example], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "lines: 1,800 rows, as in the database" in run.stdout


def test_the_command_follows_a_database_and_ends_with_it_or_at_a_signal(database: Database) -> None:
    database.run("create table t (id int primary key); insert into t values (1)")
    arguments = ["mirror", database.address, str(database.target), "--tables", "t"]
    once = CliRunner().invoke(app, [*arguments, "--once", "--json"])
    assert (once.exit_code, json.loads(once.stdout)["rows"]) == (0, {"public.t": 1}), once.output
    command = [sys.executable, "-m", "txlog", *arguments, "--max-delay", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        database.run("insert into t values (2)")
        assert follower.stdout is not None
        assert "changes: public.t 1" in follower.stdout.readline()
        follower.terminate()
        assert follower.wait() == 0
    database.require_equal("t")
    wrong = CliRunner().invoke(app, [*arguments[:-1], "missing", "--once"])
    assert wrong.exit_code == 1
    assert "has no table public.missing" in wrong.output


def test_a_mirror_waits_for_a_server_that_restarts_and_not_forever(server: Postgres, database: Database) -> None:
    database.run("create table t (id int primary key); insert into t values (1)")
    landed = threading.Semaphore(0)
    mirror = database.mirror(max_delay_s=0, on_commit=lambda commit: landed.release())
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(mirror.run)
        assert landed.acquire(timeout=60)  # the snapshot
        server.stop(signal.SIGQUIT)
        with pytest.raises(StorageError, match=r"has not answered .* in the slot txlog_"):
            database.catch_up(patience_s=0)
        server.start()
        database.close()
        database.run("insert into t values (2)")
        assert landed.acquire(timeout=60)
        with pytest.raises(StorageError, match="another process runs the mirror"):
            database.catch_up(patience_s=0)
        mirror.stop()
        running.result()
    database.require_equal("t")


class Died(BaseException):
    """The end of the process, as far as its tables see it."""


@pytest.mark.parametrize("dies_after", ["the seal", "the first of the tables", "the last of the tables"])
def test_a_mirror_that_dies_goes_on_without_losing_or_doubling_a_change(
    database: Database, monkeypatch: pytest.MonkeyPatch, dies_after: str
) -> None:
    database.run(
        "create table a (id int primary key, v int); create table b (id int primary key, v int)",
        "create table log (v int); alter table log replica identity full",
        "insert into a select n, 0 from generate_series(1, 100) n",
    )
    database.catch_up()
    database.run(
        "begin; update a set id = id + 1000; insert into b select n, n from generate_series(1, 50) n;"
        " insert into log select generate_series(1, 50); commit"
    )
    left = {"the seal": 0, "the first of the tables": 1, "the last of the tables": 3}[dies_after]
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointCommits, "commit_sealed", _dies_after(left, CheckpointCommits.commit_sealed))
        patched.setattr(commits, "apply", _dies_after_it(commits.apply))
        with pytest.raises(Died):
            database.catch_up()
    database.run("update a set v = 1 where id = 1001", "insert into log values (51)")
    database.catch_up()
    database.require_equal("a")
    database.require_equal("b")
    assert sorted(row[0] for row in database.mirrored("log")) == list(range(1, 52))


def _dies_after(calls: int, real: Callable[..., Any]) -> Callable[..., Any]:
    left = calls

    def dying(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Died
        return real(*arguments, **more)

    return dying


def _dies_after_it(real: Callable[..., Any]) -> Callable[..., Any]:
    def dying(*arguments: Any) -> Any:
        real(*arguments)
        raise Died

    return dying
