"""Work after a commit in a process that ends right after it, or that was forked meanwhile: real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import txlog

PREPARE = """
import os, sys, threading
import pyarrow as pa
import txlog

uri = sys.argv[1]
ROW = pa.table({"id": pa.array([1], pa.int64())})
SLOW
table = txlog.Table.create(uri, ROW.schema, properties={"delta.checkpointInterval": "10", "txlog.iceberg": "v2"})
for _ in range(9):
    table.append(ROW)
    table._open_table.post_commit.drain()
table = txlog.Table.open(uri)
"""
# As on an object store: many commits are read by a pool of threads.
SLOW = """
from msgspec.structs import replace
from txlog.core.store._local_store import LocalLogStore
LocalLogStore.capabilities = replace(LocalLogStore.capabilities, has_cheap_calls=False)
"""
APPEND = "table.append(ROW)\n"
ENDINGS = {
    "its last line": APPEND,
    "sys.exit": APPEND + "sys.exit(0)",
    "an exception": APPEND + "raise SystemError('the job fails after its commit')",
    "a thread pool that still works": """
from concurrent.futures import ThreadPoolExecutor
import time
def late():
    time.sleep(0.5)  # until the interpreter waits for this thread
    table.append(ROW)
ThreadPoolExecutor(1).submit(late)
""",
    "an exit handler": "import atexit\natexit.register(table.append, ROW)",
    "the end of a forked child": """
if not (child := os.fork()):
    table.append(ROW)
    sys.exit(0)
os.waitpid(child, 0)
""",
    "the end of a multiprocessing child": """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=table.append, args=(ROW,))
child.start()
child.join()
""",
}


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(each, marks=pytest.mark.hunt(part="ends") if each in ("sys.exit", "an exception") else ())
        for each in ENDINGS
    ],
)
def test_a_process_that_ends_after_its_commit_has_done_the_work_that_follows_it(tmp_path: Path, ending: str) -> None:
    root = tmp_path / "t"
    done = run(PREPARE.replace("SLOW", SLOW) + ENDINGS[ending], str(root))
    assert "failed, the commit is safe" not in done.stderr
    assert (root / "_delta_log" / f"{10:020}.checkpoint.parquet").exists(), done.stderr
    assert (root / "_delta_log" / f"{10:020}.crc").exists(), done.stderr
    exported = str(txlog.Table.open(root).export_iceberg())
    assert "version=10, nothing new to export" in exported, (exported, done.stderr)


IMPORTS = """
import builtins, importlib, os, signal, sys, threading, txlog
from txlog.core import whole_import
txlog.__path__.append(sys.argv[1])
whole_import.IMPORTS_MAX_S = float(sys.argv[2])
builtins.begun = threading.Event()
threading.Thread(target=importlib.import_module, args=("txlog.slow",)).start()
builtins.begun.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    from txlog.slow import WHOLE
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="NOT TESTED: needs fork")
@pytest.mark.parametrize("waits_s", ["60", "0"], ids=["after the import", "in the middle of it"])
def test_a_process_forked_while_a_thread_imports_a_module_of_the_library_has_the_whole_module(
    tmp_path: Path, waits_s: str
) -> None:
    """Otherwise the child waits for the module's lock, whose thread it does not have."""
    (tmp_path / "slow.py").write_text("import time\nbegun.set()\ntime.sleep(0.5)\nWHOLE = True\n")
    done = run(IMPORTS, str(tmp_path), waits_s)
    assert done.stdout.strip() == "0", done.stderr


HELD_LOCKS = """
from txlog.core import parallel
table.append(ROW)
table._open_table.post_commit.drain()
held = list(parallel._locks)
print(len(held), flush=True)
for lock in held:
    taken, may_go_on = threading.Event(), threading.Event()
    def hold():
        with lock:
            taken.set()
            may_go_on.wait()
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    child = os.fork()
    if not child:
        table.append(ROW)
        table._open_table.post_commit.drain()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    may_go_on.set()
    thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_process_forked_while_a_thread_holds_any_lock_appends_exports_and_ends(tmp_path: Path) -> None:
    done = run(PREPARE.replace("SLOW", "") + HELD_LOCKS, str(tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 8


FORKED_AT_EACH_ACQUISITION = """
import itertools, signal, types
from txlog.core import parallel

class Traced:
    def __init__(self):
        self.lock = threading.RLock()
        self.release, self._is_owned = self.lock.release, self.lock._is_owned
        self._at_fork_reinit = self.lock._at_fork_reinit
    def __enter__(self):
        self.lock.acquire()
        if next(acquisitions) == at:
            held.set()
            may_go_on.wait()
    def __exit__(self, *_):
        self.lock.release()

