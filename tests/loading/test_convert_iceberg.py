"""Iceberg tables as Delta tables: PyIceberg's and our own exports, with the rows that PyIceberg reads."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimeType

from txlog import variant
from txlog.audit.verify import verify_table
from txlog.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from txlog.iceberg.metadata.foreign import foreign_table
from txlog.table import Table

NAMES = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/house")
    made.create_namespace("n")
    yield made
    made.destroy_tables()


def place_of(table: Any) -> Path:
    return Path(table.location().removeprefix("file://"))


def rows_of(table: Table) -> list[str]:
    return sorted(map(repr, table.to_arrow().to_pylist()))


def agrees(table: Table, iceberg: Any) -> bool:
    """Both readers find the same columns and rows, and the log is sound."""
    found = iceberg.scan().to_arrow()
    assert table.schema.names == found.schema.names
    assert rows_of(table) == sorted(map(repr, found.to_pylist()))
    return verify_table(table._open_table.store).is_sound


EVERY = pa.table(
    {
        "b": [True, None],
        "i": pa.array([1, None], pa.int32()),
        "l": [2, 3],
        "f": pa.array([1.5, None], pa.float32()),
        "d": [2.5, None],
        "n": [Decimal("1.25"), None],
        "day": [dt.date(2026, 1, 2), None],
        "at": pa.array([dt.datetime(2026, 1, 2, 3), None], pa.timestamp("us", "UTC")),
        "local": pa.array([dt.datetime(2026, 1, 2, 3), None], pa.timestamp("us")),
        "s": ["x", None],
        "y": [b"z", None],
        "st": pa.array([{"a": 1, "b": "q"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())])),
        "li": pa.array([[1, None], None], pa.list_(pa.int64())),
        "ll": pa.array([[{"k": 1}], None], pa.list_(pa.struct([("k", pa.int64())]))),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def test_every_type_is_taken_over_with_its_ids(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.every", schema=EVERY.schema)
    iceberg.append(EVERY)
    before = {path: path.read_bytes() for path in place_of(iceberg).rglob("*") if path.is_file()}
    done = Table.convert(place_of(iceberg))
    assert (done.outcome, done.files) == ("committed", 1)
    assert all(path.read_bytes() == body for path, body in before.items())
    table = Table.open(place_of(iceberg))
    assert agrees(table, iceberg)
    assert table.snapshot().properties["delta.columnMapping.mode"] == "id"
    ids = {field.name: field.field_id for field in iceberg.schema().fields}
    fields = json.loads(table._open_table.log.newest_state().metadata.schema_string)["fields"]
    assert {field["name"]: field["metadata"]["delta.columnMapping.id"] for field in fields} == ids
    info = table.history()[0]
    assert info["operationParameters"]["sourceFormat"] == "iceberg"
    assert Table.convert(place_of(iceberg)).outcome == "already_a_table"


def test_renamed_dropped_and_added_columns_are_found_by_id(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table(
        "n.evolved", schema=pa.schema([("id", pa.int64()), ("a", pa.string()), ("z", pa.int64())])
    )
    iceberg.append(pa.table({"id": [1], "a": ["x"], "z": [9]}))
    with iceberg.update_schema() as update:
        update.rename_column("a", "b")
        update.delete_column("z")
    with iceberg.update_schema() as update:
        update.add_column("a", StringType())
    iceberg.append(pa.table({"id": [2], "b": ["y"], "a": ["new"]}))
    Table.convert(place_of(iceberg))
    table = Table.open(place_of(iceberg))
    assert agrees(table, iceberg)
    assert table.count("a = 'new'") == 1
    assert table.count("b = 'x'") == 1
    table.add_columns("z bigint")  # a new id: the dropped column's values do not come back
    assert table.to_arrow()["z"].to_pylist() == [None, None]
    table.append(pa.table({"id": [3], "z": [7]}))
    table.delete("id = 1")
    table.optimize()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 3]


def test_identity_partitions_become_partition_columns(catalog: SqlCatalog) -> None:
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "region"), PartitionField(3, 1001, IdentityTransform(), "day")
    )
    schema = Schema(*NAMES.fields, NestedField(3, "day", DateType(), required=False))
    iceberg = catalog.create_table("n.parts", schema=schema, partition_spec=spec)
    days = [dt.date(2026, 1, 2), dt.date(1965, 1, 2), None]
    iceberg.append(pa.table({"id": [1, 2, 3], "region": ["a b/%", None, "c"], "day": days}))
    done = Table.convert(place_of(iceberg))
    assert done.partition_columns == ("region", "day")
    table = Table.open(place_of(iceberg))
    assert agrees(table, iceberg)
    assert table.snapshot().files("region = 'a b/%'").num_rows == 1
    table.append(pa.table({"id": [4], "region": ["c"]}))
    assert table.count("region = 'c'") == 2


@pytest.mark.parametrize("name", ["my col", "a-b", "größe", "1st", "a.b"])
def test_partitions_may_have_names_that_avro_does_not_allow(catalog: SqlCatalog, name: str) -> None:
    schema = Schema(NAMES.fields[0], NestedField(2, name, StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), name))
    iceberg = catalog.create_table("n.named", schema=schema, partition_spec=spec)
    iceberg.append(pa.table({"id": [1, 2], name: ["x", None]}))
    assert Table.convert(place_of(iceberg)).partition_columns == (name,)
    assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_an_empty_text_leaves_a_table_unpartitioned_whatever_its_column_is_named(catalog: SqlCatalog) -> None:
    name = "my col"
    schema = Schema(NAMES.fields[0], NestedField(2, name, StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), name))
    iceberg = catalog.create_table("n.blank", schema=schema, partition_spec=spec)
    iceberg.append(pa.table({"id": [1, 2], name: ["x", ""]}))
    assert Table.convert(place_of(iceberg)).partition_columns == ()
    assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_a_file_without_its_partition_values_is_an_error(catalog: SqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    iceberg = catalog.create_table("n.lost", schema=NAMES, partition_spec=spec)
    iceberg.append(pa.table({"id": [1], "region": ["a"]}))
    name = changed(iceberg, lambda document: document["partition-specs"][0]["fields"][0].update({"field-id": 1007}))
    with pytest.raises(InvalidInputError, match=r"no values of partition spec 0 for .*parquet"):
        Table.convert(place_of(iceberg), iceberg_metadata=name)


def test_other_transforms_partition_no_delta_table() -> None:
    fields = [{"id": 1, "name": "id", "type": "long", "required": False}]
    transforms = ["identity", "bucket[4]", "truncate[2]", "day", "void"]
    spec = [{"source-id": n, "field-id": 1000 + n, "name": f"f{n}", "transform": t} for n, t in enumerate(transforms)]
    document = {
        "format-version": 2,
        "location": "s3://b/t/",
        "last-column-id": 7,
        "schemas": [{"schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 3, "fields": spec}],
    }
    found = foreign_table(document)
    assert (found.identity, found.location, found.manifest_list) == ({3: {0: 1000}}, "s3://b/t", None)
    del document["partition-specs"]
    of_v1 = [{"source-id": n, "name": f"f{n}", "transform": "identity"} for n in (4, 1)]
    found = foreign_table({**document, "format-version": 1, "partition-spec": of_v1})
    assert found.identity == {0: {4: 1000, 1: 1001}}


def test_a_changed_partitioning_and_empty_texts_leave_the_table_unpartitioned(catalog: SqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    for name, values in (("n.empty", ["", "x"]), ("n.changed", ["y", "x"])):
        iceberg = catalog.create_table(name, schema=NAMES, partition_spec=spec)
        iceberg.append(pa.table({"id": [1, 2], "region": values}))
        if name == "n.changed":
            with iceberg.update_spec() as update:
                update.remove_field("region")
            iceberg.append(pa.table({"id": [3], "region": ["z"]}))
        assert Table.convert(place_of(iceberg)).partition_columns == ()
        assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_only_files_of_the_current_snapshot_are_taken(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.overwritten", schema=NAMES)
    iceberg.append(pa.table({"id": [1], "region": ["a"]}))
    iceberg.overwrite(pa.table({"id": [2], "region": ["b"]}))
    iceberg.append(pa.table({"id": [3], "region": ["c"]}))
    iceberg.delete("id = 3")
    assert Table.convert(place_of(iceberg)).files == 1
    assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_an_empty_iceberg_table_becomes_an_empty_table(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.none", schema=NAMES)
    assert Table.convert(place_of(iceberg)).files == 0
    table = Table.open(place_of(iceberg))
    table.append(pa.table({"id": [1], "region": ["a"]}))
    assert table.count() == 1


def test_files_without_ids_are_found_by_the_tables_name_mapping(catalog: SqlCatalog, tmp_path: Path) -> None:
    iceberg = catalog.create_table("n.added", schema=NAMES)
    path = place_of(iceberg) / "data" / "plain.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2], "region": ["a", "b"]}), path)
    iceberg.add_files([f"file://{path}"])
    with iceberg.update_schema() as update:
        update.rename_column("region", "area")
    Table.convert(place_of(iceberg))
    table = Table.open(place_of(iceberg))
    assert table.snapshot().properties["delta.columnMapping.mode"] == "name"
    assert agrees(table, iceberg)
    assert table.snapshot().files("area = 'zzz'").num_rows == 0  # it has statistics
    shutil.rmtree(place_of(iceberg) / "_delta_log")
    iceberg.append(pa.table({"id": [3], "area": ["c"]}))
    with pytest.raises(UnsupportedFeatureError, match=r"plain\.parquet has no column ids"):
        Table.convert(place_of(iceberg))


def test_renamed_fields_of_structs_in_lists_and_maps_are_found_without_ids(catalog: SqlCatalog) -> None:
    inner = pa.struct([("x", pa.int32())])
    schema = pa.schema(
        [("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("d", pa.list_(pa.list_(inner))), ("s", inner)]
    )
    row = {"l": [{"x": 1}], "m": [("k", {"x": 2})], "d": [[{"x": 3}]], "s": {"x": 4}}
    iceberg = catalog.create_table("n.inside", schema=schema)
    path = place_of(iceberg) / "data" / "plain.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist([row], schema), path)
    iceberg.add_files([f"file://{path}"])
    with iceberg.update_schema() as update:
        for name in ("l.element.x", "m.value.x", "d.element.element.x", "s.x"):
            update.rename_column(name, "y")
    Table.convert(place_of(iceberg))
    table = Table.open(place_of(iceberg))
    renamed = {"l": [{"y": 1}], "m": [("k", {"y": 2})], "d": [[{"y": 3}]], "s": {"y": 4}}
    assert table.to_arrow().to_pylist() == [renamed]
    table.append(table.to_arrow())
    table.optimize()
    assert table.to_arrow().to_pylist() == [renamed, renamed]


def test_a_column_without_a_name_in_files_does_not_take_that_of_another(catalog: SqlCatalog) -> None:
    rows = pa.table({"a": [1], "s": [{"x": 2, "gone": 3}]})
    iceberg = catalog.create_table("n.again", schema=rows.schema)
    path = place_of(iceberg) / "data" / "plain.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path)
    iceberg.add_files([f"file://{path}"])
    before = iceberg.properties["schema.name-mapping.default"]
    with iceberg.update_schema() as update:
        update.rename_column("a", "b")
        update.rename_column("s.x", "y")
        update.delete_column("s.gone")
    with iceberg.update_schema() as update:
        update.add_column("a", LongType())
        update.add_column(("s", "x"), LongType())
        update.add_column(("s", "gone"), LongType())
    with iceberg.transaction() as transaction:  # as of a writer that leaves the mapping alone
        transaction.set_properties({"schema.name-mapping.default": before})
    Table.convert(place_of(iceberg))
    table = Table.open(place_of(iceberg))
    assert agrees(table, iceberg)
    row = {"b": 1, "s": {"y": 2, "x": None, "gone": None}, "a": None}
    assert table.to_arrow().to_pylist() == [row]
    new = {"b": 4, "s": {"y": 5, "x": 6, "gone": 7}, "a": 8}
    table.append(pa.Table.from_pylist([new], table.schema))
    table.optimize()
    assert sorted(table.to_arrow().to_pylist(), key=repr) == [row, new]


def test_a_name_mapping_with_one_name_for_two_columns_is_refused(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.ambiguous", schema=pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    path = place_of(iceberg) / "data" / "plain.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1], "n": [2]}), path)
    iceberg.add_files([f"file://{path}"])
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["id"]}]
    with iceberg.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": json.dumps(mapping)})
    with pytest.raises(InvalidInputError, match="several columns would have the name id in data files"):
        Table.convert(place_of(iceberg))
    assert not Table.exists(place_of(iceberg))


# --- deleted rows: our own exports have both kinds of deletes ---------------------------------------------------------


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_position_deletes_and_deletion_vectors_become_delta_vectors(tmp_path: Path, version: str) -> None:
    properties = {"delta.enableDeletionVectors": "true", "txlog.iceberg": version}
    source = Table.create(tmp_path / "s", "id bigint, p string", ["p"], properties)
    source.append(pa.table({"id": range(100), "p": ["a b", "c"] * 50}))
    source.delete("id % 7 = 0")
    source.append(pa.table({"id": range(100, 110), "p": ["c"] * 10}))
    source.delete("id in (3, 105)")
    metadata = Path(source.export_iceberg().metadata_location.removeprefix("file://"))
    shutil.copytree(tmp_path / "s", tmp_path / "moved", ignore=shutil.ignore_patterns("_delta_log"))
    done = Table.convert(tmp_path / "moved", iceberg_metadata=str(metadata.relative_to(tmp_path / "s")))
    assert done.partition_columns == ("p",)
    table = Table.open(tmp_path / "moved")
    shutil.rmtree(tmp_path / "s")
    found = sorted(table.to_arrow()["id"].to_pylist())
    assert found == [n for n in range(110) if (n % 7 or n >= 100) and n not in (3, 105)]
    assert verify_table(table._open_table.store).is_sound
    table.delete("id < 50")
    table.purge()
    table.vacuum(0, force=True)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [n for n in found if n >= 50]


@pytest.mark.parametrize("is_shredded", [False, True])
def test_variants_of_a_table_are_taken_over(tmp_path: Path, is_shredded: bool) -> None:
    """DuckDB reads the same files and deletes. Iceberg's own writer is in integration/check_iceberg_spark.py."""
    shredding = {"delta.enableVariantShredding": str(is_shredded).lower()}
    properties = {"txlog.iceberg": "v3", "delta.enableDeletionVectors": "true", **shredding}
    source = Table.create(tmp_path / "s", "id bigint, s struct<w: variant>", properties=properties)
    made = variant.from_python([{"a": 1, "b": ["x", 2]}, {"a": 2}, {"a": 3}, None, {"b": []}])
    structs = pa.StructArray.from_arrays([made], fields=list(source.to_arrow().schema.field("s").type))
    source.append(pa.table({"id": range(5), "s": structs}))
    source.delete("id = 1")
    metadata = source.export_iceberg().metadata_location
    shutil.rmtree(tmp_path / "s" / "_delta_log")
    if is_shredded:
        with pytest.raises(UnsupportedFeatureError, match=r"column s\.w is a shredded variant"):
            Table.convert(tmp_path / "s", iceberg_metadata=metadata)
    Table.convert(tmp_path / "s", iceberg_metadata=metadata, properties=shredding)
    table = Table.open(tmp_path / "s")
    found = table.to_arrow().sort_by("id")
    texts = variant.to_json(found["s"].combine_chunks().field(0)).to_pylist()
    (path,) = table.files()["path"].to_pylist()
    query = f"SELECT s.w::JSON FROM '{tmp_path / 's' / path}' WHERE id <> 1 ORDER BY id"
    assert [json.loads(text or "null") for text in texts] == [
        json.loads(text or "null") for (text,) in duckdb.sql(query).fetchall()
    ]
    table.append(found)
    assert table.to_arrow(["id"], where="s.w:a::int = 3")["id"].to_pylist() == [2, 2]
    assert verify_table(table._open_table.store).is_sound


