"""Table features of Spark's Delta, each in a small table: what txlog and other readers do with it.

The table of docs/table-features.md is what these tests see. A test whose row differs prints the row that is right.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from polars.exceptions import PolarsError
from pyspark.errors import PySparkException
from rows import assert_sound, read_by_deltalake

import txlog
from txlog import variant
from txlog.core.format.features import features_of
from txlog.core.format.properties import KNOWN_KEYS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parent.parent / "docs" / "table-features.md"
YES = "yes"


class Feature(msgspec.Struct, frozen=True):
    """A table that has a feature: its columns in DDL, after them what else defines it, and what follows its creation.

    ``columns`` begin with ``id int, name string``. ``by_txlog`` is what txlog does after the creation of its own table,
    and ``by_spark`` are statements, with ``{t}`` for the table.
    """

    name: str
    columns: str = "id int, name string"
    properties: dict[str, str] = {}
    cluster_by: str | None = None
    by_txlog: Callable[[txlog.Table], object] = lambda table: None
    by_spark: tuple[str, ...] = ()

    def created_by_spark(self, path: Path) -> list[str]:
        by = f"cluster by ({self.cluster_by})" if self.cluster_by else ""
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        with_properties = f"tblproperties ({listed})" if listed else ""
        create = f"create table delta.`{path}` ({self.columns}) using delta {by} {with_properties}"
        return [create, *(statement.format(t=f"delta.`{path}`") for statement in self.by_spark)]


def supported(name: str) -> dict[str, str]:
    return {f"delta.feature.{name}": "supported"}


FEATURES = [
    Feature("appendOnly", properties={"delta.appendOnly": "true"}),
    Feature("invariants", "id int not null, name string"),
    Feature(
        "checkConstraints",
        by_txlog=lambda table: table.add_constraint("few", "id < 100"),
        by_spark=("alter table {t} add constraint few check (id < 100)",),
    ),
    Feature("changeDataFeed", properties={"delta.enableChangeDataFeed": "true"}),
    Feature("generatedColumns", "id int, name string, twice int generated always as (id * 2)"),
    Feature("columnMapping", properties={"delta.columnMapping.mode": "name"}),
    Feature("columnMapping, mode `id`", properties={"delta.columnMapping.mode": "id"}),
    Feature("identityColumns", "id int, name string, number bigint generated always as identity"),
    Feature("allowColumnDefaults", "id int, name string, n int default 7", properties=supported("allowColumnDefaults")),
    Feature("deletionVectors", properties={"delta.enableDeletionVectors": "true"}),
    Feature("timestampNtz", "id int, name string, at timestamp_ntz"),
    Feature("v2Checkpoint", properties={"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}),
    Feature("vacuumProtocolCheck", properties=supported("vacuumProtocolCheck")),
    Feature("domainMetadata", properties=supported("domainMetadata")),
    Feature("inCommitTimestamp", properties={"delta.enableInCommitTimestamps": "true"}),
    Feature("rowTracking", properties={"delta.enableRowTracking": "true"}),
    Feature("clustering", cluster_by="id"),
    Feature(
        "typeWidening",
        "id smallint, name string",
        properties={"delta.enableTypeWidening": "true"},
        by_txlog=lambda table: (table.append(rows(txlog_schema(table), 7)), table.alter_column("id", type="int")),
        by_spark=("insert into {t} values (7, 'seven')", "alter table {t} alter column id type int"),
    ),
    *(
        Feature(
            name,
            "id int, name string, v variant",
            properties=properties,
            by_txlog=lambda table: table.append(
                rows(txlog_schema(table), 7).append_column("v", variant.parse_json(['{"a":[1.5],"b":null}']))
            ),
            by_spark=("""insert into {t} values (7, 'seven', parse_json('{{"a":[1.5],"b":null}}'))""",),
        )
        for name, properties in (
            ("variantType", {}),
            ("variantShredding-preview", {"delta.enableVariantShredding": "true"}),
        )
    ),
    Feature("materializePartitionColumns", properties={"delta.enableMaterializePartitionColumnsFeature": "true"}),
    *(
        Feature(f"icebergCompatV{version}", properties={f"delta.enableIcebergCompatV{version}": "true"})
        for version in (1, 2, 3)
    ),
]
NO_FEATURE = {
    "delta.autoOptimize.autoCompact": "false",
    "delta.autoOptimize.optimizeWrite": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpointInterval": "2",
    "delta.compatibility.symlinkFormatManifest.enabled": "false",
    "delta.dataSkippingNumIndexedCols": "1",
    "delta.dataSkippingStatsColumns": "id",
    "delta.dataSkippingStringPrefixLength": "16",
    "delta.deletedFileRetentionDuration": "interval 2 weeks",
    "delta.dropFeatureTruncateHistory.retentionDuration": "interval 2 days",
    "delta.enableExpiredLogCleanup": "false",
    "delta.enableFullRetentionRollback": "true",
    "delta.isolationLevel": "Serializable",
    "delta.logRetentionDuration": "interval 60 days",
    "delta.parquet.compression.codec": "zstd",
    "delta.randomPrefixLength": "3",
    "delta.randomizeFilePrefixes": "true",
    "delta.sampleRetentionDuration": "interval 7 days",
    "delta.setTransactionRetentionDuration": "interval 90 days",
    "delta.targetFileSize": "1mb",
    "delta.tuneFileSizesForRewrites": "true",
    "delta.writePartitionColumnsToParquet": "true",
}
"""The properties for which a table needs no feature, with values that are not their defaults."""

OF_A_FEATURE = {
    *("delta.appendOnly", "delta.checkpointPolicy", "delta.columnMapping.mode", "delta.enableChangeDataFeed"),
    *("delta.enableDeletionVectors", "delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2"),
    *("delta.enableIcebergCompatV3", "delta.enableInCommitTimestamps", "delta.enableRowTracking"),
    *("delta.enableTypeWidening", "delta.enableVariantShredding", "delta.enableMaterializePartitionColumnsFeature"),
}
OF_ENGINES = {
    *("delta.columnMapping.maxColumnId", "delta.inCommitTimestampEnablementTimestamp"),
    *("delta.inCommitTimestampEnablementVersion", "delta.minReaderVersion", "delta.minWriterVersion"),
    *("delta.requireCheckpointProtectionBeforeVersion", "delta.rowTracking.materializedRowCommitVersionColumnName"),
    *("delta.rowTracking.materializedRowIdColumnName", "delta.rowTrackingSuspended", "delta.parquet.format.version"),
    "delta.universalFormat.enabledFormats",
}
"""What engines write about a feature, and what belongs to another format."""

PROPERTIES = Feature("the properties without a feature", properties=NO_FEATURE)


# --- what readers and writers do ------------------------------------------------------------------------------------


def txlog_schema(table: txlog.Table) -> pa.Schema:
    return table.to_arrow().schema


def rows(schema: pa.Schema, *ids: int) -> pa.Table:
    """Rows with the columns ``id`` and ``name``; the others are computed, or null."""
    return pa.table({"id": pa.array(ids, schema.field("id").type), "name": [f"name {id}" for id in ids]})


def values(found: pa.Table) -> list[tuple[Any, ...]]:
    names = sorted(found.column_names)
    return sorted(tuple(map(_unmarked, (row[name] for name in names))) for row in found.select(names).to_pylist())


def _unmarked(value: Any) -> Any:
    """A variant without the bit that says whether its names are sorted, on which no value depends:
    Spark leaves it out when it puts a shredded variant together."""
    if not isinstance(value, dict) or value.keys() != {"metadata", "value"}:
        return value
    first, *rest = value["metadata"]
    return {**value, "metadata": bytes([first & ~0x10, *rest])}


def outcome(call: Callable[[], object], *refusals: type[Exception]) -> str:
    """``yes`` if it returns True or nothing, ``refuses`` if it raises one of these."""
    try:
        found = call()
    except refusals:
        return "refuses"
    if isinstance(found, str):
        return found
    return YES if found in (None, True) else "other rows"


class Tables:
    """One table of the feature as each engine writes it."""

    def __init__(self, feature: Feature, folder: Path, spark: SparkSession) -> None:
        self.feature, self.folder, self.spark = feature, folder, spark
        self.ours, self.theirs = folder / "ours", folder / "theirs"

    def by_spark(self, path: Path) -> list[tuple[Any, ...]]:
        frame = self.spark.read.format("delta").load(str(path))
        if "variant" not in dict(frame.dtypes).values():
            return values(frame.toArrow())
        rows = [row.asDict() for row in frame.collect()]  # PySpark's toArrow takes no column of variants with a null
        return values(pa.Table.from_pylist([{**row, "v": row["v"] and vars(row["v"])} for row in rows]))

    def by_txlog(self, path: Path) -> list[tuple[Any, ...]]:
        return values(txlog.Table.open(path).to_arrow())

    def row(self) -> dict[str, str]:
        """What the page has to say, by column."""
        return {**self._of_sparks_table(), **self._of_our_table()}

    # --- a table of Spark's -----------------------------------------------------------------------------------------

    def _of_sparks_table(self) -> dict[str, str]:
        for statement in self.feature.created_by_spark(self.theirs):
            self.spark.sql(statement)
        self.spark.sql(f"insert into delta.`{self.theirs}` (id, name) values (1, 'name 1'), (2, 'name 2')")
        refused = txlog.UnsupportedFeatureError
        reads = outcome(lambda: {(1, "name 1"), (2, "name 2")} <= self._keyed(self.theirs), refused)
        appends, changes = outcome(self._append, refused), outcome(self._change, refused)
        if YES in (appends, changes) and self.by_txlog(self.theirs) != self.by_spark(self.theirs):
            appends = changes = "other rows"
        return {"reads": reads, "appends": appends, "changes": changes}

    def _keyed(self, path: Path) -> set[tuple[int, str]]:
        found = txlog.Table.open(path).to_arrow(["id", "name"]).to_pylist()
        return {(row["id"], row["name"]) for row in found}

    def _append(self) -> bool:
        table = txlog.Table.open(self.theirs)
        table.append(rows(txlog_schema(table), 3, 4))
        return {(3, "name 3"), (4, "name 4")} <= self._keyed(self.theirs)

    def _change(self) -> bool | str:
        table = txlog.Table.open(self.theirs)
        if self.feature.name == "appendOnly":
            with pytest.raises(txlog.InvalidInputError, match="append-only"):
                table.delete("id = 1")
            return "refuses, as it has to"
        table.update({"name": txlog.expr("'new'")}, "id = 1")
        table.delete("id = 2")
        table.optimize()
        table.alter_column("name", comment="a name")
        assert_sound(table.uri)
        found = self._keyed(self.theirs)
        return (1, "new") in found and (2, "name 2") not in found

    # --- a table of txlog's -----------------------------------------------------------------------------------------

    def _of_our_table(self) -> dict[str, str]:
        feature = self.feature
        try:
            table = txlog.Table.create(
                self.ours,
                feature.columns,
                properties=feature.properties,
                cluster_by=feature.cluster_by,
            )
        except txlog.UnsupportedFeatureError:
            return dict.fromkeys(("spark", "deltalake", "polars", "duckdb", "delta_scan"), "-")
        feature.by_txlog(table)
        table.append(rows(txlog_schema(table), 1, 2, 3))
        if feature.name != "appendOnly":
            table.update({"name": txlog.expr("'new'")}, "id = 1")
            table.delete("id = 2")
        expected = self.by_txlog(self.ours)
        found = {
            "deltalake": _read(lambda: read_by_deltalake(deltalake.DeltaTable(table.uri)), expected),
            "polars": _read(lambda: pl.scan_delta(table.uri).collect().to_arrow(), expected),
            "duckdb": _read(lambda: _by_duckdb(table), expected),
            "delta_scan": _read(lambda: _by_delta_scan(table), expected),
        }
        return {"spark": outcome(self._spark_goes_on, PySparkException), **found}

    def _spark_goes_on(self) -> bool:
        """Spark's Delta writes to the table, and reads the rows of both."""
        self.spark.sql(f"insert into delta.`{self.ours}` (id, name) values (8, 'eight')")
        if self.feature.name != "appendOnly":
            self.spark.sql(f"update delta.`{self.ours}` set name = 'both' where id = 3")
        assert_sound(str(self.ours))
        assert {(1, "name 1" if self.feature.name == "appendOnly" else "new"), (8, "eight")} <= self._keyed(self.ours)
        return self.by_txlog(self.ours) == self.by_spark(self.ours)


