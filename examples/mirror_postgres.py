"""A PostgreSQL database as Delta tables: a snapshot, then its changes, each exactly once.

In: the address of an empty database in ``DATABASE_URL``, on a server with ``wal_level = logical``. The database has the
orders of a shop, and their lines. The mirror is a process of its own, which is killed while the shop goes on, and
started again. In the end, both tables equal the database, and a new order and its lines come together.
"""

import os
import subprocess
import sys
import tempfile
import time

import psycopg

import txlog
from txlog.mirror.postgres import Mirror

ORDERS, LINES = 600, 3


def start(address: str, target: str) -> subprocess.Popen[bytes]:
    """The mirror as a process: the command `txlog mirror` does the same."""
    return subprocess.Popen([sys.executable, __file__, address, target])


def rows_of(database: "psycopg.Connection[tuple[object, ...]]", name: str) -> list[tuple[object, ...]]:
    return sorted(database.execute(f"select * from {name}").fetchall(), key=repr)


def main() -> None:
    address = os.environ["DATABASE_URL"]
    target = tempfile.mkdtemp()
    database = psycopg.connect(address, autocommit=True)
    database.execute("create table orders (id int primary key, customer text, paid numeric(10, 2))")
    database.execute("create table lines (order_id int, line int, item text, primary key (order_id, line))")
    database.execute(f"insert into orders select n, 'customer ' || n % 97, 0 from generate_series(1, {ORDERS}) n")

    mirror = start(address, target)
    shop = txlog.Catalog(target)
    for number in range(1, ORDERS + 1):
        with database.transaction():
            database.execute("update orders set paid = paid + 9.90 where id = %s", [number])
            for line in range(LINES):
                database.execute("insert into lines values (%s, %s, 'book')", [number, line])
        if number == ORDERS // 2:
            while not shop.exists("public.lines") or not shop.table("public.lines").count():
                time.sleep(0.05)
            mirror.kill()
            mirror.wait()
            print("killed with", shop.table("public.lines").count(), "lines in the mirror")
            mirror = start(address, target)
    database.execute("delete from orders where id % 100 = 0")
    mirror.terminate()
    mirror.wait()

    Mirror(address, target).run(until_current=True)  # what is left
    for name in ("orders", "lines"):
        mirrored = shop.table(f"public.{name}").to_arrow().to_pylist()
        assert sorted((tuple(row.values()) for row in mirrored), key=repr) == rows_of(database, name)
        print(f"{name}: {len(mirrored):,} rows, as in the database")


if __name__ == "__main__":
    if sys.argv[1:]:
        Mirror(*sys.argv[1:], max_delay_s=0.5).run()
    else:
        main()
