"""Row changes that lose a race to a change of the table's definition: they continue where the change still means the
same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.errors import MetadataChangedError, ProtocolChangedError
from txlog.table import Table

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
VECTORS = {"delta.enableDeletionVectors": "true"}
CHANGES: dict[str, Callable[[Table], Any]] = {
    "delete": lambda t: t.delete("k = 1"),
    "update": lambda t: t.update({"v": txlog.expr("-1")}, "k = 1"),
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

    losing_to(table, rival).update({"v": txlog.expr("-1")}, "k = 1")
    newest = {
        pq.ParquetFile(Path(table.uri, row["path"])).metadata.row_group(0).column(0).compression
        for row in table.snapshot().files().to_pylist()
    }
    assert "ZSTD" in newest
    assert [row["v"] for row in table.snapshot().to_arrow(where="k = 1").to_pylist()] == [-1, -1]


def _beside(rows: pa.Table, other: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """Rows whose append is planned before ``other`` commits."""
    yield from rows.to_batches()
    other()


def _found(table: Table) -> list[dict[str, Any]]:
    rows = deltalake.DeltaTable(table.uri).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"id": [2], "new": [20]}, [{"id": 1, "new": 10}, {"id": 2, "new": 20}]),
        ({"new": [20], "id": [2]}, [{"id": 1, "new": 10}, {"id": 2, "new": 20}]),
        ({"id": [2], "b": ["x"]}, [{"id": 1, "new": 10, "b": None}, {"id": 2, "new": None, "b": "x"}]),
        ({"id": [2], "new": [20], "b": ["x"]}, [{"id": 1, "new": 10, "b": None}, {"id": 2, "new": 20, "b": "x"}]),
    ],
)
def test_schema_merges_that_agree_both_land(other: dict[str, Any], found: list[dict[str, Any]], tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    mine = _beside(
        pa.table({"id": [1], "new": [10]}),
        lambda: Table.open(table.uri).append(pa.table(other), schema_mode="merge"),
    )
    assert table.append(mine, schema_mode="merge").version == 2
    assert _found(table) == found
    assert verify_table(table._open_table.store).is_sound


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.append(pa.table({"id": [2], "new": ["text"]}), schema_mode="merge"),
        lambda table: table.append(pa.table({"id": [2], "NEW": [20]}), schema_mode="merge"),
        lambda table: table.add_constraint("positive", "id > 5"),
        lambda table: table.set_properties({"delta.enableChangeDataFeed": "true"}),
        lambda table: table.set_properties({"delta.columnMapping.mode": "name"}),
        lambda table: table.set_properties({"delta.enableRowTracking": "true"}),
        lambda table: table.add_columns("b bigint").version and table.alter_column("b", default="7"),
    ],
)
def test_a_schema_merge_that_others_contradict_is_refused(change: Callable[[Table], object], tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", properties={"delta.feature.allowColumnDefaults": "supported"})
    mine = _beside(pa.table({"id": [1], "new": [10]}), lambda: change(Table.open(table.uri)))
    with pytest.raises((MetadataChangedError, ProtocolChangedError)):
        table.append(mine, schema_mode="merge")
    assert 1 not in [row["id"] for row in table.to_arrow().to_pylist()]


def test_a_schema_merge_of_mapped_columns_is_refused_beside_another(tmp_path: Path) -> None:
    """Each writer gives the column a name of its own in its files."""
    table = Table.create(tmp_path / "t", "id bigint", properties={"delta.columnMapping.mode": "name"})
    rows = pa.table({"id": [1], "new": [10]})
    mine = _beside(rows, lambda: Table.open(table.uri).append(rows, schema_mode="merge"))
    with pytest.raises(MetadataChangedError):
        table.append(mine, schema_mode="merge")
    assert table.to_arrow().to_pylist() == [{"id": 1, "new": 10}]


UPGRADE_DOES_NOT_CONCERN = (*CHANGES, "add a column", "set a property", "a transaction", "a conditional overwrite")


@pytest.mark.parametrize("change", UPGRADE_DOES_NOT_CONCERN)
@pytest.mark.parametrize("feature", ["deletionVectors", "vacuumProtocolCheck"])
def test_a_change_beside_an_upgrade_of_the_protocol_that_does_not_concern_it_lands(
    change: str, feature: str, tmp_path: Path
) -> None:
    table = made(tmp_path, {})
    require_landing(table, change, lambda other: other.set_properties({f"delta.feature.{feature}": "supported"}), {})


def require_landing(table: Table, change: str, rival: Callable[[Table], object], brought: dict[int, int]) -> None:
    """The change lands beside the rival, which ``brought`` rows."""

    def transaction(ours: Table) -> None:
        with ours.transaction() as together:
            together.append(pa.table({"k": [8], "v": [8]}))
            together.delete("k = 1")

    others = {
        "add a column": lambda ours: ours.add_columns("more string"),
        "set a property": lambda ours: ours.set_properties({"my.key": "1"}),
        "a transaction": transaction,
        "a conditional overwrite": lambda ours: ours.overwrite(pa.table({"k": [1], "v": [-1]}), where="k = 1"),
    }
    result = {**CHANGES, **others}[change](losing_to(table, rival))
    assert not getattr(result, "notes", ()), "it upgraded nothing"
    expected = {0: 0, 1: -1, 2: 2, 3: 3} | brought
    expected |= {9: -1} if change == "upsert" else {8: 8} if change == "a transaction" else {}
    if change in ("optimize", "add a column", "set a property"):
        expected[1] = 1
    if change in ("delete", "a transaction"):
        del expected[1]
    found = Table.open(table.uri).to_arrow().to_pylist()
    assert {row["k"]: row["v"] for row in found} == expected
    assert len(found) == len(expected)
    assert verify_table(table._open_table.store).is_sound


def test_of_two_upgrades_of_the_protocol_at_once_one_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    ours = losing_to(table, lambda other: other.set_properties({"delta.feature.v2Checkpoint": "supported"}))
    with pytest.raises(ProtocolChangedError):
        ours.set_properties({"delta.enableDeletionVectors": "true"})


def test_eight_appends_that_add_the_same_column_at_once_all_land(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    handles = [Table.open(table.uri) for _ in range(8)]
    start = threading.Barrier(8)

    def append(number: int) -> None:
        start.wait()
        handles[number].append(pa.table({"id": [number], "new": [10 * number]}), schema_mode="merge")

    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(8)))
    assert _found(table) == [{"id": number, "new": 10 * number} for number in range(8)]
