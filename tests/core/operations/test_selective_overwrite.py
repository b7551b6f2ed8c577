"""Overwrites of a part of a table: exact, refused before a row is read where needed, in conflict by Delta's rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

import txlog
from txlog.core.format.file_columns import add_files_of
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.writing import write_vectors
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
START = [(1, "mon"), (2, "mon"), (3, "tue"), (4, None), (None, "tue")]


def rows_of(*rows: tuple[Any, Any]) -> pa.Table:
    return pa.table(
        [
            pa.array(list(column), kind)
            for column, kind in zip(zip(*rows, strict=True) if rows else ([], []), SCHEMA.types, strict=True)
        ],
        schema=SCHEMA,
    )


def in_order(rows: Any) -> list[tuple[Any, Any]]:
    return sorted(rows, key=lambda row: tuple((value is not None, value) for value in row))


def found(table: Table) -> list[tuple[Any, Any]]:
    return in_order((row["id"], row["day"]) for row in table.snapshot().to_arrow().to_pylist())


def made(path: Path, partition_by: list[str], **properties: str) -> Table:
    table = Table.create(path / "t", SCHEMA, partition_by, properties)
    table.append(rows_of(*START))
    return table


@pytest.fixture(params=[["day"], []], ids=["by day", "flat"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return made(tmp_path, request.param)


@pytest.fixture
def by_day(tmp_path: Path) -> Table:
    return made(tmp_path, ["day"])


def newest(table: Table) -> dict[str, Any]:
    return table.history(1)[0]


# --- the rows of a predicate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "new", "gone"),
    [
        ("day = 'mon'", (9, "mon"), [(1, "mon"), (2, "mon")]),
        ("id = 1", (1, "wed"), [(1, "mon")]),
        ("id > 2 AND day = 'tue'", (5, "tue"), [(3, "tue")]),
        ("day IS NULL", (9, None), [(4, None)]),
        ("id IS NULL", (None, "x"), [(None, "tue")]),
        ("id < 3 OR day IS NULL", (0, "q"), [(1, "mon"), (2, "mon"), (4, None)]),
        ("id = 100", (100, "mon"), []),
        ("upper(day) = 'TUE'", (9, "tue"), [(3, "tue"), (None, "tue")]),
        ("NOT day = 'mon'", (9, "wed"), [(3, "tue"), (None, "tue")]),
        ("TRUE", (9, "wed"), START),
    ],
)
def test_rows_that_satisfy_the_predicate_are_replaced_and_no_others(
    table: Table, where: str, new: tuple[Any, Any], gone: list[tuple[Any, Any]]
) -> None:
    result = table.overwrite(rows_of(new), where)
    left = in_order([new, *(row for row in START if row not in gone)])
    assert found(table) == left
    assert (result.metrics.rows, result.metrics.rows_deleted) == (1, len(gone))
    for others in (
        deltalake.DeltaTable(table.uri).to_pyarrow_table().select(["id", "day"]).to_pylist(),
        polars.read_delta(table.uri).select("id", "day").to_dicts(),
    ):
        assert in_order((row["id"], row["day"]) for row in others) == left


@settings(deadline=None)
@given(data=st.data())
def test_any_selective_overwrite_equals_a_delete_and_an_append(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ids, days = st.none() | st.integers(0, 4), st.none() | st.sampled_from(["a", "b"])
    pairs = st.lists(st.tuples(ids, days), max_size=6)
    partition_by = data.draw(st.sampled_from([[], ["day"], ["id"]]))
    properties = {"delta.enableDeletionVectors": data.draw(st.sampled_from(["true", "false"]))}
    table = Table.create(tmp_path_factory.mktemp("t") / "t", SCHEMA, partition_by, properties)
    rows: list[tuple[Any, Any]] = []
    keeps: dict[str, Callable[[Any, Any], bool]] = {
        "id = 1": lambda id, day: id == 1,
        "id >= 2 AND day = 'a'": lambda id, day: id is not None and id >= 2 and day == "a",
        "day = 'b' OR id IS NULL": lambda id, day: day == "b" or id is None,
        "day IN ('a') AND NOT id IN (0, 3)": lambda id, day: day == "a" and id is not None and id not in (0, 3),
    }
    for _ in range(data.draw(st.integers(1, 3))):
        more = data.draw(pairs)
        table.append(rows_of(*more))
        rows += more
        where = data.draw(st.sampled_from(sorted(keeps)))
        new = [row for row in data.draw(pairs) if keeps[where](*row)]
        result = table.overwrite(rows_of(*new), where)
        left = [row for row in rows if not keeps[where](*row)]
        assert result.metrics.rows_deleted == len(rows) - len(left)
        rows = [*left, *new]
        assert found(table) == in_order(rows)


def test_rows_outside_the_predicate_are_refused_with_an_example(table: Table) -> None:
    for row in ((5, "tue"), (5, None)):
        with pytest.raises(txlog.InvalidInputError, match=rf"first is row 1, .* with day = {row[1]!r}"):
            table.overwrite(rows_of((9, "mon"), row), "day = 'mon'")
    assert found(table) == in_order(START)
    assert table.snapshot().version == 1
    assert len([*Path(table.uri).rglob("*.parquet")]) == table.snapshot().num_files


def test_an_empty_partition_value_is_outside_of_what_it_would_replace(by_day: Table) -> None:
    """Delta stores it as null, which does not satisfy the predicate: the next overwrite would not replace it."""
    with pytest.raises(txlog.InvalidInputError, match="with day = None"):
        by_day.overwrite(rows_of((9, "")), "day = ''")
    by_day.overwrite(rows_of((9, "")), "day IS NULL")
    assert found(by_day) == in_order([row for row in START if row[1] is not None] + [(9, None)])


def test_history_shows_it_as_spark_does(by_day: Table) -> None:
    by_day.overwrite(rows_of((9, "mon")), "day = 'mon'")
    by_day.append(rows_of((1, "wed"), (2, "wed")))
    assert newest(by_day)["operationParameters"] == {"mode": "Append", "partitionBy": '["day"]'}
    by_day.overwrite(rows_of((1, "wed")), "id = 1")
    entry = newest(by_day)
    assert (entry["operation"], entry["isBlindAppend"]) == ("WRITE", False)
    assert entry["operationParameters"] == {"mode": "Overwrite", "partitionBy": '["day"]', "predicate": "id = 1"}
    metrics = entry["operationMetrics"]
    assert metrics.pop("numOutputBytes").isdecimal()
    assert metrics.pop("numRemovedBytes").isdecimal()
    assert metrics == {
        "numFiles": "2",
        "numOutputRows": "2",
        "numRemovedFiles": "1",
        "numCopiedRows": "1",
        "numDeletedRows": "1",
        "numAddedChangeFiles": "0",
    }


def test_whole_files_are_removed_without_being_read(by_day: Table) -> None:
    for path in Path(by_day.uri).rglob("*.parquet"):
        path.write_bytes(b"not a Parquet file")
    result = by_day.overwrite(rows_of((9, "mon")), "day = 'mon'")
    assert (result.metrics.files, result.metrics.files_removed, result.metrics.rows_deleted) == (1, 1, 2)


def test_a_copy_takes_the_place_of_each_file_that_matched_in_part(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    for start in (0, 10, 20):
        table.append(rows_of(*((n, "x") for n in range(start, start + 10))))
    result = table.overwrite(rows_of((15, "new")), "id >= 15 AND id < 30")
    assert (result.metrics.files, result.metrics.files_removed, result.metrics.rows_copied) == (2, 2, 5)
    assert found(table) == in_order([(n, "x") for n in range(15)] + [(15, "new")])


def test_deletion_vectors_mark_what_goes_where_the_table_has_them_and_are_left_out_of_copies(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, (), {"delta.enableDeletionVectors": "true"})
    table.append(rows_of(*((n, "x") for n in range(6))))
    opened = table._open_table
    state = opened.log.newest_state()
    builder = ProposalBuilder(state)
    vector = write_vectors(opened.store.files, [BitMap64([1, 4])])[0][0]
    builder.replace_vector(add_files_of(opened.log.files(state))[0], vector)
    isolation = Isolation.SERIALIZABLE
    opened.commit(
        builder.build(
            OperationInfo("DELETE"),
            txn_id="t",
            now_ms=1,
            isolation=isolation,
        ),
        state,
    )
    assert found(table) == [(n, "x") for n in (0, 2, 3, 5)]
    assert table.overwrite(rows_of(), "id = 4").metrics.vectors == 0
    result = table.overwrite(rows_of((3, "new")), "id >= 1 AND id < 4")
    metrics = result.metrics
    assert (metrics.rows_deleted, metrics.rows_copied, metrics.vectors, metrics.files_removed) == (2, 0, 1, 0)
    assert found(table) == [(0, "x"), (3, "new"), (5, "x")]
    file = next(row for row in table.snapshot().files().to_pylist() if row["deletionVector"])
    assert file["deletionVector"]["cardinality"] == 4
    assert json.loads(file["stats"])["tightBounds"] is False
    assert json.loads(file["stats"])["numRecords"] == 6
    assert polars.read_delta(table.uri).height == 3
    table.set_properties({"delta.enableDeletionVectors": "false"})
    copied = table.overwrite(rows_of((0, "zero")), "id = 0").metrics
    assert (copied.rows_copied, copied.vectors, copied.files_removed) == (1, 0, 1)
    assert found(table) == [(0, "zero"), (3, "new"), (5, "x")]


def test_columns_with_names_of_their_own_in_files_are_matched_and_copied(tmp_path: Path) -> None:
    table = made(tmp_path, ["day"], **{"delta.columnMapping.mode": "name"})
    table.overwrite(rows_of((1, "wed")), "id = 1")
    table.overwrite(rows_of((9, "tue")), "day = 'tue'")
    assert found(table) == in_order([(1, "wed"), (2, "mon"), (4, None), (9, "tue")])


def test_new_columns_may_come_with_the_rows_of_a_predicate(table: Table) -> None:
    wider = rows_of((1, "mon")).append_column("n", pa.array([5]))
    table.overwrite(wider, "id = 1", schema_mode="merge")
    assert {(row["id"], row["n"]) for row in table.snapshot().to_arrow().to_pylist()} == {
        (1, 5),
        (2, None),
        (3, None),
        (4, None),
        (None, None),
    }
    assert newest(table)["operationParameters"]["canMergeSchema"] == "true"


def test_rows_outside_of_a_predicate_without_columns_are_refused_by_number_alone(table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"The first is row 0, counting from 0\. Nothing was written"):
        table.overwrite(rows_of((1, "mon")), "false")


@pytest.mark.parametrize("where", ["nope = 1", "id = 'x'", "id ="])
def test_a_predicate_that_does_not_fit_the_table_is_refused(table: Table, where: str) -> None:
    with pytest.raises(txlog.InvalidInputError):
        table.overwrite(rows_of((1, "mon")), where)
    assert table.snapshot().version == 1


def test_a_table_may_be_created_by_the_rows_of_a_predicate(tmp_path: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match="first is row 0"):
        txlog.write(tmp_path / "t", rows_of((1, "x")), "overwrite", where="day = 'y'")
    assert not Table.exists(tmp_path / "t")
    txlog.write(tmp_path / "t", rows_of((1, "x")), "overwrite", ["day"], where="day = 'x'")
    txlog.write(tmp_path / "t", rows_of((2, "x")), "overwrite", where="day = 'x'")
    txlog.write(tmp_path / "t", rows_of((3, "y")), "overwrite_partitions")
    assert found(Table.open(tmp_path / "t")) == [(2, "x"), (3, "y")]


def test_a_replayed_overwrite_is_dropped(table: Table) -> None:
    for _ in range(2):
        result = table.overwrite(rows_of((1, "mon")), "id = 1", app_id="app", checkpoint_id=1)
    assert result.outcome == "already_committed"
    assert table.snapshot().version == 2


# --- whole partitions -------------------------------------------------------------------------------------------------


def test_the_partitions_of_the_new_rows_are_replaced(by_day: Table) -> None:
    result = by_day.overwrite_partitions(rows_of((7, "tue"), (8, None), (9, "new")))
    assert found(by_day) == in_order([(1, "mon"), (2, "mon"), (7, "tue"), (8, None), (9, "new")])
    assert (result.metrics.files_removed, result.metrics.rows_deleted) == (2, 3)
    assert newest(by_day)["operationParameters"] == {
        "mode": "Overwrite",
        "partitionBy": '["day"]',
        "isDynamicPartitionOverwrite": "true",
    }


def test_the_result_of_an_overwrite_counts_what_was_written_and_removed(by_day: Table) -> None:
    assert "(version=2, committed, 2 rows written, 2 rows deleted, 2 files," in str(
        by_day.overwrite_partitions(rows_of((7, "tue"), (9, "new")))
    )
    assert "3 rows written, 1 row deleted" in str(by_day.overwrite(rows_of(*[(1, "mon")] * 3), "id = 1"))
    assert "(version=4, committed, 1 row, 1 file," in str(by_day.append(rows_of((1, "mon"))))
    assert "1 row inserted, 1 row updated, 2 files" in str(by_day.upsert(rows_of((50, "x"), (7, "tue")), ["id"]))


def test_an_overwrite_of_new_partitions_only_adds_and_is_not_blind(by_day: Table) -> None:
    by_day.overwrite_partitions(rows_of((9, "new")))
    assert found(by_day) == in_order([*START, (9, "new")])
    assert newest(by_day)["isBlindAppend"] is False


def test_a_partition_is_found_whatever_the_spelling_of_its_value(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    table = Table.create(tmp_path / "t", schema, ["at"])

    def at(*ids: int) -> pa.Table:
        return pa.table({"id": list(ids), "at": pa.array([0] * len(ids), schema.field("at").type)}, schema=schema)

    table.append(at(1))
    commit = next(Path(table.uri, "_delta_log").glob("*1.json"))
    commit.write_text(commit.read_text().replace("1970-01-01T00:00:00.000000Z", "1970-01-01 00:00:00"))
    table = Table.open(table.uri)
    assert "1970-01-01 00:00:00" in str(table.snapshot().files().column("partitionValues"))
    table.overwrite_partitions(at(2))
    assert table.snapshot().to_arrow().column("id").to_pylist() == [2]


def test_a_table_without_partitions_has_none_to_overwrite(tmp_path: Path) -> None:
    table = made(tmp_path, [])
    with pytest.raises(txlog.InvalidInputError, match="not partitioned"):
        table.overwrite_partitions(rows_of((1, "mon")))


# --- the schema with the rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["none", "name"])
def test_an_overwrite_may_replace_the_columns(tmp_path: Path, mode: str) -> None:
    table = made(
        tmp_path, ["day"], **{"delta.columnMapping.mode": mode, "delta.logRetentionDuration": "interval 9 days"}
    )
    before = table.snapshot()
    table.overwrite(pa.table({"day": ["x"], "id": ["text"]}), schema_mode="overwrite")
    after = table.snapshot()
    assert after.to_arrow().to_pylist() == [{"day": "x", "id": "text"}]
    assert (after.partition_columns, after.table_id) == (("day",), before.table_id)
    assert after.properties["delta.logRetentionDuration"] == "interval 9 days"
    assert newest(table)["operationParameters"]["canOverwriteSchema"] == "true"
    assert in_order((r["id"], r["day"]) for r in before.to_arrow().to_pylist()) == in_order(START)
    assert deltalake.DeltaTable(table.uri).version() == 2 if mode == "none" else True


def test_an_overwrite_of_the_schema_may_partition_the_table_otherwise(by_day: Table) -> None:
    by_day.overwrite(rows_of((1, "a")), schema_mode="overwrite", partition_by=["id"])
    assert by_day.snapshot().partition_columns == ("id",)
    by_day.overwrite(rows_of((1, "a")), schema_mode="overwrite", partition_by=[])
    assert by_day.snapshot().partition_columns == ()
    assert found(by_day) == [(1, "a")]
    assert deltalake.DeltaTable(by_day.uri).to_pyarrow_table().num_rows == 1


def test_the_same_schema_again_changes_no_definition(by_day: Table) -> None:
    by_day.overwrite(rows_of((1, "a")), schema_mode="overwrite")
    commit = Path(by_day.uri, "_delta_log", f"{2:020}.json").read_text().splitlines()
    assert not [line for line in commit if "metaData" in json.loads(line)]


def test_a_schema_overwrite_whose_data_lacks_a_partition_column_is_refused(by_day: Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="the data has no day"):
        by_day.overwrite(pa.table({"id": [1]}), schema_mode="overwrite")


def test_the_schema_is_replaced_by_an_overwrite_of_every_row_alone(by_day: Table) -> None:
    for write in (
        lambda: by_day.append(rows_of((1, "a")), schema_mode="overwrite"),
        lambda: by_day.overwrite(rows_of((1, "a")), "id = 1", schema_mode="overwrite"),
        lambda: by_day.overwrite_partitions(rows_of((1, "a")), schema_mode="overwrite"),
    ):
        with pytest.raises(txlog.InvalidInputError, match="must replace every row"):
            write()


# --- refused before a row is read -------------------------------------------------------------------------------------


def unread() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([], schema=SCHEMA)
    raise AssertionError("a row was read")


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.overwrite(pa.RecordBatchReader.from_batches(SCHEMA, unread())),
        lambda table: table.overwrite(pa.RecordBatchReader.from_batches(SCHEMA, unread()), "id = 1"),
        lambda table: table.overwrite(pa.RecordBatchReader.from_batches(SCHEMA, unread()), schema_mode="overwrite"),
        lambda table: table.overwrite_partitions(pa.RecordBatchReader.from_batches(SCHEMA, unread())),
    ],
)
def test_an_append_only_table_refuses_every_overwrite_before_a_row_is_read(
    tmp_path: Path, write: Callable[[Table], Any]
) -> None:
    table = made(tmp_path, ["day"], **{"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match="append-only"):
        write(table)
    with pytest.raises(txlog.InvalidInputError, match="append-only"), table.transaction() as txn:
        txn.remove_partitions("day = 'mon'")


# --- beside other writers ---------------------------------------------------------------------------------------------


OVERWRITES: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda table, data: table.overwrite(data, "day = 'mon'"),
    "partitions": lambda table, data: table.overwrite_partitions(data),
}


@pytest.mark.parametrize("how", OVERWRITES)
@pytest.mark.parametrize(
    ("isolation", "rival", "conflicts"),
    [
        ("WriteSerializable", lambda t: t.append(rows_of((7, "mon"))), False),
        ("Serializable", lambda t: t.append(rows_of((7, "mon"))), True),
        ("Serializable", lambda t: t.append(rows_of((7, "tue"))), False),
        ("WriteSerializable", lambda t: t.overwrite(rows_of((7, "mon")), "day = 'mon'"), True),
        ("WriteSerializable", lambda t: t.overwrite(rows_of((7, "tue")), "day = 'tue'"), False),
        ("WriteSerializable", lambda t: t.overwrite_partitions(rows_of((7, "mon"))), True),
        ("WriteSerializable", lambda t: t.add_columns(pa.schema([("n", pa.int8())])), True),
    ],
)
def test_a_selective_overwrite_conflicts_with_concurrent_changes_of_its_region(
    tmp_path: Path, how: str, isolation: str, rival: Callable[[Table], Any], conflicts: bool
) -> None:
    table = made(tmp_path, ["day"], **{"delta.isolationLevel": isolation})

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        rival(Table.open(table.uri))
        yield from rows_of((9, "mon")).to_batches()

    data = pa.RecordBatchReader.from_batches(SCHEMA, rows_with_a_rival())
    if conflicts:
        with pytest.raises(txlog.ConflictError) as caught:
            OVERWRITES[how](table, data)
        assert caught.value.winner_version == 2
        assert table.snapshot().version == 2
    else:
        assert OVERWRITES[how](table, data).version == 3
        left = {row[0] for row in found(table)}
        assert {9, 7, 4} <= left
        assert not {1, 2} & left


# --- in a transaction -------------------------------------------------------------------------------------------------


def test_overwrites_and_removals_of_one_transaction_happen_in_order(by_day: Table) -> None:
    with by_day.transaction() as txn:
        txn.append(rows_of((10, "mon"), (11, "wed")))
        txn.overwrite(rows_of((12, "mon")), "day = 'mon'")
        txn.overwrite_partitions(rows_of((13, "wed")))
        txn.remove_partitions("day = 'tue'")
        txn.append(rows_of((14, "tue")))
    assert found(by_day) == in_order([(12, "mon"), (13, "wed"), (4, None), (14, "tue")])
    assert newest(by_day)["operationParameters"] == {
        "mode": "Overwrite",
        "predicate": "(day = 'mon') OR (day = 'tue')",
        "isDynamicPartitionOverwrite": "true",
    }


def test_rows_that_the_transaction_added_before_are_replaced_too(tmp_path: Path) -> None:
    table = made(tmp_path, [])
    with table.transaction() as txn:
        txn.append(rows_of((10, "a"), (11, "b")))
        txn.overwrite(rows_of((10, "new")), "id >= 10 AND id < 11")
    assert found(table) == in_order([*START, (11, "b"), (10, "new")])
    with table.transaction() as txn:
        txn.append(rows_of((20, "gone")))
        txn.overwrite(rows_of((21, "all")))
    assert found(table) == [(21, "all")]


def test_history_shows_a_removal_of_partitions_as_a_delete(by_day: Table) -> None:
    with by_day.transaction() as txn:
        txn.remove_partitions("day = 'mon' OR day IS NULL")
    assert found(by_day) == in_order([(3, "tue"), (None, "tue")])
    entry = newest(by_day)
    assert entry["operation"] == "DELETE"
    assert entry["operationParameters"] == {"predicate": "[\"day = 'mon' OR day IS NULL\"]"}
    assert (entry["operationMetrics"]["numRemovedFiles"], entry["operationMetrics"]["numDeletedRows"]) == ("2", "3")
    assert txn.result.metrics.rows_deleted == 3


@pytest.mark.parametrize("where", ["id = 1", "day = 'mon' AND id = 1"])
def test_a_removal_that_partition_values_do_not_decide_is_refused(by_day: Table, where: str) -> None:
    with by_day.transaction() as txn, pytest.raises(txlog.InvalidInputError, match="partition values alone do not"):
        txn.remove_partitions(where)
    assert found(by_day) == in_order(START)


def remove_mondays_beside(table: Table, rival: tuple[Any, Any]) -> None:
    with table.transaction("Serializable") as txn:
        txn.remove_partitions("day = 'mon'")
        Table.open(table.uri).append(rows_of(rival))


def test_a_removal_of_partitions_conflicts_with_a_concurrent_append_to_them(by_day: Table) -> None:
    with pytest.raises(txlog.ConcurrentAppendError):
        remove_mondays_beside(by_day, (7, "mon"))
    remove_mondays_beside(by_day, (7, "tue"))
    assert (7, "tue") in found(by_day)


def fail_after_an_overwrite(table: Table) -> None:
    with table.transaction() as txn:
        txn.overwrite(rows_of((1, "new")), "id = 1")
        raise ZeroDivisionError


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_transaction_that_fails_leaves_no_copy_and_no_vector_behind(tmp_path: Path, vectors: str) -> None:
    table = made(tmp_path, [], **{"delta.enableDeletionVectors": vectors})
    with pytest.raises(ZeroDivisionError):
        fail_after_an_overwrite(table)
    assert len([*Path(table.uri).rglob("*.parquet")]) == 1
    assert not [*Path(table.uri).rglob("*.bin")]
    assert found(table) == in_order(START)


def test_a_transaction_may_mark_rows_of_files_that_it_marked_or_added_before(tmp_path: Path) -> None:
    table = made(tmp_path, [], **{"delta.enableDeletionVectors": "true"})
    with table.transaction() as txn:
        txn.append(rows_of((10, "a"), (11, "b"), (12, "c")))
        txn.overwrite(rows_of((1, "new")), "id = 1")
        txn.overwrite(rows_of((12, "new"), (2, "new")), "id = 2 OR id = 12")
    assert found(table) == in_order([*START[2:], (10, "a"), (11, "b"), (1, "new"), (12, "new"), (2, "new")])
    assert sum(file["deletionVector"] is not None for file in table.snapshot().files().to_pylist()) == 2
    assert polars.read_delta(table.uri).height == 8
