"""txlog beside the field: deltalake, Spark's own Delta, PyIceberg and DuckLake do the same work on the same files.

Each works in a process of its own (`benchmarks.peers_work`). In: a bench and the work. Out: wall and CPU time, the peak
memory of the process with all that it started, the bytes written, and rows that are checked: a peer with other rows
makes the benchmark fail. A peer that cannot do the work, or not in time, is named with its reason.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postgres import Postgres, postgres

from benchmarks import process_tree
from benchmarks.measure import Bench, markdown_table, surroundings
from benchmarks.upsert_tables import BY_DEFAULT, WITH_VECTORS

PEERS = {
    "txlog-vectors": WITH_VECTORS,
    "txlog-copies": BY_DEFAULT,
    "deltalake": "deltalake",
    "spark-vectors": "Spark's Delta, deletion vectors",
    "spark-copies": "Spark's Delta, copies",
    "pyiceberg": "PyIceberg",
    "ducklake-sqlite": "DuckLake, SQLite",
    "ducklake-postgres": "DuckLake, PostgreSQL",
}
"""All that do row changes, and what a page calls them."""
BY_ITSELF = {"txlog-auto": "txlog, compacts by itself"}
"""Small files become large ones after commits, if the table's property says so."""
WITHOUT_INLINING = {
    "ducklake-sqlite-files": "DuckLake, SQLite, without inlining",
    "ducklake-postgres-files": "DuckLake, PostgreSQL, without inlining",
}
_ROWS_MAY_DIFFER_BY = 1e-9
"""Of a sum of doubles: each engine adds in another order."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One call of a peer. ``failure`` says why it has no answer, and then its figures are infinite."""

    wall_s: float = math.inf
    cpu_s: float = math.inf
    peak_mb: float = math.inf
    written_mb: float = math.inf
    answer: Any = None
    failure: str = ""


