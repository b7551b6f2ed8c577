"""Whole numbers are taken from every library, wherever one is asked for; no error message prints user data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import txlog
from txlog.core.util._arguments import described, whole_number

ROWS = pa.table({"id": [1, 2]})
ONE = np.int64(1)


class Indexed:
    """What says by ``__index__`` that it is a whole number."""

    def __index__(self) -> int:
        return 1


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=ROWS.schema)


@pytest.mark.parametrize("value", [1, ONE, np.uint8(1), np.int32(1), Indexed()])
def test_whole_numbers_of_any_library_become_plain_ones(value: Any) -> None:
    found = whole_number("n", value)
    assert found == 1
    assert type(found) is int


@pytest.mark.parametrize(
    "value", [True, np.bool_(True), 1.0, np.float64(1), "1", None, -1, 2**63, [1], np.array([1, 2])]
)
def test_a_value_that_is_not_an_integer_is_refused_with_the_argument_name(value: Any) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"^Invalid n .*: expected a whole number from 0 to 2\*\*63-1$"):
        whole_number("n", value)


def test_every_number_of_a_write_may_be_of_another_library(table: txlog.Table) -> None:
    result = table.append(ROWS, app_id="app", checkpoint_id=ONE, target_file_size=np.int64(10**6))  # type: ignore[arg-type]
    assert result.version == 1
    assert table.append(ROWS, app_id="app", checkpoint_id=1).outcome == "already_committed"
    with table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.set_transaction("offsets", np.int64(7))  # type: ignore[arg-type]
    assert table.snapshot(np.int64(2)).transactions == {"app": 1, "offsets": 7}  # type: ignore[arg-type]
    assert len(table.history(np.int64(2))) == 2  # type: ignore[arg-type]
    assert table.resolve(transaction.result.txn_id, np.int64(2))  # type: ignore[arg-type]
    table.set_properties({"delta.checkpointInterval": np.int64(20)})  # type: ignore[dict-item]
    assert table.snapshot().properties["delta.checkpointInterval"] == "20"


def test_every_number_of_a_sink_may_be_of_another_library(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app", max_continuous_empty_commits=np.int64(2))  # type: ignore[arg-type]
    for task_id in np.arange(2):
        with sink.task(ONE, task_id, np.int64(0)) as task:
            task.write(ROWS)
        sink.stage(task.committable)
    sealed = sink.prepare(ONE, np.arange(2))  # type: ignore[arg-type]
    assert sealed is not None
    assert sealed.attempts == {0: 0, 1: 0}
    assert sink.prepare(ONE, {np.int64(0): np.int64(0), np.int64(1): np.int64(0)}) == sealed  # type: ignore[dict-item]
    assert sink.commit(ONE).metrics.rows == 4  # type: ignore[arg-type]
    assert sink.discard(np.int64(2)) is False  # type: ignore[arg-type]
    assert sink.last_checkpoint_id() == 1


def test_the_numbers_of_a_policy_may_be_of_another_library() -> None:
    retry = txlog.RetryPolicy(max_attempts=np.int64(3), min_wait=np.float32(0.5), total_timeout=np.int64(60))  # type: ignore[arg-type]
    assert retry == txlog.RetryPolicy(max_attempts=3, min_wait=0.5, total_timeout=60)


CALLS: dict[str, Callable[[txlog.Table, Any], Any]] = {
    "a location": lambda table, data: txlog.Table.open(data),
    "a mode": lambda table, data: txlog.write(table.uri, ROWS, data),
    "a schema mode": lambda table, data: table.append(ROWS, schema_mode=data),
    "a sink's mode": lambda table, data: txlog.Sink(table, "app", mode=data),
    "names": lambda table, data: txlog.Table.create(f"{table.uri}/n", ROWS.schema, [data]),
    "properties": lambda table, data: table.set_properties([data]),  # type: ignore[arg-type]
    "a property": lambda table, data: table.set_properties({"delta.appendOnly": data}),
    "a version": lambda table, data: table.snapshot(data),
    "a time": lambda table, data: table.snapshot(timestamp=data),
    "a limit": lambda table, data: table.history(data),
    "an application": lambda table, data: table.append(ROWS, app_id=data, checkpoint_id=1),
    "a text": lambda table, data: table.append(ROWS, user_metadata=data),
    "a policy": lambda table, data: txlog.Table.open(table.uri, retry=data),
    "hooks": lambda table, data: txlog.Table.open(table.uri, hooks=data),
    "a table": lambda table, data: txlog.Sink(data, "app"),
    "a task": lambda table, data: txlog.Sink(table, "app").prepare(1, [data]),
    "a committable": lambda table, data: txlog.Sink(table, "app").stage(data),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "data", [pa.table({"id": ["hidden"]}), pl.DataFrame({"id": ["hidden"]}), pd.DataFrame({"id": ["hidden"]})]
)
def test_data_passed_as_a_wrong_argument_is_shown_by_type_only(name: str, data: Any, table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError) as caught:
        CALLS[name](table, data)
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(caught.value.message) < 300


def test_a_value_in_an_error_is_its_repr_shortened_if_long() -> None:
    assert [described(value) for value in (None, 5, "x", [1], ONE)] == ["None", "5", "'x'", "[1]", repr(ONE)]
    assert len(described("x" * 10_000)) < 100
    assert len(described(list(range(10_000)))) < 100
    assert described(pd.DataFrame({"a": [1]})) == "pandas.DataFrame"
