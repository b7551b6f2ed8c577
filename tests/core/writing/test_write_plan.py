"""The plan that a task gets: defaults, table properties, and names of files."""

from __future__ import annotations

import datetime
import json
import pickle
import re
import zoneinfo
from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.schema import DATE, LONG, STRING, TIMESTAMP, VOID, Array, Field, Struct, schema_to_json
from txlog.core.predicates import evaluate
from txlog.core.writing._write_plan import FileNames, TaskIdentity, WritePlan
from txlog.errors import InvalidInputError, UnsupportedFeatureError

PLAIN = Protocol(1, 2)
SCHEMA = Struct((Field("id", LONG), Field("day", STRING)))


def metadata(schema: Struct = SCHEMA, **configuration: str) -> Metadata:
    properties = {f"delta.{key.replace('_', '.')}": value for key, value in configuration.items()}
    return Metadata("table-id", schema_to_json(schema), ("day",), properties, {"provider": "parquet"})


def test_a_plan_uses_the_tables_properties_unless_the_caller_sets_options() -> None:
    found = metadata(targetFileSize="16mb", parquet_compression_codec="ZSTD", randomizeFilePrefixes="true")
    plan = WritePlan.of(found, PLAIN, table="t")
    assert (plan.target_file_size_bytes, plan.parquet.codec, plan.random_prefix_length) == (16 << 20, "zstd", 2)
    wished = WritePlan.of(
        found, PLAIN, table="t", target_file_size_bytes=1000, parquet={"parquet.compression": "uncompressed"}
    )
    assert (wished.target_file_size_bytes, wished.parquet.codec) == (1000, "none")


def test_without_a_property_files_are_snappy_as_spark_writes_them() -> None:
    assert WritePlan.of(metadata(), PLAIN, table="t").parquet.codec == "snappy"


def test_a_plan_pickles_and_compares_equal_on_the_other_side() -> None:
    plan = WritePlan.of(metadata(), PLAIN, table="t", read_version=4)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.schema == SCHEMA
    assert (plan.table_id, plan.read_version, plan.partition_columns) == ("table-id", 4, ("day",))


def test_zero_records_per_file_means_no_bound() -> None:
    assert WritePlan.of(metadata(), PLAIN, table="t", max_records_per_file=0).max_records_per_file is None


@pytest.mark.parametrize(
    "wishes",
    [
        {"target_file_size_bytes": -1},
        {"max_records_per_file": -5},
        {"memory_budget_bytes": -1},
        {"max_open_files": -1},
    ],
)
def test_an_invalid_option_is_refused_and_named(wishes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wishes))):
        WritePlan.of(metadata(), PLAIN, table="t", **wishes)


def test_a_void_type_inside_a_column_cannot_be_written() -> None:
    with pytest.raises(UnsupportedFeatureError, match="column v has a void type"):
        WritePlan.of(metadata(Struct((Field("v", Array(VOID)), Field("day", STRING)))), PLAIN, table="t")


def test_file_names_carry_job_task_attempt_and_randomness_but_no_application() -> None:
    plan = WritePlan.of(metadata(), PLAIN, table="t")
    task = TaskIdentity("job/7 ü", task_id=3, attempt=2, app_id="orders", checkpoint_id=5)
    first, second = FileNames.of(task, plan), FileNames.of(task, plan)
    name = first.path("day=x", 1, 4)
    assert re.fullmatch(r"day=x/part-00003-job-7-2-[0-9a-f]{16}-00001-004\.snappy\.parquet", name)
    assert name.startswith("day=x/" + task.file_name_prefix())
    assert "orders" not in name
    assert second.path("day=x", 1, 4) != name


def test_random_prefixes_take_the_place_of_partition_directories() -> None:
    plan = WritePlan.of(metadata(randomizeFilePrefixes="true", randomPrefixLength="5"), PLAIN, table="t")
    names = FileNames.of(TaskIdentity("job"), plan)
    directories = {names.path("day=x", 0, number).split("/")[0] for number in range(20)}
    assert len(directories) > 1
    assert all(re.fullmatch("[0-9a-z]{5}", directory) for directory in directories)


def test_a_schema_given_is_not_parsed_again() -> None:
    broken = Metadata("id", json.dumps("not a schema"), (), {}, {})
    assert WritePlan.of(broken, PLAIN, table="t", schema=SCHEMA).schema is SCHEMA


def test_a_plan_in_another_zone_computes_columns_and_defaults_in_that_zone() -> None:
    fields = (
        Field("at", TIMESTAMP),
        Field("day", STRING, metadata={"delta.generationExpression": "cast(cast(at as date) as string)"}),
        Field("noon", TIMESTAMP, metadata={"CURRENT_DEFAULT": "timestamp'2024-01-01 12:00:00'"}),
        Field("today", DATE, metadata={"CURRENT_DEFAULT": "current_date()"}),
    )
    found = Metadata("t", schema_to_json(Struct(fields)), (), {}, {"provider": "parquet"})
    moment = datetime.datetime(2024, 5, 6, 20, tzinfo=datetime.timezone.utc)
    rows = pa.record_batch({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    for name in ("Asia/Tokyo", "America/Los_Angeles"):
        zone = zoneinfo.ZoneInfo(name)
        computed = WritePlan.of(found, PLAIN, table="t").in_zone(name).computed
        assert computed is not None
        day = str(moment.astimezone(zone).date())
        assert computed.generated[0].of(rows).to_pylist() == [day]
        for each in (computed, computed.at(moment)):
            noon = each.default_of("noon")
            assert noon is not None
            assert evaluate(noon, rows).to_pylist() == [datetime.datetime(2024, 1, 1, 12, tzinfo=zone)]
        today = computed.at(moment).default_of("today")
        assert today is not None
        assert evaluate(today, rows).to_pylist() == [moment.astimezone(zone).date()]
        wrong = rows.append_column("day", pa.array(["2000-01-01"]))
        with pytest.raises(InvalidInputError, match=f"times are in {name}"):
            computed.check(computed.generated, wrong)
