"""The log at scale: what opening, listing, appending and checkpointing cost as files and versions become many.

The tables are synthetic: a checkpoint names files that do not exist; no operation opens them. From this seed each
maker, txlog and deltalake, makes its own checkpoint, and ten commits follow. Each operation runs on a copy of the log,
in a fresh process that first does the same to a one-file table so everything is imported, and begins with opening the
table.

Run as a program it is one such process: `python -m benchmarks.log_scale CONTESTANT OPERATION SMALL_TABLE TABLE`.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from benchmarks.measure import ROOT, Bench, best_in_bold, fresh_process, markdown_table, peak_mb, timed, times
from benchmarks.tables import ONE_ROW

if TYPE_CHECKING:
    from txlog import Snapshot

TITLE = "The log at scale"

PARTITIONS = 50
TAIL = 10
ROWS_PER_FILE = 100_000
OPERATIONS = {
    "open": "open",
    "list": "all files, with statistics",
    "filter": "files of one partition",
    "append": "append one row",
    "checkpoint": "checkpoint",
}
CONTESTANTS = ("txlog", "txlog on deltalake's", "deltalake")
PLOT = ROOT / "docs" / "images" / "log_scale.png"

Key: TypeAlias = tuple[str, int, str, str]
"""``"files"`` or ``"versions"``, how many, the operation, the contestant."""


def run(bench: Bench) -> str:
    results: dict[Key, list[dict[str, float]]] = {}
    make_seed(bench.folder("small"), 1, version=0)
    alone: dict[str, dict[str, float]] = {}
    for files in bench.scale((10_000, 100_000, 1_000_000), (500, 1_000)):
        tables = _tables(bench, files, version=TAIL)
        _measure(bench, ("files", files), tables, results)
        alone = _measure_alone(bench, tables)  # of the most files, which come last
    for versions in bench.scale((100, 1_000, 10_000), (20, 50)):
        tables = _tables(bench, versions, version=versions - TAIL - 1)
        _measure(bench, ("versions", versions), tables, results)
    found = {key: _median(samples) for key, samples in results.items()}
    plot = bench.scratch.parent / PLOT.name if bench.quick else PLOT
    _plot(bench, found, plot)
    header = ["of txlog alone, with the most files", "ms / MB"]
    return "\n\n".join([_report(bench, found), markdown_table(header, [(k, _cost(v)) for k, v in alone.items()])])


def _measure(
    bench: Bench, scale: tuple[str, int], tables: Mapping[str, Path], results: dict[Key, list[dict[str, float]]]
) -> None:
    """All operations of all contestants in turns, each on a copy of its maker's table."""
    for turn in range(bench.scale(3, 1)):
        names = [*CONTESTANTS[turn % 3 :], *CONTESTANTS[: turn % 3]]
        for operation in OPERATIONS:
            for name in names:
                copy = bench.folder("copy")
                _clone(tables["txlog" if name == "txlog" else "deltalake"], copy)
                os.sync()
                found = _in_fresh_process(bench, name, operation, copy)
                bench.record(by=scale[0], count=scale[1], operation=operation, contestant=name, round=turn, **found)
                results.setdefault((*scale, operation, name), []).append(found)
    for name in CONTESTANTS:
        cost = ", ".join(
            f"{operation} {_median(results[(*scale, operation, name)])['wall_ms']:.0f} ms" for operation in OPERATIONS
        )
        bench.say(f"{scale[1]:,} {scale[0]}, {name}: {cost}")


