"""Tables made of the Parquet files in a folder, as they lie there."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from typer.testing import CliRunner

import txlog
from txlog.audit.verify import verify_table
from txlog.cli.app import app
from txlog.core.format.schema import type_name
from txlog.core.store._local_store import LocalFileStore
from txlog.errors import InvalidInputError, NotFoundError, SchemaMismatchError, TxlogError
from txlog.loading.converted_schema import partition_fields
from txlog.table import Table


def put(folder: Path, name: str, rows: pa.Table | None = None, **columns: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns) if rows is None else rows, path)
    return path


def files_of(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.snapshot().files().to_pylist()
    return sorted(found, key=lambda file: str(file["path"]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two partitions, three files, of which one lacks a column and one has another; and what is not to be taken."""
    place = tmp_path / "a folder%"
    put(place, "day=2026-11-20/city=S%C3%A3o/a b.parquet", id=[1, 2], note=["x", None])
    put(place, "day=2026-11-21/city=__HIVE_DEFAULT_PARTITION__/b.parquet", id=[3], note=["y"])
    put(place, "day=2026-11-21/city=Rome/c.parquet", id=[4], price=[Decimal("1.50")])
    (place / "_SUCCESS").touch()
    (place / "day=2026-11-21/.c.parquet.crc").write_bytes(b"x")
    put(place, "_temporary/0/d.parquet", id=[9])
    return place


def test_files_of_a_delta_table_in_the_folder_are_not_taken(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", id=[1])
    (tmp_path / "_delta_log").mkdir()  # as a conversion leaves it that was killed
    inner = Table.create(tmp_path / "inner", "id bigint")
    inner.append(pa.table({"id": [2]}))
    with pytest.raises(InvalidInputError, match="is in the folder of the Delta table inner"):
        Table.convert(tmp_path)
    (tmp_path / "inner").rename(tmp_path.parent / f"{tmp_path.name}-moved")
    assert Table.convert(tmp_path).files == 1


def test_the_first_columns_of_the_table_have_statistics_in_whatever_order_a_file_has_them(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", x=[1], y=[2])
    put(tmp_path, "b.parquet", y=[3], x=[4])
    put(tmp_path, "c.parquet", y=[5])
    Table.convert(tmp_path, properties={"delta.dataSkippingNumIndexedCols": "1"})
    found = [json.loads(file["stats"]).get("minValues", {}) for file in files_of(Table.open(tmp_path))]
    assert found == [{"x": 1}, {"x": 4}, {}]


def test_the_files_are_durable_before_the_log_names_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, synced = LocalFileStore.make_durable, []

    def recorded(self: LocalFileStore, paths: Any, **how: Any) -> None:
        assert not (folder / "_delta_log" / f"{0:020}.json").exists()
        real(self, paths, **how)
        synced.append((sorted(paths), how))

    monkeypatch.setattr(LocalFileStore, "make_durable", recorded)
    Table.convert(folder)
    taken = sorted(str(path.relative_to(folder)) for path in folder.glob("day=*/city=*/[abc]*.parquet"))
    assert (taken, {"with_contents": True}) in synced


@pytest.mark.parametrize("name", ["back\\slash.parquet", "new\nline.parquet", "p=tab\t/a.parquet"])
def test_a_file_that_no_log_can_name_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, id=[1])
    with pytest.raises(InvalidInputError, match=r"cannot name the file .*(slash|line|tab).*another name"):
        Table.convert(tmp_path)
    assert not Table.exists(tmp_path)


def test_a_folder_becomes_a_table_without_a_rewrite(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = Table.convert(folder, user_metadata="why")
    assert (done.version, done.outcome, done.files, done.partition_columns) == (0, "committed", 3, ("day", "city"))
    table = Table.open(folder)
    rows = {row.pop("id"): row for row in table.to_arrow().to_pylist()}
    day = dt.date(2026, 11, 21)
    assert rows[1] == {"note": "x", "price": None, "day": dt.date(2026, 11, 20), "city": "São"}
    assert rows[3] == {"note": "y", "price": None, "day": day, "city": None}
    assert rows[4] == {"note": None, "price": Decimal("1.50"), "day": day, "city": "Rome"}
    assert all(path.read_bytes() == body for path, body in before.items())
    assert verify_table(table._open_table.store).is_sound
    assert table.history()[0]["userMetadata"] == "why"


def test_deltalake_reads_a_converted_folder(folder: Path) -> None:
    Table.convert(folder)
    found = deltalake.DeltaTable(folder).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["city"]) for row in found) == [(1, "São"), (2, "São"), (3, None), (4, "Rome")]


