"""Tables with variants: how values come in and go out, and what is refused. DuckDB reads the same files."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import txlog
from tests.packages import hide, spoil
from txlog import variant
from txlog.cli.app import app
from txlog.core.reading import Rows
from txlog.errors import CorruptLogError, InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from txlog.variant.encoding import encode

TEXTS = ['{"a":1,"b":[1,2.5,"x"]}', None, "null", '"text"', '{"a":{"é":true}}', "[]", "1e3", "-1.5"]


def numbered(variants: pa.Array, first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + len(variants)), pa.int32()), "v": variants})


def texts_of(table: txlog.Table, column: str = "v") -> list[str | None]:
    rows = table.to_arrow().sort_by("id")
    return list(variant.to_json(rows[column]).to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    table = txlog.Table.create(tmp_path / "t", "id int, v variant")
    table.append(numbered(variant.parse_json(TEXTS)))
    return table


def files_of(table: txlog.Table) -> list[str]:
    return [f"{table.uri}/{path}" for path in table.snapshot().files()["path"].to_pylist()]


def test_duckdb_reads_the_files_as_variants(table: txlog.Table) -> None:
    (path,) = files_of(table)
    found = duckdb.sql(f"SELECT id, typeof(v), v::JSON FROM '{path}' ORDER BY id").fetchall()
    assert {kind for _, kind, _ in found} == {"VARIANT"}
    assert [json.loads(text or "null") for *_, text in found] == [json.loads(text or "null") for text in TEXTS]


def test_deltalake_reads_the_two_parts(table: txlog.Table) -> None:
    rows = deltalake.DeltaTable(table.uri).to_pyarrow_table().sort_by("id")
    assert variant.to_json(rows["v"]).to_pylist() == texts_of(table)


def test_people_see_their_json(table: txlog.Table) -> None:
    shown = str(txlog.sql(f"select id, v from delta.`{table.uri}` where id < 2 order by id"))
    assert shown.splitlines()[1:3] == [' 0  {"a":1,"b":[1,2.5,"x"]}', " 1  null"]
    sql = CliRunner().invoke(app, ["sql", f"select v from delta.`{table.uri}` where id = 4", "--json"])
    assert json.loads(sql.stdout)["rows"] == [[TEXTS[4]]]
    struct = pa.array([{"metadata": b"no", "value": b"variant"}])
    assert "b'variant'" in str(Rows(pa.table({"s": struct})))


def test_the_null_counts_are_those_of_the_column(table: txlog.Table) -> None:
    (stats,) = table.snapshot().files()["stats"].to_pylist()
    assert json.loads(stats)["nullCount"] == {"id": 0, "v": 1}


def test_variants_are_annotated_at_every_depth_and_plain_structs_are_not(tmp_path: Path) -> None:
    columns = "v variant, l array<variant>, s struct<w: variant>, m map<string, variant>"
    table = txlog.Table.create(tmp_path, f"id int, {columns}, p struct<value: binary, metadata: binary>")
    one = variant.parse_json(['{"a":1}', None])
    keys = pa.array(["a", "b"])
    maps = pa.MapArray.from_arrays([0, 1, 2], keys, one)
    structs = pa.StructArray.from_arrays([one], fields=[pa.field("w", one.type)])
    table.append(
        numbered(one)
        .append_column("l", pa.ListArray.from_arrays([0, 2, 2], one))
        .append_column("s", structs)
        .append_column("m", maps)
    )
    (path,) = files_of(table)
    described = duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
    assert [kind for _, kind, *_ in described][1:5] == [
        "VARIANT",
        "VARIANT[]",
        "STRUCT(w VARIANT)",
        "MAP(VARCHAR, VARIANT)",
    ]
    assert described[5][1] in ('STRUCT("value" BLOB, metadata BLOB)', 'STRUCT("value" BLOB, metadata BLOB)')
    rows = table.to_arrow()
    assert variant.to_json(rows["l"].chunk(0).flatten()).to_pylist() == ['{"a":1}', None]
    assert variant.to_json(rows["s"].chunk(0).field(0)).to_pylist() == ['{"a":1}', None]
    assert variant.to_json(rows["m"].chunk(0).items).to_pylist() == ['{"a":1}', None]


def test_rows_with_variants_are_changed_and_kept_by_every_operation(table: txlog.Table, tmp_path: Path) -> None:
    table.set_properties({"delta.enableChangeDataFeed": "true"})
    since = table.version + 1
    table.delete("id = 2")
    table.update({"v": txlog.expr("""parse_json('{"new":' || id || '}')""")}, where="id = 3")
    table.upsert(numbered(variant.parse_json(['"up"', '"serted"']), 7), keys="id")
    merge = table.merge(numbered(variant.parse_json(['"mer"', '"ged"']), 8), on="target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    expected = [
        '{"a":1,"b":[1,2.5,"x"]}',
        None,
        '{"new":3}',
        '{"a":{"é":true}}',
        "[]",
        "1000.0",
        '"up"',
        '"mer"',
        '"ged"',
    ]
    assert texts_of(table) == expected
    changes = table.changes(since).read_all()
    pairs = zip(changes["_change_type"].to_pylist(), variant.to_json(changes["v"]).to_pylist(), strict=True)
    assert {pair for pair in pairs if pair[0].startswith("update")} == {
        ("update_preimage", '"text"'),
        ("update_postimage", '{"new":3}'),
        ("update_preimage", "-1.5"),
        ("update_postimage", '"up"'),
        ("update_preimage", '"serted"'),
        ("update_postimage", '"mer"'),
    }
    table.optimize()
    table.cluster_by(["id"])
    table.optimize()
    assert texts_of(table) == expected
    table.clone(tmp_path / "clone")
    assert texts_of(txlog.Table.open(tmp_path / "clone")) == expected
    table.restore(1)
    assert texts_of(table) == [
        text and json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).replace("1e3", "1000.0")
        for text in TEXTS
    ]
    assert not table.verify().findings


def test_a_column_of_json_goes_into_a_variant(table: txlog.Table) -> None:
    given = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"k":[1]}', None]))
    table.append(numbered(given, 100))
    assert texts_of(table)[-2:] == ['{"k":[1]}', None]
    with pytest.raises(InvalidInputError, match=r"column v has no text for a variant: it is not JSON.*row 1"):
        table.append(numbered(pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", "{"])), 100))


@pytest.mark.parametrize(
    "column",
    [pa.array(["{}"]), pa.array([{"a": 1}]), pa.array([5]), pa.array([{"value": "x", "metadata": "y"}])],
    ids=["text", "struct", "number", "texts"],
)
def test_values_that_are_no_variants_are_refused_with_the_functions_that_make_them(
    table: txlog.Table, column: pa.Array
) -> None:
    with pytest.raises(SchemaMismatchError, match=r"txlog\.variant\.parse_json"):
        table.append(numbered(column))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"value": b"", "metadata": b"\1\0\0"}, "not a variant"),
        ({"value": b"\0", "metadata": b"\2\0\0"}, "version 1"),
        ({"value": None, "metadata": b"\1\0\0"}, "has no value"),
        ({"value": b"\0", "metadata": None}, "has no metadata"),
    ],
)
def test_bytes_that_are_no_variant_are_refused_by_row(table: txlog.Table, parts: Any, why: str) -> None:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    good = {"value": b"\0", "metadata": b"\1\0\0"}
    with pytest.raises(InvalidInputError, match=rf"{why}.*row 1"):
        table.append(numbered(pa.array([good, parts], kind)))
    table.append(numbered(pa.array([good, None], kind), 100))
    assert texts_of(table)[-2:] == ["null", None]


def test_a_damaged_variant_in_a_file_is_an_error_that_names_the_row(table: txlog.Table) -> None:
    bad = pa.array([{"value": b"\0", "metadata": b"\1\0\0"}, {"value": b"\x18", "metadata": b"\1\0\0"}])
    table.overwrite(numbered(bad))
    with pytest.raises(InvalidInputError, match="row 1 is not a variant: its value ends at byte 1"):
        variant.to_json(table.to_arrow()["v"])
    with pytest.raises(InvalidInputError, match="a variant is damaged"):
        table.delete("v::int = 1")


def test_partitions_keys_clusters_and_comparisons_of_variants_are_refused_by_name(
    table: txlog.Table, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="'v' is a variant: a table cannot be partitioned by it"):
        txlog.Table.create(tmp_path / "p", "id int, v variant", partition_by=["v"])
    with pytest.raises(InvalidInputError, match="names v, a variant"):
        table.cluster_by("v")
    with pytest.raises(InvalidInputError, match="column v is a variant, which cannot be a key"):
        table.upsert(numbered(variant.parse_json(["1"])), keys="v")
    for where in ("v = '1'", "v = v", "v in (1)", "v > 1", "v between 1 and 2", "v <=> v"):
        with pytest.raises(InvalidInputError, match=r"compare.*v:part::int = value"):
            table.delete(where)


def test_a_schema_with_variants_comes_as_ddl_arrow_and_json(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "a", "id int, v variant not null, l array<variant>")
    again = txlog.Table.create(tmp_path / "b", table.schema)
    assert again.snapshot().delta_schema == table.snapshot().delta_schema
    marked = pa.struct([pa.field("metadata", pa.binary(), False, {"variant": "true"}), ("value", pa.binary())])
    assert "variant" in str(txlog.Table.create(tmp_path / "c", pa.schema([("v", marked)])).snapshot().delta_schema)
    plain = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    assert "variant" not in str(txlog.Table.create(tmp_path / "d", pa.schema([("v", plain)])).snapshot().delta_schema)
    table.add_columns("w variant")
    assert texts_of(table, "w") == []


def test_the_protocol_of_a_new_table_has_the_feature_and_not_its_preview(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "v variant", properties={"delta.enableVariantShredding": "true"})
    assert set(table.snapshot().protocol.reader_features or ()) == {"variantType", "variantShredding"}
    plain = txlog.Table.create(tmp_path / "plain", "i int")
    plain.add_columns("v variant")
    assert plain.snapshot().protocol.reader_features == ("variantType",)


def test_a_core_without_the_package_reads_whole_variants_and_refuses_to_write(
    table: txlog.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = numbered(variant.parse_json(["1"]))
    expected = texts_of(table)
    hide(monkeypatch, "txlog.types:variant")
    opened = txlog.Table.open(table.uri)
    assert texts_of(opened) == expected
    for write in (lambda: opened.append(rows), lambda: opened.delete("id = 1"), lambda: opened.optimize()):
        with pytest.raises(UnsupportedFeatureError, match="variantType"):
            write()
    with pytest.raises(UnsupportedFeatureError, match="no installed package makes such values"):
        txlog.Table.create(tmp_path / "new", "v variant")
    with pytest.raises(InvalidInputError, match=r"the function parse_json\(\) is not supported"):
        opened.to_arrow(where="parse_json('1') is null")


# --- shredded columns ----------------------------------------------------------------------------------------------


def adopted(table: txlog.Table, tmp_path: Path, query: str) -> list[str | None]:
    """The column v of a file that DuckDB wrote, as the table reads it."""
    path = Path(table.uri) / "from-duckdb.parquet"
    duckdb.sql(f"COPY ({query}) TO '{path}'")
    assert "typed_value" in str(pq.ParquetFile(path).schema)
    return committed(table, path)


def committed(table: txlog.Table, path: Path) -> list[str | None]:
    """What the table reads if another writer's version has this file alone."""
    table.delete(all=True)
    size = path.stat().st_size
    add = {"path": path.name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    log = Path(table.uri) / "_delta_log" / f"{table.version + 1:020}.json"
    log.write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n" + json.dumps({"add": add}) + "\n")
    return texts_of(txlog.Table.open(table.uri))


@pytest.mark.parametrize(
    "value",
    [
        "{'a': i, 'b': 'x' || i}::VARIANT",
        """['{"a":1}', '{"a":"s","b":[1]}', 'null'][i % 3 + 1]::JSON::VARIANT""",
        "CASE WHEN i % 4 = 0 THEN NULL ELSE {'l': [i, i + 1], 'n': {'z': 'y', 'w': NULL}} END::VARIANT",
        "[{'x': i}, {'x': NULL}]::VARIANT",
        "i::VARIANT",
        "{'d': DATE '2024-01-01' + i::INT, 'f': (i / 2)::FLOAT, 'm': (i / 4)::DECIMAL(10, 2), 't': true}::VARIANT",
    ],
)
def test_a_file_that_duckdb_shredded_is_read_as_duckdb_reads_it(table: txlog.Table, tmp_path: Path, value: str) -> None:
    found = adopted(table, tmp_path, f"SELECT i::INT AS id, {value} AS v FROM range(20) r(i)")
    path = Path(table.uri) / "from-duckdb.parquet"
    expected = [row[0] for row in duckdb.sql(f"SELECT v::JSON FROM '{path}' ORDER BY id").fetchall()]
    assert [json.loads(text or "null") for text in found] == [json.loads(text or "null") for text in expected]
    table.append(numbered(variant.parse_json(["[7]"]), 100))
    table.optimize()
    assert texts_of(table) == [*found, "[7]"]


def test_typed_values_of_every_type_keep_it() -> None:
    from txlog.variant.type_support import SUPPORT

    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 6)
    typed = {
        "string": ("x", pa.string()),
        "binary": (b"\0", pa.binary()),
        "boolean": (True, pa.bool_()),
        "byte": (1, pa.int8()),
        "long": (1 << 40, pa.int64()),
        "double": (0.5, pa.float64()),
        "float": (0.5, pa.float32()),
        "decimal": (decimal.Decimal("1.25"), pa.decimal128(5, 2)),
        "date": (moment.date(), pa.date32()),
        "timestamp": (moment.replace(tzinfo=datetime.timezone.utc), pa.timestamp("us", "UTC")),
        "timestamp_ntz": (moment, pa.timestamp("us")),
        "time": (moment.time(), pa.time64("us")),
    }
    for kind, (value, arrow) in typed.items():
        parts = [pa.array([b"\1\0\0"]), pa.array([value], arrow)]
        column = pa.StructArray.from_arrays(parts, names=["metadata", "typed_value"])
        read = SUPPORT.from_file(column)
        assert read is not None
        assert variant.to_python(read) == [value], kind


