"""A mirror and its database, both killed while random transactions run: in the end the tables are equal."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres import MIRRORED, NO_SERVER, Postgres, postgres

import txlog
from txlog.mirror.postgres import Mirror

SECONDS = int(os.environ.get("TXLOG_MIRROR_SECONDS", "60"))
TABLES = ("plain", "pairs", "docs", "places")
KEYS = 200


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres(MIRRORED) as found:
        if found is None:
            pytest.skip(NO_SERVER)
        yield found


class Programs:
    """Random transactions of several statements, of which some are rolled back."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._columns = 0

    def transaction(self) -> list[str]:
        count = self._chance.choice([1, 1, 2, 5, 20])
        return [self._statement() for _ in range(count)]

    def _statement(self) -> str:
        chance = self._chance
        key, other = chance.randrange(KEYS), chance.randrange(KEYS)
        large = f"repeat(md5('{chance.random()}'), {chance.choice([1, 100])})"
        return chance.choice(
            [
                f"insert into plain values ({key}, 'new') on conflict (id) do update set v = excluded.v || plain.id",
                f"update plain set v = 'u{other}' where id between {key} and {key + 5}",
                f"update plain set id = id + {KEYS} where id = {key}",
                f"delete from plain where id % 7 = {key % 7} and id < {key}",
                f"insert into pairs values ({key}, 'k{other % 3}', {other}) on conflict do nothing",
                f"update pairs set b = b || 'x' where a = {key} and length(b) < 20",
                f"delete from pairs where a > {key + 100}",
                f"insert into docs values ({key}, 't', {large}) on conflict (id) do update set body = excluded.body",
                f"update docs set title = 't{other}' where id between {key} and {key + 20}",
                f"update docs set id = -1 - id where id = {key} and not exists (select from docs where id = {~key})",
                f"delete from docs where id = {key}",
                f"insert into places select {key}, 'p' where not exists (select from places where id = {key})",
                f"update places set id = {KEYS} - id",
                f"update places set v = v || 'z' where id = {key} and length(v) < 9",
                f"delete from places where id = {key}",
                f"insert into log values ({other})",
                *(["truncate plain", "truncate pairs, docs"] if chance.random() < 0.05 else []),
                *([self._definition()] if chance.random() < 0.05 else []),
            ]
        )

    def _definition(self) -> str:
        self._columns += 1
        return f"alter table pairs add column c{self._columns} int default {self._columns}"


def make(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "create table plain (id int primary key, v text);"
            "create table pairs (a int, b text, v int, primary key (b, a));"
            "create table docs (id int primary key, title text, body text);"
            "alter table docs alter body set storage external;"
            "create table places (id int, v text, primary key (id) deferrable initially deferred);"
            "alter table places replica identity full;"
            "create table log (n int); alter table log replica identity full"
        )


@pytest.mark.hunt(part="mirror")
def test_nothing_is_lost_or_doubled_whoever_is_killed(server: Postgres, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    address, target = server.new_database("shop"), tmp_path / "mirror"
    make(address)
    programs, kills = Programs(chance), 0
    command = [sys.executable, "-m", "txlog", "mirror", address, str(target), "--max-delay", "0.05", "--patience", "60"]
    mirror = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    connection: psycopg.Connection[Any] = psycopg.connect(address)
    end_s = time.monotonic() + SECONDS
    while time.monotonic() < end_s:
        one = connection.transaction(force_rollback=chance.random() < 0.1)
        with contextlib.suppress(psycopg.IntegrityError), one:
            for statement in programs.transaction():
                connection.execute(statement)
        if chance.random() < 0.02:
            kills += 1
            if chance.random() < 0.3:
                connection.close()
                server.stop(signal.SIGQUIT)
                server.start()
                connection = psycopg.connect(address)
            else:
                mirror.kill()
        if mirror.poll() is not None:
            assert mirror.returncode == -signal.SIGKILL, mirror.stderr and mirror.stderr.read()
            mirror = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    mirror.kill()
    mirror.wait()
    Mirror(address, target).run(until_current=True)
    shop = txlog.Catalog(target)
    for name in TABLES:
        rows = sorted(map(repr, shop.table(f"public.{name}").to_arrow().to_pylist()))
        names = ", ".join(shop.table(f"public.{name}").schema.names)
        found = connection.execute(f"select {names} from {name}")
        columns = [each.name for each in found.description or ()]
        assert rows == sorted(repr(dict(zip(columns, row, strict=True))) for row in found), (name, seed)
    inserted = shop.table("public.log").to_arrow(where="_change = '+I'")["n"].to_pylist()
    assert sorted(inserted) == sorted(row[0] for row in connection.execute("select n from log")), seed
    print(f"{kills} kills, {len(inserted):,} rows in the log, seed {seed}")
