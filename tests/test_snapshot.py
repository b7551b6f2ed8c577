"""`Snapshot`: one version of a table, as facts, as files and as rows."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.predicates import col
from txlog.errors import InvalidInputError
from txlog.result import in_milliseconds
from txlog.table import Table

UTC = dt.timezone.utc
BEGIN = dt.datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("x", pa.float64())])


def rows_of(*ids: int) -> pa.Table:
    days = ["mon" if i % 2 else "tue" for i in ids]
    return pa.table({"id": list(ids), "day": days, "x": [i / 2 for i in ids]}, schema=SCHEMA)


def ids_of(rows: pa.Table) -> list[int]:
    return sorted(rows.column("id").to_pylist())


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    """Versions 0 to 3, an hour apart from noon: 1 and 2, then 3 too, then only 4, then only 4 with a property."""
    table = make_table(rows_of(1, 2), partition_by=["day"])
    table.append(rows_of(3), app_id="app", checkpoint_id=7)
    table.overwrite(rows_of(4))
    table.set_properties({"team": "x"})
    for version in range(4):
        seconds = (BEGIN + dt.timedelta(hours=version)).timestamp()
        os.utime(Path(table.uri) / "_delta_log" / f"{version:020}.json", (seconds, seconds))
    return Table.open(table.uri)


def test_an_older_version_has_its_own_files_while_a_newer_ones_are_held(table: Table) -> None:
    newest = table.snapshot().files()
    oldest = table.snapshot(0)
    assert ids_of(oldest.to_arrow()) == [1, 2]
    assert not set(oldest.files()["path"].to_pylist()) & set(newest["path"].to_pylist())


# --- a table reads as its newest version ------------------------------------------------------------------------------


def test_a_table_tells_what_its_newest_version_tells(table: Table) -> None:
    snapshot = table.snapshot()
    public = [name for name in dir(snapshot) if not name.startswith("_")]
    assert {"files", "to_batches", "properties", "transactions"} <= {*public}
    calls: dict[str, tuple[Any, ...]] = {"transaction_version": ("app",)}
    for name in public:
        of_table, of_version = getattr(table, name), getattr(snapshot, name)
        if callable(of_version):
            of_table, of_version = (each(*calls.get(name, ())) for each in (of_table, of_version))
        if name == "to_lazy":
            of_table, of_version = of_table.collect(), of_version.collect()
        if name == "to_dataset":
            of_table, of_version = of_table.to_table(), of_version.to_table()
        if name == "to_batches":
            of_table, of_version = list(of_table), list(of_version)
        same = of_table.equals(of_version) if hasattr(of_version, "equals") else of_table == of_version
        assert same, name
    table.append(rows_of(8))
    assert (table.num_files, snapshot.num_files, ids_of(table.to_arrow())) == (2, 1, [4, 8])


@pytest.mark.parametrize(
    "reads", [Table.to_arrow, Table.count, Table.files, pa.table, lambda table: [*table.to_batches()]]
)
def test_an_overwrite_of_rows_that_a_table_read_loses_to_a_change_after_that(
    reads: Callable[[Table], object], table: Table
) -> None:
    reads(table)
    assert Table.open(table.uri).delete("id = 4").version == 4
    print(table.num_files, table.schema, table.properties)  # facts, of which no rows are made
    with pytest.raises(txlog.ConflictError):
        table.overwrite(rows_of(5), where="id > 0")


def test_a_wrong_call_is_named_after_the_class_that_it_was_made_on(table: Table) -> None:
    for owner in (table, table.snapshot()):
        with pytest.raises(
            txlog.InvalidInputError, match=rf"^{type(owner).__name__}.count\(\) has no argument 'predicate'"
        ):
            owner.count(predicate="id = 1")  # type: ignore[call-arg]


# --- facts ------------------------------------------------------------------------------------------------------------


def test_each_version_has_its_own_facts(table: Table) -> None:
    facts = [table.snapshot(version) for version in range(4)]
    assert [snapshot.version for snapshot in facts] == [0, 1, 2, 3]
    assert [snapshot.num_files for snapshot in facts] == [2, 3, 1, 1]
    assert [ids_of(snapshot.to_arrow()) for snapshot in facts] == [[1, 2], [1, 2, 3], [4], [4]]
    assert [snapshot.transaction_version("app") for snapshot in facts] == [None, 7, 7, 7]
    assert [snapshot.properties for snapshot in facts] == [{}, {}, {}, {"team": "x"}]
    assert [in_milliseconds(snapshot.timestamp) for snapshot in facts] == [
        int((BEGIN + dt.timedelta(hours=version)).timestamp() * 1000) for version in range(4)
    ]
    assert len({snapshot.table_id for snapshot in facts}) == 1
    assert (facts[3].protocol.min_reader_version, facts[3].protocol.min_writer_version) == (1, 2)


def test_a_snapshots_size_is_its_files_size(table: Table, tmp_path: Path) -> None:
    snapshot = table.snapshot(1)
    on_disk = [(tmp_path / "t" / path).stat().st_size for path in snapshot.files().column("path").to_pylist()]
    assert (snapshot.num_files, snapshot.size_bytes) == (len(on_disk), sum(on_disk))
    assert Table.create(tmp_path / "empty", SCHEMA).snapshot().size_bytes == 0


def test_a_snapshot_stays_the_same_when_the_table_changes(table: Table) -> None:
    before = table.snapshot()
    table.append(rows_of(5))
    table.set_properties({"team": "y"})
    assert (before.version, before.properties, ids_of(before.to_arrow())) == (3, {"team": "x"}, [4])
    assert table.snapshot().version == 5


def test_snapshots_of_one_version_are_equal_and_have_the_same_hash(table: Table, tmp_path: Path) -> None:
    again = Table.open(tmp_path / "t").snapshot(2)
    assert table.snapshot(2) == again
    assert len({table.snapshot(2), again, table.snapshot(3)}) == 2
    assert table.snapshot(2) != "v2"
    assert (
        repr(again)
        == f"Snapshot({tmp_path / 't'}, version=2, 3 columns: id bigint, day string, x double, partitioned by day)"
    )


def test_the_properties_of_a_snapshot_are_a_copy(table: Table) -> None:
    dict(table.snapshot().properties)["team"] = "z"
    table.snapshot().properties["team"] = "z"  # type: ignore[index]
    assert table.snapshot().properties == {"team": "x"}


# --- time travel ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (BEGIN, 0),
        (BEGIN + dt.timedelta(minutes=59, seconds=59, milliseconds=999), 0),
        (BEGIN + dt.timedelta(hours=1), 1),
        ("2026-11-20T14:30:00Z", 2),
        ("2026-11-20 14:30:00", 2),
        ("2026-11-20T15:30:00+01:00", 2),
        (dt.datetime(2026, 11, 20, 15), 3),
        (dt.datetime(2026, 11, 20, 15, 0, 0, 1000), 3),
        (dt.datetime(9999, 12, 31), 3),
        ("9999-12-31", 3),
        (int(BEGIN.timestamp() * 1000) + 3_600_000, 1),
        (99_999_999_999_999, 3),
        (dt.datetime(2026, 11, 20, 16, tzinfo=dt.timezone(dt.timedelta(hours=1))), 3),
    ],
)
def test_a_timestamp_selects_the_newest_version_at_or_before_it(timestamp: Any, version: int, table: Table) -> None:
    assert table.snapshot(timestamp=timestamp).version == version


@pytest.mark.parametrize(
    "travel",
    [
        {"version": 4},
        {"version": 2**62},
        {"timestamp": BEGIN - dt.timedelta(milliseconds=1)},
        {"timestamp": dt.date(2026, 11, 20)},
        {"timestamp": "1970-01-21"},
        {"timestamp": 999_999_999},
    ],
)
def test_versions_and_times_that_the_table_never_had_are_not_found(travel: dict[str, Any], table: Table) -> None:
    with pytest.raises(txlog.NotFoundError) as caught:
        table.snapshot(**travel)
    assert caught.value.table == table.uri


@pytest.mark.parametrize(
    ("factor", "unit"), [(0.001, "in seconds, multiply it by 1000"), (1e3, "in microseconds"), (1e6, "in nanoseconds")]
)
def test_a_number_of_another_unit_is_not_taken_for_milliseconds(factor: float, unit: str, table: Table) -> None:
    """Seconds would be a day of January 1970, and microseconds a far future, which is the newest version."""
    moment_ms = int(BEGIN.timestamp() * 1000) + 3_600_000
    with pytest.raises(txlog.InvalidInputError, match=unit):
        table.snapshot(timestamp=int(moment_ms * factor))


@pytest.mark.parametrize(
    "travel",
    [
        {"version": -1},
        {"version": True},
        {"version": 1.0},
        {"version": "1"},
        {"timestamp": "yesterday"},
        {"timestamp": -1},
        {"timestamp": 1.5},
        {"timestamp": True},
        {"version": 1, "timestamp": "2026-11-20"},
    ],
)
def test_invalid_versions_and_timestamps_are_refused(travel: dict[str, Any], table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError):
        table.snapshot(**travel)


def test_versions_below_a_cleaned_up_checkpoint_are_not_found_and_the_rest_is(table: Table, tmp_path: Path) -> None:
    table.create_checkpoint()
    table.append(rows_of(5))
    for version in range(3):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    reopened = Table.open(tmp_path / "t")
    assert ids_of(reopened.snapshot(3).to_arrow()) == [4]
    assert ids_of(reopened.snapshot().to_arrow()) == [4, 5]
    for version in range(3):
        with pytest.raises(txlog.NotFoundError):
            reopened.snapshot(version)
    with pytest.raises(txlog.NotFoundError):
        reopened.snapshot(timestamp=BEGIN)


def test_commit_files_whose_times_run_backwards_still_order_the_versions(tmp_path: Path) -> None:
    """Delta's rule: a commit is at least a millisecond younger than the one before it."""
    path = tmp_path / "t"
    for number in range(3):
        txlog.write(path, rows_of(number))
        seconds = (BEGIN - dt.timedelta(minutes=number)).timestamp()
        os.utime(path / "_delta_log" / f"{number:020}.json", (seconds, seconds))
    table = Table.open(path)
    assert table.snapshot(timestamp=BEGIN).version == 0
    assert table.snapshot(timestamp=BEGIN + dt.timedelta(milliseconds=1)).version == 1
    assert table.snapshot(timestamp=BEGIN + dt.timedelta(milliseconds=2)).version == 2