def shredded(metadata: bytes, value: bytes | None, typed: Any, kind: pa.DataType) -> pa.StructArray:
    parts = [pa.array([metadata], pa.binary()), pa.array([value], pa.binary()), pa.array([typed], kind)]
    return pa.StructArray.from_arrays(parts, names=["metadata", "value", "typed_value"])


FIELD = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])


@pytest.mark.parametrize(
    ("value", "typed", "kind", "expected"),
    [
        (None, None, pa.int64(), "null"),
        (b"\4", None, pa.int64(), "true"),
        (None, {"a": {"value": None, "typed_value": 1}}, pa.struct([("a", FIELD)]), '{"a":1}'),
        (None, {"a": {"value": None, "typed_value": None}}, pa.struct([("a", FIELD)]), "{}"),
        (None, {"a": {"value": b"\0", "typed_value": None}}, pa.struct([("a", FIELD)]), '{"a":null}'),
        (encode({"b": 2})[1], {"a": {"value": None, "typed_value": 1}}, pa.struct([("a", FIELD)]), '{"a":1,"a":2}'),
        (None, [{"value": None, "typed_value": 1}, {"value": b"\0"}, {}], pa.list_(FIELD), "[1,null,null]"),
    ],
)
def test_the_rules_of_shredding(value: bytes | None, typed: Any, kind: pa.DataType, expected: str) -> None:
    """VariantShredding.md: missing, null, a typed value, another one, and an object in two parts."""
    from txlog.variant.type_support import SUPPORT

    metadata = encode({"a": 0, "b": 0})[0]
    if expected.count('"a"') == 2:  # an object in two parts: its other field is the dictionary's second name
        value, expected = (
            encode({"a": 0, "b": 2})[1].replace(b"\2\2\0\1\0\2\4\x0c\0\x0c\2", b"\2\1\1\0\2\x0c\2"),
            '{"a":1,"b":2}',
        )
    found = SUPPORT.from_file(shredded(metadata, value, typed, kind))
    assert found is not None
    assert variant.to_json(found).to_pylist() == [expected]


