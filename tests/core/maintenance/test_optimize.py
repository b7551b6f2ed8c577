"""`Table.optimize` and `Table.purge`: files change, rows do not; what history says; what is refused."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.maintenance import _optimize as module
from txlog.core.maintenance._compaction import Compaction, CompactionOutcome
from txlog.core.maintenance.rewriting import _rewrite_bin as rewrite
from txlog.core.maintenance.rewriting._rewrite_bin import BinRewriter
from txlog.core.versions.files import DeltaLog
from txlog.errors import InvalidInputError, MetadataChangedError, NotFoundError, UnsupportedFeatureError

VECTORS = {"delta.enableDeletionVectors": "true"}
MakeTable = Callable[..., txlog.Table]


def ids(table: txlog.Table) -> list[int]:
    found: list[int] = table.snapshot().to_arrow(["id"]).column("id").to_pylist()
    return found


def filled(make_table: MakeTable, properties: dict[str, str] | None = None, files: int = 4) -> txlog.Table:
    table = make_table(schema="id bigint, day string", partition_by=["day"], properties=properties or {})
    for number in range(files):
        table.append(pa.table({"id": [10 * number, 10 * number + 1], "day": ["a", "b"]}))
    return table


def actions(table: txlog.Table, version: int | None = None) -> list[dict[str, Any]]:
    path = Path(table.uri) / "_delta_log" / f"{table.version if version is None else version:020}.json"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_many_small_files_become_one_a_partition_with_the_rows_in_their_order(make_table: MakeTable) -> None:
    table = filled(make_table)
    result = table.optimize()
    assert (result.files_removed, result.files_added, result.rows, result.versions) == (8, 2, 8, (5,))
    assert table.snapshot().files().num_rows == 2
    assert sorted(ids(table)) == [0, 1, 10, 11, 20, 21, 30, 31]
    assert table.snapshot().to_arrow(["id"], where="day = 'a'").column("id").to_pylist() == [0, 10, 20, 30]
    assert verify_table(table._open_table.store).is_sound


def test_a_second_run_finds_nothing_to_do_and_makes_no_version(make_table: MakeTable) -> None:
    table = filled(make_table)
    table.optimize()
    again = table.optimize()
    assert (again.versions, again.files_removed, table.version) == ((), 0, 5)


def test_the_commit_changes_no_data_and_has_sparks_history(make_table: MakeTable) -> None:
    table = filled(make_table)
    table.optimize("day = 'a'", user_metadata="nightly")
    info, *files = actions(table)
    assert [file[kind]["dataChange"] for file in files for kind in file] == [False] * 5
    info = info["commitInfo"]
    assert (info["operation"], info["isolationLevel"], info["userMetadata"]) == (
        "OPTIMIZE",
        "SnapshotIsolation",
        "nightly",
    )
    assert info["operationParameters"] == {
        "predicate": "[\"day = 'a'\"]",
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": "false",
    }
    metrics = info["operationMetrics"]
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"], metrics["numDeletionVectorsRemoved"]) == (
        "4",
        "1",
        "0",
    )
    sizes = {metrics[name] for name in ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize")}
    assert sizes == {metrics["numAddedBytes"]}


def test_where_selects_partitions_and_refuses_other_columns(make_table: MakeTable) -> None:
    table = filled(make_table)
    assert table.optimize("day = 'b'").files_removed == 4
    assert table.optimize("not (upper(day) <=> 'B') and day = day", dry_run=True).files_removed == 4
    assert table.optimize("upper(day) = 'X'", dry_run=True).files_removed == 0
    assert table.optimize("day = 'X'", dry_run=True).files_removed == 0
    with pytest.raises(InvalidInputError, match=r"partition values alone do not decide .* partitioned by day"):
        table.optimize("id > 3")


def test_a_plan_for_named_partitions_reads_the_list_of_no_others_files(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(make_table, VECTORS)
    table.delete("id = 1")
    table.create_checkpoint()
    monkeypatch.setattr(DeltaLog, "files", lambda self, state: pytest.fail("all files are listed"))
    assert txlog.Table.open(table.uri).purge("day = 'b'", dry_run=True).files_removed == 0
    assert txlog.Table.open(table.uri).optimize("day = 'b'").files_removed == 3


def test_a_dry_run_returns_what_would_be_done_and_does_nothing(make_table: MakeTable) -> None:
    table = filled(make_table)
    before = sorted(Path(table.uri).rglob("*.parquet"))
    result = table.optimize(dry_run=True)
    assert (result.files_removed, result.files_added, result.dry_run, table.version) == (8, 2, True, 4)
    assert sorted(Path(table.uri).rglob("*.parquet")) == before


@pytest.mark.parametrize("size", [0, -1, 1.5, "1 MB", True])
@pytest.mark.parametrize("name", ["target_file_size", "max_bytes"])
def test_sizes_are_whole_numbers(make_table: MakeTable, name: str, size: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"Invalid {name} .*: expected a whole number"):
        filled(make_table, files=0).optimize(**{name: size})


def test_the_target_size_is_the_argument_then_the_tables_property(make_table: MakeTable) -> None:
    table = filled(make_table, {"delta.targetFileSize": "1"})
    assert table.optimize().files_removed == 0
    size = table.snapshot().files().column("size")[0].as_py()
    assert table.optimize(target_file_size=2 * size + 10).files_added == 4


def test_a_budget_bounds_what_is_rewritten(make_table: MakeTable) -> None:
    table = filled(make_table)
    half = sum(table.snapshot().files().column("size").to_pylist()) // 2
    assert table.optimize(max_bytes=half + 10).files_removed == 4


def test_dead_rows_leave_the_files_and_the_report_names_the_old_ones(make_table: MakeTable) -> None:
    table = make_table(pa.table({"id": range(100)}), properties=VECTORS)
    table.delete("id = 7")
    old = table.snapshot().files().column("path").to_pylist()
    assert table.optimize().files_removed == 0, "one dead row in a hundred is not worth a file"
    result = table.purge()
    assert (result.vectors_purged, list(result.paths_removed), result.rows) == (1, old, 99)
    (file,) = table.snapshot().files().column("path").to_pylist()
    assert 7 not in pq.read_table(Path(table.uri) / file).column("id").to_pylist()
    info = actions(table)[0]["commitInfo"]
    assert (info["operation"], info["operationParameters"]) == ("REORG", {"predicate": "[]", "applyPurge": "true"})
    assert table.purge().versions == ()


def test_values_of_a_dropped_column_are_purged(make_table: MakeTable) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = make_table(pa.table({"id": [1, 2], "secret": ["x", "y"], "s": [{"a": 1, "b": 2}] * 2}), properties=mapped)
    assert table.purge().versions == (), "nothing was dropped yet"
    lines = actions(table, 0)
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    schema = orjson.loads(metadata["schemaString"])
    schema["fields"] = [field for field in schema["fields"] if field["name"] != "secret"]
    metadata["schemaString"] = orjson.dumps(schema).decode()
    commit(table, {"metaData": metadata})
    table = txlog.Table.open(table.uri)
    assert table.purge().files_removed == 1
    (file,) = table.snapshot().files().column("path").to_pylist()
    assert len(pq.read_schema(Path(table.uri) / file)) == 2
    assert table.snapshot().to_arrow().num_rows == 2
    assert table.purge().versions == ()


def commit(table: txlog.Table, *lines: dict[str, Any]) -> None:
    """As another writer of the table does."""
    path = Path(table.uri) / "_delta_log" / f"{txlog.Table.open(table.uri).version + 1:020}.json"
    info = {"commitInfo": {"timestamp": 1, "operation": "other"}}
    path.write_text("".join(orjson.dumps(line).decode() + "\n" for line in [info, *lines]))


@pytest.mark.parametrize(
    ("feature", "of_column", "properties"),
    [
        ("generatedColumns", {"delta.generationExpression": "reflect(day)"}, {}),
        ("checkConstraints", {}, {"delta.constraints.odd": "reflect(day) > 0"}),
    ],
)
def test_tables_with_rules_for_new_rows_are_compacted(
    make_table: MakeTable, feature: str, of_column: dict[str, Any], properties: dict[str, str]
) -> None:
    table = filled(make_table)
    metadata = next(line["metaData"] for line in actions(table, 0) if "metaData" in line)
    schema = orjson.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"] = of_column
    metadata["schemaString"] = orjson.dumps(schema).decode()
    metadata["configuration"] |= properties
    features = {"writerFeatures": [feature]}
    commit(table, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, **features}}, {"metaData": metadata})
    table = txlog.Table.open(table.uri)
    with pytest.raises(UnsupportedFeatureError):
        table.append(pa.table({"id": [1], "day": ["a"]}))
    assert table.optimize().files_removed == 8


def while_committing(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
    """Each of ``acts`` runs before an execution of the plan, on files that were rewritten before."""
    execute, left = Compaction.execute, iter(acts)

    def beside_others(self: Compaction, state: Any) -> Any:
        act = next(left, None)
        if act is not None:
            act()
        return execute(self, state)

    monkeypatch.setattr(Compaction, "execute", beside_others)


def test_a_vector_that_grows_while_files_are_rewritten_moves_to_the_new_file(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(schema="id bigint", properties=VECTORS)
    for first in range(0, 40, 10):
        table.append(pa.table({"id": range(first, first + 10)}))
    table.delete("id in (0, 12)")
    other = txlog.Table.open(table.uri)
    while_committing(
        monkeypatch, lambda: other.delete("id in (1, 13, 39)"), lambda: other.append(pa.table({"id": [99]}))
    )
    result = table.optimize()
    assert (result.files_removed, result.files_added, result.bins_given_up) == (4, 1, 0)
    assert (result.vectors_purged, result.vectors_moved) == (3, 1)
    assert sorted(ids(table)) == [n for n in range(40) if n not in (0, 1, 12, 13, 39)] + [99]
    assert verify_table(table._open_table.store).is_sound


def test_no_file_takes_the_place_of_files_whose_last_rows_were_deleted_meanwhile(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(pa.table({"id": range(10)}), properties=VECTORS)
    table.delete("id < 5")
    other = txlog.Table.open(table.uri)
    while_committing(
        monkeypatch, lambda: other.update({"id": txlog.expr("id + 10")}, "id < 9"), lambda: other.delete("id = 14")
    )
    result = table.optimize()
    assert (result.files_removed, result.files_added, result.vectors_moved) == (1, 1, 1)
    assert sorted(ids(table)) == [9, 15, 16, 17, 18]


def test_a_bin_whose_file_was_removed_is_given_up_and_planned_again(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(make_table)
    other = txlog.Table.open(table.uri)
    while_committing(monkeypatch, lambda: other.delete("id = 20"))
    result = table.optimize()
    assert (result.files_removed, result.files_added, result.bins_given_up) == (7, 2, 0)
    assert len(result.versions) == 2
    assert sorted(ids(table)) == [0, 1, 10, 11, 21, 30, 31]


def test_a_row_that_comes_back_while_its_file_is_rewritten_is_not_lost(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(pa.table({"id": range(10)}), properties=VECTORS)
    whole = next(line["add"] for line in actions(table) if "add" in line)
    table.delete("id < 5")
    marked = next(line["add"] for line in actions(table) if "add" in line)
    remove = {
        "path": marked["path"],
        "deletionTimestamp": 1,
        "dataChange": True,
        "deletionVector": marked["deletionVector"],
    }
    while_committing(monkeypatch, lambda: commit(table, {"remove": remove}, {"add": whole}))
    result = table.optimize()
    assert result.versions == ()
    assert sorted(ids(table)) == list(range(10))


def test_a_concurrent_schema_change_stops_a_compaction_and_its_files_are_deleted(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(make_table)
    other = txlog.Table.open(table.uri)
    rewrite = BinRewriter.rewrite

    def beside_a_change(self: BinRewriter, each: Any) -> Any:
        if other.schema.get_field_index("note") < 0:
            other.add_columns("note string")
        return rewrite(self, each)

    monkeypatch.setattr(BinRewriter, "rewrite", beside_a_change)
    with pytest.raises(MetadataChangedError):
        table.optimize()
    assert sorted(ids(table)) == [0, 1, 10, 11, 20, 21, 30, 31]


def test_a_bin_that_cannot_be_rewritten_leaves_no_file_of_the_others(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(make_table)
    before = {*Path(table.uri).rglob("*.parquet")}
    rewrite, is_written = BinRewriter.rewrite, threading.Event()

    def failing(self: BinRewriter, each: Any) -> Any:
        if each.files[0].partition_values == {"day": "b"}:
            assert is_written.wait(60)
            raise txlog.StorageError("the store failed")
        try:
            return rewrite(self, each)
        finally:
            is_written.set()

    monkeypatch.setattr(BinRewriter, "rewrite", failing)
    with pytest.raises(txlog.StorageError, match="the store failed"):
        table.optimize()
    assert {*Path(table.uri).rglob("*.parquet")} == before


def test_each_group_of_bins_is_a_separate_commit(make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_FILES", 2)  # for each of two workers
    table = filled(make_table)
    seen: list[tuple[int, int]] = []
    result = table.optimize(on_progress=lambda step, done, total: seen.append((done, total)))
    assert len(result.versions) == 2
    total = result.bytes_removed
    assert [each[1] for each in seen] == [total, total]
    assert seen[-1][0] == total


def test_a_missing_file_is_named_and_nothing_is_changed(make_table: MakeTable) -> None:
    table = filled(make_table)
    path = table.snapshot().files().column("path")[0].as_py()
    (Path(table.uri) / path).unlink()
    before = sorted(Path(table.uri).rglob("*.parquet"))
    with pytest.raises(NotFoundError, match="is missing: vacuumed"):
        table.optimize()
    assert sorted(Path(table.uri).rglob("*.parquet")) == before
    assert table.version == 4


def test_an_append_only_table_is_compacted(make_table: MakeTable) -> None:
    table = filled(make_table, {"delta.appendOnly": "true"})
    assert table.optimize().files_removed == 8


def test_a_compaction_logs_files_that_it_leaves_because_others_changed_them(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = filled(make_table)
    other = txlog.Table.open(table.uri)
    execute = Compaction.execute
    number = iter(range(100))

    def beside_rewrites(self: Compaction, state: Any) -> Any:
        if self.done.bins_given_up == 0 and not self.has_nothing_left:
            for _ in range(2):  # a file of each partition, whose copy is as small
                other.update({"id": txlog.expr("id + 100")}, f"id % 100 = {next(number) % 2}")
        return execute(self, state)

    monkeypatch.setattr(Compaction, "execute", beside_rewrites)
    with caplog.at_level(logging.WARNING, "txlog"):
        result = table.optimize()
    assert result.versions == ()
    assert result.bins_given_up == 2
    assert "left as they are" in caplog.text
    assert len(ids(table)) == 8


def test_small_files_whose_rows_are_large_are_read_in_pieces(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them could hold more text together than a string column does."""
    monkeypatch.setattr(rewrite, "HELD_BYTES", 10_000)
    table = make_table(schema={"id": pa.int64(), "text": pa.string()}, properties=VECTORS)
    for first in (0, 50, 100):
        table.append(pa.table({"id": range(first, first + 50), "text": ["x" * 300] * 50}, schema=table.schema))
    table.delete("id % 10 = 3")
    before = table.to_arrow().sort_by("id")
    joined: list[Any] = []
    monkeypatch.setattr(rewrite.pa, "concat_batches", joined.append)
    assert table.optimize().files_added == 1
    assert not joined
    assert table.to_arrow().sort_by("id").equals(before)