def test_the_commit_is_as_spark_writes_it(folder: Path) -> None:
    Table.convert(folder)
    lines = (folder / "_delta_log/00000000000000000000.json").read_text().splitlines()
    info = json.loads(lines[0])["commitInfo"]
    assert info["operation"] == "CONVERT"
    assert info["operationParameters"] == {
        "numFiles": "3",
        "partitionedBy": '["day","city"]',
        "collectStats": "true",
        "sourceFormat": "parquet",
    }
    assert info["operationMetrics"] == {"numConvertedFiles": "3"}


def test_statistics_come_from_the_footers(folder: Path) -> None:
    Table.convert(folder)
    table = Table.open(folder)
    stats = [json.loads(file["stats"]) for file in files_of(table)]
    assert [each["numRecords"] for each in stats] == [2, 1, 1]
    assert (stats[0]["minValues"], stats[0]["nullCount"]) == ({"id": 1, "note": "x"}, {"id": 0, "note": 1})
    assert table.snapshot().files("id = 4").num_rows == 1


def test_a_second_run_says_that_it_is_a_table_and_adds_nothing(folder: Path) -> None:
    Table.convert(folder)
    Table.open(folder).append(pa.table({"id": [7]}))
    put(folder, "day=2026-11-21/city=Rome/new.parquet", id=[8])
    done = Table.convert(folder)
    assert (done.version, done.outcome, done.files) == (1, "already_a_table", 0)
    assert Table.open(folder).count() == 5


def test_what_is_converted_can_be_changed(folder: Path) -> None:
    Table.convert(folder, properties={"delta.enableDeletionVectors": "true"})
    table = Table.open(folder)
    table.delete("id = 2")
    table.update({"note": txlog.expr("'z'")}, "id = 4")
    table.optimize()
    table.vacuum(0, force=True)
    assert sorted((row["id"], row["note"]) for row in table.to_arrow().to_pylist()) == [(1, "x"), (3, "y"), (4, "z")]
    assert not (folder / "day=2026-11-21/city=Rome/c.parquet").exists()
    assert (folder / "_temporary/0/d.parquet").exists()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", None], "int"),
        (["1", "3000000000"], "bigint"),
        (["01", "2"], "string"),
        (["99999999999999999999"], "string"),
        (["2026-11-20", "2024-02-29"], "date"),
        (["2026-11-20", "2026-02-30"], "string"),
        ([None], "string"),
        (["1", "x"], "string"),
    ],
)
def test_the_type_of_a_partition_column_is_found_in_its_values(values: list[str | None], expected: str) -> None:
    paths = [f"p={'__HIVE_DEFAULT_PARTITION__' if value is None else value}/f.parquet" for value in values]
    assert [type_name(field.type) for field in partition_fields(paths, None, "t")] == [expected]


@pytest.mark.parametrize("given", ["day string, city string", {"day": "string", "city": "string"}])
def test_given_types_of_partition_columns_are_used(folder: Path, given: Any) -> None:
    Table.convert(folder, given)
    assert Table.open(folder).schema.field("day").type == pa.string()


@pytest.mark.parametrize("given", ["day", ["day", "town"], "day date"])
def test_partition_columns_that_the_directories_do_not_name_are_refused(folder: Path, given: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"directories of .* name day, city"):
        Table.convert(folder, given)
    assert not Table.exists(folder)


def test_a_value_that_is_not_of_the_given_type_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="S%C3%A3o") as caught:
        Table.convert(folder, "day date, city int")
    assert caught.value.path is not None


