"""Tables that Spark wrote, read through the public API, compared with the rows Spark expects.

If a table comes without expected rows, deltalake provides them, or they are listed here. Every table is read or, if it
is broken, refused: nothing is left out.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
from collections.abc import Callable
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import deltalake
import golden as golden_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import as_rows, in_schema, read_by_deltalake

import txlog
from txlog.core.format.schema import Decimal, Primitive, Struct

BROKEN: dict[str, type[txlog.TxlogError]] = {
    "crc-malformed": txlog.TableNotFoundError,  # a checksum file and nothing else
    "data-reader-absolute-paths-escaped-chars": txlog.CorruptLogError,  # no metaData
    "deltalog-commit-info": txlog.CorruptLogError,  # metaData without schemaString
    "deltalog-invalid-protocol-version": txlog.UnsupportedFeatureError,  # reader version 99
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": txlog.CorruptLogError,
    "deltalog-state-reconstruction-without-metadata": txlog.CorruptLogError,
    "no-delta-log-folder": txlog.TableNotFoundError,
    "versions-not-contiguous": txlog.CorruptLogError,
}

WITHOUT_DATA_FILES = {
    "app-txn-with-last-updated",
    "checkpoint",
    "delete-re-add-same-file-different-transactions",
    "with_checkpoint_no_last_checkpoint",
}

# Two spellings of one path, of which one is removed: deltalake takes them for two files, PROTOCOL.md for one.
SPELLED_TWICE = {"canonicalized-paths-normal-a", "canonicalized-paths-normal-b"}

ROWS_ONLY_DELTALAKE_KNOWS = {
    "app-txn-checkpoint",
    "app-txn-no-checkpoint",
    "cdf-column-mapping-id-mode",
    "cdf-column-mapping-name-mode",
    "cdf-table",
    "cdf-table-backtick-column-names",
    "cdf-table-data-change",
    "cdf-table-delete-conditional-all-rows",
    "cdf-table-delete-conditional-two-rows",
    "cdf-table-delete-unconditional",
    "cdf-table-non-partitioned",
    "cdf-table-simple",
    "cdf-table-update-ops",
    "cdf-table-with-dv",  # its newest version has none
    "compacted-log-files-table",
    "crc-full",
    "mixed-nulls",
    "parsed-stats",
    "partition_cm/id",
    "partition_cm/name",
    "partition_cm/none",
    "stats-writing-all-types",
    "table-with-dv-small",
    "timestamp-partitioned-table",
    "timestamp-truncation-stats",
    "unshredded-variant",
    "v1-single-part-struct-stats-only",
    "v2-checkpoints-json-with-last-checkpoint",
    "v2-checkpoints-json-without-sidecars",
    "v2-checkpoints-parquet-with-sidecars",
    "v2-checkpoints-parquet-without-sidecars",
    "v2-classic-checkpoint-parquet",
    "v2-parquet-sidecars-struct-stats-only",
    "void-column",
    "with-short-dv",
}

_DAY = datetime.datetime(2024, 9, 9)

ROWS_THAT_STAND_HERE: dict[str, list[dict[str, Any]]] = {
    "type-widening": [  # one file from before the types were widened, one from after
        {
            "byte_long": 1,
            "int_long": 2,
            "float_double": 3.4000000953674316,  # the float nearest to 3.4
            "byte_double": 5.0,
            "short_double": 6.0,
            "int_double": 7.0,
            "decimal_decimal_same_scale": Number("123.45"),
            "decimal_decimal_greater_scale": Number("67.89000"),
            "byte_decimal": Number("1.0"),
            "short_decimal": Number("2.0"),
            "int_decimal": Number("3.0"),
            "long_decimal": Number("4.0"),
            "date_timestamp_ntz": _DAY,
        },
        {
            "byte_long": 2**63 - 1,
            "int_long": 2**63 - 1,
            "float_double": 1.234567890123,
            "byte_double": 1.234567890123,
            "short_double": 1.234567890123,
            "int_double": 1.234567890123,
            "decimal_decimal_same_scale": Number("12345678901234.56"),
            "decimal_decimal_greater_scale": Number("12345678901.23456"),
            "byte_decimal": Number("123.4"),
            "short_decimal": Number("12345.6"),
            "int_decimal": Number("1234567890.1"),
            "long_decimal": Number("123456789012345678.9"),
            "date_timestamp_ntz": _DAY.replace(hour=12, minute=34, second=56, microsecond=123456),
        },
    ]
}

pytestmark = golden_tables.needed

GoldenTable = Callable[[str], Path]


def _with_expected_rows() -> list[str]:
    """The tables that bring their rows along and are in scope. An archive that is not listed above is one of them."""
    special = {*BROKEN, *WITHOUT_DATA_FILES, *SPELLED_TWICE, *ROWS_ONLY_DELTALAKE_KNOWS, *ROWS_THAT_STAND_HERE}
    return [name for name in golden_tables.NAMES if name not in {entry.split("/")[0] for entry in special}]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenTable:
    """The root of a golden table, unpacked once: ``NAME``, or ``NAME/PART`` where an archive holds several."""
    folder = tmp_path_factory.mktemp("golden")

    def unpacked(entry: str) -> Path:
        name, _, part = entry.partition("/")
        root = golden_tables.unpack(name, folder)
        if part:
            return root / part
        return root / "delta" if (root / "delta").exists() else root

    return unpacked


def _expected(table: Path, schema: pa.Schema) -> pa.Table:
    files = sorted((table.parent / "expected").rglob("*.parquet"))
    assert files, f"{table.parent} has no expected rows"
    return in_schema(pa.concat_tables([pq.ParquetFile(file).read() for file in files]), schema)


def _through_deltalake(table: Path, schema: pa.Schema) -> pa.Table:
    return in_schema(read_by_deltalake(deltalake.DeltaTable(str(table))), schema)


def _read(table: Path, version: int | None = None) -> pa.Table:
    return txlog.Table.open(table).snapshot(version).to_arrow()


def test_the_lists_of_special_cases_name_existing_golden_tables() -> None:
    listed = {*BROKEN, *WITHOUT_DATA_FILES, *SPELLED_TWICE, *ROWS_ONLY_DELTALAKE_KNOWS, *ROWS_THAT_STAND_HERE}
    assert {entry.split("/")[0] for entry in listed} <= set(golden_tables.NAMES)
    assert len(_with_expected_rows()) > 40


@pytest.mark.parametrize("name", _with_expected_rows())
def test_a_table_reads_as_the_rows_spark_expects(name: str, golden: GoldenTable) -> None:
    rows = _read(golden(name))
    assert as_rows(rows) == as_rows(_expected(golden(name), rows.schema))


@pytest.mark.parametrize("name", sorted(ROWS_ONLY_DELTALAKE_KNOWS))
def test_a_table_without_expected_rows_reads_as_deltalake_reads_it(name: str, golden: GoldenTable) -> None:
    rows = _read(golden(name))
    assert as_rows(rows) == as_rows(_through_deltalake(golden(name), rows.schema))


@pytest.mark.parametrize("name", [*_with_expected_rows(), *sorted(ROWS_ONLY_DELTALAKE_KNOWS)])
def test_the_dataset_and_the_count_of_a_snapshot_agree_with_its_rows(name: str, golden: GoldenTable) -> None:
    snapshot = txlog.Table.open(golden(name)).snapshot()
    rows = snapshot.to_dataset().to_table()
    assert as_rows(rows) == as_rows(snapshot.to_arrow())
    assert snapshot.count() == rows.num_rows


@pytest.mark.parametrize("name", sorted(SPELLED_TWICE))
def test_a_file_removed_under_another_spelling_of_its_path_is_removed(name: str, golden: GoldenTable) -> None:
    assert _read(golden(name)).num_rows == 0


@pytest.mark.parametrize("name", sorted(WITHOUT_DATA_FILES))
def test_a_missing_data_file_is_named_rather_than_left_out(name: str, golden: GoldenTable) -> None:
    snapshot = txlog.Table.open(golden(name)).snapshot()
    assert snapshot.num_files > 0
    with pytest.raises(txlog.NotFoundError) as caught:
        snapshot.to_arrow()
    named = Path(str(caught.value.path)).name
    assert any(path.endswith(named) for path in snapshot.files().column("path").to_pylist())


@pytest.mark.parametrize("name", sorted(ROWS_THAT_STAND_HERE))
def test_a_table_that_no_peer_reads_has_the_rows_its_makers_wrote(name: str, golden: GoldenTable) -> None:
    rows = _read(golden(name)).to_pylist()
    assert sorted(rows, key=repr) == sorted(ROWS_THAT_STAND_HERE[name], key=repr)


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_table_is_refused(name: str, golden: GoldenTable) -> None:
    with pytest.raises(BROKEN[name]) as caught:
        txlog.Table.open(golden(name))
    assert str(golden(name)) in str(caught.value)


def test_a_missing_commit_is_refused_whatever_else_is_wrong_with_the_log(golden: GoldenTable, tmp_path: Path) -> None:
    """That archive's metaData lacks the schema too; with one, the hole between its commits is what remains."""
    shutil.copytree(golden("versions-not-contiguous"), tmp_path / "t")
    first = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["schemaString"] = '{"type":"struct","fields":[]}'
    first.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(txlog.CorruptLogError, match=f"{1:020}.json|version 1"):
        txlog.Table.open(tmp_path / "t")


