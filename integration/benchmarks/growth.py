"""Growth: what each command costs in the driver as a table grows from ten thousand to a ten million files.

The logs are synthetic (`growth_log`): no command that is measured opens a data file. Each runs once in a fresh process
that has done the same to a small table before, so everything is imported, and begins with opening the table.

Run as a program it is one such process: `python -m benchmarks.growth OPERATION SMALL_TABLE SMALL_INVENTORY TABLE
INVENTORY`, or `real STEP SMALL_TABLE TABLE` for a table of real files (`growth_files`). `far FILES` prints what a table
of many more files costs, such as 100 million: of all operations those that do not read the whole list of files.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from benchmarks.growth_files import STEPS, make_files, step_of
from benchmarks.growth_log import FILE_ROWS, clone, make_log, set_policy, write_inventory
from benchmarks.measure import ROOT, Bench, fresh_process, markdown_table, peak_mb, timed
from benchmarks.tables import ONE_ROW

TITLE = "Growth"

OPERATIONS = {
    "checkpoint": "checkpoint, classic",
    "checkpoint v2": "checkpoint, V2 with sidecars",
    "open": "open",
    "append": "append one row",
    "filter": "list files: a partition and a range of `id`",
    "filter by statistics": "list files: a range of `id`",
    "list": "list all files",
    "optimize": "plan of optimize",
    "cluster": "plan of a clustering",
    "purge": "plan of purge",
    "vacuum": "vacuum, dry run, from an inventory",
    "verify": "verify of the log",
}
_FAR = ("open", "append", "filter", "optimize of a partition")
_MEMORY_MAX = 10 << 30
_PLOT = ROOT / "docs" / "images"

Found: TypeAlias = dict[tuple[str, int], dict[str, float]]


def run(bench: Bench) -> str:
    found: Found = {}
    make_log(bench.folder("small"), 200)
    write_inventory(bench.scratch / "small.parquet", 200)
    sizes = bench.scale((10_000, 100_000, 1_000_000, 10_000_000), (1_000, 10_000))
    for files in sizes:
        _measure(bench, files, found)
    for theme in ("light", "dark"):
        _plot(bench, found, (bench.scratch.parent if bench.quick else _PLOT) / f"growth-{theme}.png", theme)
    return f"{_report(found, sizes)}\n\n{_of_real_files(bench)}"


def _of_real_files(bench: Bench) -> str:
    files = bench.scale(100_000, 200)
    table, small = bench.folder("real"), bench.folder("real-small")
    make_files(table, files)
    make_files(small, 200)
    rows = []
    for step, words in STEPS.items():
        done = fresh_process("-m", "benchmarks.growth", "real", step, str(small), str(table))
        sample = json.loads(done.stdout)
        bench.record(operation=f"real {step}", files=files, **sample)
        bench.say(f"{files:,} real files, {step}: {_cost(sample)}")
        rows.append((words, _cost(sample)))
    return markdown_table([f"{files:,} real files on a local disk", "CPU seconds / peak GB"], rows)


def _measure(bench: Bench, files: int, found: Found) -> None:
    bench.say(f"making a log of {files:,} files")
    table, inventory = bench.folder("table"), bench.scratch / "inventory.parquet"
    make_log(table, files)
    write_inventory(inventory, files)
    for operation in OPERATIONS:
        copy = clone(table, bench.folder("copy"))
        if operation.startswith("checkpoint"):
            # From now on txlog's own checkpoint, in the end the one with sidecars, is what a command begins with.
            set_policy(copy, operation)
        sample = _in_fresh_process(bench, operation, copy, inventory)
        found[operation, files] = sample
        bench.record(operation=operation, files=files, **sample)
        bench.say(f"{files:,} files, {operation}: {_cost(sample)}")
        if operation.startswith("checkpoint") and not sample["out_of_memory"]:
            copy.rename(bench.folder("table"))
    inventory.unlink(missing_ok=True)


def _far(bench: Bench, files: int) -> None:
    """On the log as `make_log` makes it: a checkpoint by txlog would need memory for all files."""
    make_log(bench.folder("small"), 200)
    write_inventory(bench.scratch / "small.parquet", 200)
    bench.say(f"making a log of {files:,} files")
    table = bench.folder("table")
    make_log(table, files)
    for operation in _FAR:
        copy = clone(table, bench.folder("copy"))
        bench.say(f"{files:,} files, {operation}: {_cost(_in_fresh_process(bench, operation, copy, table))}")


def _in_fresh_process(bench: Bench, operation: str, table: Path, inventory: Path) -> dict[str, float]:
    small = clone(bench.scratch / "small", bench.folder("small-copy"))
    tables = str(small), str(bench.scratch / "small.parquet"), str(table), str(inventory)
    done = fresh_process("-m", "benchmarks.growth", operation, *tables)
    sample: dict[str, float] = json.loads(done.stdout)
    return sample


# --- the report -----------------------------------------------------------------------------------------------------


def _report(found: Found, sizes: Sequence[int]) -> str:
    header = ["CPU seconds / peak GB", *(f"{files:,} files" for files in sizes)]
    rows = [
        (words, *(_cost(found[name, files]) if (name, files) in found else "-" for files in sizes))
        for name, words in OPERATIONS.items()
    ]
    return "\n\n".join(
        [
            *(
                f"![CPU and memory against files](images/growth-{theme}.png#only-{theme})"
                for theme in ("light", "dark")
            ),
            markdown_table(header, rows),
        ]
    )


def _cost(sample: Mapping[str, float]) -> str:
    if sample["out_of_memory"]:
        return f"more than {_MEMORY_MAX >> 30} GB"
    return f"{sample['cpu_s']:.3g} / {sample['peak_gb']:.2f}"


def _plot(bench: Bench, found: Found, path: Path, theme: str) -> None:
    """CPU time and memory against files, a line for each operation."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.ticker import EngFormatter, NullFormatter
    except ImportError:
        bench.say("no plot: matplotlib is not installed (pip install matplotlib)")
        return
    style = ["default"] if theme == "light" else ["dark_background"]
    with plt.style.context(style):
        figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
        for axis, field, title in zip(axes, ("cpu_s", "peak_gb"), ("CPU seconds", "peak memory, GB"), strict=True):
            for at, (operation, words) in enumerate(OPERATIONS.items()):
                points = [
                    (key[1], max(sample[field], 1e-3))
                    for key, sample in found.items()
                    if key[0] == operation and not sample["out_of_memory"]
                ]
                if points:
                    line = "-" if at < len(OPERATIONS) / 2 else "--"
                    color = plt.get_cmap("tab10")(at % 6)
                    axis.plot(*zip(*sorted(points), strict=True), line, marker="o", color=color, label=words)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_major_formatter("{x:g}")
            axis.set_title(title)
            axis.set_xlabel("files")
            axis.grid(alpha=0.3)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(path, dpi=80, transparent=True)
        plt.close(figure)
    bench.say(f"plotted to {path}")