def test_after_a_lost_race_only_what_the_winners_changed_is_read_not_the_list_of_files(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many files the table has. The winners append, delete from a source, and rewrite another one."""
    table = make_table(schema="id bigint, day string", partition_by=["day"], properties=VECTORS)
    for number in range(4):
        table.append(pa.table({"id": [10 * number + each for each in range(4)], "day": ["a", "a", "b", "b"]}))
    other = txlog.Table.open(table.uri)
    rivals: Iterator[Callable[[], object]] = iter(
        [
            lambda: other.append(pa.table({"id": [99], "day": ["a"]})),
            lambda: other.delete("id = 0", row_mode="merge-on-read"),
            lambda: other.update({"id": txlog.expr("id + 100")}, "id = 12", row_mode="copy-on-write"),
        ]
    )
    execute, lists, is_executing, listed = Compaction.execute, DeltaLog.files, [False], []

    def losing(self: Compaction, state: Any) -> Any:
        is_executing[0] = True
        proposal = execute(self, state)
        is_executing[0] = False
        next(rivals, lambda: None)()
        return proposal

    def counted(self: DeltaLog, state: Any) -> Any:
        if is_executing[0]:
            listed.append(state.version)
        return lists(self, state)

    monkeypatch.setattr(Compaction, "execute", losing)
    monkeypatch.setattr(DeltaLog, "files", counted)
    result = table.optimize()
    assert not listed, "versions whose list of files an execution of the plan has read"
    assert result.vectors_moved == 1
    assert sorted(ids(table)) == sorted([1, 2, 3, 10, 11, 112, 13, 20, 21, 22, 23, 30, 31, 32, 33, 99])
    assert verify_table(table._open_table.store).is_sound


def test_if_the_winners_commits_were_cleaned_up_the_list_of_files_tells_the_same(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(make_table, VECTORS)
    execute, listed = Compaction.execute, []

    def gone(self: DeltaLog, first: int, last: int) -> Any:
        raise NotFoundError("cleaned up")

    def losing(self: Compaction, state: Any) -> Any:
        if not listed:
            listed.append(state.version)
            proposal = execute(self, state)
            txlog.Table.open(table.uri).delete("id in (0, 11)")
            return proposal
        with monkeypatch.context() as patch:
            patch.setattr(DeltaLog, "commits_between", gone)
            return execute(self, state)

    monkeypatch.setattr(Compaction, "execute", losing)
    table.optimize()
    assert sorted(ids(table)) == [1, 10, 20, 21, 30, 31]
    assert verify_table(table._open_table.store).is_sound


def test_a_run_of_many_groups_keeps_the_actions_of_no_more_than_the_last(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_FILES_MAX", 1)
    table = make_table(schema="id bigint, day string", partition_by=["day"])
    days = [str(day) for day in range(8)]
    for number in range(2):
        table.append(pa.table({"id": [number] * 8, "day": days}))
    kept: list[int] = []

    def count(step: str, done: int, total: int | None) -> None:
        kept.append(sum(type(each) is CompactionOutcome and bool(each.removed) for each in gc.get_objects()))

    result = table.optimize(on_progress=count)
    assert (result.files_removed, result.files_added, len(result.versions)) == (16, 8, 8)
    assert len(kept) == 8
    assert max(kept) <= 1