def _measure_alone(bench: Bench, tables: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """What deltalake has no equivalent for: lists by statistics alone, V2 checkpoints, and checkpoints of listed files.

    deltalake's checkpoint has statistics as text only, ours has them typed too.
    """
    whole, again = _checkpointed_as_v2(bench, tables["txlog"])
    _commit(again / "_delta_log", 2 * TAIL + 3, 7)
    places = {
        "files by statistics alone": ("filter by statistics", tables["txlog"]),
        "the same on deltalake's checkpoint": ("filter by statistics", tables["deltalake"]),
        "all files, and the text of statistics parsed": ("list typed", tables["txlog"]),
        "checkpoint, of files in memory": ("checkpoint of listed", tables["txlog"]),
        "V2 checkpoint": ("checkpoint", whole),
        "V2 checkpoint, of files in memory": ("checkpoint of listed", whole),
        "V2 checkpoint after one file more": ("checkpoint", again),
    }
    samples: dict[str, list[dict[str, float]]] = {}
    for _ in range(bench.scale(3, 1)):
        for words, (operation, table) in places.items():
            copy = bench.folder("copy")
            _clone(table, copy)
            os.sync()
            samples.setdefault(words, []).append(_in_fresh_process(bench, "txlog", operation, copy))
            bench.record(operation=words, contestant="txlog", **samples[words][-1])
    return {words: _median(found) for words, found in samples.items()}


def _checkpointed_as_v2(bench: Bench, table: Path) -> tuple[Path, Path]:
    """The table with a commit that makes it write V2 checkpoints, before and after the first of them."""
    before, after = bench.folder("v2"), bench.folder("v2-again")
    _clone(table, before)
    _commit(before / "_delta_log", 2 * TAIL + 2, None, v2=True)
    _clone(before, after)
    _in_fresh_process(bench, "txlog", "checkpoint", after)
    return before, after


def _in_fresh_process(bench: Bench, name: str, operation: str, path: Path) -> dict[str, float]:
    small = bench.folder("small-copy")
    _clone(bench.scratch / "small", small)
    _commit(small / "_delta_log", 1, 1)
    done = fresh_process("-m", "benchmarks.log_scale", name, operation, str(small), str(path))
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _median(samples: list[dict[str, float]]) -> dict[str, float]:
    return {field: statistics.median(sample[field] for sample in samples) for field in samples[0]}


# --- the tables -----------------------------------------------------------------------------------------------------


def _tables(bench: Bench, files: int, *, version: int) -> dict[str, Path]:
    """Each maker's table of ``files`` files, with its checkpoint at ``version`` + 1 and ten later commits."""
    bench.say(f"making a log of {files:,} files at version {version + 1 + TAIL:,}")
    seed = bench.folder("seed")
    make_seed(seed, files, version=version)
    tables = {}
    for maker in ("txlog", "deltalake"):
        path = tables[maker] = bench.folder(f"made-by-{maker}")
        _clone(seed, path)
        _commit(path / "_delta_log", version + 1, files)
        _in_fresh_process(bench, maker, "checkpoint", path)
        for number in range(TAIL):
            _commit(path / "_delta_log", version + 2 + number, files + 1 + number)
    return tables


def make_seed(path: Path, files: int, *, version: int) -> None:
    """A log whose only source of most of its files is the checkpoint at ``version``."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for number in range(version + 1):
        _commit(log, number, number or None)
    _write_checkpoint(log, version, files)


def _clone(source: Path, target: Path) -> None:
    """The same log in another folder; a log's files never change, so links will do."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)


def _commit(log: Path, version: int, file: int | None, *, v2: bool = False) -> None:
    """A commit that adds one file; without a file, the one that creates the table or makes it write V2 checkpoints."""
    lines: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE"}}]
    if file is None:
        configuration = {"delta.checkpointPolicy": "v2"} if v2 else {}
        protocol = _V2_PROTOCOL if v2 else _PROTOCOL
        lines += [{"protocol": protocol}, {"metaData": {**_METADATA, "configuration": configuration}}]
    else:
        values = {"p": f"v{file % PARTITIONS:02d}"}
        fixed = {"size": 50_000_000, "modificationTime": 1_700_000_000_000, "dataChange": True}
        lines.append({"add": {"path": _path(file), "partitionValues": values, **fixed, "stats": _statistics(file)}})
    path = log / f"{version:020d}.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # txlog syncs other writers' commits that may not be on disk yet: if they were new, all of these.
    hour_ago_s = time.time() - 3_600
    os.utime(path, (hour_ago_s, hour_ago_s))


_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_V2_FEATURES = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint", "appendOnly", "invariants"]}
_V2_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, **_V2_FEATURES}
_COLUMNS = {"id": "long", "name": "string", "value": "double", "user": "long", "moment": "timestamp", "p": "string"}
_METADATA = {
    "id": "log-scale",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(
        {
            "type": "struct",
            "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _COLUMNS.items()],
        }
    ),
    "partitionColumns": ["p"],
    "configuration": {},
    "createdTime": 1_700_000_000_000,
}


def _path(file: int) -> str:
    scattered = (file * 2_654_435_761) & 0xFFFFFFFF
    return f"p=v{file % PARTITIONS:02d}/part-{file:07d}-{scattered:08x}-4e21-9a10-{file:012x}-c000.snappy.parquet"


