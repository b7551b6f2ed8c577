"""Taking Parquet files into a table as they lie there: what is checked before the log names them."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest

import txlog
from txlog.core.changes.tasks import TaskStore
from txlog.core.format.actions import AddFile
from txlog.core.store import ObjectMeta, open_store
from txlog.core.store._local_store import LocalFileStore
from txlog.errors import CorruptLogError, InvalidInputError, UnsupportedFeatureError
from txlog.loading import existing_files
from txlog.loading.footer_facts import ReadFooter
from txlog.loading.local_files import open_local_files


def damage_first_page(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[4:204] = b"\xff" * 200
    path.write_bytes(body)


def test_add_files_counts_the_rows_that_the_footers_report(
    make_table: Callable[..., txlog.Table], rows: pa.Table
) -> None:
    table = make_table(rows, partition_by=["day"])
    directory = Path(table.uri) / "day=z"
    directory.mkdir()
    for number, count in enumerate((5, 11)):
        pq.write_table(pa.table({"id": list(range(count))}), directory / f"{number}.parquet")
    result = table.add_files(["day=z/0.parquet", "day=z/1.parquet"])
    assert (result.metrics.rows, result.metrics.files) == (16, 2)
    assert table.history()[0]["operationMetrics"]["numOutputRows"] == "16"
    assert table.snapshot().to_arrow().num_rows == 19


def test_not_null_is_checked_below_the_columns_too(tmp_path: Path) -> None:
    member = pa.field("a", pa.int64(), nullable=False)
    table = txlog.Table.create(str(tmp_path), pa.schema([("s", pa.struct([member]))]))
    pq.write_table(pa.table({"s": [{"a": 1}, {"a": None}]}), tmp_path / "bad.parquet")
    pq.write_table(pa.table({"s": [{"a": 1}, None]}), tmp_path / "good.parquet")
    with pytest.raises(InvalidInputError, match=r"s\.a is null.*row 1"):
        table.add_files(["bad.parquet"])
    table.add_files(["good.parquet"])
    assert table.snapshot().to_arrow().to_pylist() == [{"s": {"a": 1}}, {"s": None}]


def test_a_null_is_found_behind_the_first_batch_of_rows_and_its_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_files, "BATCH_ROWS", 2)
    table = txlog.Table.create(str(tmp_path), pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    pq.write_table(pa.table({"n": [1, 2, 3, 4, None]}), tmp_path / "bad.parquet")
    with pytest.raises(InvalidInputError, match="row 4 is null"):
        table.add_files(["bad.parquet"])


NANOSECONDS = pa.timestamp("ns", "UTC")
UNREADABLE = {
    "timestamps in nanoseconds": ("v timestamp", pa.table({"v": pa.array([1999], NANOSECONDS)})),
    "16-bit floats": ("v float", pa.table({"v": pa.array([1.5], pa.float16())})),
    "UUIDs": ("v string", pa.table({"v": pa.array([bytes(16)], pa.uuid())})),
    "v.list.element.x has timestamps": (
        "v array<struct<x: timestamp>>",
        pa.table({"v": pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", NANOSECONDS)])))}),
    ),
    "2 columns named 'v'": ("v bigint", pa.table([pa.array([1]), pa.array([2])], ["v", "v"])),
    "2 columns named 's.x'": (
        "s struct<x: bigint>",
        pa.table({"s": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])}),
    ),
}


def take_over(folder: Path, columns: str, converts: bool, *partition_by: str) -> None:
    """All files of the folder, as a table or into one."""
    if converts:
        txlog.Table.convert(folder)
    else:
        names = [str(path.relative_to(folder)) for path in folder.rglob("*.parquet")]
        txlog.Table.create(folder, columns, partition_by).add_files(names)


@pytest.mark.parametrize("converts", [False, True], ids=["add_files", "convert"])
@pytest.mark.parametrize("what", UNREADABLE)
def test_files_that_spark_cannot_read_are_refused_by_column_and_file(tmp_path: Path, what: str, converts: bool) -> None:
    """Spark's own CONVERT refuses them too; txlog reads them, so nothing else would show it."""
    columns, rows = UNREADABLE[what]
    pq.write_table(rows, tmp_path / "f.parquet")
    with pytest.raises((InvalidInputError, UnsupportedFeatureError)) as caught:
        take_over(tmp_path, columns, converts)
    assert what in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}: f.parquet: ")


