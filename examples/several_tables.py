"""A stream that fills two tables: each has each checkpoint once, and neither is left behind when the job is killed.

Each checkpoint has orders for one table and their lines for another, and is one transaction over both. The job is
killed when checkpoint 1 is sealed and in no table yet; its next run ends it.
"""

import multiprocessing
import os
import signal
import tempfile

import pyarrow as pa

import txlog

APP_ID = "shop-ingest"  # names this job for good
CHECKPOINTS, ORDERS, LINES = 3, 100, 3


def run(uri: str, dies_at: int | None) -> None:
    """The whole job, beginning with what an earlier run left."""
    orders = txlog.Sink(txlog.Table.open(f"{uri}/orders"), APP_ID)
    lines = txlog.Sink(txlog.Table.open(f"{uri}/lines"), APP_ID)
    group = txlog.SinkGroup(orders, lines)
    recoveries = group.recover()
    print("recovered:", *recoveries, flush=True)
    for checkpoint_id in {each for recovery in recoveries for each in recovery.partial}:
        group.discard(checkpoint_id)
    last = group.last_checkpoint_id()
    for checkpoint_id in range(0 if last is None else last + 1, CHECKPOINTS):
        first = checkpoint_id * ORDERS
        ids = range(first, first + ORDERS)
        with orders.task(checkpoint_id) as of_orders, lines.task(checkpoint_id) as of_lines:
            of_orders.write(pa.table({"id": ids}))
            of_lines.write(pa.table({"order_id": [each for each in ids for _ in range(LINES)]}))
        committables = [[of_orders.committable], [of_lines.committable]]
        group.prepare(checkpoint_id, committables, fingerprint=f"offsets {first} to {first + ORDERS}")
        if checkpoint_id == dies_at:
            print("killed, with checkpoint 1 sealed, not committed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        print(f"checkpoint {checkpoint_id}:", *group.commit(checkpoint_id), flush=True)


if __name__ == "__main__":
    uri = tempfile.mkdtemp()
    txlog.Table.create(f"{uri}/orders", "id bigint")
    txlog.Table.create(f"{uri}/lines", "order_id bigint")
    for dies_at in (1, None):
        job = multiprocessing.get_context("spawn").Process(target=run, args=(uri, dies_at))
        job.start()
        job.join()
    orders = txlog.Table.open(f"{uri}/orders").to_arrow()
    lines = txlog.Table.open(f"{uri}/lines").to_arrow()
    print(f"orders {orders.num_rows:,}, lines {lines.num_rows:,}")
    assert sorted(orders["id"].to_pylist()) == list(range(CHECKPOINTS * ORDERS))
    assert sorted(lines["order_id"].to_pylist()) == sorted([*range(CHECKPOINTS * ORDERS)] * LINES)