# --- time travel --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_each_version_reads_as_it_was_when_spark_wrote_it(version: int, golden: GoldenTable) -> None:
    """snapshot-dataN is one table, archived after each of its commits."""
    rows = _read(golden("snapshot-data3"), version)
    assert as_rows(rows) == as_rows(_expected(golden(f"snapshot-data{version}"), rows.schema))


@pytest.mark.parametrize(
    "name", ["basic-with-inserts-updates", "basic-with-inserts-merge", "cdf-table-non-partitioned"]
)
def test_each_version_reads_as_deltalake_reads_it(name: str, golden: GoldenTable) -> None:
    for version in range(txlog.Table.open(golden(name)).snapshot().version + 1):
        rows = _read(golden(name), version)
        theirs = read_by_deltalake(deltalake.DeltaTable(str(golden(name)), version=version))
        assert as_rows(rows) == as_rows(in_schema(theirs, rows.schema)), version


def test_a_vacuumed_version_is_an_error_that_names_the_file(golden: GoldenTable) -> None:
    snapshot = txlog.Table.open(golden("snapshot-vacuumed")).snapshot(0)
    with pytest.raises(txlog.NotFoundError, match=r"\.parquet"):
        snapshot.to_arrow()


def test_a_timestamp_between_two_commits_selects_the_earlier_version(golden: GoldenTable, tmp_path: Path) -> None:
    """The archive's commits carry no in-commit timestamps: the files' own times decide, as in Spark."""
    shutil.copytree(golden("time-travel-start-start20"), tmp_path / "t")
    for version, seconds in ((0, 1_540_415_658), (1, 1_540_416_858)):
        os.utime(tmp_path / "t" / "_delta_log" / f"{version:020}.json", (seconds, seconds))
    table = txlog.Table.open(tmp_path / "t")
    assert table.snapshot(timestamp="2018-10-24T21:14:18Z").version == 0
    assert table.snapshot(timestamp="2018-10-24T21:24:00Z").version == 0
    assert table.snapshot(timestamp="2018-10-24T21:34:18Z").version == 1
    with pytest.raises(txlog.NotFoundError):
        table.snapshot(timestamp="2018-10-24T21:14:17Z")
    assert table.snapshot(timestamp="2018-10-24T21:34:19Z").version == 1


