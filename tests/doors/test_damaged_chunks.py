"""A column chunk with fewer values than its row group has rows: every door says so, and no commit builds on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import txlog
from tests.parquet_bytes import parquet_of, short_chunk, shorter_pages

ROWS = pa.table({"x": range(7), "n": range(7), "s": [f"v{n}" for n in range(7)]})
WHOLE = parquet_of(ROWS, row_group_size=4)
"""Row groups of four and of three rows."""

DAMAGED = {
    "a chunk without values": short_chunk(WHOLE, 0, 0),
    "the last chunk without values": short_chunk(WHOLE, 0, 1),
    "pages with fewer values": shorter_pages(WHOLE, 0, 0, 1),
}
EACH = pytest.mark.parametrize("body", DAMAGED.values(), ids=DAMAGED)


def logged(folder: Path, body: bytes, rows: int = 7, **properties: str) -> txlog.Table:
    """A table with such a file, which another program wrote and committed."""
    properties = {"delta.enableChangeDataFeed": "true", **properties}
    table = txlog.Table.create(str(folder), ROWS.schema, properties=properties)
    (folder / "f.parquet").write_bytes(body)
    add = {"path": "f.parquet", "partitionValues": {}, "size": len(body), "modificationTime": 1, "dataChange": True}
    line = json.dumps({"add": {**add, "stats": json.dumps({"numRecords": rows})}})
    (folder / "_delta_log" / f"{table.version + 1:020}.json").write_text(line)
    return txlog.Table.open(str(folder))


READS: dict[str, Callable[[txlog.Table], Any]] = {
    "all columns": lambda table: table.to_arrow(),
    "this column": lambda table: table.to_arrow(columns=["x"]),
    "a condition on it": lambda table: table.to_arrow(columns=["n"], where="x >= 0"),
    "a count": lambda table: table.count("x >= 0"),
    "batches": lambda table: [*table.to_batches()],
    "tasks": lambda table: [task.to_arrow() for task in table.snapshot().scan_tasks()],
    "changes": lambda table: [*table.changes(table.version)],
    "keys": lambda table: raise_findings(table.verify(keys=["x"])),
}

SCANS: dict[str, Callable[[txlog.Table], Any]] = {
    "all columns": lambda table: table.to_dataset().to_table(),
    "this column": lambda table: table.to_dataset().to_table(columns=["x"]),
    "a condition on it": lambda table: table.to_dataset().to_table(columns=["n"], filter=pc.field("x") >= 0),
    "a count": lambda table: table.to_dataset().count_rows(filter=pc.field("x") >= 0),
    "SQL": lambda table: txlog.sql(f"select x from delta.`{table.uri}`").read_all(),
    "fragments": lambda table: [each.to_table(columns=["x"]) for each in table.to_dataset().get_fragments()],
}


CHANGES: dict[str, Callable[[txlog.Table], Any]] = {
    "delete": lambda table: table.delete("x = 6"),
    "update": lambda table: table.update({"n": txlog.expr("n + 1")}),
    "update of all rows with a condition": lambda table: table.update({"n": txlog.expr("n + 1")}, where="n >= 0"),
    "upsert": lambda table: table.upsert(ROWS.slice(6), keys=["x"]),
    "merge": lambda table: table.merge(ROWS.slice(6), on="target.x = source.x").when_matched_delete().execute(),
    "optimize": lambda table: table.optimize(zorder_by=["n"]),
    "an overwrite of some rows": lambda table: table.overwrite(ROWS.slice(6), where="x >= 6"),
}


def raise_findings(found: Any) -> None:
    for each in found.findings:
        raise txlog.errors.CorruptLogError(each.message)


@EACH
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_of_a_damaged_chunk_is_an_error(body: bytes, read: Callable[[txlog.Table], Any], tmp_path: Path) -> None:
    with pytest.raises(txlog.errors.CorruptLogError, match=r"column x has [0-9] values in row group"):
        print(read(logged(tmp_path, body)))


@pytest.mark.parametrize("body", [*DAMAGED.values()][:2], ids=[*DAMAGED][:2])
@pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)
def test_a_scan_of_a_damaged_chunk_is_an_error(body: bytes, scan: Callable[[txlog.Table], Any], tmp_path: Path) -> None:
    with pytest.raises(txlog.TxlogError, match=r"column x has [0-9] values in row group"):
        print(scan(logged(tmp_path, body)))


@EACH
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_change_is_built_on_a_damaged_chunk(
    body: bytes, change: Callable[[txlog.Table], Any], tmp_path: Path
) -> None:
    table = logged(tmp_path, body)
    with pytest.raises(txlog.errors.CorruptLogError, match=r"column x has [0-9] values in row group") as raised:
        print(change(table))
    error = raised.value
    assert (error.path, error.version) == ("f.parquet", 1)
    assert txlog.Table.open(str(tmp_path)).version == 1


def test_the_rows_of_small_row_groups_are_never_paired_with_those_of_the_next(tmp_path: Path) -> None:
    """Arrow reads them as one: without a look at the whole it gives the first rows of one group values of the next."""
    table = logged(tmp_path, DAMAGED["a chunk without values"])
    seen: list[Any] = []
    with pytest.raises(txlog.errors.CorruptLogError):
        seen.extend(row for batch in table.to_batches() for row in batch.to_pylist())
    assert seen == []


def test_other_columns_of_a_damaged_file_can_still_be_read(tmp_path: Path) -> None:
    table = logged(tmp_path, DAMAGED["a chunk without values"])
    assert table.to_arrow(columns=["n", "s"]) == ROWS.select(["n", "s"])


@pytest.mark.parametrize("rows", [6, 8])
def test_a_file_with_other_rows_than_the_log_counts_is_an_error(rows: int, tmp_path: Path) -> None:
    table = logged(tmp_path, WHOLE, rows)
    for read in (table.to_arrow, lambda: table.to_dataset().to_table(), lambda: table.delete("x = 6")):
        with pytest.raises(txlog.errors.CorruptLogError, match=f"has 7 rows, and its statistics in the log say {rows}"):
            read()
    assert [found.rule for found in table.verify(footers=True).findings] == ["wrong-count"]


def test_verify_finds_a_chunk_without_values(tmp_path: Path) -> None:
    found = logged(tmp_path, DAMAGED["a chunk without values"]).verify(footers=True).findings
    assert [(each.rule, each.path) for each in found] == [("bad-footer", "f.parquet")]
    assert "column x has 0 values in row group 0, which has 4 rows" in found[0].message


@EACH
def test_a_damaged_file_is_not_loaded(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "f.parquet").write_bytes(body)
    table = txlog.Table.create(str(tmp_path / "t"), ROWS.schema)
    with pytest.raises(txlog.errors.InvalidInputError, match=r"column x has [0-9] values"):
        table.copy_into(str(tmp_path / "files"))
    assert table.to_arrow().num_rows == 0


@pytest.mark.parametrize("body", [DAMAGED["a chunk without values"]])
def test_a_damaged_file_is_neither_converted_nor_added(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(body)
    with pytest.raises(txlog.errors.InvalidInputError, match="column x has 0 values"):
        txlog.Table.convert(str(tmp_path))
    table = txlog.Table.create(str(tmp_path), ROWS.schema)
    with pytest.raises(txlog.errors.InvalidInputError, match="column x has 0 values"):
        table.add_files(["f.parquet"])
    assert table.version == 0