def test_the_time_of_a_snapshot_is_the_one_in_history_also_where_copied_files_are_out_of_order(
    make_table: Callable[..., Table], rows: pa.Table
) -> None:
    table = make_table(rows)
    table.append(rows)
    table.append(rows)
    for version, second in enumerate((1_700_000_300, 1_700_000_100, 1_700_000_200)):
        os.utime(Path(table.uri) / "_delta_log" / f"{version:020d}.json", (second, second))
    times = [in_milliseconds(table.snapshot(version).timestamp) for version in range(3)]
    assert times == [1_700_000_300_000, 1_700_000_300_001, 1_700_000_300_002]
    assert times == [in_milliseconds(entry["timestamp"]) for entry in reversed(table.history())]


# --- files and rows ---------------------------------------------------------------------------------------------------


def test_files_returns_a_table_of_the_live_files_in_the_log(table: Table) -> None:
    files = table.snapshot(1).files()
    assert files.num_rows == 3
    assert {"path", "partitionValues", "size", "modificationTime", "stats"} <= set(files.column_names)
    assert all(path.endswith(".parquet") for path in files.column("path").to_pylist())
    assert sorted(dict(values)["day"] for values in files.column("partitionValues").to_pylist()) == [
        "mon",
        "mon",
        "tue",
    ]


