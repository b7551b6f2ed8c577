"""Tables that map their columns: made, begun, grown and read; deltalake judges what it can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.format.column_mapping import (
    assign,
    file_schema,
    physical_path,
    physical_schema,
    schema_of,
    without_metadata,
)
from txlog.core.format.schema import Struct, from_arrow, leaf_paths
from txlog.errors import CorruptLogError, InvalidInputError, UnsupportedFeatureError

ROWS = pa.table(
    {
        "the id": [1, 2, 3],
        "p": ["x", "y", "x"],
        "s": [{"a": 1, "b": [{"c": "q"}]}, None, {"a": None, "b": None}],
        "m": pa.array([[("k", {"v": 1})], None, []], pa.map_(pa.string(), pa.struct([("v", pa.int64())]))),
    }
)
MODES = pytest.mark.parametrize("mode", ["name", "id"])


def made(path: Path, mode: str, **options: Any) -> txlog.Table:
    txlog.write(path, ROWS, partition_by=["p"], properties={"delta.columnMapping.mode": mode, **options})
    return txlog.Table.open(path)


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def fields_of(table: txlog.Table) -> list[dict[str, Any]]:
    """Every field of the newest schema, at any depth, as the log has it."""
    text = ""
    for name in sorted(Path(table.uri, "_delta_log").glob("*.json")):
        for line in map(json.loads, name.read_text().splitlines()):
            text = line.get("metaData", {}).get("schemaString", text)
    found: list[dict[str, Any]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            found.extend(node.get("fields", []))
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(json.loads(text))
    return found


def nested_ids_of(field: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = field["metadata"].get("delta.columnMapping.nested.ids", {})
    return found


@MODES
def test_a_mapped_table_reads_as_it_was_written_here_and_by_deltalake(mode: str, tmp_path: Path) -> None:
    table = made(tmp_path, mode)
    assert sorted_rows(table.snapshot().to_arrow()) == sorted_rows(ROWS)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path)).execute("select * from t")
    assert sorted_rows(pa.table(theirs.read_all()).select(ROWS.column_names)) == sorted_rows(ROWS)
    protocol = table.snapshot().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (2, 5)


@MODES
def test_nested_rows_in_slices_are_stored_wherever_the_slices_end(mode: str, tmp_path: Path) -> None:
    """The last slice has no values below its rows, at an offset into the values of the others."""
    wide = pa.schema(
        {
            "id": pa.int32(),
            "l": pa.large_list(pa.int32()),
            "s": pa.struct({"a": pa.list_(pa.struct({"b": pa.string()})), "c": pa.int32()}),
            "m": pa.map_(pa.int32(), pa.list_(pa.struct({"v": pa.int64()}))),
        }
    )
    narrow = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int32())), wide.field("s"), wide.field("m")])
    rows = pa.Table.from_pylist(
        [
            {"id": 0, "l": [1, 2], "s": {"a": [{"b": "x"}, None], "c": 1}, "m": [(1, [{"v": 1}]), (2, None)]},
            {"id": 1, "l": None, "s": None, "m": None},
            {"id": 2, "l": [3], "s": {"a": [{"b": None}], "c": None}, "m": [(3, [{"v": 2}, None])]},
            {"id": 3, "l": [], "s": {"a": [], "c": None}, "m": []},
            {"id": 4, "l": None, "s": None, "m": []},
        ],
        wide,
    )
    for size in (1, 2, 3):
        path = tmp_path / str(size)
        table = txlog.Table.create(path, narrow, properties={"delta.columnMapping.mode": mode})
        table.append(rows.to_reader(max_chunksize=size))
        table.overwrite(rows.slice(1).to_reader(max_chunksize=size))
        table.upsert(iter(rows.to_batches(size)), ["id"])
        found = table.to_arrow()
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()


@MODES
def test_files_statistics_and_partition_values_bear_physical_names_only(mode: str, tmp_path: Path) -> None:
    table = made(tmp_path, mode)
    ids = {
        f["metadata"]["delta.columnMapping.physicalName"]: f["metadata"]["delta.columnMapping.id"]
        for f in fields_of(table)
    }
    nested = [number for f in fields_of(table) for number in nested_ids_of(f).values()]
    assert sorted([*ids.values(), *nested]) == list(range(1, 12))
    assert table.snapshot().properties["delta.columnMapping.maxColumnId"] == "11"
    assert all(name.startswith("col-") for name in ids)
    for add in table.snapshot().files().to_pylist():
        assert {key for key, _ in add["partitionValues"]} < ids.keys()
        stats = json.loads(add["stats"])
        assert stats["nullCount"].keys() < ids.keys()
        schema = pq.ParquetFile(tmp_path / add["path"]).schema_arrow
        for column in schema:
            assert int(column.metadata[b"PARQUET:field_id"]) == ids[column.name]
            assert column.name in stats["nullCount"]
        inner = next(column for column in schema if pa.types.is_struct(column.type))
        assert all(int(member.metadata[b"PARQUET:field_id"]) == ids[member.name] for member in inner.type)


@MODES
def test_what_is_inside_lists_and_maps_has_ids_in_the_schema_and_in_every_file(mode: str, tmp_path: Path) -> None:
    table = made(tmp_path, mode)
    fields = {f["name"]: f for f in fields_of(table)}
    b, m = (fields[name]["metadata"]["delta.columnMapping.physicalName"] for name in ("b", "m"))
    assert list(nested_ids_of(fields["b"])) == [f"{b}.element"]
    assert list(nested_ids_of(fields["m"])) == [f"{m}.key", f"{m}.value"]
    assert {name for name, f in fields.items() if nested_ids_of(f)} == {"b", "m"}
    expected = {**nested_ids_of(fields["b"]), **nested_ids_of(fields["m"])}
    for add in table.snapshot().files().to_pylist():
        schema = pq.ParquetFile(tmp_path / add["path"]).schema_arrow
        s = schema.field(fields["s"]["metadata"]["delta.columnMapping.physicalName"])
        inside = {f"{b}.element": s.type.field(b).type.value_field}
        inside |= {f"{m}.key": schema.field(m).type.key_field, f"{m}.value": schema.field(m).type.item_field}
        assert {path: int(item.metadata[b"PARQUET:field_id"]) for path, item in inside.items()} == expected


@MODES
def test_filters_use_statistics_and_partition_values_under_physical_names(mode: str, tmp_path: Path) -> None:
    snapshot = made(tmp_path, mode).snapshot()
    assert snapshot.num_files == 2
    for condition, files, rows in (
        ("`the id` < 2", 1, 1),
        ("p = 'x'", 1, 2),
        ("s.a = 1", 1, 1),
        ("s.a is null", 2, 2),
        ("`the id` > 3", 0, 0),
        ("p = 'x' and `the id` > 2 or p = 'y' and s.a = 5", 1, 1),
    ):
        assert snapshot.files(condition).num_rows == files, condition
        assert snapshot.to_arrow(["THE ID"], condition).num_rows == rows, condition


@MODES
def test_new_columns_at_every_depth_get_the_next_ids_and_names_of_their_own(mode: str, tmp_path: Path) -> None:
    table = made(tmp_path, mode)
    before = {f["name"]: f["metadata"] for f in fields_of(table)}
    inner = pa.struct([("a", pa.int64()), ("new", pa.int8())])
    grown = pa.table({"s": pa.array([{"a": 5, "new": 6}], inner), "other one": [[{"z": 1}]]})
    table.append(grown, schema_mode="merge")
    table.add_columns(pa.schema([("last", pa.date32())]))
    after = {f["name"]: f["metadata"] for f in fields_of(table)}
    assert {name: after[name] for name in before} == before
    ids = [after[name]["delta.columnMapping.id"] for name in after]
    nested = [number for f in fields_of(table) for number in nested_ids_of(f).values()]
    assert sorted([*ids, *nested]) == list(range(1, 17))
    assert table.snapshot().properties["delta.columnMapping.maxColumnId"] == "16"
    newest = table.snapshot().to_arrow(where="s.new = 6").to_pylist()
    assert newest[0]["s"] == {"a": 5, "b": None, "new": 6}
    assert newest[0]["other one"] == [{"z": 1}]
    assert table.snapshot().to_arrow().num_rows == 4


def test_an_id_of_a_column_that_was_dropped_is_not_given_again(tmp_path: Path) -> None:
    table = made(tmp_path, "name", **{"delta.columnMapping.maxColumnId": "100"})
    assert min(f["metadata"]["delta.columnMapping.id"] for f in fields_of(table)) == 101


@pytest.mark.parametrize("text", ["abc", "", "-3", "9" * 5000])
def test_a_highest_id_that_cannot_be_read_is_counted_from_the_columns(text: str, tmp_path: Path) -> None:
    key = "delta.columnMapping.maxColumnId"
    table = made(tmp_path / "t", "name")
    log = Path(table.uri, "_delta_log", f"{0:020}.json")
    for name in Path(table.uri, "_delta_log").glob("*.crc"):
        name.unlink()
    log.write_text(log.read_text().replace(f'"{key}":"11"', f'"{key}":"{text}"'))
    table = txlog.Table.open(table.uri)
    assert table.snapshot().properties[key] == text
    table.clone(tmp_path / "clone")
    assert txlog.Table.open(tmp_path / "clone").snapshot().properties[key] == "11"
    table.add_columns("new int")
    assert {f["name"]: f["metadata"]["delta.columnMapping.id"] for f in fields_of(table)}["new"] == 12
    assert table.snapshot().properties[key] == "12"


def test_a_table_begins_to_map_its_columns_under_the_names_its_files_have(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "s": [{"x": 1}]})
    txlog.write(tmp_path, rows)
    table = txlog.Table.open(tmp_path)
    table.set_properties({"delta.columnMapping.mode": "name"})
    assert {f["metadata"]["delta.columnMapping.physicalName"] for f in fields_of(table)} == {"id", "s", "x"}
    table.append(pa.table({"id": [2], "a b": [3]}), schema_mode="merge")
    assert sorted_rows(table.snapshot().to_arrow(["id", "a b"])) == sorted_rows(
        pa.table({"id": [1, 2], "a b": [None, 3]})
    )
    assert (table.snapshot().protocol.min_reader_version, table.snapshot().protocol.min_writer_version) == (2, 5)


@pytest.mark.parametrize(
    ("begin", "change"),
    [
        ("none", {"delta.columnMapping.mode": "id"}),
        ("name", {"delta.columnMapping.mode": "id"}),
        ("name", {"delta.columnMapping.mode": "none"}),
        ("id", {"delta.columnMapping.mode": "name"}),
        ("name", {"delta.columnMapping.maxColumnId": "7"}),
    ],
)
def test_a_change_of_mapping_that_the_files_would_have_to_follow_is_refused(
    begin: str, change: dict[str, str], tmp_path: Path
) -> None:
    txlog.write(tmp_path, pa.table({"a": [1]}), properties={"delta.columnMapping.mode": begin})
    table = txlog.Table.open(tmp_path)
    with pytest.raises(InvalidInputError, match=r"delta\.columnMapping"):
        table.set_properties(change)
    if begin != "none":
        with pytest.raises(InvalidInputError, match=r"delta\.columnMapping"):
            table.unset_properties(["delta.columnMapping.mode"])
    assert table.snapshot().version == 0


def test_a_schema_taken_from_a_mapped_table_brings_no_ids_along(tmp_path: Path) -> None:
    snapshot = made(tmp_path / "a", "id").snapshot()
    names = pa.schema([field.with_name(field.name.replace(" ", "_")) for field in snapshot.schema])
    txlog.Table.create(tmp_path / "b", names)
    assert all(f["metadata"] == {} for f in fields_of(txlog.Table.open(tmp_path / "b")))
    txlog.Table.create(tmp_path / "c", snapshot.schema, properties={"delta.columnMapping.mode": "name"})
    ours, theirs = (fields_of(txlog.Table.open(tmp_path / name)) for name in "ac")
    physical = "delta.columnMapping.physicalName"
    assert not {f["metadata"][physical] for f in ours} & {f["metadata"][physical] for f in theirs}


def test_files_of_others_are_not_added_to_a_table_that_knows_columns_by_other_names(tmp_path: Path) -> None:
    table = made(tmp_path, "name")
    (tmp_path / "p=x").mkdir()
    pq.write_table(pa.table({"the id": [1]}), tmp_path / "p=x" / "f.parquet")
    with pytest.raises(UnsupportedFeatureError, match="columnMapping"):
        table.add_files(["p=x/f.parquet"])


# --- files as others write them -----------------------------------------------------------------------------------


def rewritten(table: txlog.Table, change: Any) -> None:
    """Replace each data file by what ``change`` makes of its rows, as a foreign writer might have written them."""
    for path in table.snapshot().files().column("path").to_pylist():
        name = Path(table.uri, path)
        pq.write_table(change(pq.read_table(name)), name)


def test_a_file_without_ids_is_refused_where_columns_are_known_by_ids(tmp_path: Path) -> None:
    table = made(tmp_path, "id")
    rewritten(table, lambda rows: pa.table(dict(zip(rows.column_names, rows.columns, strict=True))))
    with pytest.raises(CorruptLogError, match="no column ids"):
        table.snapshot().to_arrow(["the id"])


def test_ids_decide_where_columns_are_known_by_ids_whatever_the_names(tmp_path: Path) -> None:
    table = made(tmp_path, "id")

    def renamed(rows: pa.Table) -> pa.Table:
        return rows.rename_columns([f"n{number}" for number in range(rows.num_columns)])

    rewritten(
        table,
        lambda rows: renamed(rows).cast(
            pa.schema([pa.field(f"n{at}", f.type, f.nullable, f.metadata) for at, f in enumerate(rows.schema)])
        ),
    )
    assert sorted_rows(table.snapshot().to_arrow(["the id", "p"])) == sorted_rows(ROWS.select(["the id", "p"]))


def test_row_groups_are_not_passed_over_by_names_that_stand_for_other_columns(tmp_path: Path) -> None:
    """Where ids decide, a file may have two columns under each other's names: its bounds are not those of the names."""
    schema = pa.schema([("low", pa.int64()), ("high", pa.int64())])
    table = txlog.Table.create(tmp_path / "t", schema, properties={"delta.columnMapping.mode": "id"})
    table.append(pa.table({"low": [1, 2], "high": [100, 200]}))
    (path,) = (Path(table.uri) / name for name in table.snapshot().files()["path"].to_pylist())
    rows = pq.read_table(path)
    one, other = rows.schema
    swapped = pa.schema([one.with_name(other.name), other.with_name(one.name)])
    pq.write_table(rows.rename_columns(swapped.names).cast(swapped), path, row_group_size=1)
    assert table.snapshot().to_arrow(where="high >= 100").num_rows == 2