def test_names_of_typed_fields_that_the_dictionary_lacks_are_added_to_it() -> None:
    from txlog.variant.type_support import SUPPORT

    kind = pa.struct([("b", FIELD), ("a", FIELD), ("c", FIELD)])
    for known in ({}, {"b": 0}, {"x": 0, "c": 0}):
        typed = {name: {"value": None, "typed_value": number} for number, name in enumerate("abc")}
        found = SUPPORT.from_file(shredded(encode(known)[0], None, typed, kind))
        assert found is not None
        assert variant.to_json(found).to_pylist() == ['{"a":0,"b":1,"c":2}']


@pytest.mark.parametrize(
    ("metadata", "value", "typed", "kind", "why"),
    [
        (b"\1\0\0", b"\0", 1, pa.int64(), "a value and a typed value"),
        (b"\1\0\0", b"\0", {"a": {}}, pa.struct([("a", FIELD)]), "typed fields, and its value is a null"),
        (b"", None, 1, pa.int64(), "metadata is empty"),
        (b"\1\0\0", None, 1, pa.uint32(), "which variants do not have"),
    ],
)
def test_a_shredded_column_that_contradicts_itself_is_refused(
    metadata: bytes, value: bytes | None, typed: Any, kind: pa.DataType, why: str
) -> None:
    from txlog.variant.type_support import SUPPORT

    with pytest.raises(ValueError, match=why):
        SUPPORT.from_file(shredded(metadata, value, typed, kind))


