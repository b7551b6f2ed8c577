"""A job of many processes writes one table exactly once: workers and the coordinator are killed in the middle.

Each checkpoint has 4 tasks; each task is a process that writes its rows and stages them. When all tasks of a checkpoint
have staged, the coordinator seals and commits it. Some workers are killed with kill -9 and started again; the
coordinator is killed between the seal and the commit. In the end, every row is in the table, once.
"""

import multiprocessing
import os
import signal
import tempfile

import pyarrow as pa

import txlog

APP_ID = "orders-ingest"  # names this job for good: its checkpoints are counted under this name
CHECKPOINTS, TASKS, ROWS = 3, 4, 1000
NEVER = -1

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["pyarrow.parquet", "txlog.core.sink._sink", "txlog.table"]
)  # imported once, not by each


def work(uri: str, checkpoint_id: int, task_id: int, attempt: int) -> None:
    """One attempt of one task: when it ends, its rows are durable in the table's folder, and not visible yet."""
    sink = txlog.Sink(txlog.Table.open(uri), APP_ID)
    with sink.task(checkpoint_id, task_id, attempt) as task:
        task.write(pa.table({"checkpoint": [checkpoint_id] * ROWS, "task": [task_id] * ROWS, "n": range(ROWS)}))
    if (checkpoint_id + task_id) % 3 == 0 and attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    sink.stage(task.committable)


def coordinate(uri: str, dies_at: int) -> None:
    """Run the whole job, beginning with what an earlier run left."""
    sink = txlog.Sink(txlog.Table.open(uri), APP_ID)
    recovery = sink.recover()
    for checkpoint_id in recovery.partial:  # never sealed: its tasks run again, from the start
        sink.discard(checkpoint_id)
    last = sink.last_checkpoint_id()
    print(f"coordinator {os.getpid()}: {recovery}; the last checkpoint in the table is {last}", flush=True)
    for checkpoint_id in range(0 if last is None else last + 1, CHECKPOINTS):
        attempts = run_tasks(uri, checkpoint_id)
        sink.prepare(checkpoint_id, attempts, fingerprint=f"offsets of {checkpoint_id}")
        if checkpoint_id == dies_at:
            print(
                f"coordinator {os.getpid()}: killed, with checkpoint {checkpoint_id} sealed, not committed", flush=True
            )
            os.kill(os.getpid(), signal.SIGKILL)
        print(f"checkpoint {checkpoint_id}: {sink.commit(checkpoint_id)}", flush=True)


def run_tasks(uri: str, checkpoint_id: int) -> dict[int, int]:
    """Run all tasks at once, and rerun those that were killed. Returns the successful attempt of each task."""
    succeeded: dict[int, int] = {}
    attempt = 0
    while len(succeeded) < TASKS:
        missing = [task_id for task_id in range(TASKS) if task_id not in succeeded]
        workers = {n: processes.Process(target=work, args=(uri, checkpoint_id, n, attempt)) for n in missing}
        for worker in workers.values():
            worker.start()
        for task_id, worker in workers.items():
            worker.join()
            if worker.exitcode == 0:
                succeeded[task_id] = attempt
            else:
                print(f"task {task_id} of checkpoint {checkpoint_id}: attempt {attempt} was killed", flush=True)
        attempt += 1
    return succeeded


if __name__ == "__main__":
    uri = tempfile.mkdtemp() + "/orders"
    txlog.Table.create(uri, pa.schema([("checkpoint", pa.int64()), ("task", pa.int64()), ("n", pa.int64())]))
    for dies_at in (1, NEVER):
        coordinator = processes.Process(target=coordinate, args=(uri, dies_at))
        coordinator.start()
        coordinator.join()

    rows = txlog.Table.open(uri).snapshot().to_arrow()
    distinct = rows.group_by(["checkpoint", "task", "n"]).aggregate([]).num_rows
    expected = CHECKPOINTS * TASKS * ROWS
    print(f"rows expected {expected:,}, in the table {rows.num_rows:,}, distinct {distinct:,}")
    assert rows.num_rows == distinct == expected
    assert os.listdir(f"{uri}/_txlog/staging") == []