def test_a_column_spelled_in_another_case_in_a_file_is_found_and_two_such_are_refused(tmp_path: Path) -> None:
    txlog.write(tmp_path, pa.table({"Id": [1, 2], "s": [{"Deep": 1}, None]}))
    table = txlog.Table.open(tmp_path)
    name = tmp_path / table.snapshot().files().column("path").to_pylist()[0]
    pq.write_table(pa.table({"ID": [1, 2], "S": [{"dEEP": 1}, None]}), name)
    assert table.snapshot().to_arrow().to_pylist() == [{"Id": 1, "s": {"Deep": 1}}, {"Id": 2, "s": None}]
    assert table.snapshot().to_arrow(where="id = 2").num_rows == 1
    pq.write_table(pa.table({"ID": [1, 2], "id": [3, 4]}), name)
    with pytest.raises(CorruptLogError, match="ID, id"):
        table.snapshot().to_arrow()
    pq.write_table(pa.table({"ID": [1, 2], "Id": [3, 4]}), name)
    assert table.snapshot().to_arrow(["Id"]).column("Id").to_pylist() == [3, 4]


# --- the mapping itself -------------------------------------------------------------------------------------------

types = st.recursive(
    st.sampled_from([pa.int64(), pa.string()]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{at}", k) for at, k in enumerate(kinds)])
        ),
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=6,
)
schemas = st.lists(types, min_size=1, max_size=4).map(
    lambda kinds: from_arrow(pa.schema([(f"c{at}", kind) for at, kind in enumerate(kinds)]))
)