def test_files_in_unlike_directories_are_refused(folder: Path) -> None:
    put(folder, "e.parquet", id=[1])
    with pytest.raises(InvalidInputError, match=r"e\.parquet is in directories that name none"):
        Table.convert(folder)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": pa.array([1], pa.int32())}, r"id is int in .*x\.parquet, and bigint in .*a b\.parquet"),
        ({"id": ["1"]}, r"id is string in"),
        ({"id": [{"a": 1}]}, r"id is struct<.*> in .*, and bigint in"),
        ({"ID": [1]}, r"id is written 'ID' in .*x\.parquet"),
    ],
)
def test_a_file_of_another_type_is_named_with_the_one_that_it_differs_from(
    folder: Path, columns: dict[str, Any], message: str
) -> None:
    put(folder, "day=2026-11-22/city=Rome/x.parquet", **columns)
    with pytest.raises(SchemaMismatchError, match=message) as caught:
        Table.convert(folder)
    assert caught.value.path == "day=2026-11-22/city=Rome/x.parquet"
    assert not Table.exists(folder)


def test_columns_inside_structs_are_merged_and_nothing_is_required(tmp_path: Path) -> None:
    member = pa.field("a", pa.int64(), nullable=False)
    schema = pa.schema([pa.field("s", pa.struct([member]), nullable=False), pa.field("l", pa.list_(pa.int8()))])
    put(tmp_path, "1.parquet", pa.table({"s": [{"a": 1}], "l": [[1]]}, schema))
    put(tmp_path, "2.parquet", s=[{"b": "x"}])
    Table.convert(tmp_path)
    table = Table.open(tmp_path)
    assert sorted(table.to_arrow()["s"].to_pylist(), key=repr) == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert all(field.nullable for field in table.schema)
    assert json.loads(files_of(table)[1]["stats"])["maxValues"] == {"s": {"b": "x"}}


def test_names_that_need_column_mapping_are_refused_and_then_taken(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", pa.table({"a b": [1], "c": [2]}))
    with pytest.raises(InvalidInputError, match=r"the property delta.columnMapping.mode=name. For readers"):
        Table.convert(tmp_path)
    Table.convert(tmp_path, properties={"delta.columnMapping.mode": "name"})
    table = Table.open(tmp_path)
    table.rename_column("a b", "renamed")
    assert table.to_arrow().to_pylist() == [{"renamed": 1, "c": 2}]


@pytest.mark.parametrize("ids", [(None, None), (2, 1), (1, 2)])
def test_a_folder_of_files_is_not_read_by_column_ids(tmp_path: Path, ids: tuple[int | None, ...]) -> None:
    """The files have no ids, or their own, which the table's columns would only match by chance."""
    marks = [None if number is None else {b"PARQUET:field_id": str(number).encode()} for number in ids]
    schema = pa.schema([pa.field(name, pa.int64(), metadata=mark) for name, mark in zip("ab", marks, strict=True)])
    put(tmp_path, "1.parquet", pa.table({"a": [1], "b": [2]}, schema=schema))
    with pytest.raises(InvalidInputError, match=r"use delta.columnMapping.mode = name"):
        Table.convert(tmp_path, properties={"delta.columnMapping.mode": "id"})
    assert not Table.exists(tmp_path)
    Table.convert(tmp_path, properties={"delta.columnMapping.mode": "name"})
    assert Table.open(tmp_path).to_arrow().to_pylist() == [{"a": 1, "b": 2}]


def test_a_constraint_is_added_after_the_conversion_which_reads_no_rows(tmp_path: Path) -> None:
    put(tmp_path, "1.parquet", a=[1])
    with pytest.raises(InvalidInputError, match=r"add_constraint"):
        Table.convert(tmp_path, properties={"delta.constraints.large": "a > 5"})
    assert not Table.exists(tmp_path)
    Table.convert(tmp_path)
    with pytest.raises(InvalidInputError, match=r"violate the constraint large"):
        Table.open(tmp_path).add_constraint("large", "a > 5")


def test_a_column_that_the_directories_name_too_has_the_directories_values(tmp_path: Path) -> None:
    put(tmp_path, "p=1/1.parquet", id=[1], p=["other"])
    Table.convert(tmp_path)
    assert Table.open(tmp_path).to_arrow().to_pylist() == [{"id": 1, "p": 1}]


def test_iceberg_readers_find_files_with_a_column_that_the_table_lacks(tmp_path: Path) -> None:
    put(tmp_path, "p=1/1.parquet", id=[1], P=["other"])
    Table.convert(tmp_path)
    table = Table.open(tmp_path)
    metadata = table.export_iceberg().metadata_location
    assert StaticTable.from_metadata(metadata).scan().to_arrow().to_pylist() == [{"id": 1, "p": 1}]


@pytest.mark.parametrize("body", [b"", b"not Parquet", b"PAR1PAR1", b"PAR1" + b"\xff" * 50 + b"PAR1"])
def test_a_file_that_is_not_parquet_is_named(folder: Path, body: bytes) -> None:
    (folder / "day=2026-11-21/city=Rome/x.txt").write_bytes(body)
    with pytest.raises(InvalidInputError, match=r"x\.txt: not a readable Parquet file"):
        Table.convert(folder)


def test_a_folder_without_files_and_one_that_is_not_there_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InvalidInputError, match="no file to convert"):
            Table.convert(place)


