"""Files of other programs are not taken over where a table's rows have to be checked."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import txlog
from tests.core.definition.test_constraints import GOOD, LONG_TEXT, constrained, limited
from txlog.table import Table


@pytest.fixture(params=[[], ["day"]], ids=["flat", "by day"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return constrained(tmp_path / "t", request.param)


def test_files_of_other_programs_are_not_taken_over_where_a_text_has_a_length(tmp_path: Path) -> None:
    table = limited(tmp_path / "t", [])
    pq.write_table(LONG_TEXT, tmp_path / "t" / "other.parquet")
    with pytest.raises(txlog.InvalidInputError, match=r"the length of column day \(varchar\(3\)\)"):
        table.add_files(["other.parquet"])


def test_files_of_other_programs_are_refused_since_their_rows_are_not_read(table: Table) -> None:
    is_partitioned = bool(table.snapshot().partition_columns)
    name = "day=tue/other.parquet" if is_partitioned else "other.parquet"
    path = Path(table.uri) / name
    pq.write_table(GOOD.drop(["day"]) if is_partitioned else GOOD, path)
    with pytest.raises(txlog.InvalidInputError, match=r"constraint positive.*table\.append"):
        table.add_files([name])
