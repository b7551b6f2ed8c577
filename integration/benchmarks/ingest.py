"""Many clients append small batches through `txlog serve`: how many a second, and how long each waits for its answer.

The clients are threads of one process, which send a batch, wait for its answer and send the next, so their work counts
too. On a disk, and on an S3 server behind a slow network. Beside it, what the same rows cost without a service: a
process for each append, and one handle of deltalake and of DuckLake that appends batch after batch. Rows are counted.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as fl
import pyarrow.parquet as pq
from serve_process import ServeProcess, putting
from servers import start_server
from slow_network import slow_network

import txlog
from benchmarks.measure import Bench, markdown_table
from benchmarks.peers import PEERS, field_of
from benchmarks.peers_work import batches_of

TITLE = "Small appends of many clients"

SCHEMA = pa.schema([("client", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
DELAY_S = 0.025
PEERS_HERE = {name: PEERS[name] for name in ("deltalake", "ducklake-sqlite")}


class Load(NamedTuple):
    """What the clients do. ``pause_s`` is between an answer and the next batch; ``in_memory``: the tables and the
    journal are in the memory's file system, whose syncs cost nothing."""

    what: str
    clients: int
    rows: int
    answer: str = "committed"
    is_far: bool = False
    pause_s: float = 0.0
    in_memory: bool = False


class Done(NamedTuple):
    """What came of it: the seconds that each answer took, the versions that were made, the service's memory in MB after
    the first and after the last tenth of the time."""

    waits_s: Sequence[float]
    seconds: float
    versions: int
    memory_mb: tuple[float, float]

    def wait_ms(self, part: float) -> float:
        return 1e3 * self.waits_s[min(len(self.waits_s) - 1, int(part * len(self.waits_s)))]


LOADS = (
    Load("disk, 1 row", 1, 1),
    Load("disk, 1 row", 64, 1),
    Load("disk, 1 row, durable", 64, 1, "durable"),
    Load("memory, 1 row, durable", 64, 1, "durable", in_memory=True),
    Load("disk, 1 row every 0.2 s, durable", 64, 1, "durable", pause_s=0.2),
    Load("memory, 1 row every 0.2 s, durable", 64, 1, "durable", pause_s=0.2, in_memory=True),
    Load("disk, 1,000 rows", 64, 1000),
    Load("store 50 ms away, 1 row", 64, 1, is_far=True),
    Load("store 50 ms away, 1 row, durable", 64, 1, "durable", is_far=True),
)


def run(bench: Bench) -> str:
    loads, seconds = bench.scale((LOADS, 20.0), ((LOADS[0], Load("disk, 1 row, durable", 4, 1, "durable")), 1.0))
    lines = []
    for load in loads:
        done = measured(bench, load, seconds)
        batches = len(done.waits_s) / done.seconds
        bench.record(
            **load._asdict(),
            batches_per_s=batches,
            p50_ms=done.wait_ms(0.5),
            p99_ms=done.wait_ms(0.99),
            versions=done.versions,
            memory_mb=done.memory_mb,
        )
        bench.say(f"{load}: {batches:.0f} batches/s, p50 {done.wait_ms(0.5):.1f} ms, p99 {done.wait_ms(0.99):.1f} ms")
        lines.append(
            [
                *(f"txlog serve: {load.what}", str(load.clients), f"{batches:,.0f}", f"{batches * load.rows:,.0f}"),
                *(f"{done.wait_ms(0.5):.1f}", f"{done.wait_ms(0.99):.1f}", f"{done.versions / done.seconds:,.1f}"),
                f"{done.memory_mb[0]:.0f}, {done.memory_mb[1]:.0f}",
            ]
        )
    lines += [
        _only_answers(bench, seconds),
        _processes(bench, bench.scale(20, 2)),
        *_peers(bench, bench.scale(20.0, 2.0)),
    ]
    header = ["", "clients", "batches/s", "rows/s", "p50, ms", "p99, ms", "versions/s", "memory, MB"]
    return (
        f"{markdown_table(header, lines)}\n\n{seconds:.0f} s each. Clients are threads of one process beside the"
        " service, over Arrow Flight; each sends its next batch when it has the answer, or after the pause. Memory is"
        " the service's after a tenth of the time and at its end. In memory, the tables and the journal are in the"
        " memory's file system, where a sync costs nothing. The others append batches of one row to a table on the"
        f" disk, one after the other. The store is versitygw behind {1e3 * DELAY_S:.0f} ms of delay each way."
    )


def measured(bench: Bench, load: Load, seconds: float) -> Done:
    """The load on a new table and a new service."""
    with ExitStack() as stack:
        folder = bench.folder("serve")
        folder.mkdir()
        if load.in_memory:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        uri, options = str(folder / "tables"), {}
        if load.is_far:
            server = stack.enter_context(
                start_server("versitygw", Path(stack.enter_context(tempfile.TemporaryDirectory())))
            )
            network = stack.enter_context(slow_network(server.url, DELAY_S))
            options = {**server.storage_options, "endpoint_url": network.url}
            uri = f"s3://{server.bucket}/tables"
        table = txlog.Catalog(uri, storage_options=options).create("events", SCHEMA)
        given = [text for pair in options.items() for text in ("--storage-option", "=".join(pair))]
        service = ServeProcess(uri, "--journal", folder / "journal", *given)
        try:
            done = _sent(service.flight, service.process.pid, load, seconds)._replace(versions=table.snapshot().version)
        finally:
            assert service.stop() == 0
        rows = txlog.Table.open(table.uri, storage_options=options).snapshot().count()
        if rows != len(done.waits_s) * load.rows:
            raise AssertionError(f"{load}: {len(done.waits_s) * load.rows} rows were answered, the table has {rows}")
        return done


