"""Changes of rows whose source holds more text than one Arrow array: the limits are set low here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.format.arrow import arrays
from txlog.core.format.arrow import take_rows as taken

COUNT = 60


@pytest.fixture(autouse=True)
def _low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BYTES_MAX", 200)
    monkeypatch.setattr(taken, "JOINED_BYTES", 0)
    monkeypatch.setattr(taken, "WHOLE_BYTES", 0)
    monkeypatch.setattr(taken, "ROWS_AT_ONCE", 7)


def row(number: int, text: str) -> dict[str, Any]:
    return {"key": f"key {number:03}", "text": text, "n": number}


def source(*drop: str) -> Iterator[pa.Table]:
    """Every third row of the table and as many new ones, in chunks and in no order."""
    numbers = [(number * 37) % COUNT * 3 for number in range(COUNT)]
    for start in range(0, COUNT, 11):
        rows = [row(number, f"new {number}") for number in numbers[start : start + 11]]
        yield pa.Table.from_pylist(rows).drop_columns(list(drop))


def upserted(table: txlog.Table) -> None:
    table.upsert(source(), keys=["key"])


def upserted_with_kinds(table: txlog.Table) -> None:
    kinds = (rows.append_column("op", pa.array(["+U"] * len(rows))) for rows in source())
    table.upsert(kinds, keys=["key"], row_kind="op", merge_engine="partial-update")


def merged(table: txlog.Table) -> None:
    table.merge(source(), on=["key"]).when_matched_update_all().when_not_matched_insert_all().execute()


def merged_by_clauses(table: txlog.Table) -> None:
    (
        table.merge(source(), on=["key"])
        .when_matched_update({"text": txlog.expr("source.text")}, "source.n % 2 = 0")
        .when_matched_update({"text": txlog.expr("concat(source.text, '')"), "n": txlog.expr("target.n")})
        .when_not_matched_insert_all("source.text like 'new%'")
        .execute()
    )


def some_columns_updated(table: txlog.Table) -> None:
    table.upsert(source("n"), keys=["key"], update_columns=["text"], when_not_matched="ignore")
    table.upsert(source(), keys=["key"], when_matched="ignore")


@pytest.mark.parametrize("change", [upserted, upserted_with_kinds, merged, merged_by_clauses, some_columns_updated])
@pytest.mark.parametrize("feature", ["delta.enableChangeDataFeed", "delta.enableDeletionVectors"])
def test_rows_of_long_sources_are_changed(tmp_path: Path, change: Callable[[txlog.Table], None], feature: str) -> None:
    schema = {"key": pa.string(), "text": pa.string(), "n": pa.int64()}
    table = txlog.Table.create(tmp_path / "t", schema, properties={feature: "true"})
    table.append(pa.Table.from_pylist([row(number, "old") for number in range(COUNT)]))
    change(table)
    changed = {number: f"new {number}" for number in range(0, 3 * COUNT, 3)}
    expected = [row(number, changed.get(number, "old")) for number in sorted({*range(COUNT), *changed})]
    assert table.to_arrow().sort_by("n").to_pylist() == expected


def test_two_source_rows_with_the_same_long_key_are_refused(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", {"key": pa.string(), "n": pa.int64()})
    twice = [pa.table({"key": [f"{'k' * 90} {number}"], "n": [number]}) for number in (1, 2, 3, 2)]
    with pytest.raises(txlog.InvalidInputError, match="rows 1 and 3 of the source"):
        table.upsert(iter(twice), keys=["key"])
    table.upsert(iter(twice), keys=["key"], on_duplicate="last")
    assert table.count() == 3
