"""`txlog.write`: the modes, what each does with a table that is there, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pytest
from small_table import data_files, ids_of, rows_of

import txlog
from txlog.table import Table


def test_write_creates_the_table_with_its_first_rows_as_one_version(tmp_path: Path) -> None:
    result = txlog.write(tmp_path / "t", rows_of(1, 2), partition_by=["day"], properties={"team": "x"})
    assert (result.version, result.outcome, result.attempts) == (0, "committed", 1)
    assert (result.metrics.rows, result.metrics.files) == (2, 2)
    table = Table.open(tmp_path / "t")
    assert ids_of(table) == [1, 2]
    assert table.snapshot().partition_columns == ("day",)
    assert table.snapshot().properties == {"team": "x"}


def test_each_write_mode_does_what_its_name_says_to_a_table_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert txlog.write(path, rows_of(1), mode="error").version == 0
    assert txlog.write(path, rows_of(2), mode="append").version == 1
    ignored = txlog.write(path, rows_of(3), mode="ignore")
    assert (ignored.outcome, ignored.version) == ("ignored", 1)
    with pytest.raises(txlog.TableExistsError, match="overwrite"):
        txlog.write(path, rows_of(4), mode="error")
    assert ids_of(Table.open(path)) == [1, 2]
    overwritten = txlog.write(path, rows_of(5), mode="overwrite")
    assert (overwritten.version, overwritten.metrics.files_removed) == (2, 2)
    assert ids_of(Table.open(path)) == [5]
    assert len(data_files(path)) == 3, "an ignored or refused write leaves no file"


def test_mode_errorifexists_is_mode_error(tmp_path: Path) -> None:
    assert txlog.write(tmp_path / "t", rows_of(1), mode="errorifexists").version == 0
    with pytest.raises(txlog.TableExistsError, match='mode="append" adds rows'):
        txlog.write(tmp_path / "t", rows_of(1), mode="errorifexists")


@pytest.mark.parametrize("mode", ["ignore", "overwrite", "append", "error"])
def test_each_mode_creates_an_absent_table(mode: str, tmp_path: Path) -> None:
    assert txlog.write(tmp_path / "t", rows_of(1), mode=mode).version == 0
    assert ids_of(Table.open(tmp_path / "t")) == [1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"mode": "apend"}, "apend"),
        ({"schema_mode": "merged"}, "merged"),
        ({"app_id": "a"}, "checkpoint_id"),
        ({"checkpoint_id": 1}, "app_id"),
        ({"app_id": "", "checkpoint_id": 1}, "app_id"),
        ({"app_id": "a", "checkpoint_id": -1}, "checkpoint_id"),
        ({"app_id": "a", "checkpoint_id": True}, "checkpoint_id"),
        ({"app_id": "a", "checkpoint_id": 2**63}, "checkpoint_id"),
        ({"fingerprint": "f"}, "fingerprint"),
        (
            {"partition_by": ["day"]},
            "the table is not partitioned, and partition_by asks for one that is partitioned by day",
        ),
        ({"partition_by": "day"}, "one that is partitioned by day: leave partition_by out"),
        ({"target_file_size": 0}, "target_file_size"),
        ({"storage_options": {"acces_key_id": "x"}}, "acces_key_id"),
    ],
)
def test_a_write_with_invalid_arguments_is_refused_and_leaves_no_file(
    arguments: dict[str, Any], named: str, tmp_path: Path
) -> None:
    txlog.write(tmp_path / "t", rows_of(1))
    with pytest.raises(txlog.InvalidInputError, match=named):
        txlog.write(tmp_path / "t", rows_of(2), **arguments)
    assert ids_of(Table.open(tmp_path / "t")) == [1]
    assert len(data_files(tmp_path / "t")) == 1


def test_partitioning_may_be_repeated_where_it_agrees(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", rows_of(1), partition_by=["day"])
    assert txlog.write(tmp_path / "t", rows_of(2), partition_by=["DAY"]).version == 1
    assert txlog.write(tmp_path / "t", rows_of(3)).version == 2
    with pytest.raises(
        txlog.InvalidInputError, match="partitioned by day, and partition_by asks for one that is not part"
    ):
        txlog.write(tmp_path / "t", rows_of(4), partition_by=[])


def test_a_column_of_nulls_makes_no_table_and_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "note": pa.nulls(1)})
    with pytest.raises(
        txlog.InvalidInputError, match=r"note: .* name its type in a schema, by Table\.create"
    ) as caught:
        txlog.write(tmp_path / "t", rows)
    assert "table.add_columns(schema)" in caught.value.message
    table = Table.create(tmp_path / "t", "id bigint, note string")
    table.append(rows)
    assert table.snapshot().to_arrow()["note"].to_pylist() == [None]


def test_a_table_made_of_times_without_a_zone_notes_which_readers_it_shuts_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    naive = pd.DataFrame({"at": pd.to_datetime(["2026-11-20 10:00"]), "n": [1]})
    nested = pa.table({"n": [1], "s": pa.array([{"at": 0}], pa.struct([("at", pa.timestamp("us"))]))})
    zoned = naive.assign(at=naive["at"].dt.tz_localize("UTC"))
    for name, rows, columns in (("naive", naive, "at"), ("nested", nested, "s"), ("zoned", zoned, None)):
        caplog.clear()
        result = txlog.write(tmp_path / name, rows)
        protocol = deltalake.DeltaTable(tmp_path / name).protocol()
        needs = "timestampNtz" in (protocol.reader_features or ())
        assert needs == (columns is not None)
        assert [record.levelname for record in caplog.records] == ["WARNING"] * needs
        if columns is not None:
            (note,) = result.notes
            assert note.startswith(f"The times in {columns} have no zone, so the table's protocol is reader version 3")
            assert note in caplog.text
            assert "readers that do not know it refuse the table" in note
        assert txlog.write(tmp_path / name, rows).notes == (), "the protocol stays as it is"
    caplog.clear()
    txlog.Table.create(tmp_path / "asked", "at timestamp_ntz")
    assert not caplog.records, "who names the type knows it"
