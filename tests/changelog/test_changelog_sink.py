"""A sink of changes: what row kinds do to a table, who wins, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.audit.verify import verify_table
from txlog.core.changes.tasks import FileReader
from txlog.core.definition import Definition, commit_definition
from txlog.core.sink import Staging
from txlog.errors import InvalidInputError, MetadataChangedError, SchemaMismatchError

VECTORS = {"delta.enableDeletionVectors": "true"}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("part", pa.string()), pa.field("v", pa.int64(), False)])
CHANGES = pa.schema([("op", pa.string()), *(field.with_nullable(True) for field in SCHEMA), ("at", pa.int64())])


def changes(*given: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows of (op, id, part, v), with an optional sequence."""
    padded = [(*row, *[None] * (len(CHANGES) - len(row))) for row in given]
    rows = [dict(zip(CHANGES.names, row, strict=True)) for row in padded]
    batch = pa.RecordBatch.from_pylist(rows, CHANGES)
    return batch if any(len(row) == len(CHANGES) for row in given) else batch.drop_columns(["at"])


def made(tmp_path: Path, properties: dict[str, str] | None = None) -> txlog.Table:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, ["part"], properties or {})
    rows = [(1, "a", 10), (2, "a", 20), (3, "b", 30)]
    table.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA))
    return table


def sink_of(table: txlog.Table, **options: Any) -> txlog.Sink:
    return txlog.Sink(table, "app", **{"mode": "upsert", "keys": ["id"], "row_kind": "op", **options})


def written(sink: txlog.Sink, checkpoint_id: int, *batches: pa.RecordBatch, task_id: int = 0) -> Any:
    with sink.task(checkpoint_id, task_id) as task:
        for batch in batches:
            task.write(batch)
    return task.committable


def commit(sink: txlog.Sink, checkpoint_id: int, *batches: pa.RecordBatch) -> txlog.WriteResult:
    """As one task, staged, sealed and committed."""
    sink.stage(written(sink, checkpoint_id, *batches))
    sink.prepare(checkpoint_id, [0])
    return sink.commit(checkpoint_id)


def found(table: txlog.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.snapshot().to_arrow().to_pylist())