def test_a_shredded_file_with_damage_is_a_corrupt_file_that_is_named(table: txlog.Table) -> None:
    column = shredded(b"\1\0\0", b"\0", 1, pa.int64())
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "v": column}), Path(table.uri) / "bad.parquet")
    with pytest.raises(CorruptLogError, match=r"column v has a damaged variant: row 0.*bad\.parquet"):
        committed(table, Path(table.uri) / "bad.parquet")


# --- files that are already there ----------------------------------------------------------------------------------


@pytest.fixture
def shredded_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    duckdb.sql(f"COPY (SELECT i::INT AS id, {{'a': i}}::VARIANT AS v FROM range(3) r(i)) TO '{folder / 'a.parquet'}'")
    return folder


SHREDDED = {"delta.enableVariantShredding": "true"}
EXPECTED = ['{"a":0}', '{"a":1}', '{"a":2}']


def test_a_folder_with_variants_becomes_a_table(table: txlog.Table, shredded_folder: Path) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"set delta.enableVariantShredding to true"):
        txlog.Table.convert(shredded_folder)
    txlog.Table.convert(shredded_folder, properties=SHREDDED)
    converted = txlog.Table.open(shredded_folder)
    assert texts_of(converted) == EXPECTED
    assert set(converted.snapshot().protocol.reader_features or ()) == {"variantType", "variantShredding"}
    whole = shredded_folder.parent / "whole"
    whole.mkdir()
    for path in files_of(table):
        (whole / "whole.parquet").write_bytes(Path(path).read_bytes())
    txlog.Table.convert(whole)
    assert texts_of(txlog.Table.open(whole)) == texts_of(table)