@pytest.mark.parametrize(
    ("where", "files", "ids"),
    [
        ("day = 'mon'", 2, [1, 3]),
        ("id > 2", 1, [3]),
        ("DAY = 'tue' OR x >= 1.5", 2, [2, 3]),
        (col("id").is_in([1, 2, 99]), 2, [1, 2]),
        ((col("day") == "mon") & ~(col("id") == 3), 1, [1]),
        ("id IS NULL", 0, []),
        ("id = 99", 0, []),
    ],
)
def test_a_condition_chooses_files_and_then_rows_exactly(where: Any, files: int, ids: list[int], table: Table) -> None:
    snapshot = table.snapshot(1)
    assert snapshot.files(where).num_rows == files
    assert ids_of(snapshot.to_arrow(where=where)) == ids
    assert sum(batch.num_rows for batch in snapshot.to_batches(where=where)) == len(ids)


def test_a_condition_may_use_columns_that_are_not_selected(table: Table) -> None:
    assert table.snapshot(1).to_arrow(columns=["x"], where="id = 3 and day = 'mon'").to_pylist() == [{"x": 1.5}]
    assert table.snapshot(1).to_arrow(columns=["day"]).column_names == ["day"]


@pytest.mark.parametrize(
    "where", ["nothing = 1", "id = ", "id = 'x'", "rand() = 1", "id = nothing", "", "1; drop table t"]
)
def test_a_condition_that_does_not_fit_the_table_is_refused_with_its_place(where: str, table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError) as caught:
        table.snapshot(1).to_arrow(where=where)
    assert (caught.value.table, caught.value.version) == (table.uri, 1)


