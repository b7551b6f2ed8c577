"""Keys that are kept beside a table: a new handle upserts without reading data files, and no row is ever wrong."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import txlog

ROWS = 20_000
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.int64())])
INDEXED = {"delta.enableDeletionVectors": "true", "txlog.keyIndex": "id"}


def rows(ids: Any, v: int) -> pa.Table:
    ids = [int(each) for each in ids]
    return pa.table({"id": ids, "name": [f"n{each}" for each in ids], "v": [v] * len(ids)}, schema=SCHEMA)


def expected(*written: pa.Table) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in written:
        found.update(zip(each["id"].to_pylist(), each["v"].to_pylist(), strict=True))
    return found


def content(path: Path) -> dict[int, int]:
    """The rows by key, as deltalake reads them. A key that is there twice fails."""
    read = DeltaTable(str(path)).to_pyarrow_table() if not has_vectors(path) else txlog.Table.open(path).to_arrow()
    assert len(set(read["id"].to_pylist())) == read.num_rows
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def has_vectors(path: Path) -> bool:
    return any(path.glob("*.bin"))


def key_files(path: Path) -> list[Path]:
    return sorted((path / "_txlog" / "keys").rglob("*.keys"))


def data_files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet"))


def blind(file: Path) -> None:
    """Overwrite a data file but for its footer: whoever reads a value of it fails."""
    body = bytearray(file.read_bytes())
    footer = 8 + int.from_bytes(body[-8:-4], "little")
    body[4 : len(body) - footer] = bytes(len(body) - footer - 4)
    file.write_bytes(body)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of two large files, whose keys an upsert has read and kept."""
    path = tmp_path / "table"
    table = txlog.Table.create(path, SCHEMA, properties=INDEXED)
    ids = np.random.default_rng(1).permutation(2 * ROWS)
    table.append(rows(ids[:ROWS], 0))
    table.append(rows(ids[ROWS:], 0))
    assert not key_files(path)
    table.upsert(rows([3], 1), keys="id")
    assert len(key_files(path)) == 2
    return path


ALL = range(2 * ROWS)


def test_a_new_handle_upserts_without_reading_a_value_of_files_whose_keys_are_kept(path: Path) -> None:
    originals = {file: file.read_bytes() for file in data_files(path) if file.stat().st_size > 50_000}
    assert len(originals) == 2
    for file in originals:
        blind(file)
    new = rows([5, 17, 39_999, 1_000_000], 2)
    result = txlog.Table.open(path).upsert(new, keys="id")
    assert (result.metrics.rows_updated, result.metrics.rows_inserted) == (3, 1)
    for file, body in originals.items():
        file.write_bytes(body)
    assert content(path) == expected(rows(ALL, 0), rows([3], 1), new)


def test_a_merge_by_the_key_uses_the_kept_keys(path: Path) -> None:
    for file in data_files(path):
        if file.stat().st_size > 50_000:
            blind(file)
    table = txlog.Table.open(path)
    result = table.merge(rows([5, 2_000_000], 2), "target.id = source.id").when_matched_delete().execute()
    assert result.metrics.rows_deleted == 1


def test_handles_that_know_nothing_of_each_other_go_on_with_what_others_kept(path: Path) -> None:
    written = [rows(ALL, 0), rows([3], 1)]
    random = np.random.default_rng(2)
    for v in range(2, 14):
        written.append(rows(random.choice(3 * ROWS, 300, replace=False), v))
        txlog.Table.open(path).upsert(written[-1], keys="id")
    assert content(path) == expected(*written)
    again = txlog.Table.open(path)
    for v in range(14, 26):
        written.append(rows(random.choice(3 * ROWS, 300, replace=False), v))
        again.upsert(written[-1], keys="id")
    assert content(path) == expected(*written)


