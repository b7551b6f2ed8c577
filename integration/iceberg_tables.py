"""Small tables with a history, exported for Iceberg readers: every type, partitions, nulls, vectors, other schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sample_tables import SAMPLES, every_type

import txlog
from txlog import variant

if TYPE_CHECKING:
    from txlog.core.writing.write_intent import RowMode

__all__ = [
    "TABLES",
    "IcebergSnapshot",
    "begun",
    "deleted_keys",
    "exported",
    "json_of_variants",
    "metadata_file",
    "snapshots",
    "with_variants",
]

VECTORS = {"delta.enableDeletionVectors": "true"}


@dataclass(frozen=True)
class IcebergSnapshot:
    """A snapshot of the newest metadata, and the Delta version that it is."""

    id: int
    version: int
    operation: str


def exported(path: Path, name: str, format_version: str) -> txlog.Table:
    """The table of this name at ``path``, every version of it exported."""
    table = TABLES[name](path, {"txlog.iceberg": format_version})
    assert table.export_iceberg().version == table.version
    return table


def begun(path: Path, rows: pa.Table, **options: Any) -> txlog.Table:
    """A new table whose first version is exported: a first export takes the newest version only."""
    txlog.write(path, rows, **options)
    table = txlog.Table.open(path)
    table.export_iceberg()
    return table


def metadata_file(table: txlog.Table) -> Path:
    """The newest. The hint may name an older one for a moment, while the export of an earlier commit ends."""
    files = Path(table.uri, "_iceberg", "metadata").glob("v*.metadata.json")
    return max(files, key=lambda path: int(path.name.split(".")[0][1:]))


def snapshots(table: txlog.Table) -> Iterator[IcebergSnapshot]:
    for each in json.loads(metadata_file(table).read_bytes())["snapshots"]:
        summary = each["summary"]
        yield IcebergSnapshot(each["snapshot-id"], int(summary["delta-version"]), summary["operation"])


def _types(path: Path, properties: dict[str, str]) -> txlog.Table:
    rows = every_type()
    table = begun(path, rows, properties=properties | VECTORS)
    table.append(rows.slice(1, 2))
    table.delete("byte = 127")
    table.update({"string": txlog.expr("'changed'")}, "byte = 0")
    table.append(rows)
    table.delete("boolean is null")
    table.optimize()
    table.overwrite(rows.slice(0, 2))
    return table


def _typed_partitions(path: Path, properties: dict[str, str]) -> txlog.Table:
    sample = SAMPLES["partitions of every type"]
    table = begun(path, sample.rows, partition_by=sample.partition_by, properties=properties | VECTORS)
    table.append(sample.rows.set_column(sample.rows.schema.get_field_index("id"), "id", [pa.array([1, 2, 3, 4])]))
    table.delete("id in (10, 3)")
    table.delete("date is null")
    table.overwrite_partitions(sample.rows.slice(3))
    return table


def _odd_partitions(path: Path, properties: dict[str, str]) -> txlog.Table:
    """A partition value that is not equal to itself, partition columns of one decimal type, and deleted rows."""
    price = pa.decimal128(9, 2)
    kinds = pa.schema([("id", pa.int64()), ("part", pa.float32()), ("low", price), ("high", price)])
    columns = {
        "id": range(6),
        "part": [float("nan"), 0.5, None] * 2,
        "low": [-1, None, 0] * 2,
        "high": [3, 4, None] * 2,
    }
    rows = pa.table(columns, schema=kinds)
    table = begun(path, rows, partition_by=["part", "low", "high"], properties=properties | VECTORS)
    table.append(rows)
    table.delete("id < 3", row_mode="merge-on-read")
    table.delete("id = 3", row_mode="merge-on-read")
    return table


def _texts_as_partitions(path: Path, properties: dict[str, str]) -> txlog.Table:
    rows = SAMPLES["partitions with special characters"].rows
    table = begun(path, rows, partition_by=["part"], properties=properties)
    table.delete("part = 'b/c' or id = 3")
    table.append(rows)
    return table


def _names(path: Path, properties: dict[str, str]) -> txlog.Table:
    rows = SAMPLES["columns with special characters"].rows
    table = begun(path, rows, properties=properties)
    table.append(rows)
    return table


def _nested() -> pa.Table:
    """Lists, maps and structs in each other; no list of structs is null, which PyIceberg reads as an empty one."""
    item = pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string()))])
    return pa.table(
        {
            "the id": pa.array([1, 2, 3]),
            "items": pa.array(
                [[{"name": "x", "tags": ["p", None]}, {"name": None, "tags": None}], [], [None]], pa.list_(item)
            ),
            "by name": pa.array([[("m", [1, 2])], [], None], pa.map_(pa.string(), pa.list_(pa.int32()))),
            "s": pa.array(
                [{"a": 1, "l": [1.5]}, None, {"a": None, "l": None}],
                pa.struct([("a", pa.int64()), ("l", pa.list_(pa.float64()))]),
            ),
            "p": pa.array(["x", "y z", None]),
        }
    )


def _mapped(path: Path, properties: dict[str, str]) -> txlog.Table:
    rows = _nested()
    mapping = {"delta.columnMapping.mode": "name"}
    table = begun(path, rows, partition_by=["p"], properties=properties | VECTORS | mapping)
    table.append(
        rows.append_column("tags, added", pa.array([["x"], None, []], pa.list_(pa.string()))), schema_mode="merge"
    )
    table.delete("`the id` = 2")
    table.optimize()
    return table


def _mapped_later(path: Path, properties: dict[str, str]) -> txlog.Table:
    """Its first files have no column ids, its later ones do."""
    rows = _nested().rename_columns(["the_id", "items", "by_name", "s", "p"])
    table = begun(path, rows, properties=properties)
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.append(rows)
    return table


def _mapped_then_dropped(path: Path, properties: dict[str, str], *, is_written_again: bool = False) -> txlog.Table:
    """Its first files have columns that it had dropped before the first export, and come back with a restore."""
    wide = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
    first = pa.table(
        {"a": [1, 2], "gone": [["u"], None], "s": pa.array([{"x": 1, "y": ["v"]}, None], wide), "old": ["o", None]}
    )
    txlog.write(path, first)
    table = txlog.Table.open(path)
    table.set_properties({"delta.columnMapping.mode": "name"})
    metadata = table._open_table.log.newest_state().metadata
    schema = json.loads(metadata.schema_string)
    schema["fields"] = [field for field in schema["fields"] if field["name"] not in ("gone", "old")]
    del schema["fields"][1]["type"]["fields"][1]
    action = {**metadata.to_json(), "schemaString": json.dumps(schema)}
    version = table.version + 1
    Path(table.uri, "_delta_log", f"{version:020d}.json").write_text(
        '{"commitInfo":{"operation":"DROP COLUMNS"}}\n' + json.dumps({"metaData": action}) + "\n"
    )
    table = txlog.Table.open(path)
    if is_written_again:
        table.overwrite(table.to_arrow())
    table.set_properties(properties)
    table.export_iceberg()
    table.append(table.to_arrow())
    table.restore(version)
    return table


def _grown(path: Path, properties: dict[str, str]) -> txlog.Table:
    """Columns are added, dropped, and come back; then one comes back as another type, where the history ends."""
    first = pa.table({"a": [1, 2], "s": [{"x": 1}, None]})
    table = begun(path, first, properties=properties)
    wider = pa.struct([("x", pa.int64()), ("y", pa.string())])
    table.append(pa.table({"a": [3], "s": pa.array([{"x": 2, "y": "z"}], wider), "b": ["new"]}), schema_mode="merge")
    table.overwrite(pa.table({"b": ["only"]}), schema_mode="overwrite")
    table.overwrite(pa.table({"a": [7], "b": ["both"]}), schema_mode="overwrite")
    return table


def _meaning_changed(path: Path, properties: dict[str, str]) -> txlog.Table:
    table = _grown(path, properties)
    table.overwrite(pa.table({"a": ["a text now"], "b": ["both"]}), schema_mode="overwrite")
    table.append(pa.table({"a": ["more"], "b": ["both"]}))
    return table


def _partition_dropped(path: Path, properties: dict[str, str]) -> txlog.Table:
    """Its partition column goes, where the history ends."""
    rows = pa.table({"id": [1, 2, 3], "p": ["x", "y z", None]})
    table = begun(path, rows, partition_by=["p"], properties=properties)
    table.append(rows)
    table.overwrite(rows.select(["id"]), schema_mode="overwrite", partition_by=[])
    table.append(rows.select(["id"]))
    return table


def _nulls(path: Path, properties: dict[str, str]) -> txlog.Table:
    rows = SAMPLES["all null"].rows
    table = begun(path, rows, properties=properties)
    table.append(rows.slice(0, 0))
    table.append(rows)
    return table


def _tracked(path: Path, properties: dict[str, str]) -> txlog.Table:
    rows = pa.table({"id": pa.array(range(20), pa.int64()), "v": ["old"] * 20})
    table = begun(path, rows, properties=properties | VECTORS | {"delta.enableRowTracking": "true"})
    table.append(rows)
    table.update({"v": txlog.expr("'new'")}, "id % 5 = 0")
    table.optimize()
    table.delete("id = 3")
    return table


def deleted_keys(path: Path, properties: dict[str, str], row_mode: RowMode | None = None) -> txlog.Table:
    """Deleted keys that are kept in files of which no reader may see a row, and late rows that do not come back.

    Rows 2 and 5 to 7 are as they were or updated, 1 is new again.
    """
    kept = {
        "txlog.merge-engine": "deduplicate",
        "txlog.sequence.field": "seq",
        "txlog.tombstone-retention": "interval 7 days",
    }

    def changes(*rows: tuple[str, int, int, str]) -> pa.Table:
        kinds, ids, sequences, days = zip(*rows, strict=True)
        return pa.table({"op": kinds, "id": ids, "seq": sequences, "day": days, "name": [f"{n}" for n in ids]})

    first = changes(*(("+I", id, 10, "mon" if id % 2 else "tue") for id in range(8)))
    table = begun(path, first.drop(["op"]), partition_by=["day"], properties=properties | VECTORS | kept)

    def upsert(*rows: tuple[str, int, int, str]) -> None:
        table.upsert(changes(*rows), keys=["id"], row_kind="op", row_mode=row_mode)

    upsert(("-D", 0, 20, "tue"), ("-D", 1, 20, "mon"))
    upsert(("-D", 70, 20, "mon"))
    upsert(("+U", 0, 15, "tue"), ("+U", 70, 15, "mon"), ("+U", 2, 15, "mon"))
    table.optimize()
    upsert(("+U", 1, 21, "mon"), ("-D", 3, 9, "mon"), ("-D", 4, 11, "tue"))
    return table


def _compatible(path: Path, properties: dict[str, str], *, first: int = 1) -> txlog.Table:
    """It follows Delta's Iceberg compatibility, and goes from the first version to the second one; or the third."""

    def version(number: int) -> dict[str, str]:
        return {f"delta.enableIcebergCompatV{each}": str(each == number).lower() for each in (1, 2, 3)}

    rows = pa.table({"id": [1, 2, 3], "p": ["x", "y z", None], "n": [1.5, None, 2.5]})
    vectors = VECTORS if first == 3 else {}
    table = begun(path, rows, partition_by=["p"], properties=properties | version(first) | vectors)
    table.update({"n": txlog.expr("0.5")}, "id = 3")
    if first == 1:
        table.set_properties(version(2))
    tags = pa.array([["a", None], None, []], pa.list_(pa.string()))
    table.append(rows.append_column("tags", tags), schema_mode="merge")
    table.delete("id = 1")
    table.optimize()
    return table


