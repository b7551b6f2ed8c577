"""The runner: runs all benchmarks or the named ones, and writes their tables to the terminal and docs/benchmarks.md.

make bench                                         everything, at full scale
PYTHONPATH=integration python -m benchmarks append bulk
PYTHONPATH=integration python -m benchmarks --quick     tiny scales: does it run? The page stays as it is
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from clean_environment import clean

from benchmarks import machine
from benchmarks.measure import ROOT, Bench

BENCHMARKS = (
    *(
        "append",
        "opening",
        "writers",
        "identity",
        "fairness",
        "together",
        "group_commit",
        "paced",
        "ingest",
        "mirror",
        "round_trips",
        "managed",
        "bulk",
        "upsert",
        "upsert_files",
        "merges",
        "changes",
        "compaction",
        "vacuum",
        "branches",
        "several_tables",
        "spark_write",
        "spark_append",
        "spark_upkeep",
        "engines",
    ),
    *(
        "stream",
        "stream_growth",
        "sustained",
        "log_scale",
        "growth",
        "reading",
        "read_stream",
        "iceberg",
        "variants",
        "sql",
        "week",
    ),
    *("merge_micro", "lineitem_merges", "small_batches", "usable_rates", "longevity"),
)
PAGE = ROOT / "docs" / "benchmarks.md"
OUTPUT = ROOT / ".benchmarks"


def main() -> None:
    clean(os.environ)
    options = _options()
    with _scratch(options.scratch) as scratch:
        for name in options.names or BENCHMARKS:
            begin_s = time.monotonic()
            module = importlib.import_module(f"benchmarks.{name}")
            measured_on = machine.describe(scratch)
            with (OUTPUT / f"{name}{'-quick' if options.quick else ''}.jsonl").open("w") as raw:
                bench = Bench(name, scratch, options.quick, raw, with_spark=not options.no_spark)
                bench.record(machine=measured_on)
                text = f"{module.run(bench)}\n\nMeasured on {measured_on}"
            bench.say(f"took {time.monotonic() - begin_s:.0f} s")
            print(f"\n## {module.TITLE}\n\n{text}\n", flush=True)
            if not options.quick:
                _publish(name, text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description="txlog compared with deltalake, pyarrow and Spark")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which to run: {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument(
        "--quick", action="store_true", help="tiny scales, to see that it runs; docs/benchmarks.md stays as it is"
    )
    parser.add_argument(
        "--scratch", type=Path, help="a folder on the disk to measure; default: one next to the checkout's files"
    )
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out if it is only for comparison")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    return options


@contextlib.contextmanager
def _scratch(parent: Path | None) -> Iterator[Path]:
    OUTPUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=parent or OUTPUT) as folder:
        yield Path(folder)


def _publish(name: str, text: str) -> None:
    """Put ``text`` between the benchmark's markers in docs/benchmarks.md."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    page = PAGE.read_text()
    between = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    page, found = between.subn(lambda _: f"{begin}\n{text}\n{end}", page)
    if found != 1:
        raise RuntimeError(f"{PAGE} has {found} places for the results of {name}")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
