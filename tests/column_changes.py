"""Changes of columns that come between the files of a checkpoint and its commit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import txlog

__all__ = ["CHANGES_OF_COLUMNS", "INTEGERS", "new_table"]

INTEGERS = pa.schema([("k", pa.int32()), ("v", pa.int32()), ("w", pa.int32())])

CHANGES_OF_COLUMNS = pytest.mark.parametrize(
    ("change", "row"),
    [
        (lambda table: table.rename_column("v", "x"), {"k": 5, "x": 6, "w": 7}),
        (lambda table: table.drop_columns("w"), {"k": 5, "v": 6}),
        (lambda table: table.alter_column("v", type="bigint"), {"k": 5, "v": 6, "w": 7}),
        (lambda table: table.alter_column("k", type="bigint"), {"k": 5, "v": 6, "w": 7}),
        (lambda table: table.alter_column("w", first=True, comment="first"), {"w": 7, "k": 5, "v": 6}),
        (lambda table: table.alter_column("v", nullable=False), None),
        (lambda table: table.overwrite(pa.table({"k": [1]}), schema_mode="overwrite"), None),
    ],
    ids=["rename", "drop", "widen", "widen the key", "move", "not null", "all columns"],
)
"""Each change, and the row 5, 6, 7 after it; None if files from before do not fit any more."""


def new_table(folder: Path) -> txlog.Table:
    properties = {"delta.enableTypeWidening": "true"}
    return txlog.Table.create(folder / "t", INTEGERS, properties=properties, column_mapping="name")