def test_a_file_that_is_deleted_meanwhile_is_named(folder: Path) -> None:
    def deletes(step: str, read: int, total: int | None) -> None:
        for path in folder.glob("day=*/*/*.parquet"):
            path.unlink()

    with pytest.raises((NotFoundError, TxlogError)):
        Table.convert(folder, on_progress=deletes)
    assert not Table.exists(folder)


def test_damaged_footers_raise_typed_errors_that_name_the_file(tmp_path: Path) -> None:
    body = put(tmp_path / "whole", "f.parquet", id=[1, 2, 3], s=["a", "b", None]).read_bytes()
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    chance = random.Random(5)
    for number in range(60):
        place = tmp_path / str(number)
        place.mkdir()
        damaged = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(footer, len(body))] = chance.randrange(256)
        (place / "f.parquet").write_bytes(damaged)
        try:
            Table.convert(place)
        except TxlogError as error:
            assert error.path == "f.parquet" or "cannot be written" in error.message  # noqa: PT017


def test_thousands_of_files_are_one_version(tmp_path: Path) -> None:
    body = put(tmp_path, "0.parquet", id=[1]).read_bytes()
    for number in range(1, 2000):
        (tmp_path / f"{number}.parquet").write_bytes(body)
    seen: list[tuple[int, int]] = []
    assert Table.convert(tmp_path, on_progress=lambda step, read, total: seen.append((read, total))).files == 2000
    assert seen[-1] == (2000, 2000)
    assert Table.open(tmp_path).count() == 2000


def test_the_command_converts_and_says_so_again(folder: Path) -> None:
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["convert", str(folder), *arguments])
        assert done.exit_code == 0, done.output + done.stderr
        return " ".join(done.stdout.split())

    found = run("--partition-by", "day date, city string", "--property", "a.b=c", "--user-metadata", "why")
    assert "is a Delta table: 3 files" in found
    assert "partitioned by day, city" in found
    assert "nothing was changed" in run()
    assert json.loads(run("--json"))["outcome"] == "already_a_table"
    assert Table.open(folder).snapshot().properties["a.b"] == "c"


