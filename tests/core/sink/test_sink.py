"""`Sink`: tasks write, committables travel as bytes, each checkpoint lands once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.column_changes import CHANGES_OF_COLUMNS, INTEGERS, new_table
from txlog.core.format.schema import Struct, from_arrow
from txlog.core.format.schema_merge import reads

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": ["mon" if i % 2 else "tue" for i in ids]}, schema=SCHEMA)


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(table.snapshot().to_arrow().column("id").to_pylist())


def written(sink: txlog.Sink, checkpoint_id: int, task_id: int, *ids: int, attempt: int = 0) -> txlog.Committable:
    """What a task hands over, by way of a queue."""
    with sink.task(checkpoint_id, task_id, attempt) as task:
        task.write(rows_of(*ids))
    return txlog.Committable.from_bytes(task.committable.to_bytes())


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=SCHEMA, partition_by=["day"])


@pytest.fixture
def sink(table: txlog.Table) -> txlog.Sink:
    return txlog.Sink(table, "app", user_metadata="from the test")


def test_the_tasks_of_a_checkpoint_are_one_version(table: txlog.Table, sink: txlog.Sink) -> None:
    assert sink.last_checkpoint_id() is None
    result = sink.commit(17, [written(sink, 17, 0, 1, 2), written(sink, 17, 1, 3, 4), written(sink, 17, 2)])
    assert (result.version, result.outcome, result.metrics.rows, result.metrics.files) == (1, "committed", 4, 4)
    assert ids_of(table) == [1, 2, 3, 4]
    assert sink.last_checkpoint_id() == 17
    assert table.history(1)[0]["userMetadata"] == "from the test"
    assert deltalake.DeltaTable(table.uri).transaction_version("app") == 17


def test_no_reader_sees_files_that_are_not_committed(table: txlog.Table, sink: txlog.Sink) -> None:
    written(sink, 1, 0, 1)
    assert table.snapshot().num_files == 0
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 0


def test_a_checkpoint_is_committed_again_without_effect_after_a_restart(table: txlog.Table, sink: txlog.Sink) -> None:
    committables = [written(sink, 1, 0, 1)]
    sink.commit(1, committables)
    restarted = txlog.Sink(txlog.Table.open(table.uri), "app")
    again = restarted.commit(1, committables)
    assert (again.outcome, again.version) == ("already_committed", 1)
    rewritten = restarted.commit(1, [written(restarted, 1, 0, 1, attempt=1)])
    assert rewritten.outcome == "already_committed"
    assert ids_of(table) == [1]


def test_a_checkpoint_without_rows_makes_no_version(table: txlog.Table, sink: txlog.Sink) -> None:
    assert [sink.commit(1, []).outcome, sink.commit(2, [written(sink, 2, 0)]).outcome] == ["empty", "empty"]
    assert (table.snapshot().version, sink.last_checkpoint_id()) == (0, None)
    assert sink.commit(3, [written(sink, 3, 0, 1), written(sink, 3, 1)]).version == 1
    assert sink.commit(3, []).outcome == "already_committed"


@pytest.mark.parametrize(("every", "versions"), [(10, 2), (1, 25), (26, 0)])
def test_every_nth_checkpoint_without_rows_makes_a_version(every: int, versions: int, table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app", max_continuous_empty_commits=every)
    outcomes = [sink.commit(checkpoint_id, []).outcome for checkpoint_id in range(25)]
    assert outcomes.count("committed") == versions == table.snapshot().version
    assert outcomes.count("empty") == 25 - versions
    assert sink.last_checkpoint_id() == (25 // every * every - 1 if versions else None)


def test_a_checkpoint_with_rows_resets_the_count_of_empty_ones(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app", max_continuous_empty_commits=2)
    assert sink.commit(1, []).outcome == "empty"
    assert sink.commit(2, [written(sink, 2, 0, 1)]).outcome == "committed"
    assert [sink.commit(checkpoint_id, []).outcome for checkpoint_id in (3, 4)] == ["empty", "committed"]


@pytest.mark.parametrize("every", [0, -1, True, 1.5, None])
def test_max_continuous_empty_commits_must_be_a_whole_number(every: Any, table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="max_continuous_empty_commits"):
        txlog.Sink(table, "app", max_continuous_empty_commits=every)


def test_a_sink_that_commits_other_work_under_the_same_id_gets_an_error(table: txlog.Table, sink: txlog.Sink) -> None:
    first = [written(sink, 1, 0, 1)]
    sink.commit(1, first)
    assert sink.commit(1, first).outcome == "already_committed"
    with pytest.raises(txlog.InvalidInputError, match="need an app_id each"):
        sink.commit(1, [written(sink, 1, 0, 2)])
    other = txlog.Sink(table, "app-totals")
    assert other.commit(1, [written(other, 1, 0, 2)]).outcome == "committed"
    assert ids_of(table) == [1, 2]


def test_a_sink_pickles_to_other_processes(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app", user_metadata="travelled", max_continuous_empty_commits=1)
    elsewhere = pickle.loads(pickle.dumps(sink))
    assert sink.commit(1, [written(elsewhere, 1, 0, 1)]).version == 1
    assert elsewhere.commit(2, []).outcome == "committed"
    assert table.history(1)[0]["userMetadata"] == "travelled"


@pytest.mark.parametrize("number", [-1, True, "0", 2**63, 1.0])
def test_tasks_and_attempts_are_whole_numbers(number: Any, sink: txlog.Sink) -> None:
    with pytest.raises(txlog.InvalidInputError, match="task_id"):
        sink.task(1, number)
    with pytest.raises(txlog.InvalidInputError, match="attempt"):
        sink.task(1, 0, number)


def test_a_skipped_checkpoint_cannot_be_committed_later(table: txlog.Table, sink: txlog.Sink) -> None:
    sink.commit(5, [written(sink, 5, 0, 5)])
    with pytest.raises(txlog.InvalidInputError, match="checkpoint 4 of 'app'"):
        sink.commit(4, [written(sink, 4, 0, 4)])
    assert ids_of(table) == [5]


def test_the_fingerprint_reveals_other_input_under_the_same_checkpoint(table: txlog.Table, sink: txlog.Sink) -> None:
    sink.commit(1, [written(sink, 1, 0, 1)], fingerprint="0-10")
    assert sink.commit(1, [written(sink, 1, 0, 1)], fingerprint="0-10").outcome == "already_committed"
    with pytest.raises(txlog.InvalidInputError, match="0-12"):
        sink.commit(1, [written(sink, 1, 0, 1)], fingerprint="0-12")


def test_a_task_that_fails_leaves_no_file(table: txlog.Table, sink: txlog.Sink, tmp_path: Path) -> None:
    task = sink.task(1)

    def rows_of_a_source_that_fails() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1).to_batches()
        raise KeyError("the source")

    with pytest.raises(KeyError), task:
        task.write(rows_of_a_source_that_fails())
    assert list((tmp_path / "t").rglob("*.parquet")) == []
    with pytest.raises(txlog.InvalidInputError, match="not sealed"):
        _ = task.committable


def test_rows_that_do_not_fit_fail_the_task(sink: txlog.Sink, tmp_path: Path) -> None:
    with pytest.raises(txlog.SchemaMismatchError, match="bigint"), sink.task(1) as task:
        task.write([rows_of(1), pa.table({"id": ["x"], "day": ["mon"]})])
    assert list((tmp_path / "t").rglob("*.parquet")) == []


@pytest.mark.parametrize("arguments", [(-1, 0), (True, 0), ("1", 0)])
def test_a_checkpoint_id_that_is_not_a_number_is_refused(arguments: tuple[Any, int], sink: txlog.Sink) -> None:
    with pytest.raises(txlog.InvalidInputError, match="checkpoint_id"):
        sink.task(*arguments)


@pytest.mark.parametrize("app_id", ["", None, 5])
def test_an_application_needs_a_name(app_id: Any, table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="app_id"):
        txlog.Sink(table, app_id)


# --- committables that do not belong --------------------------------------------------------------------------------


def test_committables_of_other_sinks_are_refused_and_nothing_is_committed(
    table: txlog.Table, sink: txlog.Sink, tmp_path: Path
) -> None:
    other = txlog.Sink(txlog.Table.create(tmp_path / "other", SCHEMA, partition_by=["day"]), "app")
    ours = written(sink, 1, 0, 1)
    wrong = {
        "table_id": [written(other, 1, 0, 2)],
        "app_id": [written(txlog.Sink(table, "another"), 1, 0, 2)],
        "checkpoint_id": [written(sink, 2, 0, 2)],
        "two committables": [ours, written(sink, 1, 0, 1, attempt=1)],
    }
    for named, committables in wrong.items():
        with pytest.raises(txlog.InvalidInputError, match=named):
            sink.commit(1, committables)
    assert table.snapshot().version == 0


def test_damaged_committable_bytes_are_refused(sink: txlog.Sink) -> None:
    body = bytearray(written(sink, 1, 0, 1).to_bytes())
    body[-3] ^= 1
    with pytest.raises(txlog.InvalidInputError, match="damaged"):
        txlog.Committable.from_bytes(bytes(body))


# --- between the writing and the commit -------------------------------------------------------------------------------


def test_concurrent_appends_and_new_columns_do_not_conflict(table: txlog.Table, sink: txlog.Sink) -> None:
    committable = written(sink, 1, 0, 1)
    table.append(rows_of(2))
    table.add_columns(pa.schema([("new", pa.float64())]))
    table.set_properties({"team": "x"})
    deltalake.write_deltalake(table.uri, pa.table({"id": [3], "day": ["mon"], "new": [1.5]}), mode="append")
    assert sink.commit(1, [committable]).version == 5
    assert sorted((row["id"], row["new"]) for row in table.snapshot().to_arrow().to_pylist() if row["id"] != 3) == [
        (1, None),
        (2, None),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"id": [5], "day": [1.5]},
        {"id": ["5"], "day": ["mon"]},
        {"id": [5], "other": ["mon"]},
    ],
)
def test_files_are_not_committed_to_a_table_whose_columns_were_replaced(
    schema: dict[str, list[Any]], tmp_path: Path
) -> None:
    table = txlog.Table.create(tmp_path / "plain", SCHEMA)
    sink = txlog.Sink(table, "app")
    committable = written(sink, 1, 0, 1)
    deltalake.write_deltalake(table.uri, pa.table(schema), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(txlog.MetadataChangedError, match="written for at v0"):
        sink.commit(1, [committable])
    assert table.snapshot().to_arrow().num_rows == 1
    assert sink.last_checkpoint_id() is None


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_checkpoint_with_missing_or_truncated_files_is_not_committed(
    damage: Callable[[Path], Any], table: txlog.Table, sink: txlog.Sink
) -> None:
    committables = [written(sink, 1, 0, 1), written(sink, 1, 1, 2)]
    damage(Path(table.uri) / committables[1].files[0].path)
    with pytest.raises(txlog.TxlogError, match=committables[1].files[0].path) as caught:
        sink.commit(1, committables)
    assert isinstance(caught.value, txlog.NotFoundError | txlog.InvalidInputError)
    assert table.snapshot().version == 0


def test_a_replay_is_recognized_after_the_columns_have_changed(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "plain", SCHEMA)
    sink = txlog.Sink(table, "app")
    committable = written(sink, 1, 0, 1)
    sink.commit(1, [committable])
    deltalake.write_deltalake(table.uri, pa.table({"id": ["x"]}), mode="overwrite", schema_mode="overwrite")
    assert sink.commit(1, [committable]).outcome == "already_committed"


def test_files_of_a_version_that_was_cleaned_up_are_not_trusted(table: txlog.Table, sink: txlog.Sink) -> None:
    committable = written(sink, 1, 0, 1)
    table.append(rows_of(2))
    table.create_checkpoint()
    (Path(table.uri) / "_delta_log" / f"{0:020}.json").unlink()
    reopened = txlog.Sink(txlog.Table.open(table.uri), "app")
    with pytest.raises(txlog.MetadataChangedError, match="can no longer be read"):
        reopened.commit(1, [committable])


COLUMNS: dict[str, pa.DataType] = {
    "a": pa.int32(),
    "s": pa.struct([("x", pa.int64())]),
    "l": pa.list_(pa.struct([("x", pa.int64())])),
    "m": pa.map_(pa.string(), pa.int8()),
}


def changed(change: Callable[[dict[str, pa.Field]], None]) -> Struct:
    fields = {name: pa.field(name, data_type) for name, data_type in COLUMNS.items()}
    change(fields)
    return from_arrow(pa.schema(list(fields.values())))


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (lambda fields: None, True),
        (lambda fields: fields.update(b=pa.field("b", pa.int8())), True),
        (lambda fields: fields.update(b=pa.field("b", pa.int8(), nullable=False)), False),
        (lambda fields: fields.update(a=pa.field("a", pa.int64())), False),
        (lambda fields: fields.update(a=pa.field("a", pa.int32(), nullable=False)), False),
        (lambda fields: fields.pop("a"), False),
        (lambda fields: fields.update(s=pa.field("s", pa.struct([("x", pa.int64()), ("y", pa.int8())]))), True),
        (lambda fields: fields.update(s=pa.field("s", pa.struct([("x", pa.int32())]))), False),
        (lambda fields: fields.update(s=pa.field("s", pa.string())), False),
        (
            lambda fields: fields.update(l=pa.field("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int8())])))),
            True,
        ),
        (lambda fields: fields.update(l=pa.field("l", pa.list_(pa.struct([("z", pa.int64())])))), False),
        (lambda fields: fields.update(m=pa.field("m", pa.map_(pa.string(), pa.int16()))), False),
    ],
)
def test_files_are_read_correctly_after_columns_were_added(
    change: Callable[[dict[str, pa.Field]], None], answer: bool
) -> None:
    assert reads(changed(change), changed(lambda fields: None)) is answer


@CHANGES_OF_COLUMNS
def test_staged_rows_are_committed_after_a_change_of_columns_that_their_files_fit(
    tmp_path: Path, change: Callable[[txlog.Table], Any], row: dict[str, int] | None
) -> None:
    table = new_table(tmp_path)
    table.append(pa.Table.from_pylist([{"k": 1, "v": 0}], INTEGERS))
    sink = txlog.Sink(table, "app")
    with sink.task(1, 0) as task:
        task.write(pa.Table.from_pylist([{"k": 5, "v": 6, "w": 7}], INTEGERS))
    change(txlog.Table.open(table.uri))
    before = table.to_arrow().to_pylist()
    if row is None:
        with pytest.raises(txlog.MetadataChangedError):
            sink.commit(1, [task.committable])
        assert table.to_arrow().to_pylist() == before
        return
    sink.commit(1, [task.committable])
    assert table.to_arrow().to_pylist() == [*before, row]
