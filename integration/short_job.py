"""A typical scheduled job: it opens a table, appends one row and ends. The first argument says how it ends.

In: the ending, a table's location and its storage options as JSON. Out: nothing but the commit and what follows it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pyarrow as pa

import txlog

__all__ = ["ENDINGS", "ROW"]

ROW = pa.table({"id": pa.array([1], pa.int64())})


def append(uri: str, storage_options: dict[str, str]) -> None:
    txlog.Table.open(uri, storage_options=storage_options).append(ROW)


def last_line(*place: object) -> None:
    append(*place)  # type: ignore[arg-type]


def system_exit(*place: object) -> None:
    append(*place)  # type: ignore[arg-type]
    sys.exit(0)


def exception(*place: object) -> None:
    append(*place)  # type: ignore[arg-type]
    raise ValueError("the job fails after its commit")


def thread_pool(*place: object) -> None:
    def late() -> None:
        time.sleep(0.5)  # until the interpreter waits for this thread
        append(*place)  # type: ignore[arg-type]

    ThreadPoolExecutor(1).submit(late)


def exit_handler(*place: object) -> None:
    atexit.register(append, *place)


def spawned_child(*place: object) -> None:
    _in_child("spawn", *place)


def forked_child(*place: object) -> None:
    _in_child("fork", *place)


def pool_worker(*place: object) -> None:
    """The end of the block terminates the workers as soon as all results are there."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.apply(append, place)


def closed_pool_worker(*place: object) -> None:
    pool = multiprocessing.get_context("spawn").Pool(1)
    pool.apply(append, place)
    pool.close()
    pool.join()


def executor_worker(*place: object) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        pool.submit(append, *place).result()  # type: ignore[arg-type]


def asyncio_program(*place: object) -> None:
    asyncio.run(asyncio.to_thread(append, *place))  # type: ignore[arg-type]


def hook(*place: object) -> None:
    """The commit that makes the checkpoint due is made by a hook of another table."""
    uri, storage_options = place
    audit = txlog.Table.create(f"{uri}-audited", ROW.schema, storage_options=storage_options)  # type: ignore[arg-type]

    class Audit(txlog.CommitHooks):
        def on_commit(self, table: str, result: txlog.WriteResult) -> None:
            append(*place)  # type: ignore[arg-type]

    txlog.Table.open(audit.uri, storage_options=storage_options, hooks=Audit()).append(ROW)  # type: ignore[arg-type]


def killed(*place: object) -> None:
    """Not one of the endings that wait: nothing that Python registers runs."""
    table = txlog.Table.open(place[0], storage_options=place[1])  # type: ignore[arg-type]
    table._open_table.post_commit._background.begin = lambda *_, **__: os._exit(0)  # type: ignore[method-assign]
    table.append(ROW)
    os._exit(0)


def _in_child(method: str, *place: object) -> None:
    child = multiprocessing.get_context(method).Process(target=append, args=place)  # type: ignore[attr-defined]
    child.start()
    child.join()


ENDINGS = (
    *(last_line, system_exit, exception, thread_pool, exit_handler, spawned_child, forked_child, pool_worker),
    *(closed_pool_worker, executor_worker, asyncio_program, hook),
)

if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