def test_a_folder_with_a_delta_table_in_it_is_refused_and_named(folder: Path) -> None:
    inner = Table.create(folder / "copies" / "inner", "id bigint")
    inner.append(pa.table({"id": [1]}))
    inner.overwrite(pa.table({"id": [2]}))
    with pytest.raises(InvalidInputError, match="in the folder of the Delta table copies/inner"):
        Table.convert(folder)
    assert not (folder / "_delta_log").exists()
    other = Table.create(folder.parent / "other", "id bigint")
    with pytest.raises(InvalidInputError, match="in the folder of the Delta table inner"):
        other.copy_into(folder / "copies")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder whose directories are values without names."""
    for month in ("01", "02"):
        put(tmp_path / "bare", f"2024/{month}/a.parquet", id=[int(month)])
    return tmp_path / "bare"


def test_directories_without_names_are_told_of_and_how_to_name_them(bare: Path) -> None:
    done = Table.convert(bare)
    assert done.partition_columns == ()
    (note,) = done.notes
    assert "such as 2024/01, name no partition columns" in note
    assert 'partition_by="level_1, level_2"' in note
    assert note in str(done)
    assert done.to_dict()["notes"] == [note]


def test_the_command_tells_it_too(bare: Path) -> None:
    found = CliRunner().invoke(app, ["convert", str(bare)])
    assert "name no partition columns" in " ".join(found.stdout.split())


def test_files_that_are_not_in_directories_need_no_note(tmp_path: Path) -> None:
    put(tmp_path / "flat", "a.parquet", id=[1])
    assert Table.convert(tmp_path / "flat").notes == ()


@pytest.mark.parametrize(
    ("given", "first"),
    [("year int, month int", (2024, 1)), (["year", "month"], (2024, "01")), ("year, month", (2024, "01"))],
)
def test_directories_without_names_get_the_names_that_are_given_level_by_level(
    bare: Path, given: Any, first: tuple[Any, ...]
) -> None:
    done = Table.convert(bare, given)
    assert (done.partition_columns, done.notes) == (("year", "month"), ())
    found = Table.open(bare).to_arrow().sort_by("id").to_pylist()
    assert (found[0]["year"], found[0]["month"], found[0]["id"]) == (*first, 1)
    peer = deltalake.DeltaTable(bare).to_pyarrow_table().sort_by("id").to_pylist()
    assert peer == found
    assert Table.open(bare).verify().findings == ()


@pytest.mark.parametrize("given", ["year int", "year int, month int, day int"])
def test_as_many_names_as_levels_are_needed(bare: Path, given: str) -> None:
    with pytest.raises(InvalidInputError, match="as many columns as there are directories above each file"):
        Table.convert(bare, given)


WIDENING = {"delta.enableTypeWidening": "true"}


def typed(kind: pa.DataType, *values: Any) -> pa.Table:
    return pa.table({"id": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([typed(pa.int32(), 1), typed(pa.int64(), 2**40)], "bigint"),
        ([typed(pa.int64(), 2**40), typed(pa.int32(), 1)], "bigint"),
        ([typed(pa.int64(), 2**40), typed(pa.int8(), 1), typed(pa.int32(), 70_000)], "bigint"),
        ([typed(pa.float32(), 1.5), typed(pa.float64(), 0.1)], "double"),
        (
            [typed(pa.decimal128(4, 2), Decimal("1.25")), typed(pa.decimal128(12, 4), Decimal("7.1234"))],
            "decimal(12,4)",
        ),
        ([typed(pa.list_(pa.int32()), [1]), typed(pa.list_(pa.int64()), [2**40])], "array<bigint>"),
    ],
)
def test_a_column_of_several_types_is_as_wide_as_the_widest_where_the_table_widens_types(
    tmp_path: Path, files: list[pa.Table], expected: str
) -> None:
    for number, rows in enumerate(files):
        put(tmp_path / "t", f"{number}.parquet", rows)
    with pytest.raises(SchemaMismatchError, match=r"delta\.enableTypeWidening"):
        Table.convert(tmp_path / "t")
    Table.convert(tmp_path / "t", properties=WIDENING)
    table = Table.open(tmp_path / "t")
    assert type_name(table._open_table.log.newest_state().schema.fields[0].type) == expected
    written = [value for rows in files for value in rows["id"].to_pylist()]
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(written)
    table.append(files[0])
    assert table.verify().findings == ()


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (typed(pa.int32(), 1), typed(pa.string(), "x"), "id is string in 1.parquet, and int in 0.parquet"),
        (typed(pa.int32(), 1), pa.table({"ID": [1]}), "id is written 'ID' in 1.parquet, and 'id' in 0.parquet"),
    ],
)
def test_what_no_type_and_no_name_holds_is_refused_with_both_files(
    tmp_path: Path, one: pa.Table, other: pa.Table, said: str
) -> None:
    for number, rows in enumerate((one, other)):
        put(tmp_path / "t", f"{number}.parquet", rows)
    with pytest.raises(SchemaMismatchError, match=said):
        Table.convert(tmp_path / "t", properties=WIDENING)
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_types_that_fit_one_by_one_and_not_together_are_refused(tmp_path: Path) -> None:
    for number, rows in enumerate((typed(pa.int32(), 1), typed(pa.float64(), 0.5), typed(pa.int64(), 2))):
        put(tmp_path / "t", f"{number}.parquet", rows)
    with pytest.raises(SchemaMismatchError, match=r"id is bigint in 2\.parquet"):
        Table.convert(tmp_path / "t", properties=WIDENING)
