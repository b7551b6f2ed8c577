"""A checkpoint of ours is never taken for a decompression bomb: it is read back before it is published."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from txlog.core.format.commit_file import LogLimits
from txlog.core.format.log_names import commit_name
from txlog.core.store import TableStore
from txlog.core.versions.files._delta_log import DeltaLog
from txlog.errors import CorruptLogError
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

TIGHT = LogLimits(checkpoint_memory_min_bytes=1 << 20)
FILES = 1000
V2 = {"v2": ["v2Checkpoint"], "classic": []}


def log_of(columns: list[str], stats: Any, policy: str, limits: LogLimits, **properties: str) -> DeltaLog:
    """A table of this many similar files in memory, each with ``stats(number)``."""
    schema = {
        "type": "struct",
        "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in columns],
    }
    configuration = {"delta.checkpointPolicy": policy, "delta.dataSkippingNumIndexedCols": "-1", **properties}
    metadata = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": orjson.dumps(schema).decode(),
    }
    features = V2[policy]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    lines: list[dict[str, Any]] = [
        {"protocol": protocol},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": configuration}},
    ]
    for number in range(FILES):
        file = {"path": f"part-{number:05}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
        lines.append({"add": {**file, "dataChange": True, "stats": orjson.dumps(stats(number)).decode()}})
    store = MemoryLogStore()
    store.put(commit_name(0), b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return DeltaLog(TableStore("memory://t", store, MemoryFileStore()), limits)


def alone(log: DeltaLog, limits: LogLimits) -> DeltaLog:
    """The log as a reader finds it that has nothing but the checkpoint."""
    store = log.store.log
    assert isinstance(store, MemoryLogStore)
    del store.objects[commit_name(0)]
    store.put(commit_name(1), b'{"commitInfo":{}}\n')
    return DeltaLog(TableStore("memory://t", store, MemoryFileStore()), limits)


@pytest.mark.parametrize("policy", V2)
def test_a_checkpoint_of_like_files_with_much_text_can_be_read(policy: str) -> None:
    columns = [f"a_column_with_a_long_name_{number}" for number in range(500)]

    def stats(number: int) -> dict[str, Any]:
        return {"numRecords": 1, "nullCount": dict.fromkeys(columns, 1)}

    log = log_of(columns, stats, policy, TIGHT, **{"delta.checkpoint.writeStatsAsStruct": "false"})
    log.write_checkpoint(log.newest_state())
    reader = alone(log, TIGHT)
    found = reader.files(reader.newest_state())
    assert found.num_rows == FILES
    assert orjson.loads(found["stats"][7].as_py()) == stats(7)


@pytest.mark.parametrize("policy", V2)
def test_a_checkpoint_of_a_sparse_wide_table_with_typed_statistics_can_be_read(policy: str) -> None:
    columns = [f"c{number}" for number in range(300)]

    def stats(number: int) -> dict[str, Any]:
        name = columns[number % len(columns)]
        return {"numRecords": 1, "minValues": {name: 1}, "maxValues": {name: 1}, "nullCount": {name: 0}}

    as_struct = {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    log = log_of(columns, stats, policy, TIGHT, **as_struct)
    log.write_checkpoint(log.newest_state())
    reader = alone(log, TIGHT)
    found = reader.files(reader.newest_state())
    assert found.num_rows == FILES
    assert orjson.loads(found["stats"][7].as_py())["minValues"] == {"c7": 1}


@pytest.mark.parametrize("policy", V2)
def test_a_checkpoint_that_no_limit_would_let_pass_is_not_published(policy: str) -> None:
    none = LogLimits(checkpoint_memory_min_bytes=-(1 << 40))
    log = log_of(["id"], lambda number: {"numRecords": 1}, policy, none)
    with pytest.raises(CorruptLogError, match="decodes to more than the limit"):
        log.write_checkpoint(log.newest_state())
    assert [meta.name for meta in log.store.log.list_from("")] == [commit_name(0)]