def test_files_with_variants_are_added_and_loaded(table: txlog.Table, shredded_folder: Path) -> None:
    table.delete(all=True)
    table.copy_into(str(shredded_folder))
    assert texts_of(table) == EXPECTED
    (Path(table.uri) / "b.parquet").write_bytes((shredded_folder / "a.parquet").read_bytes())
    with pytest.raises(UnsupportedFeatureError, match=r"set delta.enableVariantShredding to true"):
        table.add_files(["b.parquet"])
    table.set_properties(SHREDDED)
    table.add_files(["b.parquet"])
    assert texts_of(table) == sorted([*EXPECTED, *EXPECTED])


LOADED = {
    "csv": 'id,V\n1,"{""a"":[1,2.50]}"\n2,\n3,null\n4,"""text"""\n',
    "json": '{"id":1,"V":{"a":[1,2.50]}}\n{"id":2}\n\n{"V":null,"id":3}\n{"id":4,"V":"text"}\n',
}
EXACT = "123456789012345678901234567890.25"


@pytest.mark.parametrize("kind", LOADED)
def test_text_files_have_the_json_of_variants(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / f"a.{kind}").write_text(LOADED[kind])
    (folder / f"b.{kind}").write_text(f"id,v\n5,{EXACT}\n" if kind == "csv" else f'{{"id":5,"v":{EXACT}}}')
    table = txlog.Table.create(tmp_path / "t", "id int, v variant")
    assert table.copy_into(str(folder)).rows == 5
    assert texts_of(table) == ['{"a":[1,2.5]}', None, "null", '"text"', EXACT]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.json", '{"id":1,"v":{"a":}}\n', r"x\.json cannot be read as json"),
        ("x.csv", 'id,v\n1,"{"\n', "column v has no text for a variant"),
        ("x.json", '{"id":1,"v":1}\n{"id":2,"v":2,"late":3}\n'.replace("}\n{", "}\n" + "\n" * (5 << 20) + "{"), "late"),
    ],
)
def test_a_text_file_with_other_text_for_a_variant_is_refused(
    table: txlog.Table, tmp_path: Path, name: str, text: str, said: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        table.copy_into(str(folder))
    assert table.version == 1


def test_a_variant_inside_of_a_column_is_not_read_from_text_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "x.json").write_text('{"s":{"v":1}}\n')
    table = txlog.Table.create(tmp_path / "t", "s struct<v: variant>")
    with pytest.raises(InvalidInputError, match=r"column 's' has a variant in the table, which is not read from"):
        table.copy_into(str(folder))


