"""SQL on tables of older writers, whose columns differ only in case: a name by the letter is that column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.columns_by_case import ROWS, made


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    return made(tmp_path)


def rows(text: str, table: txlog.Table, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = txlog.sql(text.format(t=f"delta.`{table.uri}`"), **options).read_all().to_pylist()
    return found


QUERIES = {
    "SELECT KEY FROM {t} ORDER BY KEY": [{"KEY": 2}, {"KEY": 6}],
    "SELECT t.KEY, key FROM {t} t WHERE t.KEY = 6": [{"KEY": 6, "key": 5}],
    "SELECT KEY, count(*) AS n FROM {t} GROUP BY KEY HAVING KEY > 2": [{"KEY": 6, "n": 1}],
    "SELECT * EXCEPT (KEY, s) FROM {t} WHERE KEY = 2": [{"key": 1}],
    "SELECT * FROM {t} ORDER BY KEY": ROWS.to_pylist(),
    "SELECT a.KEY FROM {t} a JOIN {t} b ON a.KEY = b.key + 1 ORDER BY 1": [{"KEY": 2}, {"KEY": 6}],
}


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_reads_the_column_that_it_names_by_the_letter(text: str, table: txlog.Table) -> None:
    assert rows(text, table) == QUERIES[text]


REFUSED = {
    "SELECT Key FROM {t}": "may be any of key, KEY",
    "SELECT s.AA FROM {t}": "cannot tell the fields aa, AA of s apart",
    "SELECT s.AA FROM {t} GROUP BY s.aa": "cannot tell the fields aa, AA of s apart",
    "SELECT key FROM {t} a JOIN {t} b USING (Key)": "one column of this name on each side",
    "SELECT KEY FROM {t} a, {t} b": "write the table's name in front",
    "SELECT KEY FROM (SELECT * FROM {t})": "may be any of key, KEY: .* different names",
    "UPDATE {t} SET Key = 1": "may be any of key, KEY",
    "INSERT INTO {t} (Key) VALUES (1)": "may be any of key, KEY",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_name_that_may_be_several_columns_is_refused(text: str, table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match=REFUSED[text]):
        rows(text, table)


def test_duckdbs_own_sql_is_refused_since_it_knows_one_of_them(table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="duckdb cannot tell key, KEY apart"):
        rows("SELECT KEY FROM {t}", table, dialect="duckdb")


CHANGES = {
    "UPDATE {t} SET KEY = 9 WHERE KEY = 6": (5, 9),
    "INSERT INTO {t} (KEY, key) VALUES (9, 8)": (8, 9),
    "INSERT INTO {t} BY NAME SELECT 9L AS KEY, 8L AS key": (8, 9),
    "MERGE INTO {t} t USING (SELECT 6 AS k) x ON t.KEY = x.k WHEN MATCHED THEN UPDATE SET KEY = 9": (5, 9),
}


@pytest.mark.parametrize("text", CHANGES)
def test_a_statement_changes_the_column_that_it_names_by_the_letter(text: str, table: txlog.Table) -> None:
    txlog.sql(text.format(t=f"delta.`{table.uri}`"))
    found = table.to_arrow(where="KEY = 9").to_pylist()
    assert [(row["key"], row["KEY"]) for row in found] == [CHANGES[text]]


def test_doubles_that_differ_in_case_keep_their_own_values(tmp_path: Path) -> None:
    fields = [{"name": name, "type": "double", "nullable": True, "metadata": {}} for name in ("key", "KEY")]
    values = pa.table({"key": [1.5, 2.5], "KEY": [3.5, float("nan")]})
    table = made(tmp_path, rows=values, fields=fields)
    assert rows("SELECT key FROM {t} WHERE KEY > 4", table) == [{"key": 2.5}]
    assert rows("SELECT KEY FROM {t} WHERE key = 1.5D", table) == [{"KEY": 3.5}]


def test_a_difference_of_two_versions_reads_both_columns(table: txlog.Table) -> None:
    table.update({"KEY": txlog.expr("KEY + 10")}, where="key = 5")
    found = table.diff_rows(0, 1).read_all().to_pylist()
    assert sorted((row["key"], row["KEY"]) for row in found) == [(5, 6), (5, 16)]
