"""A change that mostly copies rows says what deletion vectors would do: once, and only where they could be on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import txlog

VECTORS = {"delta.enableDeletionVectors": "true"}


def table_of_many_rows(tmp_path: Any, properties: dict[str, str] | None = None) -> txlog.Table:
    rows = pa.table({"id": pa.array(range(120_000))})
    txlog.write(tmp_path, rows, properties=properties)
    return txlog.Table.open(tmp_path)


def test_the_first_change_of_a_handle_that_mostly_copies_rows_says_what_vectors_would_do(tmp_path: Any) -> None:
    table = table_of_many_rows(tmp_path)
    first = table.delete("id = 7")
    assert first.notes == (
        "119,999 rows were copied to change 1. In a table with deletion vectors, such a change marks rows instead: "
        "set delta.enableDeletionVectors to true, if every reader of the table supports them",
    )
    assert table.delete("id = 8").notes == ()
    assert len(txlog.Table.open(tmp_path).upsert(pa.table({"id": [9]}), keys=["id"]).notes) == 1


@pytest.mark.parametrize(
    ("properties", "condition", "mode"),
    [(VECTORS, "id = 7", None), (None, "id = 7", "copy-on-write"), (None, "id % 2 = 0", None), (None, "id >= 0", None)],
    ids=["vectors", "copies asked for", "many rows changed", "no row copied"],
)
def test_other_changes_say_nothing(tmp_path: Any, properties: Any, condition: str, mode: Any) -> None:
    assert table_of_many_rows(tmp_path, properties).delete(condition, row_mode=mode).notes == ()