def _statistics(file: int) -> str:
    low, user, day = file * ROWS_PER_FILE, file * 7 % 1_000_003, file % 28 + 1
    high = low + ROWS_PER_FILE - 1
    return (
        f'{{"numRecords":{ROWS_PER_FILE},"minValues":{{"id":{low},"name":"aa{file % 1_000_000:06d}","value":0.25,'
        f'"user":{user},"moment":"2024-01-{day:02d}T00:00:00.000Z"}},"maxValues":{{"id":{high},"name":"zz'
        f'{file % 1_000_000:06d}","value":{file % 1000 + 1}.5,"user":{user + 5000},"moment":"2024-01-{day:02d}'
        f'T23:59:59.999Z"}},"nullCount":{{"id":0,"name":{file % 13},"value":0,"user":{file % 50},"moment":0}}}}'
    )


def _write_checkpoint(log: Path, version: int, files: int) -> None:
    """The seed's checkpoint: row groups of 100,000 files, by number."""
    import pyarrow.parquet as pq

    text_map = pa.map_(pa.string(), pa.string())
    texts = pa.list_(pa.string())
    schema = pa.schema(
        {
            "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
            "metaData": pa.struct(
                {
                    "id": pa.string(),
                    "format": pa.struct({"provider": pa.string(), "options": text_map}),
                    "schemaString": pa.string(),
                    "partitionColumns": texts,
                    "configuration": text_map,
                    "createdTime": pa.int64(),
                }
            ),
            "add": pa.struct(
                {
                    "path": pa.string(),
                    "partitionValues": text_map,
                    "size": pa.int64(),
                    "modificationTime": pa.int64(),
                    "dataChange": pa.bool_(),
                    "stats": pa.string(),
                }
            ),
        }
    )
    with pq.ParquetWriter(log / f"{version:020d}.checkpoint.parquet", schema) as writer:
        writer.write_table(pa.Table.from_pylist([{"protocol": _PROTOCOL}, {"metaData": _METADATA}], schema))
        for batch in _adds(schema.field("add").type, files):
            columns = [pa.nulls(len(batch), schema.field(name).type) for name in ("protocol", "metaData")]
            writer.write_table(pa.Table.from_arrays([*columns, batch], schema=schema))
    hint = {"version": version, "size": files + 2, "numOfAddFiles": files}
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def _adds(kind: pa.StructType, files: int) -> Iterator[pa.StructArray]:
    for start in range(0, files, 100_000):
        numbers = range(start, min(files, start + 100_000))
        count = len(numbers)
        values = pa.array([f"v{file % PARTITIONS:02d}" for file in numbers])
        maps = pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), pa.array(["p"] * count), values)
        columns = [
            pa.array([_path(file) for file in numbers]),
            maps,
            pa.array([50_000_000 + file for file in numbers], pa.int64()),
            pa.repeat(pa.scalar(1_700_000_000_000, pa.int64()), count),
            pa.repeat(pa.scalar(False), count),
            pa.array([_statistics(file) for file in numbers]),
        ]
        yield pa.StructArray.from_arrays(columns, fields=list(kind))


# --- the report ---------------------------------------------------------------------------------------------------


def _report(bench: Bench, found: Mapping[Key, Mapping[str, float]]) -> str:
    parts = [f"![cost against files and versions](images/{PLOT.name})"]
    for by in ("files", "versions"):
        rows = []
        counts = sorted({key[1] for key in found if key[0] == by})
        for operation, words in OPERATIONS.items():
            for count in counts:
                costs = [found[by, count, operation, name] for name in CONTESTANTS]
                own, _, peer = costs
                rows.append(
                    (
                        words,
                        f"{count:,}",
                        *best_in_bold([round(each["wall_ms"]) for each in costs], map(_cost, costs)),
                        times(own["wall_ms"], peer["wall_ms"]),
                    )
                )
        header = ["operation", by, "txlog, ms / MB", "txlog on deltalake's checkpoint, ms / MB", "deltalake, ms / MB"]
        parts.append(markdown_table([*header, "deltalake : txlog"], rows))
    rounds = bench.scale(3, 1)
    parts.append(
        f"Medians of {rounds} fresh processes: milliseconds from before the table is opened until the operation has"
        " ended, and the peak of the whole process, libraries included. The filter of txlog names a partition and a"
        " range of `id`, that of deltalake the partition, since its list accepts no other filter."
    )
    return "\n\n".join(parts)


def _cost(sample: Mapping[str, float]) -> str:
    return f"{sample['wall_ms']:,.0f} / {sample['peak_mb']:,.0f}"