@given(schemas, st.integers(0, 50))
def test_every_field_gets_one_id_and_a_second_round_changes_nothing(schema: Struct, start: int) -> None:
    mapped, highest = assign(schema, start, lambda field: f"physical {field.name}")
    assert assign(mapped, start, lambda field: "another")[0] == mapped
    assert assign(mapped, 0, lambda field: "another")[1] == highest
    assert without_metadata(mapped, "delta.columnMapping.") == schema
    physical = physical_schema(mapped)
    assert [path for path, _ in leaf_paths(physical)] == [physical_path(mapped, path) for path, _ in leaf_paths(schema)]
    ids: list[int] = []

    def collect(kind: pa.DataType | pa.Schema) -> None:
        for at in range(kind.num_fields if isinstance(kind, pa.DataType) else len(kind)):
            field = kind.field(at)
            ids.extend(int(v) for k, v in (field.metadata or {}).items() if k == b"PARQUET:field_id")
            collect(field.type)

    collect(file_schema(mapped))
    assert sorted(ids) == list(range(start + 1, highest + 1))


def test_a_mapped_table_whose_columns_lack_their_names_is_corrupt(tmp_path: Path) -> None:
    from txlog.core.format.actions import Metadata
    from txlog.core.format.schema import schema_to_json

    schema = from_arrow(pa.schema([("a", pa.struct([("b", pa.int64())]))]))
    for mode in ("name", "id"):
        metadata = Metadata("m", schema_to_json(schema), (), {"delta.columnMapping.mode": mode}, {})
        with pytest.raises(CorruptLogError, match="column 'a'"):
            schema_of(metadata)