def fork_once_held():
    held.wait()
    if is_over:
        return
    child = os.fork()
    if not child:
        may_go_on.set()
        signal.alarm(30)
        table.append(ROW)
        for work in (table._open_table.post_commit, *background._all):
            work.drain()
        os._exit(0)
    ended.append(os.waitpid(child, 0)[1])
    may_go_on.set()

from txlog.core import background
parallel.threading = types.SimpleNamespace(**{**vars(threading), "RLock": Traced})
ended, is_over = [], False
for at in itertools.count():
    acquisitions = itertools.count()
    held, may_go_on = threading.Event(), threading.Event()
    forker = threading.Thread(target=fork_once_held)
    forker.start()
    table = txlog.Table.open(uri)
    table.append(ROW)
    for work in list(background._all):
        work.drain()
    is_over = not held.is_set()
    held.set()
    forker.join()
    if is_over:
        break
print(ended)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.hunt(part="ends")
def test_a_process_that_another_thread_forks_at_each_acquisition_of_a_lock_appends_and_exports(tmp_path: Path) -> None:
    done = run(PREPARE.replace("SLOW", "") + FORKED_AT_EACH_ACQUISITION, str(tmp_path / "t"))
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    assert ended == [0] * len(ended)
    assert len(ended) >= 8


FORKED_DURING_AN_EXPORT = """
from txlog.iceberg.exporter import IcebergExporter
begun, may_go_on = threading.Event(), threading.Event()
attempt = IcebergExporter._attempt
def held(self, *arguments, **options):
    begun.set()
    may_go_on.wait()
    return attempt(self, *arguments, **options)
IcebergExporter._attempt = held
table.append(ROW)
begun.wait()
child = os.fork()
if not child:
    IcebergExporter._attempt = attempt
    table.append(ROW)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
may_go_on.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_process_forked_during_an_export_appends_exports_and_ends(tmp_path: Path) -> None:
    done = run(PREPARE.replace("SLOW", "") + FORKED_DURING_AN_EXPORT, str(tmp_path / "t"))
    assert done.returncode == 0, done.stderr


IN_EXIT_HANDLERS = """
import atexit, json

folder = sys.argv[1]
SLOW
DAYS = pa.table({"id": list(range(12)), "day": list(range(12))})
VECTORS = {"delta.enableDeletionVectors": "true"}
table = txlog.Table.create(folder + "/t", DAYS.schema, ["day"], VECTORS)
table.append(DAYS)
table.delete("id = 1")
table.optimize()
kept = txlog.Table.create(folder + "/kept", DAYS.schema, properties=VECTORS)
for _ in range(6):
    kept.append(DAYS)
    kept.delete("id = 5")
txlog.Table.create(folder + "/sunk", DAYS.schema)
HANDLERS

found = {}
def handled(name, call):
    def handler():
        try:
            call()
            found[name] = "done"
        except BaseException as error:
            found[name] = repr(error)
    atexit.register(handler)

atexit.register(lambda: print(json.dumps(found)))  # the last one
for name, call in CALLS.items():
    handled(name, call)
"""
HANDLERS = """
def sink():
    sink = txlog.Sink(txlog.Table.open(folder + "/sunk"), "app")
    staged = []
    for task_id in range(6):
        with sink.task(1, task_id=task_id) as task:
            task.write(DAYS)
        staged.append(task.committable)
    sink.stage(*staged)
    sink.prepare(1, range(6))
    assert sink.commit(1).version == 1

def sound(table):
    assert table.verify().findings == ()

def large_append():
    rows = pa.table({"id": pa.array(range(400_000)), "day": pa.array([each % 6 for each in range(400_000)])})
    table.append(rows)

CALLS = {
    "make a table": lambda: txlog.Table.create(folder + "/new", DAYS.schema),
    "append many files": lambda: table.append(DAYS),
    "append with encoders": large_append,
    "upsert": lambda: kept.upsert(pa.table({"id": [3, 99], "day": [1, 2]}), ["id"]),
    "merge into vectors": lambda: kept.delete("id = 3"),
    "read": lambda: kept.snapshot(3).to_arrow(),
    "verify": lambda: sound(table),
    "verify vectors": lambda: sound(kept),
    "sink": sink,
    "restore": lambda: kept.restore(version=9),
    "vacuum": lambda: table.vacuum(dry_run=True),
    "optimize": lambda: kept.optimize(),
    "probe": lambda: txlog.probe_store(folder + "/probed"),
    "export": lambda: table.export_iceberg(),
}
"""


def test_whatever_uses_threads_works_in_exit_handlers_too(tmp_path: Path) -> None:
    program = "import sys, pyarrow as pa, txlog\n" + IN_EXIT_HANDLERS.replace("SLOW", SLOW).replace(
        "HANDLERS", HANDLERS
    )
    done = run(program, str(tmp_path))
    found = json.loads(done.stdout)
    assert len(found) == 14
    assert {name: what for name, what in found.items() if what != "done"} == {}, done.stderr
