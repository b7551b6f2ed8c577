"""`txlog.spark.delete` and its like called wrongly: answered before Spark is asked for anything."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import txlog
import txlog.spark
from txlog.spark.rows.calls import upsert_spec

CALLS: list[Any] = [txlog.spark.delete, txlog.spark.update, txlog.spark.upsert, txlog.spark.merge]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call.__name__))
def test_each_call_lists_the_options_that_all_have(call: Any) -> None:
    names = list(inspect.signature(call).parameters)
    assert names[:2] == ["spark", "uri"]
    assert {"row_mode", "on_conflict", "app_id", "checkpoint_id", "storage_options", "retry", "hooks"} <= set(names)


def test_a_name_of_another_library_is_answered_with_ours() -> None:
    with pytest.raises(
        txlog.InvalidInputError, match=r"delete\(\) has no argument 'predicate': it is called 'where' here"
    ):
        txlog.spark.delete(None, "t", predicate="id = 1")  # type: ignore[call-arg, arg-type]
    with pytest.raises(txlog.InvalidInputError, match=r"has no argument 'txnAppId': it is called 'app_id' here"):
        txlog.spark.update(None, "t", {}, txnAppId="a")  # type: ignore[call-arg, arg-type]
    with pytest.raises(
        txlog.InvalidInputError, match=r"missing a required argument: 'keys'; it takes spark, uri, data"
    ):
        txlog.spark.upsert(None, "t", None)  # type: ignore[call-arg, arg-type]
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid row_mode .*: expected 'merge-on-read'"):
        txlog.spark.delete(None, "t", row_mode="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [txlog.spark.read, txlog.spark.delete], ids=lambda call: str(call.__name__))
def test_a_location_in_place_of_the_session_is_refused(call: Any) -> None:
    with pytest.raises(txlog.InvalidInputError, match="Invalid first argument '/data/t': expected the SparkSession"):
        call("/data/t", None)


def test_a_merge_engine_is_no_argument_of_upserts_that_tasks_do() -> None:
    instead = r"upsert\(\) has no argument 'merge_engine': .*df\.write takes upsertKeys and mergeEngine"
    with pytest.raises(txlog.InvalidInputError, match=instead):
        txlog.spark.upsert(None, "t", None, ["id"], merge_engine="first-row")  # type: ignore[call-arg, arg-type]
    with pytest.raises(txlog.InvalidInputError, match=instead):
        txlog.spark.MicroBatch.upsert(None, None, "t", ["id"], merge_engine="first-row")  # type: ignore[call-arg, arg-type]
    with pytest.raises(
        txlog.InvalidInputError, match=r"foreach_batch\(\) has no argument 'merge_engine': .*upsertKeys"
    ):
        txlog.spark.foreach_batch("t", mode="upsert", keys=["id"], merge_engine="first-row")  # type: ignore[call-arg]
    with pytest.raises(txlog.InvalidInputError, match="merge engine, append with the option upsertKeys"):
        txlog.spark.foreach_batch("t", mode="upsert", keys=["id"], options={"mergeEngine": "first-row"})


def test_an_upsert_that_tasks_do_refuses_a_table_with_a_merge_engine_saying_what_merges(tmp_path: Path) -> None:
    made = txlog.Table.create(tmp_path / "t", "id bigint, n bigint", properties={"txlog.merge-engine": "first-row"})
    state = made._open_table.writable_state()
    spec = upsert_spec(["id"], "update", "insert", None, "error", None)
    with pytest.raises(txlog.UnsupportedFeatureError, match=r"txlog\.merge-engine.*option\('upsertKeys', '<keys>'\)"):
        spec.shape(state, state.schema, made.uri)