@pytest.mark.parametrize(("row", "is_there"), [(9, True), (10, False)])
def test_a_delete_of_a_row_that_a_file_lacks_is_an_error(tmp_path: Path, row: int, is_there: bool) -> None:
    properties = {"delta.enableDeletionVectors": "true", "txlog.iceberg": "v2"}
    source = Table.create(tmp_path / "s", "id bigint", properties=properties)
    source.append(pa.table({"id": range(10)}))
    source.delete("id = 1")
    metadata = Path(source.export_iceberg().metadata_location.removeprefix("file://"))
    shutil.rmtree(tmp_path / "s" / "_delta_log")
    (deletes,) = (tmp_path / "s" / "_iceberg").rglob("*.parquet")
    rows = pq.read_table(deletes)
    at = rows.schema.get_field_index("pos")
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array([row], pa.int64())), deletes)
    convert = partial(Table.convert, tmp_path / "s", iceberg_metadata=str(metadata))
    if is_there:
        convert()
        assert Table.open(tmp_path / "s").to_arrow()["id"].to_pylist() == [*range(9)]
    else:
        with pytest.raises(InvalidInputError, match=r"mark row 10 of .*, which has 10 rows"):
            convert()


def test_a_missing_delete_file_is_an_error_and_no_table(tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true", "txlog.iceberg": "v2"}
    source = Table.create(tmp_path / "s", "id bigint", properties=properties)
    source.append(pa.table({"id": range(10)}))
    source.delete("id = 1")
    metadata = Path(source.export_iceberg().metadata_location.removeprefix("file://"))
    shutil.rmtree(tmp_path / "s" / "_delta_log")
    deletes = [*(tmp_path / "s" / "_iceberg").rglob("*.parquet")]
    for path in deletes:
        path.unlink()
    with pytest.raises(NotFoundError, match="deleted rows would come back"):
        Table.convert(tmp_path / "s", iceberg_metadata=str(metadata))
    assert not Table.exists(tmp_path / "s")
    assert not [*(tmp_path / "s").glob("deletion_vector_*")][1:]  # only the source's own


# --- metadata files by other names ------------------------------------------------------------------------------------


def with_history(catalog: SqlCatalog) -> tuple[Any, Path, list[Path]]:
    """A table whose second commit deletes a row, its folder of metadata, and the metadata files in order."""
    iceberg = catalog.create_table("n.named", schema=NAMES)
    iceberg.append(pa.table({"id": [1, 2, 3], "region": ["a", "b", "c"]}))
    iceberg.delete("id = 2")
    folder = place_of(iceberg) / "metadata"
    return iceberg, folder, sorted(folder.glob("*.metadata.json"))


@pytest.mark.parametrize(
    "name", ["current.metadata.json", "vfinal.metadata.json", "v3-final.metadata.json", "metadata.json"]
)
@pytest.mark.parametrize("beside_older", [False, True], ids=["alone", "beside older ones with numbers"])
def test_a_metadata_file_without_a_number_is_found(catalog: SqlCatalog, name: str, beside_older: bool) -> None:
    iceberg, folder, files = with_history(catalog)
    rows = sorted(map(repr, iceberg.scan().to_arrow().to_pylist()))
    files[-1].rename(folder / name)
    for older in () if beside_older else files[:-1]:
        older.unlink()
    Table.convert(place_of(iceberg))
    assert rows_of(Table.open(place_of(iceberg))) == rows
    assert len(rows) == 2


def test_a_number_wins_over_an_older_file_without_one(catalog: SqlCatalog) -> None:
    iceberg, folder, files = with_history(catalog)
    shutil.copy(files[1], folder / "backup.metadata.json")
    Table.convert(place_of(iceberg))
    assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_copies_of_the_newest_are_one(catalog: SqlCatalog) -> None:
    iceberg, folder, files = with_history(catalog)
    for name in ("a.metadata.json", "b.metadata.json"):
        shutil.copy(files[-1], folder / name)
    Table.convert(place_of(iceberg))
    assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_files_of_which_none_comes_last_are_refused_unless_the_tables_hint_names_one(catalog: SqlCatalog) -> None:
    """Two commits that began with the same version: a catalog took one of them."""
    iceberg, folder, files = with_history(catalog)
    document = json.loads(files[-1].read_bytes())
    other = {**document, "last-updated-ms": document["last-updated-ms"] + 5, "properties": {"p": "q"}}
    for each in (other, {**other, "table-uuid": "another"}):
        (folder / "other.metadata.json").write_text(json.dumps(each))
        with pytest.raises(InvalidInputError, match=r"not clear which of .*other\.metadata\.json.*iceberg_metadata"):
            Table.convert(place_of(iceberg))
    (folder / "version-hint.text").write_text("other\n")
    Table.convert(place_of(iceberg))
    assert agrees(Table.open(place_of(iceberg)), iceberg)


def test_a_folder_whose_metadata_file_is_gone_is_refused(catalog: SqlCatalog) -> None:
    iceberg, _, files = with_history(catalog)
    for file in files:
        file.rename(file.with_suffix(".bak"))
    with pytest.raises(InvalidInputError, match=r"no \*\.metadata\.json"):
        Table.convert(place_of(iceberg))
    assert not (place_of(iceberg) / "_delta_log").exists()


@pytest.mark.parametrize("location", [".", "./", "./house/n/named", "house/n/named"])
def test_a_location_may_begin_with_the_folder_itself(catalog: SqlCatalog, location: str) -> None:
    iceberg, folder, files = with_history(catalog)
    document = json.loads(files[-1].read_bytes())
    place = location.rstrip("/")
    snapshots = [
        {**each, "manifest-list": f"./{place}/metadata/{Path(each['manifest-list']).name}"}
        for each in document["snapshots"]
    ]
    there = {**document, "location": location, "snapshots": snapshots}
    (folder / "v9.metadata.json").write_text(json.dumps(there))
    Table.convert(place_of(iceberg))
    assert agrees(Table.open(place_of(iceberg)), iceberg)


# --- what is refused --------------------------------------------------------------------------------------------------


def changed(iceberg: Any, change: Any) -> str:
    """A metadata file with another document."""
    path = Path(iceberg.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_bytes())
    change(document)
    other = path.with_name("99999-changed.metadata.json")
    other.write_text(json.dumps(document))
    return str(other)


def _field(document: Any) -> Any:
    return document["schemas"][0]["fields"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update({"format-version": 4}), "format version 4"),
        (lambda document: _field(document).update(type="uuid"), "column id is a uuid"),
        (lambda document: _field(document).update({"initial-default": 7}), "Iceberg default"),
    ],
)
def test_what_delta_lacks_is_refused_by_name(catalog: SqlCatalog, change: Any, message: str) -> None:
    iceberg = catalog.create_table("n.other", schema=NAMES)
    with pytest.raises(UnsupportedFeatureError, match=message) as caught:
        Table.convert(place_of(iceberg), iceberg_metadata=changed(iceberg, change))
    assert caught.value.path is not None


