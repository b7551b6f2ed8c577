"""Exports of random tables: each snapshot is what the Delta log says of its version, and what a rebuild would say."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import iceberg_decoded as decoded
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog import Table
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.iceberg.exporter import IcebergExporter
from txlog.testing.memory_store import MemoryLogStore, memory_table_store

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("day", pa.date32())])


def created(format_version: str, partition_by: list[str], **properties: str) -> Table:
    from txlog.core.definition import Definition, commit_definition, new_table

    open_table = OpenTable(memory_table_store())
    definition = Definition(
        *new_table(SCHEMA, tuple(partition_by), {"delta.enableDeletionVectors": "true", **properties})
    )
    commit_definition(open_table, None, definition, "CREATE TABLE", {})
    return Table(open_table)


def rows(first: int, count: int, parts: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "part": [None if i % parts == 0 else f"p {i % parts}" for i in ids],
            "day": pa.array([i % parts for i in ids], pa.int32()).cast(pa.date32()),
        }
    )


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 12), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.integers(0, 40), st.integers(2, 5)),
        st.tuples(st.just("delete part"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("optimize"), st.just(0), st.just(0)),
        st.tuples(st.just("overwrite"), st.integers(1, 6), st.integers(1, 3)),
        st.tuples(st.just("property"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("restore"), st.integers(0, 9), st.just(0)),
    ),
    min_size=1,
    max_size=12,
)


def apply(table: Table, operation: tuple[str, int, int], first: int) -> None:
    name, number, other = operation
    if name == "append":
        table.append(rows(first, number, other))
    elif name == "overwrite":
        table.overwrite(rows(first, number, other))
    elif name == "delete":
        table.delete(f"id % {other} = 0 AND id < {number}")
    elif name == "delete part":
        table.delete("part IS NULL" if number == 0 else f"part = 'p {number}'")
    elif name == "optimize":
        table.optimize()
    elif name == "restore":
        table.restore(max(1, table.version - number))
    else:
        table.set_properties({"mine": str(number)})


def expected(table: Table, version: int) -> dict[str, tuple[int, int, Any]]:
    """Path -> size, dead rows and partition texts, by the Delta log."""
    log = table._open_table.log
    files = log.files(log.state_at(version)).to_pylist()
    return {
        f"memory://table/{file['path'].replace('%25', '%').replace('%20', ' ')}": (
            file["size"],
            (file["deletionVector"] or {}).get("cardinality", 0),
            tuple(value for _, value in file["partitionValues"]),
        )
        for file in files
    }


def seen(store: TableStore, snapshot: dict[str, Any]) -> dict[str, tuple[int, int, Any]]:
    """The same by the Iceberg snapshot, as fastavro decodes it."""
    data, deletes = decoded.live_entries(store, snapshot, 0), decoded.live_entries(store, snapshot, 1)
    assert deletes.keys() <= data.keys()
    return {
        path: (
            entry["data_file"]["file_size_in_bytes"],
            deletes[path]["data_file"]["record_count"] if path in deletes else 0,
            tuple(None if v is None else str(v) for v in entry["data_file"]["partition"].values()),
        )
        for path, entry in data.items()
    }


def check_totals(snapshot: dict[str, Any], store: TableStore) -> None:
    data, deletes = decoded.live_entries(store, snapshot, 0), decoded.live_entries(store, snapshot, 1)
    summary = snapshot["summary"]
    assert int(summary["total-data-files"]) == len(data)
    assert int(summary["total-records"]) == sum(each["data_file"]["record_count"] for each in data.values())
    assert int(summary["total-delete-files"]) == len(deletes)
    assert int(summary["total-position-deletes"]) == sum(each["data_file"]["record_count"] for each in deletes.values())
    files = [each["data_file"] for each in (*data.values(), *deletes.values())]
    sizes = [file.get("content_size_in_bytes") or file["file_size_in_bytes"] for file in files]
    assert int(summary["total-files-size"]) == sum(sizes)


def comparable(entries: dict[str, dict[str, Any]], content: int, with_vector: Collection[str]) -> dict[str, Any]:
    """What entries say of files, however they came to be written.

    A file with a deletion vector keeps the counts that it came with; the log has wider ones. Where a delete file lies
    depends on the commit, or the rebuild, that wrote it.
    """
    found = {path: dict(entry["data_file"]) for path, entry in entries.items()}
    for path, file in found.items():
        file.pop("first_row_id", None)
        for key in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds"):
            file[key] = {pair["key"]: pair["value"] for pair in file[key] or ()}  # a map: its order means nothing
        for key in ("file_path", "file_size_in_bytes", "content_offset") if content else ():
            file.pop(key, None)
        for key in ("value_counts", "null_value_counts") if path in with_vector else ():
            file.pop(key)
    return found


@pytest.mark.hypothesis
@pytest.mark.parametrize("format_version", ["v2", "v3"])
@given(operations=OPERATIONS, partition_by=st.sampled_from([[], ["part"], ["day", "part"]]), data=st.data())
def test_every_snapshot_is_its_delta_version_and_equals_a_rebuild(
    format_version: str, operations: list[tuple[str, int, int]], partition_by: list[str], data: st.DataObject
) -> None:
    table = created(format_version, partition_by)
    store, log = table._open_table.store, table._open_table.log
    table.set_properties({"txlog.iceberg": format_version})
    table._open_table.post_commit.drain()
    exporter = IcebergExporter(log)
    first = 0
    for operation in operations:
        apply(table, operation, first)
        first += 20
        table._open_table.post_commit.drain()
        if data.draw(st.booleans()):  # another exporter may find nothing to do
            assert exporter.export(log.newest_state()).version == table.version
    newest = decoded.document(store)
    assert newest["properties"]["delta.version"] == str(table.version)
    assert [each["sequence-number"] for each in newest["snapshots"]] == sorted(
        {int(each["summary"]["delta-version"]) for each in newest["snapshots"]}
    )
    for snapshot in newest["snapshots"]:
        version = int(snapshot["summary"]["delta-version"])
        assert seen(store, snapshot) == expected(table, version)
        check_totals(snapshot, store)
        rebuilt = TableStore(store.uri, store.log, store.files, iceberg=MemoryLogStore())
        state = log.state_at(version)
        other = OpenTable(rebuilt).log
        IcebergExporter(other).export(state, rebuild=True)
        whole = decoded.document(rebuilt)
        found = whole["snapshots"][0] if whole["snapshots"] else None
        if found is None:
            assert not seen(store, snapshot)
            continue
        vectors = decoded.live_entries(store, snapshot, 1).keys()
        for content in (0, 1):
            mine = decoded.live_entries(store, snapshot, content)
            theirs = decoded.live_entries(rebuilt, found, content)
            assert comparable(mine, content, vectors) == comparable(theirs, content, vectors)


def test_merged_manifests_cover_the_partition_values_of_all_their_files() -> None:
    table = created("v2", ["id"])
    store, log = table._open_table.store, table._open_table.log
    exporter = IcebergExporter(log)
    for number in range(-200, 200, 10):  # whose bytes have another order
        table.append(rows(number, 1, 2))
        exporter.export(log.newest_state())
    (snapshot,) = decoded.document(store)["snapshots"][-1:]
    merged = [each for each in decoded.manifests(store, snapshot) if each["existing_files_count"] > 1]
    assert merged
    for manifest in merged:
        entries = decoded.avro(store, manifest["manifest_path"])
        values = [entry["data_file"]["partition"]["id"] for entry in entries]
        (summary,) = manifest["partitions"]
        ends = [int.from_bytes(summary[name], "little", signed=True) for name in ("lower_bound", "upper_bound")]
        assert ends == [min(values), max(values)]


def test_the_history_continues_after_a_table_is_partitioned_by_another_column() -> None:
    table = created("v2", ["part"])
    store, exporter = table._open_table.store, IcebergExporter(table._open_table.log)
    table.append(rows(1, 1, 2))
    exporter.export(table._open_table.log.newest_state())
    table.overwrite(rows(1, 4, 2), schema_mode="overwrite", partition_by=["day"])
    exporter.export(table._open_table.log.newest_state())
    for snapshot, version in zip(decoded.document(store)["snapshots"], (1, 2), strict=True):
        assert decoded.live_entries(store, snapshot).keys() == expected(table, version).keys()


def test_the_history_goes_on_in_a_newer_format(caplog: pytest.LogCaptureFixture) -> None:
    table = created("v2", ["part"])
    store, log = table._open_table.store, table._open_table.log
    exporter = IcebergExporter(log)
    table.append(rows(0, 9, 3))
    exporter.export(log.newest_state())
    table.append(rows(9, 9, 3))
    table.delete("id IN (1, 2, 10)")
    table.set_properties({"txlog.iceberg": "v3"})
    table.delete("id IN (3, 4)")
    table._open_table.post_commit.drain()
    exporter.export(log.newest_state())
    table.append(rows(18, 3, 1))
    table.optimize()
    table._open_table.post_commit.drain()
    document = decoded.document(store)
    assert (document["format-version"], caplog.text) == (3, "")
    snapshots = document["snapshots"]
    found = [int(each["summary"]["delta-version"]) for each in snapshots]
    assert found == [1, 2, 3, 4, 5, 6, 7]
    assert [each["summary"]["operation"] for each in snapshots[:5]] == [
        "append",
        "append",
        "delete",
        "replace",
        "overwrite",
    ]
    assert ["first-row-id" in each for each in snapshots] == [False] * 3 + [True] * 4
    for snapshot, version in zip(snapshots, found, strict=True):
        assert seen(store, snapshot) == expected(table, version)
        check_totals(snapshot, store)
    upgraded = decoded.live_entries(store, snapshots[3])
    assert {(each["status"], each["sequence_number"]) for each in upgraded.values()} == {(0, 1), (0, 2)}
    assert {each["snapshot_id"] for each in upgraded.values()} == {each["snapshot-id"] for each in snapshots[:2]}
    assert sorted(each["data_file"]["first_row_id"] for each in upgraded.values())[0] == 0


def test_the_sizes_of_deletion_vectors_in_one_file_are_their_own_also_when_they_go() -> None:
    table = created("v3", [])
    store, exporter = table._open_table.store, IcebergExporter(table._open_table.log)
    table.set_properties({"txlog.iceberg": "v3"})
    for first in (0, 10):
        table.append(rows(first, 10, 2))
    table.delete("id IN (3, 13)")
    exporter.export(table._open_table.log.newest_state())
    table.optimize()
    table.delete("id < 5")
    exporter.export(table._open_table.log.newest_state())
    for snapshot in decoded.document(store)["snapshots"]:
        check_totals(snapshot, store)