@MODES
def test_changes_insert_update_and_delete_by_key(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    result = commit(sink_of(table), 1, changes(("+I", 4, "b", 40), ("+U", 1, "b", 11), ("-D", 2, None, None)))
    assert found(table) == [(1, "b", 11), (3, "b", 30), (4, "b", 40)]
    did = result.metrics
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (1, 1, 1)
    assert verify_table(table._open_table.store).is_sound
    assert table.history()[0]["operation"] == "MERGE"


@MODES
def test_a_replay_writes_nothing(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    batch = changes(("+U", 1, "a", 11))
    commit(sink_of(table), 1, batch)
    table.upsert(pa.Table.from_pylist([{"id": 1, "part": "a", "v": 99}], SCHEMA), ["id"])
    replay = sink_of(table).commit(1, [written(sink_of(table), 1, batch)])
    assert replay.outcome == "already_committed"
    assert (1, "a", 99) in found(table)


def test_of_several_changes_of_a_key_the_last_counts(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = changes(("+I", 7, "a", 1), ("+I", 8, "a", 1), ("-D", 8, None, None), ("-D", 1, None, None))
    second = changes(("-U", 7, "a", 1), ("+U", 7, "b", 2), ("+I", 1, "a", 12))
    commit(sink_of(table), 1, first, second)
    assert found(table) == [(1, "a", 12), (2, "a", 20), (3, "b", 30), (7, "b", 2)]


@pytest.mark.parametrize("mode", ["upsert", "retract"])
def test_a_row_whose_new_version_was_filtered_out_is_deleted(tmp_path: Path, mode: str) -> None:
    table = made(tmp_path)
    commit(sink_of(table, mode=mode), 1, changes(("-U", 1, "a", 10), ("-U", 2, "a", 20), ("+U", 2, "a", 21)))
    assert found(table) == [(2, "a", 21), (3, "b", 30)]


def test_sequence_by_decides_whatever_the_order_of_arrival_and_the_task(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table, sequence_by="at")
    one = written(sink, 1, changes(("+U", 1, "a", 15, 5), ("+U", 1, "a", 13, 3), ("+U", 2, "b", 23, 3)), task_id=0)
    two = written(sink, 1, changes(("-D", 2, None, None, 4), ("+U", 1, "b", 14, 4), ("+I", 5, "a", 50, 1)), task_id=1)
    sink.stage(one, two)
    sink.prepare(1, [0, 1])
    sink.commit(1)
    assert found(table) == [(1, "a", 15), (3, "b", 30), (5, "a", 50)]
    assert "at" not in table.snapshot().schema.names
    assert verify_table(table._open_table.store).is_sound


def test_a_key_that_two_tasks_changed_is_refused_before_the_seal_naming_both_and_the_key(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table)
    sink.stage(written(sink, 1, changes(("+U", 1, "a", 1)), task_id=3), written(sink, 1, changes(("-D", 1)), task_id=7))
    with pytest.raises(InvalidInputError, match=r"tasks 3 and 7 both changed the row with id=1"):
        sink.prepare(1, [3, 7])
    assert not any(each.is_sealed for each in Staging(table._open_table.store, table._open_table.retry).checkpoints())
    tied = sink_of(table, sequence_by="at")
    parts = [written(tied, 2, changes(("+U", 1, "a", task, 6)), task_id=task) for task in (0, 1)]
    with pytest.raises(InvalidInputError, match=r"tasks 0 and 1 .* id=1, .* the same sequence, 6"):
        tied.commit(2, parts)
    assert found(table)[0] == (1, "a", 10)


def test_two_tasks_may_delete_one_key(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table)
    sink.commit(1, [written(sink, 1, changes(("-D", 1), ("-D", task + 2)), task_id=task) for task in (0, 1)])
    assert found(table) == []


def test_a_delete_needs_only_the_key_columns(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table)
    with sink.task(1) as task:
        task.write(pa.record_batch({"id": [1], "op": ["-D"]}))
        task.delete(pa.record_batch({"id": [2], "whatever": [1.5]}))
    sink.commit(1, [task.committable])
    assert found(table) == [(3, "b", 30)]
    with pytest.raises(SchemaMismatchError, match="lack part, v"), sink.task(2) as task:
        task.write(pa.record_batch({"id": [1], "op": ["+U"]}))


@pytest.mark.parametrize("engine", [None, "deduplicate"])
def test_a_table_may_limit_the_length_of_text(tmp_path: Path, engine: str | None) -> None:
    properties = {} if engine is None else {"txlog.merge-engine": engine, "txlog.sequence.field": "at"}
    columns = "id varchar(3) not null, name varchar(4), at bigint"
    table = txlog.Table.create(str(tmp_path / "t"), columns, properties=properties)
    sink = sink_of(table, sequence_by="at")

    def rows(*given: tuple[str, str, str | None, int]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(zip(("op", "id", "name", "at"), row, strict=True)) for row in given])

    commit(sink, 1, rows(("+I", "one", "a", 1), ("+I", "two", "b", 1000)))
    commit(sink, 2, rows(("-D", "one", None, 2000), ("+U", "two", "back", 3000)))
    assert found(table) == [("two", "back", 3000)]
    with pytest.raises(InvalidInputError, match=r"column name is varchar\(4\)"):
        commit(sink, 3, rows(("+U", "two", "longer", 4000)))
    assert found(table) == [("two", "back", 3000)]


def test_a_nested_member_may_be_the_key(tmp_path: Path) -> None:
    kind = pa.struct([("id", pa.string()), pa.field("n", pa.int64(), False)])
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    table.append(pa.Table.from_pylist([{"k": {"id": key, "n": 1}, "v": 1} for key in "abc"], schema))
    sink = txlog.Sink(table, "app", mode="upsert", keys=["k.id"])
    with sink.task(1) as task:
        task.write(pa.Table.from_pylist([{"k": {"id": "a", "n": 2}, "v": 2}], schema))
        task.delete(pa.Table.from_pylist([{"k": {"id": "b"}}], pa.schema([("k", pa.struct([("id", pa.string())]))])))
    sink.commit(1, [task.committable])
    rows = sorted((row["k"]["id"], row["k"]["n"], row["v"]) for row in table.snapshot().to_arrow().to_pylist())
    assert rows == [("a", 2, 2), ("c", 1, 1)]


@pytest.mark.parametrize("engine", [{}, {"txlog.merge-engine": "deduplicate"}], ids=["no engine", "deduplicate"])
def test_a_key_may_have_the_name_of_a_column_that_tasks_stage_beside_it(tmp_path: Path, engine: dict[str, str]) -> None:
    schema = pa.schema([("kind", pa.int64()), ("place", pa.string())])
    table = txlog.Table.create(str(tmp_path / "t"), schema, properties=engine)
    sink = txlog.Sink(table, "app", mode="retract", keys=["kind", "place"], row_kind="op")
    steps = pa.table({"kind": [1, 1, 2], "place": ["a", "a", "b"], "op": ["+I", "-U", "+I"]})
    with sink.task(1) as task:
        task.write(steps)
    sink.commit(1, [task.committable])
    assert table.snapshot().to_arrow().to_pylist() == [{"kind": 2, "place": "b"}]


def test_columns_of_the_changelog_stay_if_the_table_has_them(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("op", pa.string()), ("at", pa.int64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema)
    sink = sink_of(table, sequence_by="at")
    commit(sink, 1, pa.record_batch({"id": [1, 1], "op": ["+I", "+U"], "at": [2, 1]}))
    assert found(table) == [(1, "+I", 2)]


@pytest.mark.parametrize(
    "words",
    [
        ["+I", "-U", "+U", "-D"],
        ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"],
        [0, 1, 2, 3],
        ["r", "-U", "u", "d"],
        ["insert", "update_preimage", "update_postimage", "delete"],
        ["insert", "-U", "update", "delete"],
        ["INSERT", "-U", "UPDATE", "DELETE"],
    ],
    ids=str,
)
def test_row_kinds_are_spelled_as_their_systems_spell_them(tmp_path: Path, words: list[Any]) -> None:
    table = made(tmp_path)
    rows = [(words[0], 4, "a", 40), (words[1], 2, "a", 20), (words[2], 2, "a", 21), (words[3], 3, None, None)]
    batch = pa.RecordBatch.from_pylist([dict(zip(("op", "id", "part", "v"), row, strict=True)) for row in rows])
    commit(sink_of(table, mode="retract"), 1, batch)
    assert found(table) == [(1, "a", 10), (2, "a", 21), (4, "a", 40)]


def test_custom_words_for_row_kinds_are_mapped_by_row_kinds_and_refused_without_it(tmp_path: Path) -> None:
    table = made(tmp_path)
    batch = changes(("+U", 1, "a", 11), ("X", 2, None, None))
    with pytest.raises(InvalidInputError, match=r"Invalid row kind 'X' in column op, row 1 .*row_kinds"):
        commit(sink_of(table), 1, batch)
    commit(sink_of(table, row_kinds={"X": "-D"}), 1, batch)
    assert found(table) == [(1, "a", 11), (3, "b", 30)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("+U", None, "a", 1), "key id is null in row 1"),
        ((None, 1, "a", 1), "Invalid row kind null in column op, row 1"),
        (("+U", 1, "a", None), "column v must not be null, but is in row 1"),
    ],
)
def test_rows_without_a_valid_kind_are_refused_by_number(tmp_path: Path, row: tuple[Any, ...], message: str) -> None:
    sink = sink_of(made(tmp_path))
    with pytest.raises(InvalidInputError, match=message), sink.task(1) as task:
        task.write(changes(("+U", 3, "a", 1), row))


@pytest.mark.parametrize("empty", ["", b""])
@pytest.mark.parametrize("properties", [{}, {"txlog.merge-engine": "deduplicate"}], ids=["no engine", "engine"])
def test_an_empty_partition_value_is_no_key_and_the_error_says_why(
    tmp_path: Path, empty: str | bytes, properties: dict[str, str]
) -> None:
    rows = pa.table({"day": [empty], "v": [1]})
    table = txlog.Table.create(str(tmp_path / "t"), rows.schema, partition_by=["day"], properties=properties)
    sink = txlog.Sink(table, "app", mode="upsert", keys=["day"])
    with (
        pytest.raises(InvalidInputError, match=r"key day is null in row 0 .* an empty partition value as null, too"),
        sink.task(1) as task,
    ):
        task.write(rows)


def test_a_sequence_that_is_null_is_refused(tmp_path: Path) -> None:
    sink = sink_of(made(tmp_path), sequence_by="at")
    with pytest.raises(InvalidInputError, match="sequence_by column at is null in row 1"), sink.task(1) as task:
        task.write(changes(("+U", 3, "a", 1, 1), ("+U", 3, "a", 1, None)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": None}, 'mode="upsert" needs keys'),
        ({"keys": 5}, "Invalid keys 5: expected a list of names"),
        ({"mode": "retract", "row_kind": None}, 'mode="retract" needs row_kind'),
        ({"mode": "append"}, "keys is for row changes"),
        ({"row_kinds": {"X": "delete"}}, r"Invalid row_kinds\['X'\] 'delete': expected"),
        ({"row_kind": None, "row_kinds": {"X": "-D"}}, "pass row_kind"),
        ({"row_mode": "fast"}, "Invalid row_mode 'fast': expected 'merge-on-read'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sink_of(made(tmp_path), **options)


def test_a_column_that_cannot_be_a_key_is_refused_before_a_row_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no column 'nope'"):
        sink_of(made(tmp_path), keys=["nope"]).task(1)


def test_a_sink_without_keys_deletes_nothing(tmp_path: Path) -> None:
    sink = txlog.Sink(made(tmp_path), "app")
    with pytest.raises(InvalidInputError, match="only a sink of changes"), sink.task(1) as task:
        task.delete(changes(("-D", 1)))
    with pytest.raises(InvalidInputError, match="only a sink with keys"):
        sink.partition_of(changes(("-D", 1)), 4)


def test_checkpoints_without_changes_make_no_version(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert commit(sink_of(table), 1).outcome == "empty"
    assert commit(sink_of(table), 2, changes(("-D", 99))).outcome == "committed"
    assert len(found(table)) == 3


def test_keys_have_separate_files_only_with_deletes_or_a_sequence(tmp_path: Path) -> None:
    table = made(tmp_path)
    pairs = changes(("-U", 1, "a", 10), ("+U", 1, "a", 11))
    assert not written(sink_of(table), 1, pairs).keys, "the new versions replace the old ones"
    assert written(sink_of(table), 2, pairs, changes(("-D", 2))).keys
    assert written(sink_of(table, sequence_by="v"), 3, pairs).keys
    assert written(sink_of(table, mode="retract"), 4, changes(("-U", 1, "a", 10))).keys


def test_rows_that_no_task_of_changes_wrote_are_refused_where_two_have_one_key(tmp_path: Path) -> None:
    table = made(tmp_path)
    rows = [{"id": 1, "part": "a", "v": 11}, {"id": 4, "part": "a", "v": 40}, {"id": 1, "part": "a", "v": 12}]
    with txlog.Sink(table, "app").task(1) as task:
        task.write(pa.Table.from_pylist(rows, SCHEMA))
    with pytest.raises(InvalidInputError, match="both changed the row with id=1"):
        sink_of(table).commit(1, [task.committable])
    assert len(found(table)) == 3


def test_a_commit_in_the_process_of_the_task_does_not_read_the_new_rows_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, properties=VECTORS)
    sink, elsewhere = sink_of(table), sink_of(txlog.Table.open(table.uri))
    for checkpoint_id in (1, 2):  # the second one looks into the file of the first
        commit(sink, checkpoint_id, changes(("+I", 2, "a", checkpoint_id), ("+I", 1, "b", checkpoint_id)))
    read: list[str] = []
    batches = FileReader.batches

    def noted(self: FileReader, add: Any, **options: Any) -> Any:
        read.append(add.path)
        return batches(self, add, **options)

    monkeypatch.setattr(FileReader, "batches", noted)

    of_one_process = written(sink, 3, changes(("+U", 2, "a", 3), ("+U", 1, "b", 3)))
    sink.prepare(3, [of_one_process])
    sink.commit(3)
    assert of_one_process.files[0].path not in read
    of_another = written(elsewhere, 4, changes(("+U", 2, "a", 4), ("+I", 3, "b", 4)))
    sink.prepare(4, [of_another])
    sink.commit(4)
    assert of_another.files[0].path in read
    assert found(table) == [(1, "b", 3), (2, "a", 4), (3, "b", 4)]
    assert verify_table(table._open_table.store).is_sound


def test_key_files_are_deleted_after_the_commit(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table)
    committable = written(sink, 1, changes(("-D", 1), ("+U", 2, "a", 22)))
    (keys,) = committable.keys
    assert (Path(table.uri) / keys.path).exists()
    assert keys.path in committable.named_paths()
    sink.commit(1, [committable])
    assert not (Path(table.uri) / keys.path).exists()


def test_a_sink_of_changes_pickles(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = pickle.loads(pickle.dumps(sink_of(table, sequence_by="at", row_kinds={"U": "+U"})))
    commit(sink, 1, changes(("U", 1, "a", 11, 1)))
    assert (1, "a", 11) in found(table)


def test_keys_are_looked_up_on_the_version_that_the_checkpoint_lands_on(tmp_path: Path) -> None:
    """The rows are looked up on the version that the checkpoint lands on."""
    table = made(tmp_path, VECTORS)
    sink = sink_of(table)
    sink.stage(written(sink, 1, changes(("-D", 1), ("+U", 2, "a", 22), ("+I", 9, "a", 90))))
    sink.prepare(1, [0])
    other = txlog.Table.open(table.uri)
    other.append(pa.Table.from_pylist([{"id": 1, "part": "b", "v": 0}, {"id": 9, "part": "b", "v": 0}], SCHEMA))
    other.optimize()
    assert sink.commit(1).outcome == "committed"
    assert found(table) == [(2, "a", 22), (3, "b", 30), (9, "a", 90)]


def test_another_sink_recovers_a_sealed_checkpoint_by_its_own_keys(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table)
    sink.stage(written(sink, 1, changes(("+U", 2, "b", 22), ("-D", 3))))
    sink.prepare(1, [0])
    results = txlog.Sink(txlog.Table.open(table.uri), "app").recover().results
    assert [each.outcome for each in results.values()] == ["committed"]
    assert found(table) == [(1, "a", 10), (2, "b", 22)]


def test_row_mode_copies_files_of_a_table_with_vectors(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    result = commit(sink_of(table, row_mode="copy-on-write"), 1, changes(("+U", 1, "a", 11)))
    assert (result.metrics.vectors, result.metrics.rows_copied) == (0, 1)
    assert found(table) == [(1, "a", 11), (2, "a", 20), (3, "b", 30)]


def test_tasks_that_find_sequences_of_different_types_are_compared_or_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    sink = sink_of(table, sequence_by="at")

    def of_type(at: pa.Array, v: int, task_id: int) -> Any:
        batch = changes(("+U", 1, "a", v))
        return written(sink, 1, batch.append_column(pa.field("at", at.type), at), task_id=task_id)

    one = of_type(pa.array([7], pa.int32()), 17, 0)
    sink.stage(one, of_type(pa.array(["9"]), 19, 1))
    with pytest.raises(
        InvalidInputError, match=r"sequence_by column has the types int32 and string in different tasks"
    ):
        sink.prepare(1, [0, 1])
    sink.commit(1, [one, of_type(pa.array([6], pa.int64()), 16, 1)])
    assert found(table)[0] == (1, "a", 17)


def test_a_handle_keeps_no_keys_of_staged_files_after_their_commit(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, [], VECTORS)
    sink, cache = sink_of(table), table._open_table.key_cache
    for checkpoint_id in range(3):
        task = written(sink, checkpoint_id, changes(("+U", checkpoint_id, "a", 1)))
        (file,) = task.files
        assert cache.staged(file.path) is not None
        sink.commit(checkpoint_id, [task])
        assert cache.staged(file.path) is None


def rename_columns(table: txlog.Table, names: dict[str, str]) -> None:
    """As another engine does it in a table that maps its columns: in one commit, also in a circle."""
    state = table._open_table.log.newest_state()
    schema = json.loads(state.metadata.schema_string)
    for field in schema["fields"]:
        field["name"] = names.get(field["name"], field["name"])
    metadata = replace(state.metadata, schema_string=json.dumps(schema))
    commit_definition(table._open_table, state, Definition(metadata, None), "RENAME COLUMN", {})


@pytest.mark.parametrize("engine", [{}, {"txlog.merge-engine": "partial-update"}], ids=["rows", "engine"])
def test_a_checkpoint_is_refused_if_another_column_has_the_name_of_its_key_by_now(
    tmp_path: Path, engine: dict[str, str]
) -> None:
    mapped = {**VECTORS, "delta.columnMapping.mode": "name", **engine}
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema, [], mapped)
    table.append(pa.table({"id": [1, 2], "v": [10, 20]}, schema))
    sink = sink_of(table, row_kind=None)
    sink.stage(written(sink, 1, pa.record_batch({"id": [1], "v": [20]})))
    sink.prepare(1, [0])
    rename_columns(table, {"id": "v", "v": "id"})
    for restarted in (sink, sink_of(txlog.Table.open(table.uri), row_kind=None)):
        with pytest.raises(
            MetadataChangedError, match=r"gave the name id to another column .*: write the checkpoint again"
        ):
            restarted.commit(1)
    assert found(table) == [(1, 10), (2, 20)]
    sink.discard(1)
    commit(sink, 1, pa.record_batch({"id": [20], "v": [1]}))
    assert found(table) == [(1, 10), (1, 20)]


def test_a_checkpoint_is_committed_although_columns_besides_its_key_were_renamed(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, [], {**VECTORS, "delta.columnMapping.mode": "name"})
    sink = sink_of(table)
    commit(sink, 1, changes(("+I", 1, "a", 10), ("+I", 2, "a", 20)))
    sink.stage(written(sink, 2, changes(("+U", 1, "b", 11))))
    sink.prepare(2, [0])
    rename_columns(table, {"part": "where", "v": "value"})
    assert sink.commit(2).outcome == "committed"
    assert found(table) == [(1, "b", 11), (2, "a", 20)]


@pytest.mark.parametrize("role", ["row_kind", "sequence_by"])
def test_two_columns_that_could_be_the_row_kind_or_the_sequence_are_refused(tmp_path: Path, role: str) -> None:
    options = {"row_kind": "op", "sequence_by": "at"}
    name = options[role]
    batch = changes(("+I", 1, "a", 10, 5))
    twice = pa.RecordBatch.from_arrays([*batch.columns, batch[name]], names=[*batch.schema.names, name.upper()])
    with pytest.raises(InvalidInputError, match=f"several columns {name}: {name}, {name.upper()}"):
        written(sink_of(made(tmp_path), **options), 1, twice)