@pytest.mark.parametrize("converts", [False, True], ids=["add_files", "convert"])
def test_a_directory_without_a_value_is_null_in_the_log(tmp_path: Path, converts: bool) -> None:
    """Spark takes an empty string in the log for one."""
    for directory in ("day=", "day=x"):
        (tmp_path / directory).mkdir()
        pq.write_table(pa.table({"id": [1]}), tmp_path / directory / "f.parquet")
    take_over(tmp_path, "id bigint, day string", converts, "day")
    found = [json.loads(line).get("add") for file in tmp_path.rglob("*.json") for line in file.read_text().splitlines()]
    assert {each["path"]: each["partitionValues"]["day"] for each in found if each} == {
        "day=/f.parquet": None,
        "day=x/f.parquet": "x",
    }
    assert txlog.Table.open(tmp_path).count("day is null") == 1


@pytest.mark.parametrize("converts", [False, True], ids=["add_files", "convert"])
def test_two_directories_for_one_partition_column_are_refused(tmp_path: Path, converts: bool) -> None:
    (tmp_path / "day=1" / "DAY=2").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "day=1" / "DAY=2" / "f.parquet")
    with pytest.raises(InvalidInputError, match=r"two directories above 'day=1/DAY=2/f.parquet' name .* 'DAY'"):
        take_over(tmp_path, "id bigint, day int", converts, "day")


@pytest.mark.parametrize("has_plain_footer", [False, True])
def test_an_encrypted_file_is_called_encrypted_and_not_damaged(tmp_path: Path, has_plain_footer: bool) -> None:
    table = txlog.Table.create(tmp_path, "v bigint")
    table.append(pa.table({"v": [1, 2]}))
    (path,) = table.files()["path"].to_pylist()
    encrypted = encryption.EncryptionConfiguration("key", column_keys={"key": ["v"]}, plaintext_footer=has_plain_footer)
    properties = encryption.CryptoFactory(Keys).file_encryption_properties(encryption.KmsConnectionConfig(), encrypted)
    with pq.ParquetWriter(tmp_path / path, pa.schema([("v", pa.int64())]), encryption_properties=properties) as writer:
        writer.write_table(pa.table({"v": [1, 2]}))
    for read in (table.to_arrow, lambda: table.delete("v = 1")):
        with pytest.raises(UnsupportedFeatureError, match="is encrypted, and txlog reads no encrypted files"):
            read()
    shutil.copy(tmp_path / path, tmp_path / "other.parquet")
    with pytest.raises(InvalidInputError, match=r"not a readable Parquet file: .*encrypted"):
        table.add_files(["other.parquet"])


class Keys(encryption.KmsClient):
    """A key service whose wrapped keys are the keys."""

    def __init__(self, config: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64decode(key)


@pytest.mark.parametrize("directory", ["day=__HIVE_DEFAULT_PARTITION__", "day="])
def test_add_files_refuses_the_null_directory_of_a_not_null_partition_column(tmp_path: Path, directory: str) -> None:
    schema = pa.schema([("x", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    table = txlog.Table.create(str(tmp_path), schema, partition_by=["day"])
    (tmp_path / directory).mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / directory / "f.parquet")
    with pytest.raises(InvalidInputError, match="NOT NULL"):
        table.add_files([f"{directory}/f.parquet"])


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../f.parquet", "./f.parquet", "", "_delta_log/f.parquet", "\ud800", 5]
)
def test_add_files_refuses_paths_that_are_not_data_files_below_the_root(tmp_path: Path, path: str) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema([("x", pa.int64())]))
    with pytest.raises(InvalidInputError, match="root"):
        table.add_files([path])


def test_a_damaged_file_is_refused_with_its_path(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema([("x", pa.float64())]))
    pq.write_table(pa.table({"x": [float(row) for row in range(1000)]}), tmp_path / "f.parquet")
    damage_first_page(tmp_path / "f.parquet")
    with pytest.raises(InvalidInputError, match="not a readable Parquet file") as caught:
        table.add_files(["f.parquet"])
    assert caught.value.path == "f.parquet"


def test_reading_a_damaged_data_file_names_it(tmp_path: Path) -> None:
    txlog.write(str(tmp_path), pa.table({"x": list(range(1000))}))
    path = next(tmp_path.glob("*.parquet"))
    damage_first_page(path)
    with pytest.raises(CorruptLogError, match="cannot be read") as caught:
        txlog.Table.open(str(tmp_path)).snapshot().to_arrow()
    assert caught.value.path == path.name


@pytest.mark.parametrize("converts", [False, True])
def test_files_of_a_folder_have_the_sizes_and_times_of_its_listing_and_are_not_looked_up_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, converts: bool
) -> None:
    folder = tmp_path / "day=x"
    folder.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"id": [number] * 10**number}), folder / f"{number}.parquet")
    looked_up: list[str] = []
    stat = LocalFileStore.stat

    def counted(self: LocalFileStore, path: str) -> ObjectMeta:
        looked_up.append(path)
        return stat(self, path)

    monkeypatch.setattr(LocalFileStore, "stat", counted)
    if converts:
        table = txlog.Table.open(txlog.Table.convert(tmp_path, partition_by="day string").uri)
    else:
        table = txlog.Table.create(tmp_path, {"id": pa.int64(), "day": pa.string()}, partition_by=["day"])
        table.add_files("")
    assert looked_up == []
    found = {row["path"]: (row["size"], row["modificationTime"]) for row in table.files().to_pylist()}
    assert found == {
        f"day=x/{number}.parquet": stat(LocalFileStore(str(folder)), f"{number}.parquet")[1:] for number in range(3)
    }