# --- one operation in one process -----------------------------------------------------------------------------------


def _operation(name: str, path: str, inventory: str) -> Callable[[], object]:
    from txlog import Table

    of_range = f"id < {200 * FILE_ROWS}"
    return {
        "open": lambda: Table.open(path).snapshot().version,
        "list": lambda: Table.open(path).snapshot().files().num_rows,
        "filter": lambda: Table.open(path).snapshot().files(f"p = 'd0000' AND {of_range}").num_rows,
        "filter by statistics": lambda: Table.open(path).snapshot().files(of_range).num_rows,
        "append": lambda: Table.open(path).append(_ROW),
        "checkpoint": lambda: Table.open(path).create_checkpoint(),
        "checkpoint v2": lambda: Table.open(path).create_checkpoint(),
        "optimize": lambda: Table.open(path).optimize(dry_run=True),
        "optimize of a partition": lambda: Table.open(path).optimize("p = 'd0000'", dry_run=True),
        "cluster": lambda: Table.open(path).optimize(zorder_by=["id", "user"], dry_run=True),
        "purge": lambda: Table.open(path).purge(dry_run=True),
        "vacuum": lambda: Table.open(path).vacuum(dry_run=True, inventory=_streamed(inventory)),
        "verify": lambda: Table.open(path).verify(data_files=False),
    }[name]


def _streamed(path: str) -> pa.RecordBatchReader:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(65_536))


_ROW = ONE_ROW.append_column("p", pa.array(["d0007"]))


def main() -> None:
    if sys.argv[1] == "far":
        scratch = ROOT / ".benchmarks"
        scratch.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=scratch) as folder:
            _far(Bench("growth", Path(folder), quick=False, raw=sys.stdout), int(sys.argv[2]))
        return
    if sys.argv[1] == "real":
        _, _, step, small, path = sys.argv
        first, action = step_of(step, small), step_of(step, path)
    else:
        _, name, small, small_inventory, path, inventory = sys.argv
        first, action = _operation(name, small, small_inventory), _operation(name, path, inventory)
    first()
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_MAX, _MEMORY_MAX))
    try:
        sample = timed(action)
    except MemoryError:  # pyarrow's is one too
        print(json.dumps({"out_of_memory": True}), flush=True)
        return
    found = {"cpu_s": sample.cpu_ms / 1e3, "wall_s": sample.wall_ms / 1e3, "peak_gb": peak_mb() / 1024}
    print(json.dumps({**found, "out_of_memory": False}), flush=True)


if __name__ == "__main__":
    main()