def test_texts_of_the_type_json_are_read_as_the_variants_that_they_become() -> None:
    texts = pa.array(['{"a":1.50}', None], pa.json_(pa.string()))
    assert variant.to_python(texts) == [{"a": decimal.Decimal("1.50")}, None]
    assert variant.to_json(texts).to_pylist() == ['{"a":1.5}', None]
    with pytest.raises(InvalidInputError, match="row 1 has no text for a variant"):
        variant.to_python(pa.array(["1", "{"], pa.json_(pa.string())))


def test_a_pyarrow_that_cannot_open_such_files_is_named_before_a_table_is_read() -> None:
    from txlog.variant.type_support import check_pyarrow

    check_pyarrow("22.0.0")
    with pytest.raises(UnsupportedFeatureError, match=r"needs pyarrow 22 or newer, and this is pyarrow 21\.0\.0"):
        check_pyarrow("21.0.0")


def test_a_slice_of_a_column_is_checked_by_its_own_rows(table: txlog.Table) -> None:
    good = variant.parse_json(["1", "2", "3", "4"])
    parts = {name: good.field(name).to_pylist() for name in ("value", "metadata")}
    for bad in range(4):
        damaged = [bytes([2]) if row == bad else each for row, each in enumerate(parts["metadata"])]
        column = pa.StructArray.from_arrays([pa.array(parts["value"]), pa.array(damaged)], ["value", "metadata"])
        for start, stop in ((0, bad), (bad + 1, 4)):
            table.append(numbered(column[start:stop], first=100))
        with pytest.raises(InvalidInputError, match=f"row {bad - bad // 2}"):
            table.append(numbered(column[bad // 2 :], first=100))
    assert table.count("id >= 100") == 12


@pytest.mark.parametrize("version", [0, *range(2, 16)])
def test_metadata_of_another_version_are_refused(version: int, table: txlog.Table) -> None:
    column = pa.StructArray.from_arrays(
        [pa.array([b"\x00"]), pa.array([bytes([version, 0, 0])])], ["value", "metadata"]
    )
    with pytest.raises(InvalidInputError, match="version 1"):
        table.append(numbered(column))


def test_where_the_package_of_a_type_cannot_be_used_no_file_of_a_table_with_it_is_opened(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in files_of(table):
        Path(path).unlink()
    spoil(monkeypatch, "txlog.variant.type_support")
    with pytest.raises(UnsupportedFeatureError, match=r"of the package txlog-delta cannot be loaded"):
        txlog.Table.open(table.uri).to_arrow()
