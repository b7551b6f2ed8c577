"""Random small tables, the commands whose tasks run on workers, and what a command left behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import txlog

__all__ = ["COMMANDS", "SCHEMA", "left_by", "random_table"]

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("note", pa.string())])
Command = Callable[[txlog.Table], Any]


def random_table(folder: Path, seed: int) -> Path:
    """Small files with and without deletion vectors, columns with names of their own, maybe partitions, orphans, and
    files of others that no commit names."""
    draw = random.Random(seed)
    properties = {"delta.enableDeletionVectors": "true", "delta.deletedFileRetentionDuration": "interval 0 hours"}
    is_mapped = seed == 1
    table = txlog.Table.create(
        folder,
        SCHEMA,
        draw.choice([[], ["day"]]),
        properties,
        column_mapping="name" if is_mapped else None,
    )
    for number in range(6):
        ids = [10 * number + each for each in range(draw.randint(1, 9))]
        table.append(pa.table({"id": ids, "day": draw.choices("ab", k=len(ids)), "note": [f"n{id}" for id in ids]}))
    table.delete(f"id % 5 = {draw.randrange(5)}")
    if is_mapped:
        table.drop_columns(["note"])
    else:
        (folder / "day=a").mkdir(exist_ok=True)
        for name in ("x", "y"):
            pq.write_table(pa.table({"id": [draw.randrange(1000)], "note": ["new"]}), folder / f"day=a/{name}.parquet")
    (folder / "orphan.parquet").write_bytes(b"x")
    return folder


COMMANDS: dict[str, Command] = {
    "optimize": lambda table: table.optimize(),
    "cluster": lambda table: table.optimize(zorder_by=["id"], target_file_size=400),
    "purge": lambda table: table.purge(),
    "vacuum": lambda table: table.vacuum(0, force=True),
    "verify": lambda table: table.verify(["id"]),
    "constraint": lambda table: table.add_constraint("small", "id < 1000"),
    "NOT NULL": lambda table: table.alter_column("id", nullable=False),
    "delete": lambda table: table.delete("id % 3 = 0"),
    "delete by copies": lambda table: table.delete("id % 3 = 0", row_mode="copy-on-write"),
    "update": lambda table: table.update({"day": txlog.expr("'b'")}, "id % 2 = 0"),
    "upsert": lambda table: table.upsert(source_rows(table), "id"),
    "upsert of known keys": lambda table: table.upsert(source_rows(table), "id", when_not_matched="ignore"),
    "merge": lambda table: (
        table.merge(source_rows(table), "target.id = source.id")
        .when_matched_delete("source.id % 4 = 0")
        .when_matched_update({"day": txlog.expr("source.day")})
        .when_not_matched_insert_all("source.id % 3 != 0")
        .when_not_matched_by_source_update({"day": txlog.expr("'c'")}, "target.id % 7 = 0")
        .execute()
    ),
    "merge by ranges": lambda table: (
        table.merge(source_rows(table).slice(0, 3), "target.id BETWEEN source.id AND source.id + 1")
        .when_matched_delete()
        .execute()
    ),
}


def source_rows(table: txlog.Table) -> pa.Table:
    """Rows for upserts and merges: every second key of the table, and others."""
    ids = [*sorted(table.to_arrow()["id"].to_pylist())[::2], 2000, 2001, 2003]
    rows = pa.table({"id": ids, "day": ["b"] * len(ids), "note": [f"new {id}" for id in ids]})
    return rows.select(table.schema.names)


def left_by(folder: Path, result: Any) -> dict[str, Any]:
    """What a command did, as far as it does not depend on chance: names of files, times, transactions."""
    table = txlog.Table.open(folder)
    changing = {"timestamp", "inCommitTimestamp", "txnId", "txlog"}
    if isinstance(result, txlog.WriteResult):
        shown: Any = (result.version, result.outcome, result.metrics.rows, result.metrics.files, result.metrics.vectors)
    elif hasattr(result, "findings"):
        shown = (str(result).partition(":")[2], result.findings, result.keys)
    else:
        kept_until, *_ = (getattr(result, "kept_until", None),)
        shown = {**result.to_dict(), "table": None, "kept_until_ms": kept_until is not None}
        shown = {name: sorted(value) if isinstance(value, list) else value for name, value in shown.items()}
    return {
        "rows": sorted(map(repr, table.to_arrow().to_pylist())),
        "history": [{name: value for name, value in each.items() if name not in changing} for each in table.history()],
        "files": sorted(table.files().column("size").to_pylist()),
        "in the folder": len([path for path in folder.rglob("*.*") if "_delta_log" not in path.parts]),
        "result": shown,
    }
