"""What counts as data, fed with what each library really exports."""

from __future__ import annotations

import datetime
import decimal
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from txlog.core.writing._input import open_data
from txlog.errors import InvalidInputError

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
TABLE = pa.Table.from_pylist(ROWS)


def rows_of(data: Any) -> list[dict[str, Any]]:
    stream = open_data(data)
    batches = list(stream.batches)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert stream.schema.names == batches[0].schema.names
    return [row for batch in batches for row in batch.to_pylist()]


class OnlyStream:
    """Nothing but the Arrow stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: TABLE, id="table"),
        pytest.param(lambda: TABLE.to_batches()[0], id="record-batch"),
        pytest.param(lambda: TABLE.to_reader(), id="reader"),
        pytest.param(lambda: OnlyStream(), id="arrow-stream"),
        pytest.param(lambda: pl.from_arrow(TABLE), id="polars"),
        pytest.param(lambda: TABLE.to_pandas(), id="pandas"),
        pytest.param(lambda: duckdb.sql("select * from (values (1, 'x'), (2, 'y')) t(a, b)"), id="duckdb"),
        pytest.param(lambda: TABLE.to_batches(max_chunksize=1), id="list-of-batches"),
        pytest.param(lambda: iter([TABLE.slice(0, 1), TABLE.slice(1)]), id="iterator-of-tables"),
        pytest.param(lambda: (pl.from_arrow(TABLE.slice(n, 1)) for n in range(2)), id="generator-of-polars"),
        pytest.param(lambda: [TABLE.slice(0, 1).to_pandas(), TABLE.slice(1).to_pandas()], id="list-of-pandas"),
        pytest.param(lambda: ds.dataset(TABLE).scanner().to_reader(), id="dataset-reader"),
        pytest.param(lambda: ds.dataset(TABLE), id="dataset"),
        pytest.param(lambda: ds.dataset(TABLE).scanner(), id="scanner"),
        pytest.param(lambda: pl.LazyFrame(ROWS), id="lazy-frame"),
        pytest.param(lambda: TABLE.to_struct_array().chunk(0), id="struct-array"),
    ],
)
def test_every_form_of_data_yields_the_same_rows(make: Any) -> None:
    assert rows_of(make()) == ROWS


def test_an_unnamed_pandas_index_is_not_a_column() -> None:
    frame = pd.DataFrame(ROWS, index=[7, 3])
    assert rows_of(frame) == ROWS
    assert rows_of([frame, frame]) == ROWS * 2
    assert open_data(frame.rename_axis("key")).schema.names == ["a", "b", "key"]


def test_a_named_pandas_index_is_a_column_whatever_its_values() -> None:
    """Pandas keeps an index of consecutive integers as a range, which Arrow would leave out."""
    for values in ([1, 2], [7, 3]):
        frame = pd.DataFrame({"a": values, "b": ["x", "y"]}).set_index("a")
        assert rows_of(frame) == [{"b": "x", "a": values[0]}, {"b": "y", "a": values[1]}]
        assert rows_of([frame]) == rows_of(frame)


def test_two_pandas_columns_with_one_name_are_refused_with_what_to_do() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(InvalidInputError, match="Give each column its own name"):
        open_data(frame)


def test_an_iterator_is_read_one_batch_at_a_time_and_nothing_is_kept() -> None:
    asked: list[int] = []
    alive: list[weakref.ref[Any]] = []

    class Piece:
        def __init__(self, number: int) -> None:
            self.table = pa.table({"a": [number]})

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self.table.__arrow_c_stream__(requested_schema)

    def pieces() -> Iterator[Piece]:
        for number in range(5):
            asked.append(number)
            piece = Piece(number)
            alive.append(weakref.ref(piece))
            yield piece
            del piece

    stream = open_data(pieces())
    assert asked == [0]
    for taken, _ in enumerate(stream.batches):
        assert asked[-1] <= taken
        gc.collect(1)  # what was just made is young
        assert sum(ref() is not None for ref in alive) <= 1
    assert asked == [0, 1, 2, 3, 4]


def test_an_empty_iterator_has_no_columns_and_no_batches() -> None:
    stream = open_data(iter(()))
    assert stream.schema == pa.schema([])
    assert list(stream.batches) == []


def test_a_table_without_rows_keeps_its_schema() -> None:
    stream = open_data(TABLE.schema.empty_table())
    assert stream.schema == TABLE.schema
    assert sum(batch.num_rows for batch in stream.batches) == 0


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        pytest.param(pl.LazyFrame(ROWS).group_by("a"), "record batches", id="lazy-group-by"),
        pytest.param(duckdb.connect(), "connection.sql(query)", id="duckdb-connection"),
        pytest.param(
            pl.DataFrame({"a": [1], "o": [object()]}, schema={"a": pl.Int64, "o": pl.Object}),
            "polars columns of Python objects cannot be stored (o)",
            id="polars-objects",
        ),
        pytest.param(
            pl.DataFrame({"n": [1]}, schema={"n": pl.Int128}), "Cast each column of Int128", id="polars-int128"
        ),
        pytest.param({"a": [1]}, "pyarrow.table", id="dict"),
        pytest.param(ROWS, "from_pylist", id="list-of-dicts"),
        pytest.param("rows.csv", "str", id="text"),
        pytest.param(b"PAR1", "bytes", id="bytes"),
        pytest.param(7, "record batches", id="number"),
        pytest.param(None, "record batches", id="none"),
        pytest.param([1, 2], "int", id="list-of-numbers"),
        pytest.param(pa.array([1, 2]), "columns", id="plain-array"),
        pytest.param(pa.chunked_array([[1, 2]]), "columns", id="chunked-array"),
        pytest.param(pd.DataFrame({"m": [1, "x"]}), "column m", id="mixed-objects"),
    ],
)
def test_the_error_for_invalid_data_says_what_to_pass_instead(data: Any, hint: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        list(open_data(data).batches)
    assert hint in str(caught.value)


def test_a_lazy_frame_runs_once_when_its_first_batch_is_asked_for() -> None:
    runs: list[int] = []

    def counted(frame: pl.DataFrame) -> pl.DataFrame:
        runs.append(frame.height)
        return frame

    query = pl.LazyFrame(ROWS).map_batches(counted, schema={"a": pl.Int64, "b": pl.String})
    stream = open_data(query)
    assert stream.schema.names == ["a", "b"]
    assert not any(runs)
    assert [row["a"] for batch in stream.batches for row in batch.to_pylist()] == [1, 2]
    assert sum(runs) == 2


def test_a_lazy_frame_without_rows_keeps_its_columns() -> None:
    stream = open_data(pl.LazyFrame(ROWS).filter(pl.col("a") > 9))
    assert stream.schema.names == ["a", "b"]
    assert sum(batch.num_rows for batch in stream.batches) == 0


def test_a_lazy_frame_of_a_polars_that_cannot_stream_is_refused_with_the_call_to_make() -> None:
    OldLazyFrame = type("LazyFrame", (), {"__module__": "polars.lazyframe"})
    with pytest.raises(InvalidInputError, match=r"pass lazy_frame\.collect\(\)"):
        open_data(OldLazyFrame())


def test_a_failing_lazy_frame_query_is_reported() -> None:
    def fail(frame: pl.DataFrame) -> pl.DataFrame:
        if frame.height:
            raise ValueError("broken")
        return frame

    stream = open_data(pl.LazyFrame(ROWS).map_batches(fail, schema={"a": pl.Int64, "b": pl.String}))
    with pytest.raises(InvalidInputError, match=r"the query of the LazyFrame failed: .*broken"):
        list(stream.batches)


def test_a_source_that_fails_half_way_is_reported() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise OSError("the disk went away")

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, failing())
    with pytest.raises(InvalidInputError, match="the disk went away"):
        list(open_data(reader).batches)


def test_an_error_of_the_callers_own_iterator_passes_through() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(open_data(failing()).batches)


def test_the_values_of_each_library_arrive_unchanged() -> None:
    frame = pl.DataFrame(
        {
            "d": [decimal.Decimal("1.20")],
            "t": [datetime.datetime(2024, 1, 1)],
            "c": pl.Series(["x"], dtype=pl.Categorical),
        }
    )
    assert open_data(frame).schema.field("c").type == pa.dictionary(pa.uint32(), pa.string_view())
    assert next(open_data(frame.select("d", "t")).batches).to_pylist() == [
        {"d": decimal.Decimal("1.20"), "t": datetime.datetime(2024, 1, 1)}
    ]


@pytest.mark.parametrize("place", ["rows.csv", Path("rows.csv"), b"rows.csv"])
def test_the_error_for_a_file_path_names_the_function_that_reads_it(place: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"pyarrow\.csv\.open_csv\(path\); `txlog append` takes files"):
        open_data(place)


def test_the_error_for_a_column_of_mixed_values_is_readable() -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_data(pd.DataFrame({"id": [1, "x"]}))
    assert caught.value.message.endswith("column id with type object. Convert the named column")
    assert "('" not in caught.value.message


def test_a_pandas_integer_beyond_64_bits_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidInputError, match=r"Cast integers beyond 64 bits to decimal\.Decimal"):
        open_data(pd.DataFrame({"a": [2**70]}, dtype=object))


def test_a_duckdb_query_whose_first_rows_fail_is_reported() -> None:
    query = "select cast(case when range = 2 then 'x' else '1' end as int) as a from range(3)"
    with pytest.raises(InvalidInputError, match="query of the relation failed: Conversion Error: Could not convert"):
        list(open_data(duckdb.sql(query)).batches)
