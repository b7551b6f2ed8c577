"""Assets of Dagster kept in tables, in real runs: `make hunt PART=integrations`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import deltalake
import pandas as pd
import pyarrow as pa
import pytest

import txlog
from txlog.core.operations import _batch_write as batch_write
from txlog.core.operations import plan_for_rows
from txlog.integrations.dagster import TxlogIOManager

DAILY = dg.DailyPartitionsDefinition("2026-11-18", end_date="2026-11-23")
SIZES: list[int] = [2]


@dg.asset(partitions_def=DAILY, metadata={"partition_expr": "day"}, key_prefix="sales")
def orders(context: dg.AssetExecutionContext) -> pa.Table:
    days = [key for key in context.partition_keys for _ in range(SIZES[-1])]
    return pa.table({"id": range(len(days)), "day": pa.array(days).cast(pa.date32())})


@dg.asset(partitions_def=dg.StaticPartitionsDefinition(["de", "fr"]), metadata={"partition_expr": "country"})
def customers(context: dg.AssetExecutionContext) -> pd.DataFrame:
    return pd.DataFrame({"country": [context.partition_key], "name": ["x"]})


@dg.asset(ins={"orders": dg.AssetIn(key=["sales", "orders"])}, partitions_def=DAILY, metadata={"partition_expr": "day"})
def counts(context: dg.AssetExecutionContext, orders: pd.DataFrame) -> pa.Table:
    return pa.table({"day": pa.array([context.partition_key]).cast(pa.date32()), "orders": [len(orders)]})


@dg.asset
def total(counts: pa.Table) -> pa.Table:
    return pa.table({"orders": [sum(counts["orders"].to_pylist())]})


@dg.asset(partitions_def=DAILY)
def unnamed() -> pa.Table:
    return pa.table({"id": [1]})


AMOUNTS: list[float] = [9.5]


@dg.asset(partitions_def=DAILY, required_resource_keys={"root"})
def checked_orders(context: dg.AssetExecutionContext) -> None:
    day = context.partition_key
    rows = pa.table({"day": [day], "amount": [AMOUNTS[-1]]})
    with txlog.Table.open(f"{context.resources.root}/checked_orders").audit("amount >= 0") as staged:
        staged.overwrite(rows, where=f"day = '{day}'")


ASSETS = [orders, customers, counts, total, unnamed, checked_orders]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "tables"


def run(root: Path, asset: dg.AssetsDefinition, partition: str | None = None, **more: Any) -> dg.ExecuteInProcessResult:
    resources = {"io_manager": TxlogIOManager(root=str(root)), "root": str(root)}
    return dg.materialize(ASSETS, selection=[asset], resources=resources, partition_key=partition, **more)


def run_only(root: Path, asset: dg.AssetsDefinition, partition: str | None) -> None:
    dg.materialize([asset], resources={"io_manager": TxlogIOManager(root=str(root))}, partition_key=partition)


def rows(root: Path, *key: str) -> list[dict[str, Any]]:
    return deltalake.DeltaTable(str(root.joinpath(*key))).to_pyarrow_table().to_pylist()


def test_a_materialization_replaces_its_partition_and_says_what_it_wrote(root: Path) -> None:
    for day in ("2026-11-20", "2026-11-18", "2026-11-20"):
        result = run(root, orders, day)
    assert sorted(str(row["day"]) for row in rows(root, "sales", "orders")) == 2 * ["2026-11-18"] + 2 * ["2026-11-20"]
    (event,) = result.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert (metadata["version"].value, metadata["dagster/row_count"].value) == (2, 2)
    assert metadata["size_bytes"].value > 0
    assert txlog.Table.open(root / "sales" / "orders").history(1)[0]["userMetadata"] == f"dagster run {result.run_id}"


def test_assets_that_follow_get_the_rows_of_their_partition(root: Path) -> None:
    for day in ("2026-11-18", "2026-11-19"):
        run(root, orders, day)
        run(root, counts, day)
    assert [row["orders"] for row in rows(root, "counts")] == [2, 2]
    run(root, total)
    run(root, total)
    assert rows(root, "total") == [{"orders": 4}]


def test_partitions_that_are_no_times_are_rows_too(root: Path) -> None:
    for country in ("de", "fr", "de"):
        run(root, customers, country)
    assert sorted(row["country"] for row in rows(root, "customers")) == ["de", "fr"]


REGIONS = dg.StaticPartitionsDefinition(["eu", "us"])
SHOPS = dg.StaticPartitionsDefinition(["a", "b"])


@pytest.mark.parametrize("first", [DAILY, SHOPS], ids=["days", "shops"])
def test_a_key_of_several_dimensions_replaces_only_its_own_rows(
    root: Path, first: dg.PartitionsDefinition[str]
) -> None:
    both = dg.MultiPartitionsDefinition({"first": first, "region": REGIONS})
    columns = {"partition_expr": {"first": "part", "region": "region"}}

    @dg.asset(partitions_def=both, metadata=columns, backfill_policy=dg.BackfillPolicy.single_run())
    def both_ways(context: dg.AssetExecutionContext) -> pa.Table:
        keys = [context.partition_keys] if isinstance(context.partition_keys, str) else context.partition_keys
        found = [both.get_partition_key_from_str(str(key)).keys_by_dimension for key in keys]
        return pa.table({"part": [key["first"] for key in found], "region": [key["region"] for key in found]})

    @dg.asset(partitions_def=both, metadata=columns)
    def loaded(both_ways: pa.Table) -> pa.Table:
        return both_ways

    resources = {"io_manager": TxlogIOManager(root=str(root))}

    def materialize(asset: dg.AssetsDefinition, part: str, region: str) -> None:
        key = dg.MultiPartitionKey({"first": part, "region": region})
        dg.materialize([both_ways, loaded], selection=[asset], resources=resources, partition_key=key)

    def keys(table: str) -> list[str]:
        return sorted(f"{row['part']}|{row['region']}" for row in rows(root, table))

    one, two = first.get_partition_keys()[:2]
    for part, region in ((one, "eu"), (one, "us"), (two, "eu"), (two, "us"), (one, "eu")):
        materialize(both_ways, part, region)
    written = [f"{one}|eu", f"{one}|us", f"{two}|eu", f"{two}|us"]
    assert keys("both_ways") == written
    materialize(loaded, one, "us")
    assert keys("loaded") == [f"{one}|us"]
    for begin, end in ((f"{one}|eu", f"{two}|eu"), (f"{one}|us", f"{two}|eu")):  # from us to eu is nothing
        tags = {"dagster/asset_partition_range_start": begin, "dagster/asset_partition_range_end": end}
        dg.materialize([both_ways], resources=resources, tags=tags)
        assert keys("both_ways") == written


def test_several_dimensions_with_one_column_are_refused_with_the_names_to_give(root: Path) -> None:
    @dg.asset(
        partitions_def=dg.MultiPartitionsDefinition({"day": DAILY, "region": REGIONS}),
        metadata={"partition_expr": "day"},
    )
    def by_day() -> pa.Table:
        return pa.table({"day": ["2026-11-18"], "region": ["eu"]})

    with pytest.raises(txlog.InvalidInputError, match=r'column of each by .*\{"region": "...", "day": "..."\}'):
        run_only(root, by_day, dg.MultiPartitionKey({"day": "2026-11-18", "region": "eu"}))


def test_the_first_materialization_refuses_rows_of_other_partitions_too(root: Path) -> None:
    @dg.asset(partitions_def=DAILY, metadata={"partition_expr": "day"})
    def stray() -> pa.Table:
        return pa.table({"day": ["2026-11-18", "2026-11-19"]})

    with pytest.raises(txlog.InvalidInputError, match="rows outside the part"):
        run_only(root, stray, "2026-11-18")
    assert not txlog.Table.exists(root / "stray")


@pytest.mark.parametrize("partitions", [None, dg.StaticPartitionsDefinition(["de"])], ids=["whole", "partition"])
def test_of_two_first_materializations_at_once_one_replaces_the_other(
    root: Path, partitions: dg.PartitionsDefinition[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = None if partitions is None else "de"

    @dg.asset(partitions_def=partitions, metadata={"partition_expr": "country"})
    def raced() -> Iterator[pa.Table]:
        yield dg.Output(iter([pa.table({"country": ["de"]})]))

    # Between this run's look for a table and its commit, another one has committed.
    def planned(*given: Any, **named: Any) -> Any:
        job = plan_for_rows(*given, **named)
        monkeypatch.undo()
        run_only(root, raced, key)
        return job

    monkeypatch.setattr(batch_write, "plan_for_rows", planned)
    run_only(root, raced, key)
    assert rows(root, "raced") == [{"country": "de"}]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Asia/Kolkata"])
@pytest.mark.parametrize("kind", [pa.date32(), pa.string(), pa.timestamp("us"), pa.timestamp("us", "UTC")], ids=str)
def test_days_of_a_time_zone_are_the_days_of_a_column(root: Path, zone: str, kind: pa.DataType) -> None:
    days = dg.DailyPartitionsDefinition("2026-11-18", end_date="2026-11-23", timezone=zone)

    @dg.asset(partitions_def=days, metadata={"partition_expr": "day"})
    def local(context: dg.AssetExecutionContext) -> pa.Table:
        noon = context.partition_time_window.start.replace(hour=12)
        key = pa.array([noon], pa.timestamp("us", zone)) if pa.types.is_timestamp(kind) else [context.partition_key]
        if kind == pa.timestamp("us"):
            key = pa.array([noon.replace(tzinfo=None)])
        return pa.table({"day": pa.array(key).cast(kind), "key": [context.partition_key]})

    @dg.asset(partitions_def=days, metadata={"partition_expr": "day"})
    def seen(local: pa.Table) -> pa.Table:
        return local

    resources = {"io_manager": TxlogIOManager(root=str(root))}
    for asset, last in ((local, 20), (local, 19), (seen, 19)):
        for day in range(18, last + 1):
            dg.materialize([local, seen], selection=[asset], resources=resources, partition_key=f"2026-11-{day}")
    assert sorted(row["key"] for row in rows(root, "local")) == ["2026-11-18", "2026-11-19", "2026-11-20"]
    assert sorted(row["key"] for row in rows(root, "seen")) == ["2026-11-18", "2026-11-19"]


def test_a_partition_whose_column_is_not_named_is_refused(root: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match="partition_expr"):
        run(root, unnamed, "2026-11-18")


def test_an_asset_is_published_if_it_passes_its_checks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = txlog.Table.create(root / "checked_orders", "day string, amount double")
    for _ in range(2):
        assert run(root, checked_orders, "2026-11-20").success
    monkeypatch.setitem(globals(), "AMOUNTS", [-1.0])
    failed = run(root, checked_orders, "2026-11-21", raise_on_error=False)
    assert not failed.success
    assert "amount >= 0: 1 row fails" in str(failed.failure_data_for_node("checked_orders"))
    found = deltalake.DeltaTable(table.uri).to_pyarrow_table().to_pylist()
    assert found == [{"day": "2026-11-20", "amount": 9.5}]
