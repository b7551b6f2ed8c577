"""A Spark write of changes without a JVM: planned on the driver, written in tasks, committed on the driver.

The oracle is a dict of rows by their key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import txlog
from txlog.spark import open_tables
from txlog.spark.options import parse_stream_options, parse_write_options
from txlog.spark.planning import commit, plan
from txlog.spark.task import write_in_task

Change = tuple[Any, ...]
"""Kind, key, value, and sequence if the changes have one."""

COLUMNS = {"op": pa.string(), "k": pa.int64(), "v": pa.int64(), "at": pa.int64()}
FRAME = StructType([StructField(name, StringType() if name == "op" else LongType(), nullable=True) for name in COLUMNS])
CHANGES = {"upsertKeys": "k", "rowKindColumn": "op"}


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    open_tables._open.clear()
    yield
    open_tables._open.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = txlog.Table.create(tmp_path / "t", "k bigint not null, v bigint not null")
    table.append(pa.table({"k": [1, 2, 3], "v": [10, 20, 30]}))
    return tmp_path / "t"


def write(path: Path, tasks: Sequence[Sequence[Change]], **more: str) -> txlog.WriteResult | None:
    """What Spark does: plan, a task for each list of changes, and the commit of what they sealed."""
    options = parse_write_options({"path": str(path), **CHANGES, **more})
    count = len(COLUMNS) if "sequenceBy" in more else len(COLUMNS) - 1
    job, _ = plan(options, StructType(FRAME.fields[:count]), overwrite=False)
    committables = []
    for number, changes in enumerate(tasks):
        context: Any = SimpleNamespace(partitionId=lambda at=number: at, taskAttemptId=lambda: 0, cpus=lambda: 1)
        given = [dict(zip(COLUMNS, change, strict=False)) for change in changes]
        batch = pa.RecordBatch.from_pylist(given, pa.schema([*COLUMNS.items()][:count]))
        committables.append(write_in_task(options, job, context, iter([batch])))
    return commit(options, job, committables)


def rows(path: Path) -> dict[int, int]:
    found = txlog.Table.open(path).snapshot().to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: row["v"] for row in found}


def test_the_changes_of_all_tasks_land_as_one_version(path: Path) -> None:
    tasks = [[("u", 1, 11, 1), ("d", 2, None, 2)], [("c", 4, 40, 1), ("d", 9, None, 3), ("u", 4, 41, 4)], []]
    result = write(path, tasks, sequenceBy="at", txnAppId="job", txnVersion="3")
    assert result is not None
    assert (result.version, result.metrics.rows_inserted, result.metrics.rows_updated) == (2, 1, 1)
    assert rows(path) == {1: 11, 3: 30, 4: 41}
    named = set(txlog.Table.open(path).snapshot().files()["path"].to_pylist())
    assert {file.name for file in path.glob("keys-*")} == set()
    assert named <= {file.name for file in path.glob("*.parquet")}


def test_of_one_key_in_two_tasks_the_sequence_decides_and_without_one_it_is_refused(path: Path) -> None:
    tasks = [[("u", 1, 12, 2), ("d", 3, None, 1)], [("u", 1, 11, 1), ("u", 3, 33, 2)]]
    with pytest.raises(txlog.InvalidInputError, match=r"tasks 0 and 1 .*df\.repartition.*option sequenceBy"):
        write(path, [[change[:3] for change in task] for task in tasks])
    assert rows(path) == {1: 10, 2: 20, 3: 30}
    write(path, tasks, sequenceBy="at")
    assert rows(path) == {1: 12, 2: 20, 3: 33}


def test_a_row_that_cannot_be_told_ends_the_task_in_the_words_of_the_options(path: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"'x'.*translate other words in the DataFrame"):
        write(path, [[("x", 1, 1, 1)]], sequenceBy="at")
    with pytest.raises(txlog.InvalidInputError, match="column v must not be null"):
        write(path, [[("u", 1, None, 1)]], sequenceBy="at")
    assert len(list(path.glob("*.parquet"))) == 1


def test_what_does_not_go_together_is_refused_before_any_task(path: Path, tmp_path: Path) -> None:
    def planned(at: Path, *, overwrite: bool = False, **options: str) -> Any:
        return plan(parse_write_options({"path": str(at), **options}), FRAME, overwrite=overwrite)

    with pytest.raises(txlog.InvalidInputError, match=r"an overwrite .* replaces all"):
        planned(path, overwrite=True, **CHANGES)
    with pytest.raises(txlog.TableNotFoundError, match=r"txlog\.Table\.create"):
        planned(tmp_path / "other", **CHANGES)
    summed = {"txlog.merge-engine": "aggregation", "txlog.fields.v.aggregate-function": "sum"}
    txlog.Table.create(tmp_path / "sums", "k bigint, v bigint", properties=summed)
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"txlog\.merge-engine"):
        planned(tmp_path / "sums", upsertKeys="k")
    with pytest.raises(txlog.InvalidInputError, match="the DataFrame has no column kind; it has op, k, v, at"):
        planned(path, upsertKeys="k", rowKindColumn="kind")
    with pytest.raises(txlog.SchemaMismatchError, match="at"):
        planned(path, **CHANGES)
    with pytest.raises(txlog.InvalidInputError, match="option sequenceBy is for changes of rows: set upsertKeys"):
        planned(path, sequenceBy="at")
    for name in ("mergeSchema", "overwriteSchema"):
        with pytest.raises(txlog.InvalidInputError, match=f"option {name} does not go with upsertKeys"):
            planned(path, **CHANGES, **{name: "true"})
    assert parse_stream_options({"path": str(path), **CHANGES}).write.changelog is not None
