"""`SqlResult`: what each statement answers, read by pyarrow, pandas, Polars, duckdb, a terminal and a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError
from txlog.statements.sql_result import SqlResult

ROWS = [{"id": 1, "note": "a"}, {"id": 2, "note": None}]


@pytest.fixture
def catalog(tmp_path: Path) -> txlog.Catalog:
    catalog = txlog.Catalog(tmp_path / "warehouse")
    txlog.sql("create table t (id bigint, note string); insert into t values (1, 'a'), (2, null)", catalog)
    return catalog


def test_rows_of_a_query_go_to_arrow_pandas_polars_and_duckdb(catalog: txlog.Catalog) -> None:
    found = txlog.sql("select * from t order by id", catalog)
    assert found.schema.names == ["id", "note"]
    assert found.result is None
    assert found.read_all().to_pylist() == found.to_polars().to_dicts() == ROWS
    assert found.to_pandas()["id"].tolist() == [1, 2]
    assert pl.DataFrame(found).to_dicts() == ROWS
    table = pa.table(txlog.sql("select * from t order by id", catalog))
    assert table.to_pylist() == ROWS
    stream = txlog.sql("select * from t", catalog)
    assert duckdb.from_arrow(stream).max("id").fetchall() == [(2,)]
    txlog.write(catalog.table("t").uri, txlog.sql("select id + 10 as id, note from t", catalog), "append")
    assert catalog.table("t").count() == 4


def test_a_stream_is_read_once_and_says_so(catalog: txlog.Catalog) -> None:
    found = txlog.sql("select id from t", catalog)
    assert found.to_batches().read_all().num_rows == 2
    for again in (found.read_all, found.to_batches, found.to_polars, lambda: repr(found)):
        with pytest.raises(InvalidInputError, match=r"were read as a stream.*run the statement again"):
            again()


def test_a_look_at_a_stream_computes_some_rows_and_loses_none() -> None:
    computed: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            computed.append(number)
            yield pa.record_batch({"id": range(number * 10, number * 10 + 10)})

    found = SqlResult(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()))
    lines = repr(found).splitlines()
    assert [line.strip() for line in lines[:3]] == ["id", "0", "1"]
    assert lines[-1] == "the first 20 rows; read_all() has all"
    assert len(computed) < 10
    assert repr(found) == "\n".join(lines)
    assert found.read_all()["id"].to_pylist() == list(range(1000))


def test_what_a_statement_did_is_a_row_as_sparks_merge_answers_it_with_the_operations_own_result(
    catalog: txlog.Catalog,
) -> None:
    """The names and numbers are those of Spark's Delta: integration/test_spark_sql.py compares them."""
    merged = txlog.sql(
        "merge into t using (select * from values (1, 'new'), (7, 'seven') as v(id, note)) s on t.id = s.id"
        " when matched then update set note = s.note when not matched then insert *"
        " when not matched by source then delete",
        catalog,
    )
    counts = {"num_affected_rows": 3, "num_updated_rows": 1, "num_deleted_rows": 1, "num_inserted_rows": 1}
    assert merged.read_all().to_pylist() == [{**counts, "version": 2}]
    assert isinstance(merged.result, txlog.WriteResult)
    assert merged.result.version == 2
    inserted = txlog.sql("insert into t values (8, 'x'), (9, 'y')", catalog).read_all().to_pylist()
    assert [row["num_inserted_rows"] for row in inserted] == [2]
    updated = txlog.sql("update t set note = 'z' where id > 7", catalog).read_all().to_pylist()
    assert [(row["num_affected_rows"], row["num_updated_rows"]) for row in updated] == [(2, 2)]
    optimized = txlog.sql("optimize t", catalog)
    assert optimized.read_all()["files_added"].to_pylist() == [1]
    assert optimized.result.files_added == 1
    dropped = txlog.sql("drop table t", catalog)
    assert dropped.result is None
    assert dropped.read_all().shape == (0, 0)
    assert repr(dropped) == dropped._repr_html_() == "done"


def test_answers_read_well_in_a_terminal_and_a_notebook(
    catalog: txlog.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert repr(txlog.sql("describe t", catalog)).splitlines() == [
        "col_name  data_type  comment",
        "id        bigint     null",
        "note      string     null",
        "2 rows",
    ]
    assert repr(txlog.sql("select id, note from t order by id", catalog)).splitlines() == [
        "id  note",
        " 1  a",
        " 2  null",
        "2 rows",
    ]
    detail = [line.split() for line in repr(txlog.sql("describe detail t", catalog)).splitlines()]
    assert ["numFiles", "1"] in detail
    assert ["location", catalog.location("t")] in detail
    html = txlog.sql("select '<b>' as x", catalog)._repr_html_()
    assert "&lt;b&gt;" in html
    assert "1 row" in html


def test_a_name_of_another_library_is_answered_with_ours(catalog: txlog.Catalog) -> None:
    found = txlog.sql("delete from t where id = 1", catalog)
    with pytest.raises(AttributeError, match=r"result\.result\.version"):
        _ = found.version  # type: ignore[attr-defined]