def _read(read: Callable[[], pa.Table], expected: list[tuple[Any, ...]]) -> str:
    def compared() -> bool | str:
        found = read()
        are_nulls = found.num_rows > 0 and all(column.null_count == len(column) for column in found.columns)
        return "**nulls, and no error**" if are_nulls else values(found) == expected

    return outcome(compared, DeltaError, PolarsError, duckdb.Error)


def _by_duckdb(table: txlog.Table) -> pa.Table:
    connection = duckdb.connect()
    return connection.register("t", table.to_dataset()).sql("select * from t").to_arrow_table()


def _by_delta_scan(table: txlog.Table) -> pa.Table:
    """DuckDB gives no variants as Arrow, but their JSON, in which its NULL is ``null``."""
    has_variant = "v" in table.to_arrow().column_names
    replaced = "replace (v::json as v)" if has_variant else ""
    rows = _duckdb().execute(f"select * {replaced} from delta_scan(?)", [table.uri]).to_arrow_table()
    if not has_variant:
        return rows
    ids = table.to_arrow()["id"].to_pylist()
    shown = [text or "null" for text in variant.to_json(table.to_arrow()["v"]).to_pylist()]
    found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert found == dict(zip(ids, shown, strict=True))
    return table.to_arrow().select(rows.column_names)