def test_a_file_that_was_written_again_since_it_was_listed_has_its_new_size(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f.parquet")
    store = TaskStore.at(open_store(str(tmp_path)))
    facts = ReadFooter(store, {}, ())("f.parquet", ObjectMeta("f.parquet", 1, 1))
    written = (tmp_path / "f.parquet").stat()
    assert (facts.size_bytes, facts.modified_ms) == (written.st_size, written.st_mtime_ns // 10**6)


@pytest.fixture
def misnamed(tmp_path: Path) -> Path:
    """A Parquet file in which a column's name is no UTF-8."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"wxyz": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"wxyz", b"wx\xffz"))
    return path


def test_a_data_file_with_a_column_name_that_is_not_text_is_reported_as_damaged(tmp_path: Path, misnamed: Path) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema([("wxyz", pa.int64())]))
    with pytest.raises(InvalidInputError, match="not a readable Parquet file"):
        table.add_files([misnamed.name])
    with table.transaction() as transaction:
        add = AddFile(misnamed.name, {}, size=misnamed.stat().st_size, modification_time=1, data_change=True)
        transaction.add(add)
    with pytest.raises(CorruptLogError, match="cannot be read") as caught:
        table.snapshot().to_arrow()
    assert caught.value.path == misnamed.name


def test_the_command_line_refuses_a_file_whose_names_are_no_text(misnamed: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read as parquet"):
        open_local_files([misnamed])


def test_int96_timestamps_are_read_as_utc_timestamps_at_every_depth(tmp_path: Path) -> None:
    moment, utc = datetime(2021, 3, 4, 5, 6, 7, 890123), pa.timestamp("us", "UTC")
    schema = pa.schema(
        [
            ("at", utc),
            ("many", pa.list_(utc)),
            ("by_name", pa.map_(pa.string(), utc)),
            ("nested", pa.struct([("id", pa.int64()), ("deep", pa.struct([("at", utc)]))])),
            ("id", pa.int64()),
        ]
    )
    row = {
        "at": moment,
        "many": [moment],
        "by_name": [("a", moment)],
        "nested": {"id": 1, "deep": {"at": moment}},
        "id": 1,
    }
    table = txlog.Table.create(str(tmp_path), schema)
    pq.write_table(
        pa.Table.from_pylist([row], schema),
        tmp_path / "f.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    )
    table.add_files(["f.parquet"])
    expected = pa.Table.from_pylist([row], schema)
    assert table.snapshot().to_arrow().cast(schema).equals(expected)
    assert table.snapshot().to_arrow(where="at = timestamp '2021-03-04T05:06:07.890123Z'").num_rows == 1
    assert (
        deltalake.DeltaTable(tmp_path).to_pyarrow_table().column("at").to_pylist() == expected.column("at").to_pylist()
    )


def test_add_files_refuses_timestamps_without_zone_for_a_timestamp_column(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema([("at", pa.timestamp("us", "UTC"))]))
    pq.write_table(pa.table({"at": pa.array([datetime(2021, 3, 4)], pa.timestamp("us"))}), tmp_path / "f.parquet")
    with pytest.raises(txlog.SchemaMismatchError, match="at  table timestamp, file timestamp_ntz"):
        table.add_files(["f.parquet"])


def test_an_error_names_the_file_that_it_is_about(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, pa.schema([("id", pa.int64()), ("day", pa.string())]), ["day"])
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "day=1/good.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "day=1/text.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "undated.parquet")
    absolute = str(tmp_path / "day=1/good.parquet")
    for bad in ("day=1/text.parquet", "undated.parquet", "day=1/good.parquet", absolute, "day=1/absent.parquet"):
        with pytest.raises(txlog.TxlogError) as caught:
            table.add_files(["day=1/good.parquet", bad])
        assert bad in caught.value.message
        assert caught.value.message.count(bad) == 1
    assert "relative to the table's root" in caught.value.message
    assert table.snapshot().version == 0
