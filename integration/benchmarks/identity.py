"""Several processes append single rows to a table that counts them: what the commits for ranges of numbers cost.

The contestants are the same table without and with an identity column. Each process begins with a new handle, so its
first appends put small ranges aside: an append of a long-lived writer costs less than here.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import Bench, markdown_table
from benchmarks.tables import ONE_ROW
from benchmarks.writers import Race, fields, race_of

TITLE = "Identity columns"

PLAIN, COUNTED = "without", "with identity"


def run(bench: Bench) -> str:
    sizes = bench.scale({1: 200, 4: 100, 16: 50}, {1: 3, 2: 3})
    rounds = bench.scale(5, 1)
    races: dict[tuple[str, int], list[Race]] = {}
    reserved: dict[int, list[int]] = {}
    for turn in range(rounds):
        for processes, appends in sizes.items():
            for name in (PLAIN, COUNTED) if turn % 2 == 0 else (COUNTED, PLAIN):
                folder = bench.folder("identity")
                race = race_of(folder, "txlog", processes, appends, _counted() if name == COUNTED else ONE_ROW.schema)
                bench.say(f"{name}, {processes} processes: {race.commits_per_s:.1f} appends/s, {race.failed} failed")
                bench.record(table=name, processes=processes, round=turn, **fields(race))
                races.setdefault((name, processes), []).append(race)
                if name == COUNTED:
                    reserved.setdefault(processes, []).append(_checked(folder))
    return _report(races, reserved, sizes, rounds)


def _counted() -> pa.Schema:
    """The columns of the row, and one that the table counts."""
    metadata = '{"delta.identity.start":1,"delta.identity.step":1,"delta.identity.allowExplicitInsert":false}'
    return ONE_ROW.schema.append(pa.field("number", pa.int64(), metadata={"delta.metadata": metadata}))


def _checked(folder: Path) -> int:
    """How many commits put numbers aside. Raises if two rows have one number."""
    import txlog

    table = txlog.Table.open(folder)
    numbers = table.to_arrow().column("number").to_pylist()
    if len(set(numbers)) != len(numbers):
        raise RuntimeError("two rows have one number")
    return sum(entry["operation"] == "RESERVE IDENTITY" for entry in table.history())


def _report(
    races: dict[tuple[str, int], list[Race]], reserved: dict[int, list[int]], sizes: dict[int, int], rounds: int
) -> str:
    rows = []
    for processes, appends in sizes.items():
        plain, counted = (
            statistics.median(race.commits_per_s for race in races[name, processes]) for name in (PLAIN, COUNTED)
        )
        # The two races of a round meet the same load of the machine.
        pairs = zip(races[PLAIN, processes], races[COUNTED, processes], strict=True)
        ratio = statistics.median(first.commits_per_s / second.commits_per_s for first, second in pairs)
        cells = (f"{plain:.0f}", f"{counted:.0f}", f"{ratio:.2f}x", statistics.median(reserved[processes]))
        failed = sum(race.failed for race in races[COUNTED, processes])
        rows.append((f"{processes} x {appends}", *map(str, cells), str(failed)))
    heads = ["processes x appends", "appends/s without", "appends/s with", "without : with", "commits for numbers"]
    table = markdown_table([*heads, "failed"], rows)
    return (
        f"{table}\n\nMedians of {rounds} races on new tables, alternating; the ratio is that of each round. No two rows"
        " have one number."
    )
