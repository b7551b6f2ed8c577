"""The logs of the benchmark `growth`: a V2 checkpoint that names files that do not exist, written a sidecar at a time.

Files come in the order of their partitions, as days do, and one of a hundred has a deletion vector. Everything is made
in columns, so a log of ten million files is written in little time and memory.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from txlog.core.versions.decisions.checkpoint.hint import last_checkpoint_bytes

__all__ = ["FILE_ROWS", "clone", "make_log", "set_policy", "write_inventory"]

FILE_ROWS = 100_000
_DAYS = 1_000
_FILE_BYTES = 50_000_000
_OLD_MS = 1_700_000_000_000
_SIDECAR_FILES = 1_000_000
_GROUP_FILES = 65_536
_COLUMNS = {"id": "long", "name": "string", "value": "double", "user": "long", "moment": "timestamp", "p": "string"}
_FEATURES = ["deletionVectors", "v2Checkpoint"]
_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURES, "writerFeatures": _FEATURES}
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)


def make_log(table: Path, files: int) -> None:
    """A table of ``files`` files, all named by its checkpoint of version 1; the commits of the files are cleaned up."""
    log = table / "_delta_log"
    (log / "_sidecars").mkdir(parents=True)
    protocol, metadata = {"protocol": _PROTOCOL}, {"metaData": _metadata("v2")}
    info = {"commitInfo": {"timestamp": _OLD_MS, "operation": "WRITE"}}
    _write_lines(log / f"{1:020d}.json", [info, protocol, metadata])
    sidecars: list[dict[str, Any]] = []
    for start in range(0, files, _SIDECAR_FILES):
        path = log / "_sidecars" / f"{start:032x}.parquet"
        end = min(files, start + _SIDECAR_FILES)
        with pq.ParquetWriter(path, pa.schema({"add": _add_type()}), compression="zstd", compression_level=1) as writer:
            for adds in _adds(start, end, files):
                writer.write_table(pa.table({"add": adds}))
        size = path.stat().st_size
        sidecars.append({"path": path.name, "sizeInBytes": size, "modificationTime": _OLD_MS})
    name = f"{1:020d}.checkpoint.00000000-0000-4000-8000-000000000000.json"
    named = [{"sidecar": sidecar} for sidecar in sidecars]
    _write_lines(log / name, [{"checkpointMetadata": {"version": 1}}, protocol, metadata, *named])
    size = (log / name).stat().st_size
    v2 = {"path": name, "sizeInBytes": size, "modificationTime": _OLD_MS, "sidecarFiles": sidecars}
    sizes = {"actions": files + len(sidecars) + 3, "size_bytes": size + sum(each["sizeInBytes"] for each in sidecars)}
    (log / "_last_checkpoint").write_bytes(last_checkpoint_bytes(1, **sizes, add_files=files, v2=v2))


def set_policy(table: Path, operation: str) -> None:
    """Another version, from which on checkpoints are written as ``operation`` says."""
    log = table / "_delta_log"
    version = len(list(log.glob("*.json")))  # one is the first checkpoint, and they begin with 1
    policy = "v2" if operation == "checkpoint v2" else "classic"
    info = {"commitInfo": {"timestamp": _OLD_MS, "operation": "SET TBLPROPERTIES"}}
    _write_lines(log / f"{version:020d}.json", [info, {"metaData": _metadata(policy)}])


def write_inventory(path: Path, files: int) -> None:
    """The table's files, and as many files that no commit names as a hundredth of them."""
    schema = pa.schema({"path": pa.string(), "length": pa.int64(), "isDir": pa.bool_(), "modificationTime": pa.int64()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, files + files // 100, _GROUP_FILES):
            numbers = np.arange(start, min(files + files // 100, start + _GROUP_FILES))
            count = len(numbers)
            columns = [
                _paths(numbers, files),
                pa.array(np.full(count, _FILE_BYTES)),
                pa.array(np.zeros(count, bool)),
                pa.array(np.full(count, _OLD_MS)),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def clone(source: Path, target: Path) -> Path:
    """The same log in another folder; a log's files never change, so links will do."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)
    return target


def _write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    hour_ago_s = time.time() - 3_600  # txlog syncs newer commits of other writers
    os.utime(path, (hour_ago_s, hour_ago_s))


def _metadata(policy: str) -> Mapping[str, Any]:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _COLUMNS.items()]
    return {
        "id": "growth",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["p"],
        "configuration": {"delta.checkpointPolicy": policy, "delta.enableDeletionVectors": "true"},
        "createdTime": _OLD_MS,
    }


# --- columns --------------------------------------------------------------------------------------------------------


def _add_type() -> pa.StructType:
    return pa.struct(
        {
            "path": pa.string(),
            "partitionValues": pa.map_(pa.string(), pa.string()),
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
            "deletionVector": _VECTOR,
        }
    )


def _adds(start: int, end: int, files: int) -> Iterator[pa.StructArray]:
    for first in range(start, end, _GROUP_FILES):
        numbers = np.arange(first, min(end, first + _GROUP_FILES))
        count = len(numbers)
        ends = pa.array(np.arange(count + 1, dtype=np.int32))
        columns = [
            _paths(numbers, files),
            pa.MapArray.from_arrays(ends, pa.array(["p"] * count), _days(numbers, files)),
            pa.array(_FILE_BYTES + numbers % 1_000_000),
            pa.array(_OLD_MS + numbers),
            pa.array(np.zeros(count, bool)),
            _statistics(numbers),
            _vectors(numbers),
        ]
        yield pa.StructArray.from_arrays(columns, fields=list(_add_type()))


def _paths(numbers: np.ndarray[Any, Any], files: int) -> pa.StringArray:
    scattered = (numbers * 2_654_435_761) % 10**10
    return _joined(
        "p=", _days(numbers, files), "/part-", _digits(numbers, 9), "-4e21-9a10-", _digits(scattered, 10), ".parquet"
    )


def _days(numbers: np.ndarray[Any, Any], files: int) -> pa.StringArray:
    return _joined("d", _digits(numbers * _DAYS // files, 4))


def _statistics(numbers: np.ndarray[Any, Any]) -> pa.StringArray:
    low, name = numbers * FILE_ROWS, _digits(numbers % 1_000_000, 6)
    day = _digits(numbers % 28 + 1, 2)
    return _joined(
        f'{{"numRecords":{FILE_ROWS},"minValues":{{"id":',
        pa.array(low).cast(pa.string()),
        ',"name":"aa',
        name,
        '","value":0.25,"user":',
        pa.array(numbers * 7 % 1_000_003).cast(pa.string()),
        ',"moment":"2024-01-',
        day,
        'T00:00:00.000Z"},"maxValues":{"id":',
        pa.array(low + FILE_ROWS - 1).cast(pa.string()),
        ',"name":"zz',
        name,
        '","value":',
        pa.array(numbers % 1000 + 1).cast(pa.string()),
        '.5,"user":',
        pa.array(numbers * 7 % 1_000_003 + 5000).cast(pa.string()),
        ',"moment":"2024-01-',
        day,
        'T23:59:59.999Z"},"nullCount":{"id":0,"name":',
        pa.array(numbers % 13).cast(pa.string()),
        ',"value":0,"user":0,"moment":0}}',
    )


def _vectors(numbers: np.ndarray[Any, Any]) -> pa.StructArray:
    count = len(numbers)
    columns = [
        pa.array(["u"] * count),
        _joined("vBn[lx{q8@P<9BNH/", _digits(numbers // 100_000, 3)),
        pa.array(np.ones(count, np.int32)),
        pa.array(np.full(count, 36, np.int32)),
        pa.array(np.full(count, 100)),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(_VECTOR), mask=pa.array(numbers % 100 != 0))


def _digits(numbers: np.ndarray[Any, Any], width: int) -> pa.StringArray:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def _joined(*parts: str | pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")