@pytest.mark.parametrize("keys", ["name", "v,name", "part,id"])
def test_text_several_columns_and_partitions_are_keys_too(tmp_path: Path, keys: str) -> None:
    path = tmp_path / "table"
    schema = pa.schema([("part", pa.string()), *SCHEMA])
    properties = {**INDEXED, "txlog.keyIndex": keys, "delta.columnMapping.mode": "name"}
    table = txlog.Table.create(path, schema, partition_by=["part"], properties=properties)

    def source(ids: Any) -> pa.Table:
        found = rows(ids, 0)
        return found.add_column(0, "part", pa.array([f"p{each % 2} é" for each in found["id"].to_pylist()]))

    table.append(source(range(2 * ROWS)))
    names = keys.split(",")
    assert table.maintain().key_files == 2
    for file in path.rglob("*.parquet"):
        if file.stat().st_size > 50_000:
            blind(file)
    result = txlog.Table.open(path).upsert(source([7, 8, 5 * ROWS]), keys=names)
    assert (result.metrics.rows_updated, result.metrics.rows_inserted) == (2, 1)


def test_rows_with_equal_keys_are_all_replaced(tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = txlog.Table.create(path, SCHEMA, properties=INDEXED)
    table.append(rows([*range(ROWS), *[77] * 3000, *[78] * 10], 0))
    table.upsert(rows([1], 1), keys="id")
    assert len(key_files(path)) == 1
    result = txlog.Table.open(path).upsert(rows([77, 78], 2), keys="id")
    assert result.metrics.rows_deleted + result.metrics.rows_updated == 3001 + 11
    assert content(path) == expected(rows(range(ROWS), 0), rows([1], 1), rows([77, 78], 2))


# --- what is there is not what it should be --------------------------------------------------------------------------


def _flipped(file: Path, at: float) -> None:
    body = bytearray(file.read_bytes())
    body[int(at * (len(body) - 1))] ^= 0x10
    file.write_bytes(body)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


def _longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"12345")


def _emptied(file: Path) -> None:
    file.write_bytes(b"")


def _foreign(file: Path) -> None:
    file.write_bytes(b"PAR1" * 1000)


def _exchanged(file: Path) -> None:
    one, other = key_files(file.parents[3])
    body = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(body)


