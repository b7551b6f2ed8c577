"""The merge micro benchmark of LHBench (Jain et al., "Analyzing and Comparing Lakehouse Storage Systems", CIDR 2023).

Its table has a key, a double, a text and a number of a partition; merges of a share of its rows update as many random
rows as they insert new ones, and a full read follows. LHBench has 70 million rows a GB in files of 100 MB; this has a
tenth. In LHBench an update writes the values that the row has; here it changes them, so that a read shows it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import bars
from benchmarks.field_merges import SAID_OF_ALL, Plan, Step, merged
from benchmarks.measure import Bench
from benchmarks.peers import PEERS, field_of, table_of

TITLE = "LHBench: merges of a few rows into many"

_SHARES = (0.0001, 0.001, 0.01, 0.1, 1.0)
"""Of the table's rows, in percent."""
_QUERY = "SELECT count(*), sum(key), sum(value), sum(CAST(value2 AS DOUBLE)) FROM t"


def run(bench: Bench) -> str:
    rows, files, shares = bench.scale((7_000_000, 10, _SHARES), (50_000, 4, (0.1, 1.0)))
    folder = bench.folder("merge-micro")
    folder.mkdir()
    parts = [_saved(_rows(part, 1.0), folder) for part in np.array_split(np.arange(rows), files)]
    random = np.random.default_rng(4)
    steps = []
    for share in shares:
        updates = max(1, int(rows * share / 200))
        known = random.choice(rows, updates, replace=False)
        changed = pa.concat_tables([_rows(known, -1.0), _rows(np.arange(rows, rows + updates), 1.0)])
        steps.append(Step(f"{share:g} % ({2 * updates:,} rows)", _saved(changed, folder)))
    small = _saved(_rows(np.arange(1_000), 1.0), folder)
    few = Step("few", _saved(_rows(np.arange(990, 1_010), -1.0), folder))
    plan = Plan(
        parts,
        ["key"],
        steps,
        small,
        few,
        _QUERY,
        ["key", "value", "value2"],
        is_chain=False,
        limit_s=bench.scale(120.0, 60.0),
    )
    with field_of(bench, PEERS) as field:
        merges, reads = merged(bench, field, plan)
    picture = bars.publish(bench, merges, field.names, "LHBench's merges: how many times txlog's time")
    return (
        f"{table_of(merges, field.names, reads)}\n\n{picture}\n\n{rows:,} rows in {files} files; each merge begins"
        f" with these files, and half of its rows update and half are new. {SAID_OF_ALL}"
    )


def _rows(keys: np.ndarray, factor: float) -> pa.Table:
    texts = pa.array(keys * 91).cast(pa.string())
    return pa.table({"key": keys, "value": factor * (keys * 7.1 + 13.4), "value2": texts, "partition": keys % 1000})


def _saved(rows: pa.Table, folder: Path) -> Path:
    path = folder / f"{len([*folder.iterdir()]):03}.parquet"
    pq.write_table(rows, path)
    return path
