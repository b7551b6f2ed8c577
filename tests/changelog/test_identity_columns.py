"""Tables that count their rows do not merge them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import txlog
from tests.core.definition.test_identity_columns import made
from txlog.errors import TxlogError
from txlog.table import Table

ENGINE = {"txlog.merge-engine": "deduplicate"}


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_properties(ENGINE),
        lambda table: txlog.Sink(table, "a", mode="upsert", keys=["k"]).task(1, 0),
    ],
)
def test_what_would_break_the_count_is_refused(tmp_path: Path, change: Callable[[Table], Any]) -> None:
    with pytest.raises(TxlogError, match=r"identity|IDENTITY"):
        change(made(tmp_path))


def test_a_table_that_merges_rows_and_would_count_them_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(TxlogError, match=r"identity|IDENTITY"):
        made(tmp_path, properties=ENGINE)
