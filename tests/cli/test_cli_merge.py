"""`txlog merge`: the clauses of a merge from files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    table = txlog.Table.create(tmp_path / "t", "id bigint, n bigint")
    table.append(pa.table({"id": [1, 2, 3], "n": [10, 20, 30]}))
    (tmp_path / "rows.csv").write_text("id,n\n2,5\n3,0\n4,7\n")
    return table


def _merge(table: txlog.Table, *clauses: str) -> Result:
    file = Path(table.uri).parent / "rows.csv"
    return CliRunner().invoke(app, ["merge", table.uri, str(file), "--on", "target.id = source.id", *clauses])


def _rows(table: txlog.Table) -> dict[int, int]:
    found = table.to_arrow()
    return dict(sorted(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)))


def test_merge_updates_matched_rows_and_inserts_the_others(table: txlog.Table) -> None:
    done = _merge(table, "--update-all", "--insert-all")
    assert done.stdout == f"1 row inserted, 2 rows updated: {table.uri} is at version 2\n"
    assert _rows(table) == {1: 10, 2: 5, 3: 0, 4: 7}


def test_merge_deletes_first_then_updates_and_deletes_the_rest(table: txlog.Table) -> None:
    clauses = ("--delete-if", "source.n = 0", "--update", "n = target.n + source.n", "--insert", "id = source.id")
    done = _merge(table, *clauses, "--insert", "n = -1", "--insert-if", "source.id > 3", "--delete-rest")
    assert done.exit_code == 0, done.output
    assert _rows(table) == {2: 25, 4: -1}


@pytest.mark.parametrize(
    "clauses",
    [(), ("--update-if", "true"), ("--update-all", "--update", "n = 1"), ("--insert-if", "true", "--update-all")],
)
def test_a_merge_without_its_clause_is_a_usage_error(table: txlog.Table, clauses: tuple[str, ...]) -> None:
    assert _merge(table, *clauses).exit_code == 2
    assert table.version == 1


def test_an_unknown_side_is_answered_with_the_names_of_the_command_line(table: txlog.Table) -> None:
    said = " ".join(_merge(table, "--update", "n = s.n").output.split())
    assert "write target.n for the table or source.n for the source; the command line has these two names only" in said


def test_a_merge_that_sets_a_column_of_the_file_alone_names_the_option_that_adds_it(table: txlog.Table) -> None:
    (Path(table.uri).parent / "rows.csv").write_text("id,extra\n2,5\n")
    failed = _merge(table, "--update", "extra = source.extra")
    assert "--merge-schema adds what the source has and the table lacks" in " ".join(failed.output.split())
    assert _merge(table, "--update", "extra = source.extra", "--merge-schema").exit_code == 0
