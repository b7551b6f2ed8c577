"""The table of docs/expressions.md that says which conditions skip files: each condition of it, on three files."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog

PAGE = Path(__file__).parents[3] / "docs" / "expressions.md"
COLUMNS = "n bigint, m bigint, s string, day date, at timestamp, ok boolean, p struct<zip: string>, tags array<string>"


def rows_of_the_page() -> list[tuple[str, bool]]:
    """(condition, whether the page says that it skips files)."""
    section = PAGE.read_text().split("## What skips files")[1].split("\n## ")[0]
    lines = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    found = [(text, cells[1].startswith("yes")) for cells in lines for text in re.findall("`([^`]+)`", cells[0])]
    assert len(found) > 40
    return found


def rows(first: int, text: str, year: int, **others: Any) -> pa.Table:
    count = range(5)
    columns = {
        "n": [first + number for number in count],
        "m": [first] * 5,
        "s": [f"{text}{number}" for number in count],
        "day": [datetime.date(year, 3, 1 + number) for number in count],
        "at": [datetime.datetime(year, 3, 1 + number, 12, tzinfo=datetime.timezone.utc) for number in count],
        "ok": [first == 0] * 5,
        "p": [{"zip": f"{text}{number}"} for number in count],
        "tags": [[text]] * 5,
    }
    return pa.table(columns | others)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    """The second file has no row of most conditions, and the third one no value of the first column."""
    made = txlog.Table.create(str(tmp_path_factory.mktemp("skips") / "t"), COLUMNS)
    made.append(rows(0, "ab", 2024))
    made.append(rows(100, "xy", 9000))
    made.append(rows(0, "ab", 2024, n=pa.nulls(5, pa.int64())))
    return made


@pytest.mark.parametrize(("condition", "skips"), rows_of_the_page())
def test_a_condition_skips_files_exactly_if_the_page_says_so(table: txlog.Table, condition: str, skips: bool) -> None:
    assert (table.files(where=condition).num_rows < 3) == skips