def with_variants(path: Path, *, is_shredded: bool) -> txlog.Table:
    """It has variants, also in structs, which PyIceberg and format version 2 do not have; every version is exported."""
    properties = {"txlog.iceberg": "v3", "delta.enableVariantShredding": str(is_shredded).lower()}
    table = txlog.Table.create(path, "id bigint, v variant, s struct<w: variant>", properties=properties | VECTORS)
    kind = table.to_arrow().schema.field("s").type
    for first in (0, 10):
        made = variant.from_python([{"a": first, "b": ["x", {"c": 2.5}]}, {"a": first + 1}, [1], None, "text"])
        structs = pa.StructArray.from_arrays([made], fields=list(kind))
        table.append(pa.table({"id": range(first, first + 5), "v": made, "s": structs}))
    table.update({"v": txlog.expr("parse_json('{\"a\":7}')")}, "v:a::int = 10")
    table.delete("id = 1")
    table.optimize()
    assert table.export_iceberg().version == table.version
    return table


def json_of_variants(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The id and both variants of each row of `with_variants`, parsed; a variant's null is as none."""

    def parsed(column: pa.ChunkedArray) -> list[Any]:
        return [json.loads(text or "null") for text in variant.to_json(column).to_pylist()]

    nested = pa.chunked_array([chunk.field(0) for chunk in rows["s"].chunks])
    return sorted(zip(rows["id"].to_pylist(), parsed(rows["v"]), parsed(nested), strict=True), key=lambda row: row[0])


TABLES: dict[str, Callable[[Path, dict[str, Any]], txlog.Table]] = {
    "every type": _types,
    "partitions of every type": _typed_partitions,
    "NaN and two decimals as partitions": _odd_partitions,
    "partitions with special characters": _texts_as_partitions,
    "columns with special characters": _names,
    "mapped columns": _mapped,
    "columns mapped later": _mapped_later,
    "columns dropped before the first export": _mapped_then_dropped,
    "files of dropped columns that come back": partial(_mapped_then_dropped, is_written_again=True),
    "columns that come and go": _grown,
    "a name with another meaning": _meaning_changed,
    "a partition column that goes": _partition_dropped,
    "all null": _nulls,
    "tracked rows": _tracked,
    "compatible files": _compatible,
    "compatible files with row ids": partial(_compatible, first=3),
    "deleted keys that are kept": deleted_keys,
}
