"""What every benchmark needs: a place to work, a place for raw samples, medians, and fresh processes.

In: samples. Out: JSON lines in the ignored folder `.benchmarks/`, and Markdown for docs/benchmarks.md.
"""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

ROOT = Path(__file__).resolve().parents[2]

Scale = TypeVar("Scale")


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of one benchmark. ``scratch`` is on the measured disk; ``raw`` takes a line per sample.

    Without ``with_spark``, a benchmark of txlog and other libraries omits the comparison with Spark.
    """

    name: str
    scratch: Path
    quick: bool
    raw: TextIO
    with_spark: bool = True

    def scale(self, full: Scale, quick: Scale) -> Scale:
        return quick if self.quick else full

    def folder(self, name: str) -> Path:
        """An unused path in the scratch folder."""
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def record(self, **fields: Any) -> None:
        load = round(os.getloadavg()[0], 2)
        self.raw.write(json.dumps({"benchmark": self.name, "load": load, **fields}) + "\n")
        self.raw.flush()

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Sample:
    wall_ms: float
    cpu_ms: float


def timed(action: Callable[[], object]) -> Sample:
    """Wall and CPU time of this process for one call."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    action()
    return Sample((time.perf_counter() - wall_s) * 1e3, (time.process_time() - cpu_s) * 1e3)


def in_turns(
    bench: Bench,
    contestants: dict[str, Callable[[], object]],
    rounds: int,
    warm_up: int = 0,
    prepare: Callable[[], object] | None = None,
    **fields: Any,
) -> dict[str, list[Sample]]:
    """``rounds`` samples of each contestant, in turns; each round begins with another one.

    Before each, outside anybody's time, it calls ``prepare`` and flushes what others left unwritten.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    names = list(contestants)
    gc.collect()
    for turn in range(-warm_up, rounds):
        at = turn % len(names)
        for name in names[at:] + names[:at]:
            if prepare is not None:
                prepare()
            os.sync()
            sample = timed(contestants[name])
            if turn >= 0:
                samples[name].append(sample)
                bench.record(**fields, contestant=name, round=turn, wall_ms=sample.wall_ms, cpu_ms=sample.cpu_ms)
    return samples


def wall_p50(samples: Iterable[Sample]) -> float:
    return statistics.median(sample.wall_ms for sample in samples)


def cpu_p50(samples: Iterable[Sample]) -> float:
    return statistics.median(sample.cpu_ms for sample in samples)


def p99(values: Iterable[float]) -> float:
    """The nearest rank: with fewer than a hundred, the largest."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


def fresh_process(*arguments: str, timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """This Python with ``arguments``, able to import the benchmarks and this checkout. Raises with its last output.

    Raises ``subprocess.TimeoutExpired`` after ``timeout_s``.
    """
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=surroundings(), capture_output=True, text=True, timeout=timeout_s)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done


def surroundings() -> dict[str, str]:
    """The environment of a process that imports the benchmarks and this checkout.

    It may keep bytecode, as pip-installed packages do: otherwise it would compile this checkout every time.
    """
    places = [str(ROOT / "integration"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def peak_mb() -> float:
    """The most memory that this process had.

    Not from getrusage, whose value begins with the memory of the starting process.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table: the first column to the left, numbers to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def best_in_bold(values: Iterable[float], texts: Iterable[str], *, is_most: bool = False) -> list[str]:
    """``texts`` with the text of the least (or greatest) value in bold; in a tie, as the texts show it, all of them."""
    found = [*zip(values, texts, strict=True)]
    _, best = (max if is_most else min)(found)
    return [f"**{text}**" if _first_of(text) == _first_of(best) else text for _, text in found]


def _first_of(text: str) -> str:
    return text.partition(" / ")[0].partition(" (")[0]


def times(mine: float, other: float) -> str:
    """How many times as large ``other`` is."""
    return f"{other / mine:.1f}x"
