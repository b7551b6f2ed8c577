"""A table's feed, written to a copy: equal to the table at every version, in every mode and by every door.

The oracle is plain Python (`feed_programs`), and deltalake reads the copies.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from feed_programs import COLUMNS, WAYS, Program, Rows, Way, rows_of
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.errors import InvalidInputError, SchemaMismatchError

CHANGES = pa.schema([("op", pa.string()), ("id", pa.int64()), ("v", pa.string())])
Doors = pytest.mark.parametrize("mode", [None, "upsert", "retract"], ids=["Table.upsert", "upsert", "retract"])


def read_by_deltalake(table: txlog.Table) -> pa.Table:
    return pa.table(deltalake.DeltaTable(table.uri).to_pyarrow_table())


def follow(program: Program, copy: txlog.Table, way: Way, cuts: list[int]) -> None:
    """Write the feed into the copy, some versions at a time."""
    last = program.table.version
    ends = sorted({min(cut, last) for cut in cuts} | {0, last})
    for checkpoint_id, (start, end) in enumerate(itertools.pairwise(ends)):
        way.write(copy, program.table.changes(start + 1, end).read_all(), checkpoint_id)
        expected: Rows = program.versions[end]
        assert rows_of(read_by_deltalake(copy)) == expected, (way, start + 1, end)


@given(seed=st.integers(0, 1 << 32), ways=st.lists(st.sampled_from(WAYS), min_size=2, max_size=2), cuts=st.data())
def test_a_copy_that_follows_a_feed_equals_the_table_at_every_version(
    tmp_path_factory: pytest.TempPathFactory, seed: int, ways: list[Way], cuts: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("feed")
    program = Program(str(folder / "table"), seed)
    program.run(5)
    for number, way in enumerate(ways):
        properties = {} if way.engine is None else {"txlog.merge-engine": way.engine}
        copy = txlog.Table.create(str(folder / f"copy-{number}"), COLUMNS, properties=properties)
        follow(program, copy, way, cuts.draw(st.one_of(st.just([*range(20)]), st.lists(st.integers(1, 9), max_size=3))))


# --- one change at a time ---------------------------------------------------------------------------------------------


def changes(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in rows], CHANGES)


def two_rows(path: Path, properties: dict[str, str] | None = None) -> txlog.Table:
    table = txlog.Table.create(str(path / "t"), "id bigint, v string", properties=properties or {})
    table.append(pa.table({"id": [1, 2], "v": ["one", "two"]}))
    return table


def write(table: txlog.Table, mode: str | None, *batches: Any, **options: Any) -> None:
    """Each batch is a commit."""
    how: dict[str, Any] = {"keys": ["id"], "row_kind": "op", **options}
    for batch in batches:
        if mode is None:
            table.upsert(batch, **how)
            continue
        sink = txlog.Sink(table, "app", mode=mode, **how)
        checkpoint_id = -1 if (last := sink.last_checkpoint_id()) is None else last
        with sink.task(checkpoint_id + 1) as task:
            task.write(batch)
        sink.stage(task.committable)
        sink.prepare(checkpoint_id + 1, [0])
        sink.commit(checkpoint_id + 1)


def found(table: txlog.Table) -> dict[int, str | None]:
    rows = read_by_deltalake(table).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["v"] for row in rows}


SHIFT = [("-U", 1, "one"), ("+U", 2, "one"), ("-U", 2, "two"), ("+U", 3, "two")]


@Doors
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_shift_of_keys_that_two_commits_share_leaves_each_row_at_its_new_key(
    tmp_path: Path, mode: str | None, cut: int
) -> None:
    table = two_rows(tmp_path)
    write(table, mode, *(changes(*part) for part in (SHIFT[:cut], SHIFT[cut:]) if part))
    assert found(table) == {2: "one", 3: "two"}


@Doors
def test_equal_rows_that_shift_all_stay(tmp_path: Path, mode: str | None) -> None:
    table = two_rows(tmp_path)
    table.update({"v": txlog.expr("'same'")})
    write(table, mode, changes(("-U", 1, "same"), ("+U", 2, "same"), ("-U", 2, "same"), ("+U", 3, "same")))
    assert found(table) == {2: "same", 3: "same"}


@Doors
@pytest.mark.parametrize("sequence_by", [None, "at"])
def test_the_deletes_and_creates_of_a_shift_in_debeziums_words_lose_no_row(
    tmp_path: Path, mode: str | None, sequence_by: str | None
) -> None:
    table = two_rows(tmp_path)
    rows = changes(("d", 1, "one"), ("c", 2, "one"), ("d", 2, "two"), ("c", 3, "two"))
    if sequence_by:
        rows = rows.append_column("at", pa.array([1, 2, 3, 4]))
    write(table, mode, rows, sequence_by=sequence_by)
    assert found(table) == {2: "one", 3: "two"}


@Doors
def test_a_delete_that_comes_late_removes_the_row_that_it_carries_and_not_the_one_that_replaced_it(
    tmp_path: Path, mode: str | None
) -> None:
    table = two_rows(tmp_path)
    write(table, mode, changes(("c", 5, "old"), ("c", 5, "new"), ("d", 5, "old"), ("c", 6, "x"), ("d", 6, "x")))
    assert found(table) == {1: "one", 2: "two", 5: "new"}


@Doors
def test_a_row_that_is_inserted_and_deleted_in_one_commit_is_gone_whatever_else_its_delete_tells(
    tmp_path: Path, mode: str | None
) -> None:
    table = two_rows(tmp_path)
    gone = [
        ("+I", 7, "x"),
        ("-D", 7, "deleted at noon"),
        ("+I", 8, "x"),
        ("-D", 8, None),
        ("+I", 9, "x"),
        ("-D", 9, "x"),
    ]
    write(table, mode, changes(*gone))
    assert found(table) == {1: "one", 2: "two"}


@Doors
def test_a_retraction_of_another_row_than_the_table_has_is_told_and_a_policy_can_refuse_it(
    tmp_path: Path, mode: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    table = two_rows(tmp_path)
    rows = changes(("-U", 1, "uno"), ("+I", 5, "five"))
    with caplog.at_level(logging.WARNING, logger="txlog"):
        write(table, mode, rows)
    assert found(table) == {1: "one", 2: "two", 5: "five"}
    assert "1 keys keep their row" in caplog.text
    if mode is not None:
        with pytest.raises(InvalidInputError, match="there is no row to delete with id=1"):
            write(table, mode, rows, on_mismatch={"missing": "fail"})


@Doors
def test_the_versions_of_a_feed_order_its_changes_however_they_arrive(tmp_path: Path, mode: str | None) -> None:
    table = two_rows(tmp_path)
    words, versions = ["insert", "delete", "insert", "update_preimage", "update_postimage"], [9, 8, 7, 9, 9]
    feed = pa.table({"_change_type": words, "id": [1, 1, 3, 3, 4], "v": ["new", "one", "x", "x", "x"]})
    feed = feed.append_column("_commit_version", pa.array(versions))
    write(table, mode, feed, row_kind="_change_type")
    assert found(table) == {1: "new", 2: "two", 4: "x"}
    with pytest.raises(InvalidInputError, match="ordered by _commit_version"):
        write(table, mode, feed.append_column("at", pa.array(versions)), row_kind="_change_type", sequence_by="at")


def test_a_partial_update_refuses_a_retraction_that_no_new_row_follows_but_takes_a_feeds(tmp_path: Path) -> None:
    properties = {"txlog.merge-engine": "partial-update", "txlog.partial-update.remove-record-on-delete": "true"}
    table = two_rows(tmp_path, properties)
    for mode in (None, "upsert"):
        with pytest.raises(InvalidInputError, match=r"-U has no \+U with its key after it"):
            write(table, mode, changes(("-U", 1, "one"), ("+U", 9, "one")))
    txlog.Sink(table, "app").discard(0)
    feed = pa.table({"_change_type": ["update_preimage", "update_postimage"], "id": [1, 9], "v": ["one", "one"]})
    write(table, None, feed.append_column("_commit_version", pa.array([3, 3])), row_kind="_change_type")
    assert found(table) == {2: "two", 9: "one"}


COLUMN_BY_COLUMN = {
    "aggregation": {
        "txlog.merge-engine": "aggregation",
        "txlog.fields.default-aggregate-function": "last_value",
        "txlog.aggregation.remove-record-on-delete": "true",
    },
    "partial-update": {
        "txlog.merge-engine": "partial-update",
        "txlog.partial-update.remove-record-on-delete": "true",
    },
}
ByColumn = pytest.mark.parametrize("engine", COLUMN_BY_COLUMN)
Upserts = pytest.mark.parametrize("mode", [None, "upsert"], ids=["Table.upsert", "Sink"])


@Upserts
@ByColumn
@pytest.mark.parametrize("words", [("delete", "insert"), ("update_preimage", "update_postimage")])
def test_a_row_that_goes_and_comes_in_one_version_stays_if_it_was_there(
    tmp_path: Path, mode: str | None, engine: str, words: tuple[str, str]
) -> None:
    table = two_rows(tmp_path, COLUMN_BY_COLUMN[engine])
    for number, kinds in enumerate((words, words[::-1])):
        both = [(kind, key, value) for kind in kinds for key, value in ((1, "one"), (5, None))]
        feed = changes(*both).rename_columns(["_change_type", "id", "v"])
        write(table, mode, feed.append_column("_commit_version", pa.array([number] * 4)), row_kind="_change_type")
        assert found(table) == {1: "one", 2: "two"}, kinds


@given(seed=st.integers(0, 1 << 32), engine=st.sampled_from([*COLUMN_BY_COLUMN]), cuts=st.data())
def test_a_copy_that_merges_column_by_column_has_the_keys_of_the_table_at_every_version(
    tmp_path_factory: pytest.TempPathFactory, seed: int, engine: str, cuts: st.DataObject
) -> None:
    """A partial update keeps a value where the table has a null since, and an aggregation takes nulls too."""
    folder = tmp_path_factory.mktemp("feed")
    program = Program(str(folder / "table"), seed)
    program.run(5)
    for number, mode in enumerate((None, "upsert")):
        uri = str(folder / f"copy-{number}")
        copy = txlog.Table.create(uri, COLUMNS, properties=COLUMN_BY_COLUMN[engine])
        way, last = Way(mode), program.table.version
        ends = sorted({*cuts.draw(st.lists(st.integers(1, last), max_size=3)), 0, last}) if last else [0]
        for checkpoint_id, (start, end) in enumerate(itertools.pairwise(ends)):
            way.write(copy, program.table.changes(start + 1, end).read_all(), checkpoint_id)
            copied, expected = rows_of(read_by_deltalake(copy)), program.versions[end]
            assert copied.keys() == expected.keys(), (mode, start + 1, end)
            for key, row in expected.items():
                pairs = zip(copied[key], row, strict=True)
                assert all(a == b or (b is None and engine == "partial-update") for a, b in pairs), (key, mode)


# --- values that a change does not have -------------------------------------------------------------------------------


@Doors
def test_a_value_that_a_change_does_not_have_is_not_null(tmp_path: Path, mode: str | None) -> None:
    table = two_rows(tmp_path)
    shapes = [changes(("+U", 1, "uno")), changes(("+U", 2, "dos")).drop_columns(["v"])]
    with pytest.raises(SchemaMismatchError, match=r"lack v from row 1 on"):
        write(table, mode, shapes)
    with pytest.raises(
        InvalidInputError, match=r"column v has __debezium_unavailable_value in row 1 .*REPLICA IDENTITY"
    ):
        write(table, mode, changes(("+U", 1, "uno"), ("+U", 2, "__debezium_unavailable_value")))
    assert found(table) == {1: "one", 2: "two"}


@Doors
def test_a_partial_update_keeps_the_old_value(tmp_path: Path, mode: str | None) -> None:
    table = two_rows(tmp_path, {"txlog.merge-engine": "partial-update"})
    shapes = [
        changes(("+U", 1, "uno"), ("+U", 2, "__debezium_unavailable_value")),
        changes(("+U", 1, "")).drop_columns(["v"]),
    ]
    write(table, mode, shapes)
    assert found(table) == {1: "uno", 2: "two"}


def test_a_plain_upsert_and_a_merge_refuse_rows_that_lack_what_others_have(tmp_path: Path) -> None:
    table = two_rows(tmp_path)
    shapes = [pa.table({"id": [1], "v": ["uno"]}), pa.table({"id": [2]})]
    for missing in ("error", "default"):
        with pytest.raises(SchemaMismatchError, match=r"from row 1 on .*: v is only in some rows"):
            table.upsert(shapes, keys=["id"], missing_columns=missing)
    with pytest.raises(SchemaMismatchError, match="v is only in some rows"):
        table.merge(shapes, ["id"]).when_matched_update_all().execute()
    with pytest.raises(InvalidInputError, match="__debezium_unavailable_value in row 0"):
        table.upsert(pa.table({"id": [1], "v": ["__debezium_unavailable_value"]}), keys=["id"])
    assert found(table) == {1: "one", 2: "two"}


def test_columns_of_a_sequence_group_come_together(tmp_path: Path) -> None:
    properties = {"txlog.merge-engine": "partial-update", "txlog.fields.at.sequence-group": "v,w"}
    table = txlog.Table.create(str(tmp_path / "t"), "id bigint, at bigint, v string, w string", properties=properties)
    table.upsert(pa.table({"id": [1], "at": [1], "v": ["one"], "w": ["x"]}), keys=["id"])
    with pytest.raises(SchemaMismatchError, match=r"the changes lack w .*sequence group of at"):
        table.upsert(pa.table({"id": [1], "at": [2], "v": ["uno"]}), keys=["id"])
    table.upsert(pa.table({"id": [2, 1]}), keys=["id"])
    assert table.to_arrow().sort_by("id").to_pylist()[0] == {"id": 1, "at": 1, "v": "one", "w": "x"}


# --- sequences and truncates ------------------------------------------------------------------------------------------


@Doors
def test_a_sequence_that_the_table_lacks_orders_the_changes_of_one_commit(tmp_path: Path, mode: str | None) -> None:
    table = two_rows(tmp_path)
    first = changes(("+U", 1, "newest"), ("+U", 1, "older"), ("-D", 2, None), ("+U", 2, "older"))
    later = changes(("+U", 1, "late"))
    write(
        table,
        mode,
        first.append_column("lsn", pa.array([9, 8, 7, 6])),
        later.append_column("lsn", pa.array([1])),
        sequence_by="lsn",
    )
    assert found(table) == {1: "late"}
    with pytest.raises(InvalidInputError, match=r"lsn is null in row 1"):
        write(table, mode, changes(*SHIFT[:2]).append_column("lsn", pa.array([1, None])), sequence_by="lsn")


def test_a_plain_upsert_takes_a_sequence_that_the_table_lacks_too(tmp_path: Path) -> None:
    table = two_rows(tmp_path)
    rows = pa.table({"id": [1, 1, 2], "v": ["newest", "older", "dos"], "lsn": [9, 8, 7]})
    table.upsert(rows, keys=["id"], on_duplicate="last", sequence_by="lsn")
    assert found(table) == {1: "newest", 2: "dos"}


@Doors
@pytest.mark.parametrize("word", ["t", "TRUNCATE", "truncate"])
def test_a_truncate_is_refused_and_the_error_names_the_way(tmp_path: Path, mode: str | None, word: str) -> None:
    table = two_rows(tmp_path)
    with pytest.raises(InvalidInputError, match=r"row 1 .* truncates the table .*Table\.delete\(all=True\)"):
        write(table, mode, changes(("+U", 1, "uno"), (word, None, None)))
    write(table, mode, changes(("+U", 1, "uno")))
    table.delete(all=True, app_id="truncates", checkpoint_id=17)
    write(table, mode, changes(("+I", 3, "three")))
    assert found(table) == {3: "three"}
