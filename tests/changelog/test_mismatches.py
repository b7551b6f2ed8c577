"""Changes that do not fit the rows of the table at their commit: ignored, put into quarantine, or a failed commit."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from txlog.changelog.mismatches import HeldBack
from txlog.core.versions import OpenTable
from txlog.testing.faults import FaultyLogStore

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
VECTORS = {"delta.enableDeletionVectors": "true"}
SUMS = {
    "txlog.merge-engine": "aggregation",
    "txlog.fields.n.aggregate-function": "sum",
    "txlog.fields.must.aggregate-function": "last_non_null_value",
}
OF_SUMS = pa.schema([("id", pa.int64()), ("n", pa.int8()), pa.field("must", pa.string(), nullable=False)])


def changes(*rows: tuple[str, int, str | None]) -> pa.Table:
    kinds, ids, names = zip(*rows, strict=True)
    return pa.table({"op": kinds, "id": ids, "name": names})


def sink_of(table: txlog.Table, on_mismatch: Any = None, **options: Any) -> txlog.Sink:
    return txlog.Sink(
        table, "cdc", mode=options.pop("mode", "upsert"), keys=["id"], row_kind="op", on_mismatch=on_mismatch, **options
    )


def commit(sink: txlog.Sink, checkpoint_id: int, *tasks: pa.Table) -> txlog.WriteResult:
    for task_id, rows in enumerate(tasks):
        with sink.task(checkpoint_id, task_id) as task:
            task.write(rows)
        sink.stage(task.committable)
    sink.prepare(checkpoint_id, range(len(tasks)))
    return sink.commit(checkpoint_id)


def rows_of(table: txlog.Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row["id"], str(row)))


def names_of(table: txlog.Table) -> list[tuple[int, str | None]]:
    return [(row["id"], row["name"]) for row in rows_of(table)]


def quarantined(table: txlog.Table) -> list[dict[str, Any]]:
    """The changes of all files in quarantine."""
    found = [pq.read_table(path, partitioning=None) for path in (Path(table.uri) / "_txlog/quarantine").glob("*")]
    return sorted((row for each in found for row in each.to_pylist()), key=lambda row: row["id"])


@pytest.fixture(
    params=[{}, VECTORS, {**VECTORS, "delta.enableChangeDataFeed": "true"}], ids=["copies", "vectors", "feed"]
)
def table(request: pytest.FixtureRequest, make_table: Callable[..., txlog.Table]) -> txlog.Table:
    """1 and 2 once, 3 twice."""
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, SCHEMA)
    made = make_table(rows, schema=SCHEMA, properties=request.param)
    made.append(pa.table({"id": [3], "name": ["again"]}, SCHEMA))
    return made


CHANGES = changes(("-D", 1, None), ("-D", 7, None), ("+U", 3, "new"), ("+I", 4, "d"))


def test_without_a_policy_missing_rows_are_ignored_and_several_are_replaced(table: txlog.Table) -> None:
    commit(sink_of(table), 1, CHANGES)
    assert names_of(table) == [(2, "b"), (3, "new"), (4, "d")]
    assert not (Path(table.uri) / "_txlog/quarantine").exists()


@pytest.mark.parametrize("tasks", [1, 2])
def test_changes_that_do_not_fit_are_kept_in_quarantine_and_all_others_are_committed(
    table: txlog.Table, tasks: int, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [CHANGES] if tasks == 1 else [CHANGES.slice(0, 2), CHANGES.slice(2)]
    with caplog.at_level(logging.WARNING, "txlog"):
        result = commit(sink_of(table, "quarantine"), 1, *parts)
    assert names_of(table) == [(2, "b"), (3, "again"), (3, "c"), (4, "d")]
    assert quarantined(table) == [
        {"id": 3, "name": "new", "_kind": "+U", "_case": "several"},
        {"id": 7, "name": None, "_kind": "-D", "_case": "missing"},
    ]
    assert (result.metrics.rows_inserted, result.metrics.rows_deleted, result.metrics.rows_updated) == (1, 1, 0)
    reported = table.history(1)[0]["operationParameters"]
    assert reported["heldBack"] == "2"
    assert (Path(table.uri) / reported["quarantine"]).exists()
    assert reported["quarantine"] in caplog.text
    assert "1 missing, 1 several" in caplog.text
    if "delta.enableChangeDataFeed" in table.snapshot().properties:
        feed = table.changes(3).read_all().to_pylist()
        assert sorted((row["_change_type"], row["id"]) for row in feed) == [("delete", 1), ("insert", 4)]
    assert table.verify().is_sound


def test_a_row_that_is_dead_is_not_one_of_several(table: txlog.Table) -> None:
    commit(sink_of(table), 1, changes(("+U", 1, "x")))
    commit(sink_of(table, "quarantine"), 2, changes(("+U", 1, "y")))
    assert (names_of(table)[0], quarantined(table)) == ((1, "y"), [])


def test_a_row_that_another_writer_replaced_meanwhile_is_not_one_of_several(table: txlog.Table) -> None:
    store = table._open_table.store
    log = FaultyLogStore(store.log)

    def first_the_other(real: Any, name: str, body: bytes) -> Any:
        txlog.Table.open(table.uri).upsert(pa.table({"id": [1], "name": ["theirs"]}, SCHEMA), ["id"])
        return real(name, body)

    log.script["put_if_absent"] = [first_the_other]
    ours = txlog.Table(OpenTable(replace(store, log=log)))
    commit(sink_of(ours, "quarantine"), 1, changes(("+U", 1, "ours")))
    assert (names_of(table)[0], quarantined(table)) == ((1, "ours"), [])
    assert log.script["put_if_absent"] == []


def test_several_rows_of_a_key_in_one_file_are_several(table: txlog.Table) -> None:
    table.append(pa.table({"id": [8, 8], "name": ["x", "y"]}, SCHEMA))
    commit(sink_of(table, "quarantine"), 1, changes(("+U", 8, "z")))
    assert quarantined(table) == [{"id": 8, "name": "z", "_kind": "+U", "_case": "several"}]


@pytest.mark.parametrize("earlier", [("+U", 3, "old"), ("-D", 3, None)], ids=["upsert", "delete"])
def test_a_change_that_a_later_one_of_another_task_replaces_is_not_in_quarantine(
    table: txlog.Table, earlier: tuple[str, int, str | None]
) -> None:
    tasks = [
        changes(change).append_column("at", pa.array([at])) for at, change in enumerate((earlier, ("+U", 3, "new")))
    ]
    commit(sink_of(table, "quarantine", sequence_by="at"), 1, *tasks)
    assert quarantined(table) == [{"id": 3, "name": "new", "_kind": "+U", "_case": "several"}]


def test_each_change_in_quarantine_has_its_own_case_among_fitting_changes(table: txlog.Table) -> None:
    commit(sink_of(table, "quarantine"), 1, changes(("+U", 2, "B"), ("+I", 4, "d"), ("+U", 3, "new"), ("-D", 7, None)))
    assert [(row["id"], row["_case"]) for row in quarantined(table)] == [(3, "several"), (7, "missing")]


def test_a_commit_that_fails_before_its_put_leaves_nothing_in_quarantine(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise txlog.StorageError("the log is gone")

    monkeypatch.setattr(HeldBack, "parameters", fail)
    with pytest.raises(txlog.StorageError, match="the log is gone"):
        commit(sink_of(table, "quarantine"), 1, CHANGES)
    assert quarantined(table) == []


def test_each_case_of_a_mismatch_can_have_its_own_action(table: txlog.Table) -> None:
    commit(sink_of(table, {"several": "quarantine"}), 1, CHANGES)
    assert [row["_case"] for row in quarantined(table)] == ["several"]
    assert names_of(table) == [(2, "b"), (3, "again"), (3, "c"), (4, "d")]


@pytest.mark.parametrize(
    ("case", "why"),
    [("missing", "there is no row to delete with id=7"), ("several", "several rows have the key id=3")],
)
def test_a_commit_fails_if_the_policy_says_so_and_can_be_made_by_another_policy(
    table: txlog.Table, case: str, why: str
) -> None:
    with pytest.raises(txlog.InvalidInputError, match=why) as caught:
        commit(sink_of(table, {case: "fail"}), 1, CHANGES)
    assert f'on_mismatch={{"{case}": "quarantine"}}' in str(caught.value)
    assert table.version == 2
    recovered = sink_of(table, {case: "quarantine"}).recover()
    assert recovered.results[1].outcome == "committed"
    assert [row["_case"] for row in quarantined(table)] == [case]


def test_a_checkpoint_without_deletes_names_its_keys_too(table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="several rows have the key id=3"):
        commit(sink_of(table, "fail"), 1, changes(("+U", 3, "x"), ("+I", 5, "e")))


def test_a_checkpoint_that_fails_can_be_abandoned(table: txlog.Table) -> None:
    sink = sink_of(table, "fail")
    with pytest.raises(txlog.InvalidInputError):
        commit(sink, 1, CHANGES)
    assert sink.abandon(1).keys == 4
    assert commit(sink, 2, changes(("+I", 5, "e"))).outcome == "committed"


def test_a_retracted_row_that_is_not_there_is_missing(table: txlog.Table) -> None:
    rows = changes(("-U", 8, "old"), ("-U", 1, "a"), ("+U", 1, "A"))
    commit(sink_of(table, {"missing": "quarantine"}, mode="retract"), 1, rows)
    assert [(row["id"], row["_case"]) for row in quarantined(table)] == [(8, "missing")]
    assert names_of(table)[0] == (1, "A")


def test_mismatches_are_judged_on_the_version_that_the_checkpoint_lands_on(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that come and go between the first look and the commit are judged on the version that it lands on."""
    sink = sink_of(table, {"missing": "quarantine", "several": "quarantine"})
    with sink.task(1, 0) as task:
        task.write(changes(("-D", 1, None), ("+U", 2, "B"), ("-D", 3, None)))
    sink.stage(task.committable)
    sink.prepare(1, [0])
    other = txlog.Table.open(table.uri)
    meanwhile = [lambda: other.append(pa.table({"id": [2], "name": ["more"]}, SCHEMA)), lambda: other.delete("id = 1")]
    log = type(table._open_table.store.log)
    put = log.put_if_absent

    def late(self: Any, name: str, body: bytes) -> Any:
        if meanwhile:
            meanwhile.pop()()
        return put(self, name, body)

    monkeypatch.setattr(log, "put_if_absent", late)
    sink.commit(1)
    assert not meanwhile
    assert {row["id"]: row["_case"] for row in quarantined(table)} == {1: "missing", 2: "several", 3: "several"}
    assert names_of(table) == [(2, "b"), (2, "more"), (3, "again"), (3, "c")]


