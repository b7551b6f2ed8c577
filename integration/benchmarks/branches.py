"""Branches: what one append by a branch costs, what open branches cost the table's writers, and branches of many files.

The files of the large table exist in its log alone: no data file is read to make a branch or to publish.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import txlog
from benchmarks.measure import Bench, Sample, cpu_p50, markdown_table, timed, wall_p50
from benchmarks.tables import ONE_ROW
from txlog.core.format.actions import AddFile
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.extend import open_table_of
from txlog.extend.commits import Isolation, ProposalBuilder

TITLE = "Branches"

_STATS = '{"numRecords":10,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'


def run(bench: Bench) -> str:
    return "\n\n".join((_of_one_append(bench), _of_open_branches(bench), _of_many_files(bench)))


def _table(bench: Bench, name: str) -> txlog.Table:
    table = txlog.Table.create(bench.folder(name), ONE_ROW.schema)
    table.append(ONE_ROW)
    return table


def _medians(bench: Bench, actions: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """Wall and CPU time of each action in ms, in turns."""
    found: dict[str, list[Sample]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            found[name].append(timed(action))
    medians = {name: (wall_p50(samples), cpu_p50(samples)) for name, samples in found.items()}
    for name, (wall_ms, cpu_ms) in medians.items():
        bench.record(what=name, wall_ms=wall_ms, cpu_ms=cpu_ms)
        bench.say(f"{name}: {wall_ms:.1f} ms, {cpu_ms:.1f} ms of CPU")
    return medians


def _of_one_append(bench: Bench) -> str:
    table, rounds = _table(bench, "small"), bench.scale(50, 3)

    names = map(str, itertools.count())

    def by_branch(name: str) -> None:
        branch = table.branch(name)
        branch.append(ONE_ROW)
        branch.publish()

    by_branch("used")
    plain, new, used = "append", "branch, append, publish", "the same under a name that was used before"
    actions = {
        plain: lambda: table.append(ONE_ROW),
        new: lambda: by_branch(next(names)),
        used: lambda: by_branch("used"),
    }
    found = _medians(bench, actions, rounds)
    rows = [
        (name, f"{found[name][0]:.1f} ms", f"{found[name][1]:.1f} ms", f"{found[name][1] / found[plain][1]:.1f}x")
        for name in actions
    ]
    return f"{markdown_table(['one row', 'time', 'CPU', 'CPU of appends'], rows)}\n\nAlternating, medians of {rounds}."


def _of_open_branches(bench: Bench) -> str:
    rounds, count = bench.scale(200, 3), bench.scale(100, 3)
    without, beside = _table(bench, "without"), _table(bench, "beside")
    for number in range(count):
        beside.branch(f"b{number}").append(ONE_ROW)
    actions = {"0": lambda: without.append(ONE_ROW), str(count): lambda: beside.append(ONE_ROW)}
    found = _medians(bench, actions, rounds)
    rows = [(name, f"{wall_ms:.2f} ms", f"{cpu_ms:.2f} ms") for name, (wall_ms, cpu_ms) in found.items()]
    return f"{markdown_table(['open branches', 'append', 'CPU'], rows)}\n\nAlternating, medians of {rounds}."


def _of_many_files(bench: Bench) -> str:
    count = bench.scale(1_000_000, 100)
    table, other = _table(bench, "large"), _table(bench, "other")
    found = {"one commit of these files": timed(lambda: _commit(table, count, "a"))}
    table.append(ONE_ROW)  # else every process that opens the table reads that commit
    table.create_checkpoint()
    log = open_table_of(txlog.Table.open(table.uri)).log
    found["read them from a checkpoint"] = timed(lambda: log.files(log.newest_state()))
    again = txlog.Table.open(table.uri)
    found["a branch of a table of these files"] = timed(lambda: again.branch("b"))
    branch = other.branch("b")
    _commit(branch, count, "b")
    for each in (table, again, branch):
        open_table_of(each).post_commit.drain()  # its checkpoints are not what is measured
    found["publish these files"] = timed(branch.publish)
    bench.record(files=count, **{name: each.wall_ms for name, each in found.items()})
    rows = [(name, f"{each.wall_ms / 1000:.1f} s", f"{each.cpu_ms / 1000:.1f} s") for name, each in found.items()]
    return markdown_table([f"{count:,} files", "time", "CPU"], rows)


def _commit(table: txlog.Table, count: int, prefix: str) -> None:
    """Commit files that exist in the log alone."""
    adds = [
        AddFile(f"{prefix}{number:07d}.parquet", {}, 1000, 1_700_000_000_000, True, stats=_STATS % (number, number + 9))
        for number in range(count)
    ]
    open_table = open_table_of(table)
    state = open_table.log.newest_state()
    builder = ProposalBuilder(state)
    builder.add(*adds)
    open_table.commit_change(builder, OperationInfo("WRITE"), Isolation.WRITE_SERIALIZABLE)