def test_rows_come_in_bounded_batches(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", pa.table({"id": pa.array(range(300_000), pa.int64())}))
    sizes = [batch.num_rows for batch in Table.open(tmp_path / "t").snapshot().to_batches()]
    assert sum(sizes) == 300_000
    assert max(sizes) <= 131_072


def test_a_missing_data_file_is_named(table: Table, tmp_path: Path) -> None:
    path = table.snapshot().files().column("path").to_pylist()[0]
    (tmp_path / "t" / path).unlink()
    with pytest.raises(txlog.NotFoundError) as caught:
        table.snapshot().to_arrow()
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{tmp_path / 't'} v3: ")


@pytest.mark.parametrize(("where", "count"), [(None, 3), ("id > 1", 2), ("day = 'a'", 2), ("id > 9", 0)])
def test_a_read_without_columns_keeps_the_number_of_rows(
    make_table: Callable[..., Table], rows: pa.Table, where: str | None, count: int
) -> None:
    snapshot = make_table(rows, partition_by=["day"]).snapshot()
    found = snapshot.to_arrow(columns=[], where=where)
    assert (found.num_rows, found.num_columns) == (count, 0)
    assert sum(batch.num_rows for batch in snapshot.to_batches(columns=[], where=where)) == count


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def test_a_damaged_data_file_can_be_removed_as_its_error_advises(
    make_table: Callable[..., Table], rows: pa.Table
) -> None:
    table = make_table(rows, partition_by=["day"])
    [path] = table.snapshot().files("day = 'a'")["path"].to_pylist()
    lost = table.snapshot().to_arrow(where="day = 'a'")
    _cut_short(Path(table.uri) / path)
    with pytest.raises(txlog.CorruptLogError, match=r"with txn\.remove\(path\) in a table\.transaction\(\)") as caught:
        table.snapshot().to_arrow()
    assert caught.value.path == path
    with table.transaction() as txn:
        txn.remove(path)
        txn.append(lost)
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_missing_data_files_can_be_taken_out_as_their_error_advises(
    make_table: Callable[..., Table], rows: pa.Table
) -> None:
    table = make_table(rows, partition_by=["day"])
    [path] = table.snapshot().files("day = 'a'")["path"].to_pylist()
    (Path(table.uri) / path).unlink()
    with pytest.raises(txlog.NotFoundError, match=r"table\.repair\(remove=True\)") as caught:
        table.snapshot().to_arrow()
    assert caught.value.path == path
    table.repair(remove=True)
    assert table.snapshot().to_arrow()["id"].to_pylist() == [2]


# --- the Arrow stream -------------------------------------------------------------------------------------------------

TAKERS = {
    "pyarrow": lambda snapshot: pa.table(snapshot),
    "pyarrow, as a stream": lambda snapshot: pa.RecordBatchReader.from_stream(snapshot).read_all(),
    "polars": lambda snapshot: pl.DataFrame(snapshot).to_arrow(),
    "pandas": lambda snapshot: pa.Table.from_pandas(pd.DataFrame.from_arrow(snapshot)),
    "duckdb, by name": lambda snapshot: duckdb.sql("select * from snapshot").to_arrow_table(),
    "duckdb": lambda snapshot: duckdb.from_arrow(snapshot).to_arrow_table(),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("version", [1, 2])
def test_other_libraries_read_a_snapshot_directly(taker: str, version: int, table: Table) -> None:
    if taker == "pandas" and not hasattr(pd.DataFrame, "from_arrow"):
        pytest.skip("NOT TESTED: pandas takes Arrow streams from its release 3 on")
    snapshot = table.snapshot(version)
    for _ in range(2):  # not used up by being read
        rows = TAKERS[taker](snapshot)
        assert rows.column_names == ["id", "day", "x"]
        assert sorted(rows.to_pylist(), key=lambda row: row["id"]) == sorted(
            snapshot.to_arrow().to_pylist(), key=lambda row: row["id"]
        )


def test_an_empty_table_streams_its_schema(tmp_path: Path) -> None:
    snapshot = Table.create(tmp_path / "t", SCHEMA).snapshot()
    assert pl.DataFrame(snapshot).columns == ["id", "day", "x"]
    assert pa.table(snapshot).schema == SCHEMA


def test_the_arrow_stream_of_a_snapshot_reports_a_missing_file(table: Table, tmp_path: Path) -> None:
    for path in table.snapshot().files().column("path").to_pylist():
        (tmp_path / "t" / path).unlink()
    with pytest.raises(Exception, match="which is missing"):
        pa.table(table.snapshot())


def test_a_vacuumed_version_says_to_read_a_newer_one(table: Table) -> None:
    table.overwrite(table.to_arrow())
    old = table.version - 1
    table.vacuum(0, force=True)
    with pytest.raises(txlog.NotFoundError, match="only an old version has it, read a newer version") as caught:
        table.snapshot(old).to_arrow()
    assert caught.value.version == old
    assert table.snapshot().count() == table.to_arrow().num_rows


def test_errors_of_reads_pickle(table: Table) -> None:
    with pytest.raises(txlog.NotFoundError) as caught:
        table.snapshot(9)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (txlog.NotFoundError, str(caught.value))


# --- for people -------------------------------------------------------------------------------------------------------


EXACT = 2**60 + 1  # no float has it
WITH_NULLS = pa.table(
    {
        "n": pa.array([EXACT, None], pa.int64()),
        "small": pa.array([1, None], pa.int16()),
        "whole": pa.array([EXACT, 7], pa.int64()),
        "listed": pa.array([[EXACT, None], None], pa.list_(pa.int64())),
        "in_struct": pa.array([{"n": EXACT}, {"n": None}], pa.struct([("n", pa.int64())])),
        "mapped": pa.array([[("a", EXACT), ("b", None)], None], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[{"n": EXACT}, {"n": None}], None], pa.list_(pa.struct([("n", pa.int64())]))),
        "is": [True, None],
        "x": [1.5, None],
        "s": ["a", None],
    }
)


def test_pandas_gets_integers_beside_nulls_as_they_are(make_table: Callable[..., Table]) -> None:
    table = make_table(WITH_NULLS)
    for found in (table.to_pandas(), table.snapshot().to_pandas()):
        assert [str(each) for each in found.dtypes[:3]] == ["Int64", "Int16", "int64"]
        assert (found["n"][0], found["n"].isna().tolist()) == (EXACT, [False, True])
        (first, second), *_ = found["listed"]
        assert (first, second) == (EXACT, None)
        assert (found["in_struct"][0], found["deep"][0][0]) == ({"n": EXACT}, {"n": EXACT})
        assert found["mapped"][0] == [("a", EXACT), ("b", None)]
        written_back = pa.Table.from_pandas(found, schema=WITH_NULLS.schema, preserve_index=False)
        assert written_back.to_pylist() == WITH_NULLS.to_pylist()


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_pandas_types_are_those_that_pandas_gives_the_same_rows(
    make_table: Callable[..., Table], tmp_path: Path, backend: Any
) -> None:
    flat = WITH_NULLS.select(["n", "small", "whole", "is", "x", "s"])
    pq.write_table(flat, tmp_path / "same.parquet")
    expected = pd.read_parquet(tmp_path / "same.parquet", dtype_backend=backend)
    table = make_table(flat)
    pd.testing.assert_frame_equal(table.to_pandas(dtype_backend=backend), expected)
    if backend == "pyarrow":
        pd.testing.assert_frame_equal(table.to_pandas(types_mapper=pd.ArrowDtype), expected)
    some = table.to_pandas(types_mapper=lambda kind: pd.StringDtype() if kind == pa.string() else None)
    assert (some["s"].dtype, some["n"].dtype) == (pd.StringDtype(), pd.Int64Dtype())
    with pytest.raises(InvalidInputError, match="types_mapper and dtype_backend both decide"):
        table.to_pandas(types_mapper=pd.ArrowDtype, dtype_backend=backend)
    with pytest.raises(InvalidInputError, match="expected 'numpy_nullable' or 'pyarrow'"):
        table.to_pandas(dtype_backend="arrow")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="types_mapper"):
        table.to_pandas(types_mapper={})  # type: ignore[arg-type]