def _sent(address: str, pid: int, load: Load, seconds: float) -> Done:
    """What clients send to a server, and how long each waits."""
    waits_s: list[list[float]] = [[] for _ in range(load.clients)]
    gate, over = threading.Barrier(load.clients + 1), threading.Event()

    def send(client_number: int) -> None:
        numbers = pa.array(range(load.rows), pa.int64())
        columns = [pa.array([client_number] * load.rows, pa.int64()), numbers, pa.array(["x" * 20] * load.rows)]
        batch = pa.record_batch(columns, schema=SCHEMA)
        with fl.connect(address) as client:
            terms: dict[str, Any] = {"table": "events", "stream": str(client_number), "first": 0, "answer": load.answer}
            writer, answers = putting(client, terms, SCHEMA)
            gate.wait()
            over.wait(load.pause_s * client_number / load.clients)
            while not over.is_set():
                began_s = time.perf_counter()
                writer.write_batch(batch)
                said = json.loads(answers.read().to_pybytes())
                waits_s[client_number].append(time.perf_counter() - began_s)
                assert "error" not in said, said
                if load.pause_s:
                    over.wait(load.pause_s)
            writer.close()

    threads = [threading.Thread(target=send, args=(number,)) for number in range(load.clients)]
    for each in threads:
        each.start()
    gate.wait()
    began_s = time.perf_counter()
    over.wait(seconds / 10)
    first_mb = _memory_mb(pid)
    over.wait(seconds * 0.9)
    last_mb = _memory_mb(pid)
    over.set()
    for each in threads:
        each.join()
    took_s = time.perf_counter() - began_s
    return Done(sorted(itertools.chain.from_iterable(waits_s)), took_s, 0, (first_mb, last_mb))


_ANSWERS = """
import pyarrow as pa
import pyarrow.flight as fl

class Server(fl.FlightServerBase):
    def do_put(self, context, descriptor, reader, writer):
        for _ in reader:
            writer.write(pa.py_buffer(b"{}"))

server = Server("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""


def _only_answers(bench: Bench, seconds: float) -> list[str]:
    """A server that does nothing but answer: what Flight and the clients cost here."""
    load = Load("a Flight server that only answers", 64, 1)
    with subprocess.Popen([sys.executable, "-c", _ANSWERS], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            done = _sent(f"grpc://127.0.0.1:{int(server.stdout.readline())}", server.pid, load, seconds)
        finally:
            server.kill()
    rate = f"{len(done.waits_s) / done.seconds:,.0f}"
    bench.record(peer=load.what, p50_ms=done.wait_ms(0.5), p99_ms=done.wait_ms(0.99), batches=len(done.waits_s))
    return [load.what, "64", rate, rate, f"{done.wait_ms(0.5):.1f}", f"{done.wait_ms(0.99):.1f}", "", ""]


def _processes(bench: Bench, count: int) -> list[str]:
    """A process for each append, as a script or a function makes it."""
    uri = str(bench.folder("processes"))
    txlog.Table.create(uri, SCHEMA)
    program = (
        "import pyarrow as pa, txlog, sys\n"
        "txlog.Table.open(sys.argv[1]).append(pa.table({'client': [0], 'n': [0], 'text': ['x' * 20]}))"
    )
    began_s = time.perf_counter()
    for _ in range(count):
        subprocess.run([sys.executable, "-c", program, uri], check=True)
    each_s = (time.perf_counter() - began_s) / count
    bench.record(peer="a process for each append", each_s=each_s)
    return ["a process for each append", "1", f"{1 / each_s:.1f}", f"{1 / each_s:.1f}", "", "", f"{1 / each_s:.1f}", ""]


def _peers(bench: Bench, within_s: float) -> list[list[str]]:
    """Other programs, each with one handle, that append one row at a time."""
    first = bench.folder("first.parquet")
    (rows,) = batches_of(1, 1)
    pq.write_table(rows.slice(0, 0), first)
    lines = []
    with field_of(bench, PEERS_HERE) as field:
        for name in field.names:
            with field.worker(name, bench.folder(f"place-{name}")) as worker:
                field.adopt(worker, "t", [first])
                done = worker.do("append_batches", table="t", batches=100_000, rows_each=1, within_s=within_s)
                field.record(name, "append", done)
                if done.failure:
                    raise RuntimeError(done.failure)
                rate = f"{done.answer / done.wall_s:,.0f}"
                lines.append([f"{field.names[name]}: one handle", "1", rate, rate, "", "", rate, f"{done.peak_mb:.0f}"])
    return lines


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
