"""Checkpoints of few large row groups, as others write them: read by several threads, to the same files."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from txlog import Table
from txlog.core.versions.files._bounded_batches import beside


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty files in three partitions, all of them in deltalake's checkpoint."""
    path = tmp_path_factory.mktemp("large") / "t"
    for at in range(10):
        rows = {"id": [3 * at, 3 * at + 1, 3 * at + 2], "name": ["a", None, "c"], "p": ["x", "y", None]}
        write_deltalake(str(path), pa.table(rows), mode="append", partition_by=["p"])
    DeltaTable(str(path)).create_checkpoint()
    return path


@pytest.mark.parametrize("where", [None, "p = 'y'", "id < 7", "p = 'x' AND id >= 12", "p IS NULL OR id = 4"])
def test_several_threads_find_the_same_files_as_one(
    table: Path, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[object]:
        return Table.open(str(table)).snapshot().files(where).to_pylist()

    alone = found()
    monkeypatch.setattr("txlog.core.versions.files._checkpoint_parquet.PIECE_ROWS", 0)
    monkeypatch.setattr("txlog.core.versions.files._checkpoint_parquet.FILTERED_ROWS", 3)
    monkeypatch.setattr("txlog.core.versions.files._checkpoint_filter.JOINED_ROWS", 4)
    assert found() == alone
    assert 0 < len(alone) <= 30
    if where is None:
        assert sorted(row["path"] for row in alone) == sorted(
            DeltaTable(str(table)).get_add_actions()["path"].to_pylist()
        )  # type: ignore[index]


def test_timestamps_that_spark_types_are_pruned_by_their_text(tmp_path: Path) -> None:
    """A checkpoint of Spark's has them as INT96, which has neither unit nor zone."""
    table = Table.create(
        str(tmp_path),
        pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")}),
        properties={"delta.checkpoint.writeStatsAsStruct": "true"},
    )
    for day in range(1, 5):
        moment = datetime.datetime(2024, 1, day, tzinfo=datetime.timezone.utc)
        table.append(pa.table({"id": [day], "at": [moment]}))
    checkpoint = tmp_path / "_delta_log" / f"{table.create_checkpoint():020d}.checkpoint.parquet"
    whole = pq.ParquetFile(checkpoint).read()
    pq.write_table(whole, checkpoint, use_deprecated_int96_timestamps=True)
    snapshot = Table.open(str(tmp_path)).snapshot()
    for where, found in (("at < '2024-01-02'", 1), ("at >= '2024-01-03' AND id < 4", 1), ("id <= 3", 3)):
        assert snapshot.files(where).num_rows == found


MEMBERS = {"n": pa.int64(), "s": pa.string(), "m": pa.map_(pa.string(), pa.string())}
ROWS = [None if n == 3 else {"n": n, "s": f"s{n}", "m": [("k", str(n))] * (n % 3)} for n in range(12)]


@given(*[st.lists(st.integers(0, 5), max_size=8)] * 2)
def test_struct_members_read_separately_are_joined_whatever_their_batch_sizes(one: list[int], other: list[int]) -> None:
    def cut(names: list[str], sizes: list[int]) -> list[pa.RecordBatch]:
        kind = pa.struct([(name, MEMBERS[name]) for name in names])
        rows = [row and {name: row[name] for name in names} for row in ROWS]
        whole = pa.RecordBatch.from_arrays([pa.array(rows, kind)], ["add"])
        ends = [min(end, len(ROWS)) for end in itertools.accumulate([*sizes, len(ROWS)])]
        return [whole.slice(start, end - start) for start, end in itertools.pairwise([0, *ends])]

    batches = list(beside(iter(cut(["m", "n"], one)), iter(cut(["s"], other))))
    expected = [row and {name: row[name] for name in ("m", "n", "s")} for row in ROWS]
    assert [row for batch in batches for row in batch.column("add").to_pylist()] == expected
    for batch in batches:
        batch.validate(full=True)


def test_columns_of_different_lengths_are_refused() -> None:
    long, short = (
        pa.RecordBatch.from_arrays([pa.array([{name: n} for n in range(length)])], ["add"])
        for name, length in (("a", 5), ("b", 3))
    )
    with pytest.raises(ValueError, match="length"):
        list(beside(iter([long]), iter([short])))