DAMAGES = [
    *(
        pytest.param(lambda file, at=at: _flipped(file, at), id=f"a bit at {at}")
        for at in (0.0, 0.0001, 0.001, 0.01, 0.5, 0.9, 1.0)
    ),
    *(pytest.param(each, id=each.__name__.strip("_")) for each in (_cut, _longer, _emptied, _foreign, _exchanged)),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_key_file_is_not_used_and_no_row_is_wrong(
    path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    files = key_files(path)
    if damage is _exchanged:
        damage(files[0])
    else:
        for file in files:
            damage(file)
    new = rows([*range(0, 2 * ROWS, 50), 3 * ROWS], 2)
    with caplog.at_level(logging.WARNING, "txlog"):
        txlog.Table.open(path).upsert(new, keys="id")
    assert "kept keys" in caplog.text
    assert content(path) == expected(rows(ALL, 0), rows([3], 1), new)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "txlog"):  # what was read anew has been kept anew
        txlog.Table.open(path).upsert(new, keys="id")
    assert "kept keys" not in caplog.text


def test_the_keys_of_a_data_file_that_another_program_replaced_are_read_again(path: Path) -> None:
    """With the same name, size and time in the log, and other keys."""
    log = path / "_delta_log"
    add = next(
        line["add"] for line in map(orjson.loads, (log / f"{1:020}.json").read_bytes().splitlines()) if "add" in line
    )
    file = path / add["path"]
    others = sorted({*ALL} - {*pq.read_table(file)["id"].to_pylist()})
    pq.write_table(rows(others, 0), file, compression="zstd", compression_level=19)
    result = txlog.Table.open(path).upsert(rows([others[ROWS // 2]], 5), keys="id")
    assert result.metrics.rows_updated + result.metrics.rows_deleted == 2, "the key is in both files now"


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table"
    table = txlog.Table.create(path, SCHEMA, properties=INDEXED)
    table.append(rows(range(ROWS), 0))
    (path / "_txlog").mkdir(exist_ok=True)
    (path / "_txlog" / "keys").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, "txlog"):
        result = table.upsert(rows([1, 3 * ROWS], 1), keys="id")
    assert (result.outcome, result.metrics.rows_updated) == ("committed", 1)
    assert "were not kept" in caplog.text


# --- upkeep ----------------------------------------------------------------------------------------------------------


def test_maintenance_keeps_the_keys_of_files_that_lack_it(tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = txlog.Table.create(path, SCHEMA, properties=INDEXED)
    table.append(rows(range(ROWS), 0))
    table.append(rows(range(ROWS, 2 * ROWS), 0))
    table.append(rows([2 * ROWS], 0))  # too small to be worth a key file
    planned = table.maintain(dry_run=True)
    assert (planned.key_files, key_files(path)) == (2, [])
    done = table.maintain()
    assert done.key_files == len(key_files(path)) == 2
    assert "keys of 2 files" in str(done)
    assert txlog.Table.open(path).maintain().key_files == 0
    for file in data_files(path):
        if file.stat().st_size > 50_000:
            blind(file)
    assert txlog.Table.open(path).upsert(rows([5], 1), keys="id").metrics.rows_updated == 1


def test_a_vacuum_deletes_the_keys_of_files_that_are_no_longer_live_and_no_others(path: Path) -> None:
    table = txlog.Table.open(path)
    before = key_files(path)
    table.vacuum()
    assert key_files(path) == before
    table.delete("id % 10 = 0")
    table.purge()
    table.upsert(rows([1], 2), keys="id")
    live = {*key_files(path)} - {*before}
    assert live
    table.vacuum()
    assert {*key_files(path)} == live
    assert content(path)[1] == 2


def test_a_deletion_check_names_the_kept_keys_of_deleted_rows_until_a_vacuum(path: Path) -> None:
    table = txlog.Table.open(path)
    old = {str(file.relative_to(path)) for file in key_files(path)}
    table.delete("id % 10 = 0")
    table.purge()
    version = table.version
    table.maintain(vacuum_every_hours=None)
    assert len(key_files(path)) == 4
    named = {each.path for each in table.check_deleted(version).remains if "_txlog/keys" in each.path}
    assert named == old
    table.vacuum()
    assert not [each for each in table.check_deleted(version).remains if "_txlog/keys" in each.path]


def test_a_table_without_the_property_keeps_no_keys_and_uses_none(path: Path) -> None:
    table = txlog.Table.open(path)
    table.unset_properties(["txlog.keyIndex"])
    kept = key_files(path)
    for file in kept:
        file.write_bytes(b"")
    table.upsert(rows([9], 2), keys="id")
    assert [file.read_bytes() for file in key_files(path)] == [b"", b""]
    assert content(path)[9] == 2


def test_a_recreated_table_does_not_use_the_keys_of_the_old_one(path: Path) -> None:
    shutil.rmtree(path / "_delta_log")
    table = txlog.Table.create(path, SCHEMA, properties=INDEXED)
    table.append(rows(range(ROWS), 0))
    result = txlog.Table.open(path).upsert(rows([ROWS + 5], 1), keys="id")
    assert result.metrics.rows_inserted == 1


@pytest.mark.parametrize("names", ["absent", "id,absent", "", "id,,v"])
def test_a_key_index_of_what_is_no_key_is_refused(tmp_path: Path, names: str) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"txlog\.keyIndex"):
        txlog.Table.create(tmp_path / "table", SCHEMA, properties={"txlog.keyIndex": names})


def test_a_renamed_key_stays_indexed_and_a_dropped_one_ends_the_index(tmp_path: Path) -> None:
    properties = {**INDEXED, "txlog.keyIndex": "id,name", "delta.columnMapping.mode": "name"}
    table = txlog.Table.create(tmp_path / "table", SCHEMA, properties=properties)
    table.append(rows(range(ROWS), 0))
    table.upsert(rows([1], 1), keys=["id", "name"])
    kept = key_files(tmp_path / "table")
    table.rename_column("id", "number")
    assert table.properties["txlog.keyIndex"] == "number,name"
    for file in data_files(tmp_path / "table"):
        if file.stat().st_size > 50_000:
            blind(file)
    found = txlog.Table.open(tmp_path / "table").upsert(
        rows([2], 1).rename_columns(["number", "name", "v"]), keys=["number", "name"]
    )
    assert (found.metrics.rows_updated, key_files(tmp_path / "table")) == (1, kept)
    table.drop_columns(["name"])
    assert "txlog.keyIndex" not in table.properties
