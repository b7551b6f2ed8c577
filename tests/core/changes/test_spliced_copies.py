"""Copies of files for row changes: what a change leaves as it is, is passed on as encoded bytes; all readers agree."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import txlog
from tests.other_writers import commit_files
from tests.parquet_bytes import altered
from txlog.core.changes.tasks import _file_rows as file_rows
from txlog.core.changes.tasks import _rewrite as rewrite
from txlog.core.changes.tasks import _small_files as small_files
from txlog.core.changes.tasks import _spliced_copies as spliced_copies
from txlog.core.changes.tasks._spliced_copies import _by_group
from txlog.core.reading import _scan_task as scan_task
from txlog.errors import CorruptLogError, InvalidInputError

GROUP_ROWS = 100
ROWS = 400


@pytest.fixture(autouse=True)
def _small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spliced_copies, "SMALL_BYTES", 0)
    monkeypatch.setattr(spliced_copies, "PART_BYTES", 1 << 10)
    monkeypatch.setattr(rewrite, "JOINED_BYTES", 0)
    monkeypatch.setattr(small_files, "HELD_FILE_BYTES", 0)
    monkeypatch.setattr(scan_task, "SMALL_BYTES", 0)


def rows(count: int = ROWS, first: int = 0) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids),
            "x": pa.array(ids / 4, mask=ids % 7 == 0),
            "s": pa.array([f"name-{number % 5}" for number in ids]),
            "n": pa.array([None if number % 9 == 0 else [int(number), 1] for number in ids], pa.list_(pa.int64())),
        }
    )


def made(
    folder: Path, data: pa.Table | None = None, *, properties: dict[str, str] | None = None, **options: Any
) -> txlog.Table:
    """A table of one file with row groups of `GROUP_ROWS` rows, as txlog encodes it or as ``options`` say."""
    data = rows() if data is None else data
    table = txlog.Table.create(str(folder / "t"), data.schema, properties=properties or {})
    pq.write_table(data, folder / "t" / "f.parquet", **{"row_group_size": GROUP_ROWS, "store_schema": False, **options})
    told = None
    if options.get("write_statistics", True):  # what its writer finds in the rows
        txlog.write(str(folder / "told"), data)
        told = json.dumps(stats(txlog.Table.open(str(folder / "told"))))
    commit_files(table, "f.parquet", stats=told)
    return table


def paths(table: txlog.Table) -> list[Path]:
    """The table's files, the largest first."""
    files = table.snapshot().files().sort_by([("size", "descending")])
    return [Path(table.uri) / unquote(path) for path in files["path"].to_pylist()]


def data_file(table: txlog.Table) -> Path:
    """The table's only file."""
    (path,) = paths(table)
    return path


def chunk(path: Path, column: str, group: int = 0) -> bytes:
    """A column chunk, as it stands in the file."""
    metadata = pq.read_metadata(path).row_group(group)
    (found,) = [
        each
        for each in map(metadata.column, range(metadata.num_columns))
        if each.path_in_schema.split(".")[0] == column
    ]
    start = found.dictionary_page_offset if found.has_dictionary_page else found.data_page_offset
    return path.read_bytes()[start : start + found.total_compressed_size]


def stats(table: txlog.Table) -> dict[str, Any]:
    (text,) = table.snapshot().files()["stats"].to_pylist()
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def readers(table: txlog.Table) -> list[pa.Table]:
    """What txlog, deltalake, DuckDB on the file, and Polars read, by id."""
    uri = table.uri
    files = [str(path) for path in paths(table)]
    found = [
        table.snapshot().to_arrow(),
        pa.table(DeltaTable(uri).to_pyarrow_table()),
        duckdb.sql(f"FROM read_parquet({files})").to_arrow_table(),
        pl.scan_delta(uri).collect().to_arrow(),
    ]
    schema = found[0].schema
    return [each.select(schema.names).cast(schema).sort_by("id") for each in found]


def assert_rows(table: txlog.Table, expected: pa.Table) -> None:
    for found in readers(table):
        assert found.to_pylist() == expected.cast(found.schema).sort_by("id").to_pylist()
    assert not table.verify(footers=True).findings