@dataclass
class Worker:
    """A running peer. All its files are in ``place``."""

    name: str
    place: Path
    process: subprocess.Popen[str]
    server: Postgres | None = None

    def do(self, what: str, *, limit_s: float = 600.0, **arguments: Any) -> Measured:
        """Call a method of the peer. One that takes longer than the limit is ended, with its process."""
        roots = [self.process.pid, *([self.server.pid] if self.server else [])]
        places = [self.place, *([self.server.folder] if self.server else [])]
        before, cpu_before_s = _sizes(places), process_tree.cpu_s(roots)
        with process_tree.measured_peak(roots) as peak:
            said = self._ask(json.dumps({"do": what, **arguments}), limit_s)
        if "error" in said:
            if self.name.startswith("txlog"):
                raise RuntimeError(f"{self.name}, {what}: {said['error']}")
            return Measured(failure=said["error"].splitlines()[0])
        after = _sizes(places)
        written = sum(max(0, size - before.get(path, 0)) for path, size in after.items())
        cpu_s = max(process_tree.cpu_s(roots) - cpu_before_s, said["own_cpu_s"])
        return Measured(said["wall_s"], cpu_s, peak.mb, written / 1e6, said["answer"])

    def _ask(self, line: str, limit_s: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is not None:
            return {"error": "it had ended"}
        print(line, file=self.process.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(limit_s):
                self.end()
                return {"error": f"longer than {limit_s:.0f} s"}
        answer = self.process.stdout.readline()
        if not answer:
            return {"error": f"its process ended with {self.process.wait()}"}
        said: dict[str, Any] = json.loads(answer)
        return said

    def end(self) -> None:
        """End the process and what it started, such as a Java machine."""
        for pid in reversed(process_tree.tree_of([self.process.pid])):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        self.process.wait()


@dataclass
class Field:
    """The peers of one benchmark that this machine can run."""

    bench: Bench
    names: Mapping[str, str]
    server: Postgres | None
    databases: dict[Path, str] = field(default_factory=dict)

    @contextmanager
    def worker(self, name: str, place: Path) -> Iterator[Worker]:
        """A new process of a peer, whose tables are in ``place``, which may have some already."""
        place.mkdir(exist_ok=True)
        server = self.server if "postgres" in name else None
        if server and place not in self.databases:
            self.databases[place] = server.new_database(f"lake{len(self.databases)}")
        command = [sys.executable, "-m", "benchmarks.peers_work", name, str(place), self.databases.get(place, "")]
        log = self.bench.scratch / f"{name}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                command,
                env=surroundings(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        worker = Worker(name, place, process, server)
        try:
            yield worker
        finally:
            worker.end()

    def adopt(self, worker: Worker, table: str, files: Sequence[Path]) -> None:
        """Make a table of links to files. What follows a peer's start, such as a Java machine's, is done before."""
        given = worker.place / f"{table}-given"
        given.mkdir()
        links = [given / each.name for each in files]
        for each, link in zip(files, links, strict=True):
            os.link(each, link)
        made = worker.do("adopt", table=table, files=[str(each) for each in links])
        if made.failure:
            raise RuntimeError(f"{self.names[worker.name]} made no table: {made.failure}")
        os.sync()

    def record(self, name: str, what: str, found: Measured) -> None:
        shown = {key: getattr(found, key) for key in ("wall_s", "cpu_s", "peak_mb", "written_mb", "failure")}
        self.bench.record(what=what, contestant=self.names[name], **shown)
        said = found.failure or f"CPU {found.cpu_s:.2f} s, {found.peak_mb:.0f} MB"
        self.bench.say(f"{what}, {self.names[name]}: {said}")


@contextmanager
def field_of(bench: Bench, names: Mapping[str, str]) -> Iterator[Field]:
    """The peers, without Spark if the bench has none, and without PostgreSQL where the machine has none."""
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        taken = {
            name: words
            for name, words in names.items()
            if (bench.with_spark or not name.startswith("spark")) and (server or "postgres" not in name)
        }
        yield Field(bench, taken, server)


def check(what: str, found: Sequence[Any], right: Sequence[Any]) -> None:
    """Raise if a peer's row is another one than it should be."""
    if len(found) != len(right) or not all(map(_is_same, found, right)):
        raise RuntimeError(f"{what} has other rows: {list(found)}, not {list(right)}")


def _is_same(found: object, right: object) -> bool:
    try:
        return math.isclose(float(found), float(right), rel_tol=_ROWS_MAY_DIFFER_BY)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(found) == str(right)


def _sizes(places: Sequence[Path]) -> dict[Path, int]:
    found = {}
    for place in places:
        for folder, _, names in os.walk(place):
            for name in names:
                path = Path(folder, name)
                try:
                    found[path] = path.stat().st_size
                except OSError:  # a temporary file that has gone
                    continue
    return found


def table_of(lines: Mapping[tuple[str, str], Measured], names: Mapping[str, str], reads: Mapping[Any, Measured]) -> str:
    """A line for each kind of work and peer, and the ratios to txlog's faster mode."""
    header = ["work: program", "s", "CPU s", "peak memory, MB", "written, MB", "read after it, s"]
    rows = []
    for (what, name), found in lines.items():
        mine = [each for (other, peer), each in lines.items() if other == what and peer.startswith("txlog")]
        best_s, best_mb = min(each.wall_s for each in mine), min(each.peak_mb for each in mine)
        title = f"{what}: {names[name]}"
        if found.failure:
            rows.append((title, found.failure.replace("|", "/")[:80], *[""] * 6))
            continue
        read = reads.get((what, name))
        rows.append(
            (
                title,
                *(f"{found.wall_s:.2f}", f"{found.cpu_s:.2f}", f"{found.peak_mb:.0f}", f"{found.written_mb:.1f}"),
                "" if read is None else f"{read.wall_s:.2f}",
                *(f"{found.wall_s / best_s:.2f}", f"{found.peak_mb / best_mb:.2f}"),
            )
        )
    return markdown_table([*header, "time : txlog's", "memory : txlog's"], rows)
