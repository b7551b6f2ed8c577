"""Common steps of the Spark tests: write, compare rows, expect a typed refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import txlog
from txlog.spark import error_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_rows(frame: DataFrame) -> list[str]:
    """Rows as text, sorted: NaN equals itself in it, and -0.0 differs from 0.0."""
    return sorted(map(repr, frame.collect()))


def save(frame: DataFrame, path: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("txlog").mode(mode).options(**options).save(str(path))


def refused(write: Callable[[], Any]) -> txlog.TxlogError:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        write()
    error = error_from(caught.value)
    assert error is not None, str(caught.value)
    assert error.message.splitlines()[0] in str(caught.value)
    assert error.kind in str(caught.value)
    return error


def commits(path: Path) -> list[list[dict[str, Any]]]:
    """Every commit of the table as decoded lines."""
    names = sorted((path / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in name.read_text().splitlines()] for name in names]


def commit_info(path: Path) -> dict[str, Any]:
    """The newest commit's provenance."""
    return next(line["commitInfo"] for line in commits(path)[-1] if "commitInfo" in line)


def own_rows(path: Path) -> list[dict[str, Any]]:
    """The table's rows read without Spark."""
    return list(txlog.Table.open(str(path)).snapshot().to_arrow().to_pylist())
