"""Which columns of which version are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.errors import InvalidInputError, NotFoundError


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    txlog.write(str(tmp_path), pa.table({"a": [1], "b": ["x"]}))
    return txlog.Table.open(str(tmp_path))


def test_columns_match_whatever_their_case_and_come_in_the_order_asked_for(table: txlog.Table) -> None:
    assert table.snapshot().to_arrow(["B", "a"]).to_pylist() == [{"b": "x", "a": 1}]


@pytest.mark.parametrize("columns", [["a", "A"], ["zz"], "ab", [1]], ids=repr)
def test_columns_that_the_table_does_not_have_once_each_are_refused(table: txlog.Table, columns: Any) -> None:
    with pytest.raises(InvalidInputError, match="column"):
        table.snapshot().to_arrow(columns)


@pytest.mark.timeout(20)
def test_a_version_far_beyond_the_newest_is_refused_without_asking_for_all_between(table: txlog.Table) -> None:
    with pytest.raises(NotFoundError, match="the newest is 0"):
        table.snapshot(10**15)


TEXTS = ["a", None, "x" * 40, ""]
BYTES = [b"a", None, b"x" * 40, b""]
LISTS = [["a"], None, [], ["b", None]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (TEXTS, pa.string_view()),
        (TEXTS, pa.large_string()),
        (TEXTS, pa.dictionary(pa.int32(), pa.string())),
        (BYTES, pa.binary_view()),
        (BYTES, pa.large_binary()),
        (LISTS, pa.list_view(pa.string_view())),
        (LISTS, pa.large_list_view(pa.large_string())),
        (LISTS, pa.large_list(pa.string())),
        ([["a", "b"], None, [None, "c"]], pa.list_(pa.string(), 2)),
    ],
    ids=str,
)
def test_a_file_is_read_whatever_kind_of_arrow_array_its_writer_had(
    values: list[Any], kind: pa.DataType, tmp_path: Path
) -> None:
    txlog.write(tmp_path, pa.table({"c": pa.array(values, kind)}))
    path = tmp_path / "theirs.parquet"
    pq.write_table(pa.table({"c": pa.array(values, kind)}), path, row_group_size=3)
    assert pq.ParquetFile(path).schema_arrow.field("c").type == kind
    table = txlog.Table.open(tmp_path)
    table.add_files([path.name])
    assert table.snapshot().to_arrow().to_pydict() == {"c": values + values}