def replaced(data: pa.Table, column: str, new: pa.ChunkedArray) -> pa.Table:
    return data.set_column(data.schema.get_field_index(column), column, new)


# --- what is passed on ----------------------------------------------------------------------------------------------


def test_an_update_passes_on_other_columns_and_other_row_groups(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = data_file(table)
    result = table.update({"x": txlog.expr("x + 1")}, "id >= 110 AND id < 120")
    after = data_file(table)
    same = {
        (name, group): chunk(before, name, group) == chunk(after, name, group) for name in "xsn" for group in range(4)
    }
    assert [key for key, is_same in same.items() if not is_same] == [("x", 1)]
    assert (result.metrics.rows_updated, result.metrics.rows_copied) == (10, ROWS - 10)
    is_new = pc.and_(pc.greater_equal(rows()["id"], 110), pc.less(rows()["id"], 120))
    assert_rows(table, replaced(rows(), "x", pc.if_else(is_new, pc.add(rows()["x"], 1), rows()["x"])))


def test_a_delete_passes_on_row_groups_without_a_removed_row_and_leaves_out_empty_ones(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = data_file(table)
    table.delete("id < 100 OR id = 250")
    after = data_file(table)
    metadata = pq.read_metadata(after)
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [100, 99, 100]
    assert [chunk(before, "s", group) == chunk(after, "s", group - 1) for group in (1, 2, 3)] == [True, False, True]
    assert_rows(table, rows().filter(pc.and_(pc.greater_equal(rows()["id"], 100), pc.not_equal(rows()["id"], 250))))


def test_text_of_deleted_rows_is_not_in_the_dictionary_of_a_copy(tmp_path: Path) -> None:
    texts = [f"name-{number % 5}" for number in range(ROWS)]
    texts[150] = "a secret"
    data = replaced(rows(), "s", pa.chunked_array([texts]))
    table = made(tmp_path, data, compression="none")
    assert b"a secret" in data_file(table).read_bytes()
    table.delete("id = 150")
    assert b"a secret" not in data_file(table).read_bytes()
    assert stats(table)["minValues"]["s"] == "name-0"
    assert_rows(table, data.filter(pc.not_equal(data["id"], 150)))


def test_text_that_is_a_dictionary_stays_one_in_an_update_with_only_the_texts_of_the_new_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"name-{number % 5}" if number % 10 else None for number in range(ROWS)]
    texts[150] = "a secret"
    table = made(tmp_path, replaced(rows(), "s", pa.chunked_array([texts])), compression="none")
    seen: list[str] = []

    def noted(part: pa.Table, *arguments: Any) -> Any:
        if part.num_rows:
            seen.extend("dictionary" if pa.types.is_dictionary(kind) else str(kind) for kind in part.schema.types)
        return encoded(part, *arguments)

    encoded = spliced_copies.encoded  # type: ignore[attr-defined]
    monkeypatch.setattr(spliced_copies, "encoded", noted)
    new = {150: "new", 151: None, **dict.fromkeys(range(200, 300))}
    source = pa.table({"id": [*new], "s": pa.array([*new.values()], pa.string())})
    table.upsert(source, "id", update_columns=["s"], when_not_matched="ignore")
    assert seen == ["dictionary", "dictionary"]
    assert b"a secret" not in data_file(table).read_bytes()
    assert (stats(table)["minValues"]["s"], stats(table)["maxValues"]["s"]) == ("name-0", "new")
    expected = [new.get(number, text) for number, text in enumerate(texts)]
    assert stats(table)["nullCount"]["s"] == expected.count(None)
    assert_rows(table, replaced(rows(), "s", pa.chunked_array([expected])))


def test_text_that_an_update_makes_all_different_is_no_dictionary(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.update({"s": txlog.expr("concat(s, cast(id as string))")}, "id < 90")
    found = table.snapshot().to_arrow(columns=["id", "s"]).sort_by("id")["s"].to_pylist()
    assert found == [f"name-{id % 5}{id if id < 90 else ''}" for id in range(ROWS)]
    assert stats(table)["maxValues"]["s"] == "name-49"
    assert not table.verify(footers=True).findings


def test_a_dictionary_that_saves_nothing_is_left_out_and_one_that_became_full_is_made_whole(tmp_path: Path) -> None:
    texts = [f"a text of forty characters, number {number % 100:05}" for number in range(2000)]
    data = replaced(rows(2000), "s", pa.chunked_array([texts])).select(["id", "x", "s"])
    table = made(tmp_path, data, row_group_size=2000, dictionary_pagesize_limit=1000)
    before = _dictionaries(data_file(table))
    table.delete("id = 7")
    assert (before, _dictionaries(data_file(table))) == (["id", "x", "s"], ["s"])
    assert table.snapshot().to_arrow().sort_by("id").equals(data.filter(pc.not_equal(data["id"], 7)))


def _dictionaries(path: Path) -> list[str]:
    group = pq.read_metadata(path).row_group(0)
    return [each.path_in_schema for each in map(group.column, range(group.num_columns)) if each.has_dictionary_page]


def test_a_merge_updates_and_deletes_rows_of_one_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = data_file(table)
    source = pa.table({"id": [5, 6, 150, 1000], "s": ["new", "gone", "new", "inserted"]})
    merge = table.merge(source, "target.id = source.id")
    merge.when_matched_delete("source.s = 'gone'").when_matched_update(
        {"s": txlog.expr("source.s"), "x": txlog.expr("target.x * 2")}
    )
    merge.when_not_matched_insert({"id": txlog.expr("source.id"), "s": txlog.expr("source.s")}).execute()
    data = rows()
    expected = [row for row in data.to_pylist() if row["id"] != 6]
    for row in expected:
        if row["id"] in (5, 150):
            row |= {"s": "new", "x": row["x"] * 2}
    expected.append({"id": 1000, "x": None, "s": "inserted", "n": None})
    assert_rows(table, pa.Table.from_pylist(expected, data.schema))
    after = paths(table)[0]
    assert [chunk(before, "id", group) == chunk(after, "id", group) for group in range(4)] == [False, True, True, True]


def test_an_upsert_of_some_columns_passes_on_the_others(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = data_file(table)
    table.upsert(pa.table({"id": [3, 4], "s": ["a", "b"]}), ["id"], update_columns=["s"], when_not_matched="ignore")
    after = data_file(table)
    assert chunk(before, "x", 0) == chunk(after, "x", 0)
    assert chunk(before, "s", 0) != chunk(after, "s", 0)
    expected = rows()["s"].to_pylist()
    expected[3:5] = ["a", "b"]
    assert_rows(table, replaced(rows(), "s", pa.chunked_array([expected])))


def test_an_upsert_of_whole_rows_passes_on_row_groups_without_a_known_key(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = data_file(table)
    new = rows(2, 203)
    new = replaced(new, "s", pa.chunked_array([["p", "q"]]))
    table.upsert(pa.concat_tables([new, rows(1, 999)]), ["id"])
    after = paths(table)[0]
    assert [chunk(before, "s", group) == chunk(after, "s", group) for group in range(4)] == [True, True, False, True]
    kept = rows().filter(pc.invert(pc.is_in(rows()["id"], pa.array([203, 204]))))
    assert_rows(table, pa.concat_tables([kept, new, rows(1, 999)]))


@pytest.mark.parametrize("room", [0, 1 << 20])
def test_the_change_feed_has_the_replaced_rows_that_a_copy_met_if_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(file_rows, "KEPT_BYTES", room)
    read_for_feed: list[int] = []
    batches = file_rows.FileReader.batches

    def noted(*given: Any, **options: Any) -> Any:
        if options.get("at") is not None:
            read_for_feed.append(len(options["at"]))
        return batches(*given, **options)

    monkeypatch.setattr(file_rows.FileReader, "batches", noted)
    data = rows().append_column("day", pa.array([["a", "b"][number >= 200] for number in range(ROWS)]))
    feed = {"delta.enableChangeDataFeed": "true"}
    table = txlog.Table.create(str(tmp_path / "t"), data.schema, partition_by=["day"], properties=feed)
    table.append(data)
    table.upsert(replaced(data.take([3, 203, 204]), "s", pa.chunked_array([["p", "q", "r"]])), ["id"])
    table.delete("id = 199")
    assert sum(read_for_feed) == (0 if room else 4)
    changes = table.changes(2).read_all()
    old = changes.filter(pc.is_in(changes["_change_type"], pa.array(["update_preimage", "delete"])))
    assert old.select(data.schema.names).sort_by("id").to_pylist() == data.take([3, 199, 203, 204]).to_pylist()
    new = changes.filter(pc.equal(changes["_change_type"], "update_postimage")).sort_by("id")
    assert new["s"].to_pylist() == ["p", "q", "r"]


def test_rows_that_a_vector_marks_are_left_out_of_a_copy(tmp_path: Path) -> None:
    table = made(tmp_path, properties={"delta.enableDeletionVectors": "true"})
    table.delete("id IN (7, 8)")
    before = data_file(table)
    table.update({"s": txlog.expr("'new'")}, "id = 150", row_mode="copy-on-write")
    after = data_file(table)
    assert [chunk(before, "x", group) == chunk(after, "x", group) for group in range(4)] == [False, True, True, True]
    expected = rows().filter(pc.invert(pc.is_in(rows()["id"], pa.array([7, 8]))))
    is_new = pc.equal(expected["id"], 150)
    expected = replaced(expected, "s", pc.if_else(is_new, "new", expected["s"]))
    assert table.snapshot().to_arrow().sort_by("id").to_pylist() == expected.to_pylist()
    assert duckdb.sql(f"FROM '{after}' ORDER BY id").to_arrow_table().to_pylist() == expected.to_pylist()


def test_the_partition_of_a_file_stays(tmp_path: Path) -> None:
    data = rows().append_column("day", pa.array([["a", "b c"][number % 2] for number in range(ROWS)]))
    table = txlog.Table.create(str(tmp_path / "t"), data.schema, partition_by=["day"])
    table.append(data)
    table.update({"s": txlog.expr("concat(s, day)")}, "id < 10")
    expected = [
        s + day if number < 10 else s
        for number, s, day in zip(*(data[name].to_pylist() for name in ("id", "s", "day")), strict=True)
    ]
    for found in readers(table)[:2]:
        assert found.to_pylist() == replaced(data, "s", pa.chunked_array([expected])).to_pylist()
    table.update({"day": txlog.expr("'a'")}, "id = 1")
    assert table.count("day = 'a'") == ROWS // 2 + 1
    assert not table.verify(footers=True).findings


def test_a_partition_value_in_another_spelling_is_written_as_txlog_writes_it(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "id long, x double, p int", partition_by=["p"])
    table.append(pa.table({"id": range(ROWS), "x": [0.5] * ROWS, "p": pa.array([1] * ROWS, pa.int32())}))
    log = tmp_path / "t" / "_delta_log" / "00000000000000000001.json"
    log.write_text(log.read_text().replace('"p":"1"', '"p":"01"'))
    table = txlog.Table.open(str(tmp_path / "t"))
    table.update({"x": txlog.expr("1.5")}, "id = 5")
    assert table.snapshot().files()["partitionValues"].to_pylist() == [[("p", "1")]]
    assert table.to_arrow(where="p = 1").num_rows == ROWS


def test_a_damaged_partition_value_is_told_with_its_file(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "id long, x double, p int", partition_by=["p"])
    table.append(pa.table({"id": range(ROWS), "x": [0.5] * ROWS, "p": pa.array([1] * ROWS, pa.int32())}))
    log = tmp_path / "t" / "_delta_log" / "00000000000000000001.json"
    log.write_text(log.read_text().replace('"p":"1"', '"p":"one"'))
    with pytest.raises(CorruptLogError, match="one") as raised:
        txlog.Table.open(str(tmp_path / "t")).update({"x": txlog.expr("2.5")}, "id = 5")
    assert raised.value.version == 1


def test_a_function_as_a_value_gets_whole_rows(tmp_path: Path) -> None:
    table = made(tmp_path)
    seen: list[list[str]] = []

    def new(batch: pa.RecordBatch) -> pa.Array:
        seen.append(batch.schema.names)
        return pc.add(batch.column("id"), 0.5)

    table.update({"x": new}, "id = 42")
    assert seen == [["id", "x", "s", "n"]]
    expected = rows()["x"].to_pylist()
    expected[42] = 42.5
    assert_rows(table, replaced(rows(), "x", pa.chunked_array([expected])))


# --- any schema, any change -----------------------------------------------------------------------------------------


def many_types() -> pa.Table:
    """Rows with a column of nearly every type, nulls in each."""
    numbers = range(ROWS)
    moment = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
    more = {
        "i": pa.array([number * 37 % 101 for number in numbers], pa.int32()),
        "b": pa.array([None if number % 11 == 0 else number % 3 == 0 for number in numbers]),
        "d": pa.array(
            [decimal.Decimal(number) / 4 if number % 13 else None for number in numbers], pa.decimal128(25, 2)
        ),
        "t": pa.array([moment + datetime.timedelta(hours=number) for number in numbers], pa.timestamp("us", "UTC")),
        "f": pa.array([number / 8 if number % 5 else None for number in numbers], pa.float32()),
        "m": pa.array(
            [[("k", number)] if number % 2 else None for number in numbers], pa.map_(pa.string(), pa.int64())
        ),
        "p": pa.array([{"a": number / 2, "c": {"e": str(number)}} if number % 6 else None for number in numbers]),
    }
    data = rows()
    for name, column in more.items():
        data = data.append_column(name, column)
    return data


VALUES = {
    "x": txlog.expr("x + 1000"),
    "s": txlog.expr("concat('z', s)"),
    "n": txlog.expr("n"),
    "i": txlog.expr("i - 500"),
    "b": txlog.expr("not b"),
    "d": txlog.expr("d * 2"),
    "t": txlog.expr("t + interval 1 day"),
    "f": txlog.expr("f - i"),
    "m": txlog.expr("m"),
    "p.a": txlog.expr("x"),
}


@given(
    st.lists(st.sampled_from([*VALUES]), min_size=1, unique=True),
    st.lists(st.integers(0, ROWS - 1), max_size=12),
    st.sampled_from(["update", "delete", "merge"]),
    st.sampled_from(["snappy", "zstd", "gzip", "none"]),
)
def test_rows_and_statistics_are_those_of_a_copy_of_which_every_row_is_decoded(
    tmp_path_factory: pytest.TempPathFactory, columns: list[str], picked: list[int], kind: str, codec: str
) -> None:
    data = many_types()
    values = {name: VALUES[name] for name in columns}
    ids = sorted({0, *picked})
    where = f"id IN ({', '.join(map(str, ids))})"
    source = pa.table({"id": ids, "goes": [number % 2 == 0 for number in ids]})
    found = []
    for limit in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spliced_copies, "SMALL_BYTES", limit)
            folder = tmp_path_factory.mktemp("t")
            table = made(folder, data, compression=codec, use_dictionary=["s"])
            if kind == "update":
                table.update(values, where)
            elif kind == "delete":
                table.delete(where)
            else:
                merge = table.merge(source, "target.id = source.id").when_matched_delete("source.goes")
                merge.when_matched_update(values).execute()
            is_spliced = pq.read_metadata(data_file(table)).num_row_groups > 1
            assert is_spliced == (limit == 0)
            told = stats(table)
            for name in ("n", "m"):  # of arrays and maps that are passed on, nobody counts the nulls
                told["nullCount"].pop(name, None)
            found.append((table.snapshot().to_arrow().sort_by("id").to_pylist(), told))
    assert found[0] == found[1]


# --- statistics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("special", [math.nan, -0.0, math.inf])
def test_bounds_of_floats_are_those_of_the_rows_that_are_left(tmp_path: Path, special: float) -> None:
    values = [1.0] * ROWS
    values[5], values[150], values[350] = 99.0, special, -7.0
    table = made(tmp_path, replaced(rows(), "x", pa.chunked_array([values])))
    table.delete("id IN (5, 350)")
    found = stats(table)
    if special != special:
        assert "x" not in found["minValues"]
    else:
        assert found["minValues"]["x"] == min(special, 1.0)
        assert found["maxValues"]["x"] == ("Infinity" if special == math.inf else 1.0)
    assert found["nullCount"]["x"] == 0
    table.update({"s": txlog.expr("'y'")}, "id = 0")
    assert {tree: of["x"] for tree, of in stats(table).items() if tree != "numRecords" and "x" in of} == {
        tree: of["x"] for tree, of in found.items() if tree != "numRecords" and "x" in of
    }


def test_bounds_that_only_the_log_has_are_not_lost(tmp_path: Path) -> None:
    table = made(tmp_path, write_statistics=False)
    log = sorted((tmp_path / "t" / "_delta_log").glob("*1.json"))[0]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = json.dumps({"numRecords": ROWS, "minValues": {"id": 0}, "maxValues": {"id": 399}})
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = txlog.Table.open(str(tmp_path / "t"))
    table.delete("id = 399")
    found = stats(table)
    assert (found["minValues"]["id"], found["maxValues"]["id"]) == (0, 398)


# --- files of other programs ----------------------------------------------------------------------------------------


def _by_deltalake(folder: Path, data: pa.Table) -> None:
    write_deltalake(str(folder), data)


def _by_duckdb(folder: Path, data: pa.Table) -> None:
    table = txlog.Table.create(str(folder), data.schema)
    duckdb.sql(f"COPY (FROM data) TO '{folder}/f.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    commit_files(table, "f.parquet")


def _by_polars(folder: Path, data: pa.Table) -> None:
    table = txlog.Table.create(str(folder), data.schema)
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(folder / "f.parquet", row_group_size=2048)
    commit_files(table, "f.parquet")


@pytest.mark.parametrize("by", [_by_deltalake, _by_duckdb, _by_polars])
def test_files_of_other_writers_are_passed_on_in_part(tmp_path: Path, by: Callable[[Path, pa.Table], None]) -> None:
    data = rows(6000)
    by(tmp_path / "t", data)
    table = txlog.Table.open(str(tmp_path / "t"))
    before = data_file(table)
    table.update({"s": txlog.expr("'new'")}, "id = 3000")
    after = data_file(table)
    assert chunk(before, "id") == chunk(after, "id")
    assert pq.read_metadata(before).created_by == pq.read_metadata(after).created_by
    table.delete("id = 5000")
    expected = replaced(data, "s", pc.if_else(pc.equal(data["id"], 3000), "new", data["s"]))
    assert_rows(table, expected.filter(pc.not_equal(data["id"], 5000)))
    assert (stats(table)["minValues"]["id"], stats(table)["maxValues"]["id"]) == (0, 5999)


def test_columns_that_are_required_in_a_file_are_passed_on_and_not_encoded(tmp_path: Path) -> None:
    """Spark writes them where a query cannot give NULL; the table's columns are nullable all the same."""
    data = rows()
    strict = pa.schema([data.schema.field("id").with_nullable(False), *list(data.schema)[1:]])
    table = txlog.Table.create(str(tmp_path / "t"), data.schema)
    pq.write_table(data.cast(strict), tmp_path / "t" / "f.parquet", row_group_size=GROUP_ROWS, store_schema=False)
    commit_files(table, "f.parquet")
    before = data_file(table)
    table.update({"s": txlog.expr("'new'")}, "id = 5")
    assert chunk(before, "id") == chunk(data_file(table), "id")
    expected = replaced(data, "s", pc.if_else(pc.equal(data["id"], 5), "new", data["s"]))
    assert_rows(table, expected)
    table.delete("id = 7")
    assert pq.read_metadata(data_file(table)).num_row_groups == 1
    assert_rows(table, expected.filter(pc.not_equal(data["id"], 7)))


# --- what is decoded as before --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "properties", "given"),
    [
        ({}, {"delta.enableRowTracking": "true"}, {}),
        ({}, {"delta.columnMapping.mode": "name"}, {}),
        ({}, {"delta.parquet.compression.codec": "gzip"}, {}),
        ({}, {}, {"parquet": {"parquet.compression": "gzip"}}),
        ({"version": "1.0"}, {}, {}),
    ],
    ids=["row ids", "column mapping", "the table's codec", "the change's codec", "usual"],
)
def test_a_copy_decodes_what_it_must_not_pass_on(
    tmp_path: Path, options: dict[str, Any], properties: dict[str, str], given: dict[str, Any]
) -> None:
    if "delta.columnMapping.mode" in properties:
        table = txlog.Table.create(str(tmp_path / "t"), rows().schema, properties=properties)
        table.append(rows(), parquet={"parquet.block.row.count.limit": "100"})
    else:
        table = made(tmp_path, properties=properties, **options)
    table.update({"s": txlog.expr("'new'")}, "id = 5", **given)
    groups = pq.read_metadata(data_file(table)).num_row_groups
    assert groups == (4 if "version" in options else 1)
    assert table.snapshot().to_arrow(where="s = 'new'").num_rows == 1


def test_a_copy_of_rows_that_must_meet_a_constraint_is_decoded(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.add_constraint("c", "id >= 0 AND s <> 'bad'")
    with pytest.raises(InvalidInputError, match="constraint"):
        table.update({"s": txlog.expr("'bad'")}, "id = 5")
    table.update({"s": txlog.expr("'new'")}, "id = 5")
    assert pq.read_metadata(data_file(table)).num_row_groups == 1


def test_a_generated_column_follows_the_column_that_changes(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "id long, s string, twice long GENERATED ALWAYS AS (id * 2)")
    table.append(pa.table({"id": range(ROWS), "s": ["a"] * ROWS}))
    table.update({"id": txlog.expr("id + 1000")}, "id = 5")
    assert table.to_arrow(["id", "twice"], where="id = 1005").to_pylist() == [{"id": 1005, "twice": 2010}]
    table.update({"s": txlog.expr("'b'")}, "id = 1005")
    assert table.to_arrow(where="s = 'b'").to_pylist() == [{"id": 1005, "s": "b", "twice": 2010}]


def test_a_file_with_another_type_or_without_a_column_is_decoded(tmp_path: Path) -> None:
    narrow = pa.table({"id": pa.array(range(ROWS), pa.int32()), "s": ["a"] * ROWS})
    table = made(tmp_path, narrow, properties={"delta.enableTypeWidening": "true"})
    table.alter_column("id", type="long")
    table.update({"s": txlog.expr("'b'")}, "id = 5")
    metadata = pq.read_metadata(data_file(table))
    assert (metadata.num_row_groups, metadata.schema.column(0).physical_type) == (1, "INT64")
    table.add_columns({"more": "long"})
    table.update({"s": txlog.expr("'c'")}, "id = 5")
    assert pq.read_metadata(data_file(table)).schema.names == ["id", "s", "more"]


def test_a_new_null_in_a_required_column_is_refused(tmp_path: Path) -> None:
    schema = rows().schema
    schema = schema.set(2, schema.field("s").with_nullable(False))
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    table.append(rows())
    with pytest.raises(InvalidInputError, match="column s"):
        table.update({"s": txlog.expr("NULL")}, "id = 5")
    table.update({"s": txlog.expr("'y'")}, "id = 5")
    assert table.version == 2


def test_another_number_of_rows_than_the_log_says_is_damage(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = data_file(table)
    path.write_bytes(altered(path.read_bytes(), lambda footer: footer[4][1][1].pop()))
    with pytest.raises(CorruptLogError, match="300 rows"):
        table.update({"s": txlog.expr("'y'")}, "id = 5")


def test_damage_in_a_column_that_a_change_reads_is_found(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = data_file(table)
    body = bytearray(path.read_bytes())
    at = body.index(chunk(path, "s"))
    body[at : at + 20] = b"\xff" * 20
    path.write_bytes(body)
    with pytest.raises(CorruptLogError):
        table.update({"s": txlog.expr("concat(s, 'y')")}, "id = 5")
    assert table.version == 1


def test_damage_in_a_page_that_is_passed_on_is_found_by_its_checksum(tmp_path: Path) -> None:
    table = made(tmp_path, write_page_checksum=True)
    path = data_file(table)
    body = bytearray(path.read_bytes())
    pages = chunk(path, "x", 2)
    body[body.index(pages) + len(pages) - 5] ^= 1
    path.write_bytes(body)
    with pytest.raises(CorruptLogError, match="checksum of a page") as raised:
        table.update({"s": txlog.expr("'y'")}, "id = 5")
    assert (raised.value.path, raised.value.version) == ("f.parquet", 1)
    assert [each.name for each in Path(table.uri).iterdir() if each.is_file()] == ["f.parquet"]


def test_pages_that_do_not_hold_the_values_of_their_chunk_are_decoded_and_found(tmp_path: Path) -> None:
    table = made(tmp_path)
    path = data_file(table)
    body = bytearray(path.read_bytes())
    at = body.index(chunk(path, "x", 2))
    body[at : at + 4] = b"\xff" * 4
    path.write_bytes(body)
    with pytest.raises(CorruptLogError):
        table.update({"s": txlog.expr("'y'")}, "id = 5")
    assert table.version == 1


_POOLS: list[Any] = []
"""Kept to the end: what txlog keeps for the next change is of such a pool."""


def _peak_of_update(folder: Path, files: int) -> float:
    """Arrow's most memory while an upsert copies files of one row group each, in sizes of a decoded row group."""
    count = 400_000
    data = [
        pa.table({"id": np.arange(first, first + count), "x": np.random.default_rng(first).random(count)})
        for first in range(0, files * count, count)
    ]
    table = txlog.Table.create(str(folder / "t"), data[0].schema)
    names = [f"f{number}.parquet" for number in range(files)]
    for name, each in zip(names, data, strict=True):
        pq.write_table(each, folder / "t" / name)
    commit_files(table, *names)
    changed = pa.table({"id": np.arange(0, files * count, 1_000), "x": np.zeros(files * count // 1_000)})
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        table.upsert(changed, ["id"])
    finally:
        pa.set_memory_pool(usual)
    expected = pa.concat_tables(
        [*(each.filter(pa.array(each["id"].to_numpy() % 1_000 != 0)) for each in data), changed]
    )
    query = f"SELECT count(*), sum(id), sum(x) FROM read_parquet({list(map(str, paths(table)))})"
    (found,) = duckdb.sql(query).fetchall()
    assert found[:2] == (expected.num_rows, pc.sum(expected["id"]).as_py())
    assert math.isclose(found[2], pc.sum(expected["x"]).as_py(), rel_tol=1e-9)
    peak: float = pool.max_memory() / data[0].nbytes
    return peak


def test_a_copy_holds_the_rows_of_a_row_group_once(tmp_path: Path) -> None:
    assert _peak_of_update(tmp_path, 1) < 4  # 2.2 to 3.6, by which of the two threads is ahead


def test_copies_of_many_files_hold_row_groups_of_two(tmp_path: Path) -> None:
    """A third copy waits for its bytes to be durable."""
    assert _peak_of_update(tmp_path, 8) < 7.5


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_every_piece_of_the_rows_is_of_its_row_group_wherever_batches_end(sizes: list[int], data: Any) -> None:
    ends = np.cumsum(sizes)
    cuts = sorted(data.draw(st.sets(st.integers(1, int(ends[-1])))) | {0, int(ends[-1])})
    batch = pa.RecordBatch.from_pydict({"x": list(range(int(ends[-1])))})
    rows = [(np.arange(start, stop), batch[start:stop]) for start, stop in itertools.pairwise(cuts)]
    found = [*itertools.islice(_by_group(rows, [*enumerate(ends.tolist())]), 100)]
    for group, positions, piece in found:
        assert piece["x"].to_pylist() == positions.tolist()
        assert {int(np.searchsorted(ends, each, side="right")) for each in positions} == {group}
    assert [int(each) for _, positions, _ in found for each in positions] == [*range(int(ends[-1]))]