def _plot(bench: Bench, found: Mapping[Key, Mapping[str, float]], path: Path) -> None:
    """Time against files, memory against files, time against versions; one column for each operation."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
    except ImportError:
        bench.say("no plot: matplotlib is not installed (pip install matplotlib)")
        return
    rows = (("files", "wall_ms", "ms"), ("files", "peak_mb", "MB, peak"), ("versions", "wall_ms", "ms"))
    colors = {"txlog": "#1f77b4", "txlog on deltalake's": "#8ebad9", "deltalake": "#d62728"}
    figure, axes = plt.subplots(len(rows), len(OPERATIONS), figsize=(15, 8), sharey="row", layout="constrained")
    for row, (by, field, unit) in zip(axes, rows, strict=True):
        for axis, (operation, words) in zip(row, OPERATIONS.items(), strict=True):
            for name, color in colors.items():
                points = sorted(
                    (key[1], found[key][field]) for key in found if (key[0], *key[2:]) == (by, operation, name)
                )
                axis.plot(*zip(*points, strict=True), marker="o", color=color, label=name)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(sorted({key[1] for key in found if key[0] == by}), minor=False)
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if field == "peak_mb" else (1,)))
            axis.yaxis.set_major_formatter("{x:,.0f}")
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.set_title(words, fontsize=10)
            axis.set_xlabel(by)
            axis.grid(alpha=0.3)
        row[0].set_ylabel(unit)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(colors))
    figure.savefig(path, dpi=80)
    plt.close(figure)
    bench.say(f"plotted to {path}")


# --- one operation in one process -----------------------------------------------------------------------------------


def _txlog(operation: str, path: str) -> Callable[[], object]:
    from txlog import Table

    if operation == "checkpoint of listed":
        return _checkpoint_of_listed(path)
    return {
        "open": lambda: Table.open(path).snapshot().version,
        "list": lambda: Table.open(path).snapshot().files().num_rows,
        "list typed": lambda: _statistics_typed(Table.open(path).snapshot()),
        "filter": lambda: Table.open(path).snapshot().files("p = 'v07' AND id < 100000000").num_rows,
        "filter by statistics": lambda: Table.open(path).snapshot().files("id < 100000000").num_rows,
        "append": lambda: Table.open(path).append(_ROW),
        "checkpoint": lambda: Table.open(path).create_checkpoint(),
    }[operation]


def _checkpoint_of_listed(path: str) -> Callable[[], object]:
    from txlog.core.format.commit_file import LogLimits
    from txlog.core.store import open_store
    from txlog.core.versions.decisions.checkpoint.columns import FileColumns
    from txlog.core.versions.files import CheckpointWriter, DeltaLog
    from txlog.core.versions.files._small_pages import small_pages

    store = open_store(path)
    state, writer = DeltaLog(store).newest_state(), CheckpointWriter(store, LogLimits())
    with small_pages():
        listed = writer._files.files_and_tombstones(state, FileColumns.of(state).statistics)
    writer._files.files_and_tombstones = lambda *_: listed  # type: ignore[method-assign]
    return lambda: writer.write(state)


def _statistics_typed(snapshot: Snapshot) -> int:
    """Typed, as in a checkpoint."""
    from txlog.core.format.schema import leaf_paths
    from txlog.core.format.stats_struct import statistics_as_struct, statistics_type

    kind = statistics_type(leaf_paths(snapshot.delta_schema.without(snapshot.partition_columns)))
    typed = [statistics_as_struct(texts, kind) for texts in snapshot.files().column("stats").chunks]
    return sum(map(len, typed))


def _deltalake(operation: str, path: str) -> Callable[[], object]:
    from deltalake import DeltaTable, write_deltalake

    return {
        "open": lambda: DeltaTable(path).version(),
        "list": lambda: DeltaTable(path).get_add_actions().num_rows,
        "filter": lambda: len(DeltaTable(path).file_uris([("p", "=", "v07")])),
        "append": lambda: write_deltalake(path, _ROW, mode="append", schema_mode="merge"),
        "checkpoint": lambda: DeltaTable(path).create_checkpoint(),
    }[operation]


_ROW = ONE_ROW.append_column("p", pa.array(["v07"]))


def main() -> None:
    name, operation, small, path = sys.argv[1:]
    contestant = _deltalake if name == "deltalake" else _txlog
    contestant(operation, small)()
    sample = timed(contestant(operation, path))
    print(json.dumps({"wall_ms": sample.wall_ms, "cpu_ms": sample.cpu_ms, "peak_mb": peak_mb()}), flush=True)


if __name__ == "__main__":
    main()
