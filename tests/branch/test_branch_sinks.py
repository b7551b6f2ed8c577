"""Sinks that write to a branch by its name: once, over crashes, publications, and the next branch of the name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import txlog
from txlog import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def rows_of(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": [day] * len(ids)}, SCHEMA)


def days(uri: str) -> dict[int, str]:
    found = Table.open(uri).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["day"].to_pylist(), strict=True))


def write(sink: txlog.Sink, checkpoint: int, rows: pa.Table, *, dies: bool = False) -> None:
    with sink.task(checkpoint) as task:
        task.write(rows)
    sink.stage(task.committable)
    sink.prepare(checkpoint, [0])
    if not dies:
        sink.commit(checkpoint)


def test_a_sink_writes_each_checkpoint_once_to_a_branch_by_its_name(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.enableDeletionVectors": "true"})
    table.append(rows_of(1, 2))
    table.branch("b")
    name = f"{table.uri}@b"

    def sink(**changes: Any) -> txlog.Sink:
        return txlog.Sink(Table.open(name), "job", **changes)

    write(sink(), 1, rows_of(3), dies=True)
    assert {key: each.outcome for key, each in sink().recover().results.items()} == {1: "committed"}
    Table.open(name).publish(keep=True)
    write(sink(), 1, rows_of(3))
    write(sink(mode="upsert", keys="id"), 2, rows_of(1, 4, day="b"))
    assert days(name) == {1: "b", 2: "a", 3: "a", 4: "b"}
    assert days(table.uri) == {1: "a", 2: "a", 3: "a"}
    write(sink(), 3, rows_of(5), dies=True)
    Table.open(name).publish()
    table.branch("b")  # and the sink goes on in the next one
    write(sink(), 2, rows_of(4))
    sink().recover()
    Table.open(name).publish()
    assert days(table.uri) == days(name) == {1: "b", 2: "a", 3: "a", 4: "b", 5: "a"}
    assert table.verify().is_sound