@cache
def _duckdb() -> Any:
    extensions = pytest.importorskip("duckdb_extensions", reason="NOT TESTED: DuckDB's Delta reader is not installed")
    for name in ("icu", "delta"):
        extensions.import_extension(name)
    connection = duckdb.connect()
    for name in ("icu", "delta"):
        connection.load_extension(name)
    return connection.execute("set TimeZone = 'UTC'")


# --- the page -------------------------------------------------------------------------------------------------------

COLUMNS = ("reads", "appends", "changes", "spark", "deltalake", "polars", "duckdb", "delta_scan")


def of_the_page() -> dict[str, list[str]]:
    """The cells of the matrix by the name of the feature."""
    section = PAGE.read_text().split("## Who reads and writes what")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]  # without the head
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name.replace("`", ""): rest for name, *rest in cells}


def as_row(feature: Feature, found: dict[str, str]) -> str:
    name = feature.name if " " in feature.name else f"`{feature.name}`"
    return " | ".join(["", name, *(found[column] for column in COLUMNS), ""]).strip()


IN_EVERY_RUN = {"icebergCompatV2"}


@pytest.mark.parametrize(
    "feature",
    [
        pytest.param(each, id=each.name, marks=() if each.name in IN_EVERY_RUN else pytest.mark.hunt(part="spark"))
        for each in [*FEATURES, PROPERTIES]
    ],
)
def test_readers_and_writers_do_with_each_feature_what_the_page_says(
    feature: Feature, delta: SparkSession, tmp_path: Path
) -> None:
    for way in ("read", "write"):  # Spark's Delta refuses tables mapped by id without
        delta.conf.set(f"spark.sql.parquet.fieldId.{way}.enabled", "true")
    delta.conf.set("spark.databricks.delta.allowArbitraryProperties.enabled", "true")  # for those of other releases
    found = Tables(feature, tmp_path, delta).row()
    named = feature.name.partition(",")[0]
    if feature is not PROPERTIES:
        protocol = txlog.Table.open(tmp_path / "theirs")._open_table.log.newest_state().protocol
        assert named in {name for names in features_of(protocol) for name in names}
    said = of_the_page().get(feature.name.replace("`", ""))
    assert said == [found[column] for column in COLUMNS], f"the page should say:\n{as_row(feature, found)}"


def test_the_matrix_has_every_property_that_txlog_knows() -> None:
    assert {*NO_FEATURE} | OF_A_FEATURE | OF_ENGINES == KNOWN_KEYS
    assert [feature.name.replace("`", "") for feature in [*FEATURES, PROPERTIES]] == [*of_the_page()]
