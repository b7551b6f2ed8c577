"""Row changes that lose a race to a change of the table's definition: they continue where the change still means the
same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.losing_writer import losing_to
from txlog.table import Table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
VECTORS = {"delta.enableDeletionVectors": "true"}
CHANGES: dict[str, Callable[[Table], Any]] = {
    "delete": lambda t: t.delete("k = 1"),
    "update": lambda t: t.update({"v": "-1"}, "k = 1"),
    "upsert": lambda t: t.upsert(pa.table({"k": [1, 9], "v": [-1, -1]}), ["k"]),
    "merge": lambda t: t.merge(pa.table({"k": [1], "v": [-1]}), ["k"]).when_matched_update_all().execute(),
    "optimize": lambda t: t.optimize(),
}


def made(path: Path, properties: dict[str, str]) -> Table:
    table = Table.create(path / "t", SCHEMA, (), properties)
    for k in (0, 2):
        table.append(pa.table({"k": [k, k + 1], "v": [k, k + 1]}))
    return table


@pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_concurrently_set_maintenance_property_does_not_stop_a_change(
    tmp_path: Path, change: str, properties: dict[str, str]
) -> None:
    table = made(tmp_path, properties)
    ours = losing_to(
        table, lambda t: t.set_properties({"delta.logRetentionDuration": "interval 9 days", "my.key": "1"})
    )
    result = CHANGES[change](ours)
    assert (getattr(result, "version", None) or ours.version) == 4
    assert ours.snapshot().properties["my.key"] == "1"
    expected = {0: 0, 2: 2, 3: 3} | ({} if change == "delete" else {1: 1 if change == "optimize" else -1})
    expected |= {9: -1} if change == "upsert" else {}
    rows = Table.open(table.uri).snapshot().to_arrow().to_pylist()
    assert {row["k"]: row["v"] for row in rows} == expected


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "rival",
    [
        lambda t: t.set_properties({"delta.appendOnly": "true"}),
        lambda t: t.set_properties({"delta.enableChangeDataFeed": "true"}),
        lambda t: t.add_columns(pa.schema([("n", pa.int8())])),
    ],
    ids=["append-only", "change data feed", "columns"],
)
def test_a_concurrently_set_rule_for_writing_stops_a_change(
    tmp_path: Path, change: str, rival: Callable[[Table], Any]
) -> None:
    table = made(tmp_path, VECTORS)
    with pytest.raises((txlog.MetadataChangedError, txlog.ProtocolChangedError)):
        CHANGES[change](losing_to(table, rival))
    assert table.version == 3


def test_a_retried_change_writes_its_files_by_a_concurrently_set_property(tmp_path: Path) -> None:
    table = made(tmp_path, {})

    def rival(other: Table) -> None:
        other.set_properties({"delta.parquet.compression.codec": "zstd"})
        other.append(pa.table({"k": [1], "v": [50]}))

    losing_to(table, rival).update({"v": "-1"}, "k = 1")
    newest = {
        pq.ParquetFile(Path(table.uri, row["path"])).metadata.row_group(0).column(0).compression
        for row in table.snapshot().files().to_pylist()
    }
    assert "ZSTD" in newest
    assert [row["v"] for row in table.snapshot().to_arrow(where="k = 1").to_pylist()] == [-1, -1]


SUM = {**VECTORS, "txlog.merge-engine": "aggregation", "txlog.fields.v.aggregate-function": "sum"}
LATEST = {**VECTORS, "txlog.merge-engine": "deduplicate"}


def upserts(table: Table, k: int, v: int, kind: str = "+I") -> Any:
    return table.upsert(pa.table({"k": [k], "v": [v], "kind": [kind]}), ["k"], row_kind="kind")


def sinks(table: Table, k: int, v: int, kind: str = "+I") -> Any:
    sink = txlog.Sink(table, "job", mode="upsert", keys=["k"], row_kind="kind")
    with sink.task(checkpoint_id=1, task_id=0) as task:
        task.write(pa.table({"k": [k], "v": [v], "kind": [kind]}))
    return sink.commit(1, [task.committable])


@pytest.mark.parametrize("write", [upserts, sinks])
@pytest.mark.parametrize(
    ("before", "rules", "row"),
    [
        (LATEST, {"txlog.merge-engine": "aggregation", "txlog.fields.v.aggregate-function": "sum"}, (1, 10, "+I")),
        (SUM, {"txlog.fields.v.aggregate-function": "max"}, (1, 10, "+I")),
        (LATEST, {"txlog.sequence.field": "v"}, (1, 0, "+I")),
        (
            {**LATEST, "txlog.sequence.field": "v"},
            {"txlog.tombstone-retention": "interval 1 days"},
            (1, 9, "-D"),
        ),
    ],
    ids=["an engine", "a function", "a sequence", "tombstones"],
)
def test_a_concurrently_changed_merge_rule_stops_an_upsert_merged_by_the_old_one(
    write: Callable[..., Any], before: dict[str, str], rules: dict[str, str], row: Any, tmp_path: Path
) -> None:
    table = made(tmp_path, before)

    def rival(other: Table) -> None:
        other.set_properties(rules)
        other.upsert(pa.table({"k": [1], "v": [5]}), ["k"])

    with pytest.raises(txlog.MetadataChangedError):
        write(losing_to(table, rival), *row)
    expected = 6 if "sum" in rules.values() else 5
    assert table.snapshot().to_arrow(where="k = 1").column("v").to_pylist() == [expected], "only the rival's"


def test_an_upsert_that_is_tried_again_merges_by_the_new_rules(tmp_path: Path) -> None:
    table = made(tmp_path, LATEST)
    with pytest.raises(txlog.MetadataChangedError):
        upserts(losing_to(table, lambda other: other.set_properties(SUM)), 1, 10)
    upserts(table, 1, 10)
    assert table.snapshot().to_arrow(where="k = 1").column("v").to_pylist() == [11]