# --- facts besides rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("app-txn-checkpoint", {"my-app": 3, "my-app2": 2, "other": None}),
        ("app-txn-no-checkpoint", {"my-app": 3, "my-app2": 2, "other": None}),
        ("app-txn-with-last-updated", {"new_app_0": 1, "new_app_1": 1, "new_app_2": 1, "old_app": 1}),
    ],
)
def test_the_last_transaction_of_each_application_is_known(
    name: str, expected: dict[str, int | None], golden: GoldenTable
) -> None:
    snapshot = txlog.Table.open(golden(name)).snapshot()
    assert {app_id: snapshot.transaction_version(app_id) for app_id in expected} == expected


def test_an_older_version_has_its_own_transaction_version_of_an_application(golden: GoldenTable) -> None:
    table = txlog.Table.open(golden("app-txn-no-checkpoint"))
    versions = [table.snapshot(version).transaction_version("my-app") for version in (0, 1)]
    assert versions[-1] == 3
    assert versions[0] in (None, 1)


# --- skipping files by Spark's statistics -------------------------------------------------------------------------

SKIPPING = [
    "data-skipping-basic-stats-all-types",
    "data-skipping-basic-stats-all-types-checkpoint",
    "data-skipping-basic-stats-all-types-columnmapping-id",
    "data-skipping-change-stats-collected-across-versions",
    "data-skipping-partition-and-data-column",
    "mixed-nulls",
    "parquet-all-types",
    "dv-partitioned-with-checkpoint",
    "parsed-stats",
    "stats-writing-all-types",
    "table-with-columnmapping-mode-name",
    "table-with-dv-small",
    "timestamp-truncation-stats",
    "type-widening",
    "v1-single-part-struct-stats-only",
    "v2-parquet-sidecars-struct-stats-only",
]

# Statistics with values in a column that the files do not have.
LYING = {("parsed-stats", "ts_col")}


def _comparable(name: str, schema: Struct) -> list[str]:
    return [f.name for f in schema.fields if isinstance(f.type, Primitive | Decimal) and (name, f.name) not in LYING]


@pytest.mark.parametrize("name", SKIPPING)
def test_a_filter_on_each_value_of_each_column_finds_every_row_that_has_it(name: str, golden: GoldenTable) -> None:
    """Skipping by Spark's statistics, truncated timestamps and strings included, must never lose a row."""
    from txlog.core.predicates import col

    snapshot = txlog.Table.open(golden(name)).snapshot()
    rows = snapshot.to_arrow()
    for column in _comparable(name, snapshot.delta_schema):
        values = rows.column(column)
        for value in dict.fromkeys(values.to_pylist()[:20]):
            condition: Any = col(column).is_null() if value is None else col(column) == value
            expected = sum(1 for other in values.to_pylist() if other == value)
            assert snapshot.to_arrow(columns=[column], where=condition).num_rows == expected, (column, value)


def test_spark_statistics_skip_what_cannot_match(golden: GoldenTable) -> None:
    snapshot = txlog.Table.open(golden("data-skipping-basic-stats-all-types")).snapshot()
    assert snapshot.num_files == 1
    assert snapshot.files("as_int = 0").num_rows == 1
    for condition in ("as_int > 0", "as_long = 1", "as_string = '1'", "as_date > '2000-01-02'", "as_float < 0"):
        assert snapshot.files(condition).num_rows == 0, condition
