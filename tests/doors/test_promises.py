"""Every property that Delta knows, on tables of others: what it promises to other programs is kept, or the write is
refused, at its creation, when it is set, and at each write on a table that has it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.format.properties import KNOWN_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "table-features.md"
ROWS = pa.table({"i": [1]})
REFUSED = {
    "delta.universalFormat.enabledFormats": "hudi",
}
"""The properties whose promises no commit of txlog keeps, with values that promise something."""
KEPT = {
    "delta.appendOnly": "true",
    "delta.autoOptimize.autoCompact": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "false",
    "delta.checkpointInterval": "2",
    "delta.checkpointPolicy": "v2",
    "delta.columnMapping.mode": "name",
    "delta.compatibility.symlinkFormatManifest.enabled": "true",
    "delta.dataSkippingNumIndexedCols": "0",
    "delta.dataSkippingStatsColumns": "i",
    "delta.dataSkippingStringPrefixLength": "4",
    "delta.deletedFileRetentionDuration": "interval 3 days",
    "delta.dropFeatureTruncateHistory.retentionDuration": "interval 3 days",
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableExpiredLogCleanup": "false",
    "delta.enableIcebergCompatV1": "true",
    "delta.enableIcebergCompatV2": "true",
    "delta.enableIcebergCompatV3": "true",
    "delta.enableMaterializePartitionColumnsFeature": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.enableRowTracking": "true",
    "delta.enableTypeWidening": "true",
    "delta.enableVariantShredding": "true",
    "delta.isolationLevel": "Serializable",
    "delta.logRetentionDuration": "interval 3 days",
    "delta.minReaderVersion": "2",
    "delta.minWriterVersion": "5",
    "delta.parquet.compression.codec": "gzip",
    "delta.randomPrefixLength": "3",
    "delta.randomizeFilePrefixes": "true",
    "delta.setTransactionRetentionDuration": "interval 3 days",
    "delta.targetFileSize": "1mb",
    "delta.writePartitionColumnsToParquet": "true",
}
COUNTED = {
    "delta.columnMapping.maxColumnId",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTrackingSuspended",
}
"""The properties that features keep for themselves: their own tests are elsewhere."""
ADVICE = {
    "delta.autoOptimize.optimizeWrite": "true",
    "delta.enableFullRetentionRollback": "true",
    "delta.parquet.format.version": "1.0.0",
    "delta.sampleRetentionDuration": "interval 3 days",
    "delta.tuneFileSizesForRewrites": "true",
}
"""The properties that promise nothing to others: advice to an engine about its own work."""


def test_each_known_property_is_of_one_kind() -> None:
    kinds = [{*REFUSED}, {*KEPT}, COUNTED, {*ADVICE}]
    assert set().union(*kinds) == KNOWN_KEYS
    assert sum(map(len, kinds)) == len(KNOWN_KEYS)


def test_the_page_says_of_each_property_whether_it_is_kept() -> None:
    section = PAGE.read_text().partition("## Properties of Delta")[2]
    said = {
        key: kind
        for keys, kind in re.findall(r"^\| (.+) \| (kept|refused|a hint|its feature's)", section, re.M)
        for key in re.findall(r"`(delta\.[A-Za-z0-9.]+)`", keys)
    }
    expected = {
        **dict.fromkeys(REFUSED, "refused"),
        **dict.fromkeys(KEPT, "kept"),
        **dict.fromkeys(COUNTED, "its feature's"),
        **dict.fromkeys(ADVICE, "a hint"),
    }
    assert said == expected


WRITES: dict[str, Callable[[txlog.Table], Any]] = {
    "append": lambda table: table.append(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "delete": lambda table: table.delete("i = 1"),
    "delete of all": lambda table: table.delete(all=True),
    "update": lambda table: table.update({"i": txlog.expr("2")}),
    "upsert": lambda table: table.upsert(ROWS, keys=["i"]),
    "optimize": lambda table: table.optimize(),
    "restore": lambda table: table.restore(0),
    "sink": lambda table: txlog.Sink(table, "app").once("key", ROWS),
    "sql": lambda table: txlog.sql(f"INSERT INTO delta.`{table.uri}` VALUES (1)"),
    "set of another property": lambda table: table.set_properties({"mine": "x"}),
    "add of a column": lambda table: table.add_columns(pa.schema({"j": pa.int64()})),
}


def _of_others(path: Path, key: str, value: str) -> txlog.Table:
    """A table of two versions whose first has the property, as another writer made it."""
    table = txlog.Table.create(path, ROWS.schema)
    table.append(ROWS)
    first = path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"][key] = value
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return txlog.Table.open(path)


@pytest.mark.parametrize("key", REFUSED)
def test_a_promise_that_no_commit_keeps_is_refused_at_every_door(tmp_path: Path, key: str) -> None:
    promise = {key: REFUSED[key]}
    with pytest.raises(txlog.UnsupportedFeatureError, match=re.escape(key)):
        txlog.Table.create(tmp_path / "new", ROWS.schema, properties=promise)
    with pytest.raises(txlog.UnsupportedFeatureError, match=re.escape(key)):
        txlog.Table.create(tmp_path / "plain", ROWS.schema).set_properties(promise)
    table = _of_others(tmp_path / "t", key, REFUSED[key])
    files = sorted(path.name for path in Path(table.uri).glob("*.parquet"))
    for name, write in WRITES.items():
        with pytest.raises(txlog.UnsupportedFeatureError) as caught:
            write(table)
        assert key in str(caught.value), name
    assert (table.version, sorted(path.name for path in Path(table.uri).glob("*.parquet"))) == (1, files)
    assert table.to_arrow()["i"].to_pylist() == [1]
    table.vacuum(retention_hours=0, force=True)


def test_a_format_that_another_engine_kept_can_be_given_up(tmp_path: Path) -> None:
    key = "delta.universalFormat.enabledFormats"
    table = _of_others(tmp_path / "t", key, "hudi")
    with pytest.raises(txlog.UnsupportedFeatureError, match="Unset the property"):
        table.append(ROWS)
    table.unset_properties([key])
    table.append(ROWS)
    assert table.to_arrow().num_rows == 2


def test_a_clone_does_not_promise_a_format_that_it_does_not_have(tmp_path: Path) -> None:
    key = "delta.universalFormat.enabledFormats"
    _of_others(tmp_path / "t", key, "hudi").clone(tmp_path / "c")
    assert key not in txlog.Table.open(tmp_path / "c").properties


@pytest.mark.parametrize("key", {**KEPT, **ADVICE})
def test_every_other_property_is_stored_and_the_table_is_written_and_sound(tmp_path: Path, key: str) -> None:
    value = {**KEPT, **ADVICE}[key]
    table = txlog.Table.create(tmp_path / "t", pa.schema({"i": pa.int64(), "s": pa.string()}), properties={key: value})
    table.append(pa.table({"i": [1, 2], "s": ["a", "b"]}))
    table.append(pa.table({"i": [3], "s": ["c"]}))
    if key != "delta.appendOnly":
        table.update({"s": txlog.expr("'x'")}, "i = 1")
    assert key in ("delta.minReaderVersion", "delta.minWriterVersion") or table.properties[key]
    assert sorted(table.to_arrow()["i"].to_pylist()) == [1, 2, 3]
    assert table.verify().findings == ()