def test_rows_come_as_pandas_and_polars_too(table: Table) -> None:
    for source in (table, table.snapshot()):
        assert source.to_pandas(["id"], "id > 3").to_dict("list") == {"id": [4]}
        assert source.to_polars(["id", "day"]).rows() == [(4, "tue")]
        assert source.to_lazy().filter(polars.col("id") > 3).select("id").collect().rows() == [(4,)]
    assert polars.scan_delta(table).select("id").collect().rows() == [(4,)]
    assert ids_of(table.to_arrow()) == [4]
    assert table.to_dataset().to_table() == table.snapshot().to_arrow()


@pytest.mark.parametrize(
    "condition",
    [
        ~polars.col("id").is_in([1]),
        polars.col("id").is_in([1]).is_null(),
        polars.col("id").is_in([1]) == False,  # noqa: E712
        polars.col("id").is_in([1, 2]) | (polars.col("day") == "wed"),
        (polars.col("id") > 1).not_(),
        polars.col("id").is_null(),
        polars.lit(True),
    ],
    ids=str,
)
def test_a_lazy_frame_of_polars_keeps_the_rows_that_polars_keeps(tmp_path: Path, condition: polars.Expr) -> None:
    table = Table.create(tmp_path / "t", {"id": pa.int64(), "day": pa.string()})
    table.append(pa.table({"id": pa.array([1, 2], pa.int64()), "day": ["mon", "tue"]}))
    table.append(pa.table({"id": pa.array([None, 4], pa.int64()), "day": ["wed", None]}))
    expected = table.to_polars().filter(condition)
    assert table.to_lazy().filter(condition).sort("day").collect().rows() == expected.sort("day").rows()
    assert table.to_lazy().filter(condition).select("day").sort("day").head(1).collect().height == min(
        1, expected.height
    )


