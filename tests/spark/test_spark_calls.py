"""`txlog.spark.delete` and its like called wrongly: answered before Spark is asked for anything."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import txlog
import txlog.spark

CALLS: list[Any] = [txlog.spark.delete, txlog.spark.update, txlog.spark.upsert, txlog.spark.merge]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call.__name__))
def test_each_call_lists_the_options_that_all_have(call: Any) -> None:
    names = list(inspect.signature(call).parameters)
    assert names[:2] == ["spark", "uri"]
    assert {"mode", "on_conflict", "app_id", "checkpoint_id", "storage_options", "retry", "hooks"} <= set(names)


def test_a_name_of_another_library_is_answered_with_ours() -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"delete\(\) takes no 'predicate': it is called 'where' here"):
        txlog.spark.delete(None, "t", predicate="id = 1")  # type: ignore[call-arg, arg-type]
    with pytest.raises(txlog.InvalidInputError, match=r"takes no 'txnAppId': it is called 'app_id' here"):
        txlog.spark.update(None, "t", {}, txnAppId="a")  # type: ignore[call-arg, arg-type]
    with pytest.raises(
        txlog.InvalidInputError, match=r"missing a required argument: 'keys'; it takes spark, uri, rows"
    ):
        txlog.spark.upsert(None, "t", None)  # type: ignore[call-arg, arg-type]
    with pytest.raises(txlog.InvalidInputError, match=r"mode must be one of merge-on-read"):
        txlog.spark.delete(None, "t", mode="fast")  # type: ignore[arg-type]