@pytest.mark.parametrize("document", [{}, {"format-version": 2}, {"format-version": 2, "schemas": 1, "location": "x"}])
def test_a_document_that_is_no_table_is_refused(document: Any) -> None:
    with pytest.raises(InvalidInputError, match="not the metadata"):
        foreign_table(document)


def test_a_column_of_time_is_refused(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.time", schema=Schema(NestedField(1, "t", TimeType(), required=False)))
    with pytest.raises(UnsupportedFeatureError, match="column t is a time"):
        Table.convert(place_of(iceberg))


def test_a_file_from_before_a_column_was_widened_is_refused(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.widened", schema=pa.schema([("id", pa.int32())]))
    iceberg.append(pa.table({"id": pa.array([1], pa.int32())}))
    with iceberg.update_schema() as update:
        update.update_column("id", LongType())
    with pytest.raises(UnsupportedFeatureError, match="has column id as int, and the table as bigint"):
        Table.convert(place_of(iceberg))


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("name", ["l.element.x", "m.value.x", "l.element.n.element"])
def test_a_file_from_before_a_type_in_a_list_or_a_map_was_widened_is_refused(
    catalog: SqlCatalog, name: str, has_ids: bool
) -> None:
    inner = pa.struct([("x", pa.int32()), ("n", pa.list_(pa.int32()))])
    schema = pa.schema([("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    value = {"x": 1, "n": [2]}
    rows = pa.Table.from_pylist([{"l": [value], "m": [("k", value)]}], schema)
    iceberg = catalog.create_table("n.widened", schema=schema)
    if has_ids:
        iceberg.append(rows)
    else:
        path = place_of(iceberg) / "data" / "plain.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path)
        iceberg.add_files([f"file://{path}"])
    with iceberg.update_schema() as update:
        update.update_column(name, LongType())
    with pytest.raises(UnsupportedFeatureError, match=f"has column {name} as int, and the table as bigint"):
        Table.convert(place_of(iceberg))


def test_it_must_be_clear_which_metadata_is_current(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.twice", schema=NAMES)
    iceberg.append(pa.table({"id": [1], "region": ["a"]}))
    newest = Path(iceberg.metadata_location.removeprefix("file://"))
    number = newest.name.partition("-")[0]
    shutil.copy(newest, newest.with_name(f"{number}-other.metadata.json"))
    with pytest.raises(InvalidInputError, match="iceberg_metadata"):
        Table.convert(place_of(iceberg))
    Table.convert(place_of(iceberg), iceberg_metadata=iceberg.metadata_location)
    assert agrees(Table.open(place_of(iceberg)), StaticTable.from_metadata(iceberg.metadata_location))


@pytest.mark.parametrize(
    "given",
    [
        {"partition_by": "region string"},
        {"properties": {"delta.columnMapping.mode": "name"}},
        {"properties": {"delta.constraints.large": "id > 5"}},
    ],
)
def test_arguments_that_contradict_the_table_are_refused(catalog: SqlCatalog, given: Any) -> None:
    iceberg = catalog.create_table("n.args", schema=NAMES)
    iceberg.append(pa.table({"id": [1], "region": ["a"]}))
    with pytest.raises(InvalidInputError, match=r"leave|not name|add_constraint"):
        Table.convert(place_of(iceberg), **given)


def test_damaged_or_missing_metadata_is_named(catalog: SqlCatalog) -> None:
    iceberg = catalog.create_table("n.bad", schema=NAMES)
    iceberg.append(pa.table({"id": [1], "region": ["a"]}))
    folder = place_of(iceberg) / "metadata"
    lists = [*folder.glob("snap-*.avro")]
    body = lists[0].read_bytes()
    for damaged in (body[:40], b"", b"Obj\x01" + b"\xff" * 60):
        lists[0].write_bytes(damaged)
        with pytest.raises(InvalidInputError, match="is damaged"):
            Table.convert(place_of(iceberg))
    lists[0].unlink()
    with pytest.raises(NotFoundError, match="which is missing"):
        Table.convert(place_of(iceberg))
    newest = Path(iceberg.metadata_location.removeprefix("file://"))
    newest.write_text("{")
    with pytest.raises(InvalidInputError, match="is not Iceberg metadata"):
        Table.convert(place_of(iceberg))