def test_a_held_back_key_stays_so_although_its_rows_are_deleted_by_the_commit(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a commit could rerun forever while others add rows with a key and delete them."""
    sink = sink_of(table, {"missing": "fail", "several": "quarantine"})
    log = type(table._open_table.store.log)
    put = log.put_if_absent
    meanwhile = [lambda: txlog.Table.open(table.uri).delete("id = 3")]

    def late(self: Any, name: str, body: bytes) -> Any:
        if meanwhile:
            meanwhile.pop()()
        return put(self, name, body)

    with sink.task(1) as task:
        task.write(changes(("-D", 3, None), ("+U", 1, "A")))
    monkeypatch.setattr(log, "put_if_absent", late)
    sink.commit(1, [task.committable])
    assert quarantined(table) == [{"id": 3, "name": None, "_kind": "-D", "_case": "several"}]
    assert names_of(table) == [(1, "A"), (2, "b")]


def test_alongside_held_back_changes_only_live_rows_are_replaced(table: txlog.Table) -> None:
    commit(sink_of(table), 1, changes(("+U", 1, "x")))
    result = commit(sink_of(table, "quarantine"), 2, changes(("+U", 1, "y"), ("-D", 2, None), ("-D", 7, None)))
    assert (result.metrics.rows_updated, result.metrics.rows_deleted, result.metrics.rows_inserted) == (1, 1, 0)
    if "delta.enableChangeDataFeed" in table.snapshot().properties:
        feed = table.changes(4).read_all().to_pylist()
        kinds = [("delete", 2, "b"), ("update_postimage", 1, "y"), ("update_preimage", 1, "x")]
        assert sorted((row["_change_type"], row["id"], row["name"]) for row in feed) == kinds


def test_nested_keys_are_in_quarantine_as_they_are_in_the_table(make_table: Callable[..., txlog.Table]) -> None:
    schema = pa.schema([("s", pa.struct([("k", pa.int32()), ("x", pa.int32())])), ("_kind", pa.string())])
    table = make_table(schema=schema)
    sink = txlog.Sink(table, "cdc", mode="upsert", keys=["s.k"], on_mismatch={"missing": "quarantine"})
    with sink.task(1) as task:
        task.delete(pa.table({"s": [{"k": 4}]}))
    sink.commit(1, [task.committable])
    (path,) = (Path(table.uri) / "_txlog/quarantine").iterdir()
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    assert row == {"s": {"k": 4, "x": None}, "_kind": None, "__kind": "-D", "_case": "missing"}


# --- merge engines ----------------------------------------------------------------------------------------------------


def sums(*rows: tuple[str, int, int | None, str | None]) -> pa.Table:
    kinds, ids, numbers, must = zip(*rows, strict=True)
    return pa.table({"op": kinds, "id": ids, "n": numbers, "must": must})


def summed(make_table: Callable[..., txlog.Table], **properties: str) -> txlog.Table:
    table = make_table(schema=OF_SUMS, properties={**VECTORS, **SUMS, **properties})
    table.append(pa.table({"id": [1, 2], "n": [100, 1], "must": ["a", "b"]}, OF_SUMS))
    return table


UNFIT = sums(("+I", 1, 100, "x"), ("+I", 2, 5, None), ("+I", 3, 1, None), ("+I", 4, 7, "y"), ("-D", 9, 1, None))


def test_rows_whose_merge_cannot_be_stored_fail_and_with_a_policy_go_into_quarantine(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = summed(make_table, **{"txlog.fields.must.ignore-retract": "true"})
    with pytest.raises(txlog.InvalidInputError, match="the sum of column n does not fit its type"):
        commit(sink_of(table), 1, UNFIT)
    result = sink_of(table, {"unfit": "quarantine"}).recover().results[1]
    assert result.outcome == "committed"
    assert [(row["id"], row["n"], row["must"]) for row in rows_of(table)] == [(1, 100, "a"), (2, 6, "b"), (4, 7, "y")]
    found = [(row["id"], row["n"], row["_kind"], row["_case"]) for row in quarantined(table)]
    assert found == [(1, 100, "+I", "unfit"), (3, 1, "+I", "unfit"), (9, 1, "-D", "unfit")]


def test_unfit_rows_can_be_ignored_while_missing_ones_go_into_quarantine(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = summed(make_table, **{"txlog.fields.must.ignore-retract": "true"})
    commit(sink_of(table, {"unfit": "ignore", "missing": "quarantine"}), 1, UNFIT)
    assert [(row["id"], row["n"]) for row in rows_of(table)] == [(1, 100), (2, 6), (4, 7)]
    assert [(row["id"], row["_case"]) for row in quarantined(table)] == [(9, "missing")]
    assert table.history(1)[0]["operationParameters"]["heldBack"] == "3"


def test_several_rows_of_a_key_are_not_merged_if_the_policy_says_so(make_table: Callable[..., txlog.Table]) -> None:
    table = summed(make_table)
    table.append(pa.table({"id": [2], "n": [2], "must": ["c"]}, OF_SUMS))
    commit(sink_of(table, {"several": "quarantine"}), 1, sums(("+I", 2, 5, "z"), ("+I", 1, 5, "z")))
    assert [(row["id"], row["n"]) for row in rows_of(table)] == [(1, 105), (2, 1), (2, 2)]


@pytest.mark.parametrize("engine", [{}, {"txlog.sequence.field": "n"}])
def test_an_engine_that_takes_whole_rows_judges_them_too(
    make_table: Callable[..., txlog.Table], engine: Mapping[str, str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int8())])
    table = make_table(schema=schema, properties={**VECTORS, "txlog.merge-engine": "deduplicate", **engine})
    table.append(pa.table({"id": [1, 2, 2], "n": [1, 1, 1]}, schema))
    rows = pa.table({"op": ["+U", "+U", "-D"], "id": [1, 2, 3], "n": [5, 5, 5]})
    commit(sink_of(table, "quarantine"), 1, rows)
    assert [(row["id"], row["n"]) for row in rows_of(table)] == [(1, 5), (2, 1), (2, 1)]
    assert [(row["id"], row["_case"]) for row in quarantined(table)] == [(2, "several"), (3, "missing")]


def test_a_key_that_is_deleted_and_given_again_by_one_checkpoint_is_not_missing(
    make_table: Callable[..., txlog.Table],
) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int8())])
    table = make_table(schema=schema, properties={**VECTORS, "txlog.merge-engine": "deduplicate"})
    rows = pa.table({"op": ["-D", "+I", "-D"], "id": [8, 8, 9], "n": [1, 2, 3]})
    commit(sink_of(table, "quarantine"), 1, rows)
    assert [(row["id"], row["n"]) for row in rows_of(table)] == [(8, 2)]
    assert [(row["id"], row["_case"]) for row in quarantined(table)] == [(9, "missing")]


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["skip", {"unfit": "skip"}, {"other": "fail"}, ["fail"]], ids=["word", "action", "case", "list"]
)
def test_an_unknown_mismatch_policy_is_refused(table: txlog.Table, given: Any) -> None:
    with pytest.raises(txlog.InvalidInputError, match="on_mismatch"):
        sink_of(table, given)


def test_a_policy_is_for_changes_and_travels_with_the_sink(table: txlog.Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="on_mismatch is only for row changes"):
        txlog.Sink(table, "app", on_mismatch="fail")
    again = pickle.loads(pickle.dumps(sink_of(table, {"missing": "fail"})))
    with pytest.raises(txlog.InvalidInputError, match="id=7"):
        commit(again, 1, CHANGES)


def test_what_is_in_quarantine_counts_as_left_of_deleted_rows(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(schema=SCHEMA)
    commit(sink_of(table, "quarantine"), 1, changes(("-D", 7, None)))
    (path,) = (Path(table.uri) / "_txlog/quarantine").iterdir()
    found = table.check_deleted()
    assert [each.path for each in found.remains if each.kept_by == "quarantine"] == [f"_txlog/quarantine/{path.name}"]
    assert not found.rows_are_gone
    table.vacuum(0, force=True)
    assert path.exists()
    path.unlink()
    assert table.check_deleted().rows_are_gone
