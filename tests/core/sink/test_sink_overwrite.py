"""A sink whose checkpoints replace the table: each is all there is after it, also an empty one, also after a crash."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.result import human_size

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(pa.table({"id": [100]}), SCHEMA)


@pytest.fixture
def sink(table: txlog.Table) -> txlog.Sink:
    return txlog.Sink(table, "totals", mode="overwrite")


def restarted(table: txlog.Table, mode: str = "overwrite") -> txlog.Sink:
    """The sink of another process."""
    return txlog.Sink(txlog.Table.open(table.uri), "totals", mode=mode)


def ids_of(table: txlog.Table) -> list[int]:
    """As another engine reads them."""
    found: list[int] = deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def written(sink: txlog.Sink, checkpoint_id: int, *ids: int, task_id: int = 0) -> txlog.Committable:
    with sink.task(checkpoint_id, task_id) as task:
        task.write(pa.table({"id": list(ids)}, schema=SCHEMA))
    return task.committable


def sealed(sink: txlog.Sink, checkpoint_id: int, *ids: int) -> None:
    """A checkpoint of one task for each id."""
    sink.prepare(checkpoint_id, [written(sink, checkpoint_id, number, task_id=number) for number in ids])


def test_each_overwrite_checkpoint_replaces_the_tables_content(table: txlog.Table, sink: txlog.Sink) -> None:
    assert sink.commit(1, [written(sink, 1, 1), written(sink, 1, 2, task_id=1)]).metrics.files_removed == 1
    assert ids_of(table) == [1, 2]
    sealed(pickle.loads(pickle.dumps(sink)), 2, 3)
    assert sink.commit(2).version == 3
    assert ids_of(table) == [3]
    entry = table.history(1)[0]
    assert entry["operationParameters"]["mode"] == "Overwrite"
    assert not entry["isBlindAppend"]


def test_a_checkpoint_without_rows_empties_the_table_sealed_or_not(table: txlog.Table, sink: txlog.Sink) -> None:
    assert sink.commit(1, []).outcome == "committed"
    assert ids_of(table) == []
    sink.commit(2, [written(sink, 2, 2)])
    sealed(sink, 3)
    assert sink.commit(3).outcome == "committed"
    assert (ids_of(table), sink.last_checkpoint_id()) == ([], 3)


def test_a_replay_does_not_replace_rows_appended_since(table: txlog.Table, sink: txlog.Sink) -> None:
    first = [written(sink, 1, 1)]
    sink.commit(1, first)
    table.append(pa.table({"id": [50]}, schema=SCHEMA))
    assert restarted(table).commit(1, first).outcome == "already_committed"
    assert restarted(table).commit(1, []).outcome == "already_committed"
    assert ids_of(table) == [1, 50]


def test_a_sealed_overwrite_replaces_the_table_in_whichever_sink_recovers_it(
    table: txlog.Table, sink: txlog.Sink, tmp_path: Path
) -> None:
    """Its program died, and so did the first recovery, after its commits and before it removed the staging."""
    sealed(sink, 1, 1, 2)
    sealed(sink, 2, 3)
    sealed(sink, 3)
    sealed(sink, 4, 4)
    staging = Path(table.uri) / "_txlog"
    shutil.copytree(staging, tmp_path / "copy")
    found = restarted(table, "append").recover().results
    assert [(each, found[each].outcome, found[each].version) for each in found] == [
        *((1, "committed", 2), (2, "committed", 3), (3, "committed", 4), (4, "committed", 5))
    ]
    assert [txlog.Table.open(table.uri).snapshot(version).num_files for version in (2, 3, 4, 5)] == [2, 1, 0, 1]
    shutil.copytree(tmp_path / "copy", staging, dirs_exist_ok=True)
    table.append(pa.table({"id": [50]}, schema=SCHEMA))
    again = restarted(table).recover().results
    assert {result.outcome for result in again.values()} == {"already_committed"}
    assert ids_of(table) == [4, 50]
    assert list((staging / "staging").iterdir()) == []


def test_a_checkpoint_sealed_to_overwrite_cannot_be_sealed_to_append(table: txlog.Table, sink: txlog.Sink) -> None:
    sealed(sink, 1, 1)
    with pytest.raises(txlog.InvalidInputError, match="to overwrite, not to append"):
        restarted(table, "append").prepare(1, [1])
    with pytest.raises(txlog.InvalidInputError, match="to overwrite, not to append"):
        restarted(table, "append").prepare(1, {1: 0})
    assert sink.commit(1).outcome == "committed"


def test_a_conflict_keeps_the_seal_and_a_retry_replaces_the_current_rows(
    table: txlog.Table, sink: txlog.Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer removes, between our planning and our put, a file that we were about to replace."""
    sealed(sink, 1, 1)
    committer = sink._commits.committer
    real = committer.steps

    def late(*arguments: Any) -> Any:
        monkeypatch.undo()
        txlog.Table.open(table.uri).overwrite(pa.table({"id": [7, 8]}, schema=SCHEMA))
        return real(*arguments)

    monkeypatch.setattr(committer, "steps", late)
    with pytest.raises(txlog.ConflictError):
        sink.commit(1)
    assert ids_of(table) == [7, 8]
    assert sink.recover().results[1].outcome == "committed"
    assert ids_of(table) == [1]


@pytest.mark.parametrize("mode", ["complete", "", None, ["append"]])
def test_an_unknown_mode_is_refused(mode: Any, table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid mode .*: expected 'append', 'overwrite'"):
        txlog.Sink(table, "totals", mode=mode)


def test_the_repr_of_a_sink_names_table_app_id_and_mode(table: txlog.Table, sink: txlog.Sink) -> None:
    assert repr(sink) == f"Sink({table.uri}, app_id='totals', mode='overwrite')"


def test_committables_and_manifests_show_in_one_line_whose_they_are_and_what_they_hold(
    table: txlog.Table, sink: txlog.Sink
) -> None:
    committable = written(sink, 4, 1, 2)
    size = human_size(committable.size_bytes)
    of = "app_id='totals', checkpoint_id=4"
    assert repr(committable) == f"Committable({of}, task_id=0, attempt=0, 1 file, 2 rows, {size})"
    sink.stage(committable)
    assert repr(sink.prepare(4, [0])) == f"Manifest({of}, 1 task, 1 file, 2 rows, {size})"


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_seal_without_rows_that_the_application_has_passed_is_dropped_unless_it_replaces_rows(
    tmp_path: Path, mode: Any
) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    sink = txlog.Sink(table, "app", mode=mode)
    sink.prepare(1, [])
    table.append(pa.table({"id": [5]}), app_id="app", checkpoint_id=5)
    if mode == "append":
        assert [result.outcome for result in sink.recover().results.values()] == ["empty"]
    else:
        with pytest.raises(txlog.InvalidInputError, match="no retained commit has it"):
            sink.recover()
    assert table.to_arrow()["id"].to_pylist() == [5]
