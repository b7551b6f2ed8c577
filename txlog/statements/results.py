"""What DESCRIBE and SHOW answer, as rows with the columns of Spark's answers.

In: open tables. Out: Arrow tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from txlog.core.catalogs import name_text
from txlog.core.format.properties import column_paths
from txlog.core.format.schema import Struct, type_name
from txlog.core.versions.decisions.partitions import partitions_of
from txlog.extend import state_of
from txlog.result.audits import VersionDiff
from txlog.result.branches import BranchCheck, BranchInfo
from txlog.snapshot import Snapshot
from txlog.table import Table

_TEXTS = pa.map_(pa.string(), pa.string())
_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("userId", pa.string()),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", _TEXTS),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", _TEXTS),
        ("userMetadata", pa.string()),
        ("engineInfo", pa.string()),
    ]
)
_DETAIL = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", pa.timestamp("ms", "UTC")),
        ("partitionColumns", pa.list_(pa.string())),
        ("clusteringColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", _TEXTS),
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("tableFeatures", pa.list_(pa.string())),
    ]
)


def history(table: Table, limit: int | None) -> pa.Table:
    """DESCRIBE HISTORY."""
    rows = [
        {name: _told(entry.get(name), of.type) for name, of in zip(_HISTORY.names, _HISTORY, strict=True)}
        for entry in table.history(limit)
    ]
    return pa.Table.from_pylist(rows, _HISTORY)


def detail(snapshot: Snapshot, uri: str, name: str | None) -> pa.Table:
    """DESCRIBE DETAIL."""
    state = state_of(snapshot)
    metadata, protocol = state.metadata, state.protocol
    row = {
        "format": "delta",
        "id": snapshot.table_id,
        "name": name,
        "description": metadata.description,
        "location": uri,
        "createdAt": metadata.created_time,
        "partitionColumns": list(snapshot.partition_columns),
        "clusteringColumns": list(snapshot.clustering_columns or ()),
        "numFiles": snapshot.num_files,
        "sizeInBytes": snapshot.size_bytes,
        "properties": list(snapshot.properties.items()),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}),
    }
    return pa.Table.from_pylist([row], _DETAIL)


def description(snapshot: Snapshot, uri: str, name: str | None, *, is_extended: bool) -> pa.Table:
    """DESCRIBE TABLE: columns, then the partition columns; EXTENDED has what else is known about the table."""
    rows = [
        (field.name, type_name(field.type), field.metadata.get("comment")) for field in snapshot.delta_schema.fields
    ]
    named = {row[0]: row for row in rows}
    if snapshot.partition_columns:
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [named[column] for column in snapshot.partition_columns]
    if snapshot.clustering_columns:
        rows += [("# Clustering Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [named.get(column, (column, "", None)) for column in snapshot.clustering_columns]
    if is_extended:
        known = detail(snapshot, uri, name).to_pylist()[0]
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [
            ("Name", name or f"delta.`{uri}`", ""),
            ("Comment", known["description"] or "", ""),
            ("Location", uri, ""),
            ("Provider", "delta", ""),
            ("Version", str(snapshot.version), ""),
            ("Table Properties", _listed(snapshot.properties), ""),
        ]
    return _rows(("col_name", "data_type", "comment"), rows)


def query_columns(schema: Struct) -> pa.Table:
    """DESCRIBE QUERY."""
    rows = [(field.name, type_name(field.type), None) for field in schema.fields]
    return _rows(("col_name", "data_type", "comment"), rows)


def columns(schema: Struct) -> pa.Table:
    """SHOW COLUMNS."""
    return _rows(("col_name",), [(name,) for name in schema.names])


def partitions(snapshot: Snapshot) -> pa.Table:
    """SHOW PARTITIONS: a column for each partition column, as text."""
    names = tuple(snapshot.partition_columns)
    found = partitions_of(snapshot.files(), state_of(snapshot))
    return _rows(names, sorted(found, key=lambda row: [(value is not None, value) for value in row]))


def branches(infos: Sequence[BranchInfo]) -> pa.Table:
    """SHOW BRANCHES."""
    rows = [(each.name, each.status, str(each.version), str(each.base_version), each.uri) for each in infos]
    return _rows(("branch", "status", "version", "baseVersion", "location"), rows)


def branch_check(found: BranchCheck) -> pa.Table:
    """ALTER TABLE ... CHECK BRANCH: a row for each condition, with the first rows that fail it."""
    failures = {each.check: each for each in found.failures}
    rows = [
        (check, str(failed.num_rows), str(failed.rows.to_pylist()))
        if (failed := failures.get(check)) is not None
        else (check, "0", None)
        for check in found.checks
    ]
    return _rows(("check", "failed", "rows"), rows)


def branch_diff(found: VersionDiff) -> pa.Table:
    """ALTER TABLE ... DIFF BRANCH: what differs from what the branch began with."""
    counts = {
        "files added": found.files_added,
        "files removed": found.files_removed,
        "files marked": found.files_marked,
        "rows before": found.rows_before,
        "rows after": found.rows_after,
    }
    if found.rows is not None:
        counts |= {
            "rows inserted": found.rows.inserted,
            "rows updated": found.rows.updated,
            "rows deleted": found.rows.deleted,
        }
    changes = [
        (each.what, f"{each.before or 'none'} became {each.after or 'none'}")
        for each in (*found.columns, *found.definition, *found.properties)
    ]
    return _rows(("what", "value"), [(what, None if n is None else str(n)) for what, n in counts.items()] + changes)


def properties(snapshot: Snapshot, key: str | None) -> pa.Table:
    """SHOW TBLPROPERTIES."""
    protocol = snapshot.protocol
    known = {**snapshot.properties, **_protocol_properties(protocol)}
    rows = [(name, value) for name, value in sorted(known.items()) if key in (None, name)]
    return _rows(("key", "value"), rows)


def tables(names: Iterable[str], pattern: str | None) -> pa.Table:
    """SHOW TABLES."""
    parted = [_parted(name) for name in names]
    wanted = _matching(pattern)
    rows = [(namespace, table) for namespace, table in parted if wanted.fullmatch(table)]
    return _rows(("namespace", "tableName"), rows)


def schemas(names: Iterable[str], pattern: str | None) -> pa.Table:
    """SHOW SCHEMAS: those that have tables."""
    found = sorted({namespace for namespace, _ in map(_parted, names)})
    wanted = _matching(pattern)
    return _rows(("namespace",), [(each,) for each in found if wanted.fullmatch(each)])


def views(names: Iterable[str], pattern: str | None) -> pa.Table:
    """SHOW VIEWS: the temporary views."""
    wanted = _matching(pattern)
    found = [name for name in sorted(names) if wanted.fullmatch(name)]
    return _rows(("namespace", "viewName"), [("", name) for name in found]).append_column(
        "isTemporary", pa.array([True] * len(found), pa.bool_())
    )


def files_read(tables: Iterable[tuple[str, Snapshot, str | None]]) -> pa.Table:
    """EXPLAIN: how many files of each table are read, and how many are skipped by which condition."""
    rows = []
    for name, snapshot, where in tables:
        read = snapshot.files(where)
        count, size = read.num_rows, sum(read["size"].to_pylist())
        rows.append((name, snapshot.version, snapshot.num_files, count, snapshot.num_files - count, size, where))
    names = ("table", "version", "files", "files_read", "files_skipped", "bytes_read", "condition")
    kinds = [pa.string(), *[pa.int64()] * 5, pa.string()]
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names=list(names))


def _matching(pattern: str | None) -> re.Pattern[str]:
    return re.compile(".*" if pattern is None else _as_regex(pattern), re.IGNORECASE | re.DOTALL)


def _parted(name: str) -> tuple[str, str]:
    """The schema of a table as it is written, and the table's own name."""
    if "`" not in name:
        namespace, _, table = name.rpartition(".")
        return namespace, table
    (*parts, table), *_ = column_paths(name)
    return name_text(parts), table


def _as_regex(pattern: str) -> str:
    """The pattern of a LIKE of SHOW, in which, as in Spark, only ``*`` (any text) and ``|`` (or) are no letters."""
    return "|".join(".*".join(map(re.escape, each.strip().split("*"))) for each in pattern.split("|"))


def _protocol_properties(protocol: Any) -> dict[str, str]:
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return {
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
        **{f"delta.feature.{feature}": "supported" for feature in features},
    }


def _listed(properties: Mapping[str, str]) -> str:
    return f"[{','.join(f'{key}={value}' for key, value in sorted(properties.items()))}]"


def _told(value: Any, kind: pa.DataType) -> Any:
    if kind != _TEXTS or value is None:
        return value
    return [(key, text if isinstance(text, str) else orjson.dumps(text).decode()) for key, text in value.items()]


def _rows(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))