def test_a_few_rows_are_read_from_no_more_files_than_they_take(table: Table, tmp_path: Path) -> None:
    snapshot = table.snapshot(1)
    paths = snapshot.files()["path"].to_pylist()
    for path in paths[1:]:
        (tmp_path / "t" / path).unlink()
    assert snapshot.head(1, ["id"]).num_rows == 1
    assert snapshot.head(0).schema == snapshot.schema
    assert table.head().num_rows == 1
    with pytest.raises(txlog.NotFoundError):
        snapshot.head(2)
    with pytest.raises(txlog.InvalidInputError, match="Invalid n -1: expected"):
        snapshot.head(-1)


@pytest.mark.parametrize(("where", "count"), [(None, 3), ("id > 1", 2), ("day = 'mon'", 2), ("id > 9", 0)])
def test_count_equals_the_number_of_rows_read(where: str | None, count: int, table: Table) -> None:
    assert table.snapshot(1).count(where) == table.snapshot(1).to_arrow(where=where).num_rows == count


def test_the_log_counts_rows_and_only_files_without_a_count_are_opened(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.enableDeletionVectors": "true"})
    table.append(rows_of(*range(10)))
    table.delete("id in (2, 3)")
    table.append(rows_of(*range(20, 25)))
    [counted, uncounted] = sorted(table.snapshot().files()["path"].to_pylist(), key=lambda path: "x" in path)
    for path in (counted, uncounted):
        (tmp_path / "t" / path).rename(tmp_path / path.replace("/", "_"))
    assert table.count() == 13
    log = tmp_path / "t" / "_delta_log" / f"{table.version:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    [lost] = [line["add"] for line in lines if "add" in line]
    lost["stats"] = '{"numRecords":"many"}'
    next(line for line in lines if "commitInfo" in line)["commitInfo"].pop("txlog", None)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = Table.open(tmp_path / "t")
    with pytest.raises(txlog.NotFoundError) as caught:
        again.count()
    assert caught.value.path == lost["path"]
    (tmp_path / lost["path"].replace("/", "_")).rename(tmp_path / "t" / lost["path"])
    assert again.count() == 13


def test_files_whose_every_row_is_known_to_match_are_counted_without_a_read(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, ["day"], {"delta.enableDeletionVectors": "true"})
    table.append(rows_of(*range(10)))
    table.delete("id in (2, 3)")
    conditions = ["day = 'mon'", "id >= 0", "day = 'tue' and id < 9", "id between 0 and 100", "day like 'm%'", "id < 0"]
    counts = [duckdb.from_arrow(table.to_arrow()).filter(each).shape[0] for each in conditions]
    for file in (tmp_path / "t").glob("day=*/*"):
        file.rename(tmp_path / file.name)
    assert [table.count(each) for each in conditions] == counts == [4, 8, 4, 8, 4, 0]
    with pytest.raises(txlog.NotFoundError):
        table.count("id < 5")
    with pytest.raises(txlog.NotFoundError):
        table.count("x >= 0")  # a bound of floats leaves NaN out


def test_a_notebook_shows_the_version_and_escapes_what_it_shows(tmp_path: Path) -> None:
    schema = pa.schema({"<b>id</b>": pa.int64(), "day": pa.string()})
    table = Table.create(tmp_path / "t", schema, ["day"], {"delta.columnMapping.mode": "name"})
    table.append(pa.table({"<b>id</b>": [1, 2], "day": ["a", "b"]}))
    table.append(pa.table({"<b>id</b>": [3], "day": ["b"]}))
    shown = table._repr_html_()
    assert shown.startswith(f"<div><strong>Table {tmp_path / 't'}</strong>")
    assert "&lt;b&gt;id&lt;/b&gt;" in shown
    assert "<b>" not in shown
    assert "day (2 partitions)" in shown
    assert "3 files" in shown
    assert "bigint" in shown or "long" in shown
    assert shown.count("WRITE") == 2
    assert "CREATE TABLE" in shown
    older = table.snapshot(1)._repr_html_()
    assert "2 files" in older
    assert older.count("WRITE") == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_for_a_library_that_is_not_installed_say_what_to_install(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    monkeypatch.delitem(sys.modules, library)
    monkeypatch.setattr(sys, "meta_path", [_Without(library), *sys.meta_path])
    for read in [table.to_pandas] if library == "pandas" else [table.to_polars, table.to_lazy]:
        with pytest.raises(InvalidInputError, match=f"pip install {library}"):
            read()


class _Without:
    """Finds no library of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}")


def test_a_column_whose_name_is_anothers_path_is_filtered_by_its_own_statistics(tmp_path: Path) -> None:
    """A checkpoint's footer names both ``a.b``, and here it has the statistics of the struct's field alone."""
    schema = pa.schema({"a": pa.struct({"b": pa.int64()}), "a.b": pa.int64()})
    table = Table.create(tmp_path / "t", schema, properties={"delta.dataSkippingNumIndexedCols": "1"})
    rows = [{"a": {"b": 1}, "a.b": 100}, {"a": {"b": 2}, "a.b": 200}]
    table.append(pa.Table.from_pylist(rows, schema))
    table.create_checkpoint()
    read = Table.open(tmp_path / "t")
    assert read.to_arrow(where="`a.b` > 50").to_pylist() == rows
    assert read.to_arrow(where="a.b > 1").to_pylist() == rows[1:]


NAN = float("nan")


@pytest.mark.parametrize(
    "condition",
    [
        polars.col("f") > 0,
        polars.col("f") >= 0,
        ~(polars.col("f") <= 0),
        polars.col("f") != 1,
        polars.col("f") == NAN,
        polars.col("f") < NAN,
        polars.col("f").is_nan(),
        polars.col("f").is_between(0, float("inf")),
        polars.col("f").is_in([1.0, NAN]),
        (polars.col("f") > 5) & (polars.col("id") < 100),
    ],
    ids=str,
)
def test_a_lazy_frame_has_nan_above_every_number_as_polars_and_where_have(
    condition: polars.Expr, tmp_path: Path
) -> None:
    table = Table.create(tmp_path / "t", "id bigint, f double")
    table.append(pa.table({"id": [1, 2, 3, 4], "f": [1.0, NAN, None, -1.0]}))
    table.append(pa.table({"id": [5, 6], "f": [9.0, -9.0]}))
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [7, 8], "f": [NAN, -2.0]}), mode="append")
    table = Table.open(tmp_path / "t")
    expected = table.to_polars().filter(condition).sort("id").rows()
    found = table.to_lazy().filter(condition).select("id").sort("id").collect().rows()
    assert found == [(row[0],) for row in expected]


def test_a_lazy_frame_and_where_agree_on_nan(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, f double")
    table.append(pa.table({"id": [1, 2, 3, 4], "f": [1.0, NAN, None, -1.0]}))
    for operator, condition in ((">", polars.col("f") > 0), ("<=", polars.col("f") <= 0)):
        by_where = table.to_arrow(where=f"f {operator} 0")["id"].sort().to_pylist()
        assert by_where == sorted(table.to_lazy().filter(condition).collect()["id"].to_list())
