"""`Table.follow`: what commits added, each row once, from any position on."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.operations._follower import Follower
from txlog.core.reading import select
from txlog.core.versions.decisions.stream_offsets import FileRange
from txlog.core.versions.files import DeltaLog

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [f"p{each % 2}" for each in ids]}, schema=SCHEMA)


def followed(table: txlog.Table, *position: int, **how: Any) -> list[tuple[int, int, list[int]]]:
    return [(each.version, each.file, each.rows["id"].to_pylist()) for each in table.follow(*position, **how)]


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """Versions 1 and 2 add ids 0 to 3 and 4 to 5, in two partitions each; version 3 sets a property."""
    table = txlog.Table.create(tmp_path / "t", SCHEMA, ["p"], {"delta.enableDeletionVectors": "true"})
    table.append(rows_of(0, 1, 2, 3))
    table.append(rows_of(4, 5))
    table.set_properties({"team": "x"})
    return table


def test_each_file_of_each_commit_comes_once_in_order(table: txlog.Table) -> None:
    found = followed(table, 0)
    assert [(version, file) for version, file, _ in found] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert sorted(each for _, _, ids in found for each in ids) == [*range(6)]
    assert followed(table, 2) == found[2:]
    assert followed(table, 1, 1) == found[1:]
    assert followed(table, 3) == followed(table, 4) == []
    table.append(rows_of(9))
    assert followed(table, 4) == [(4, 0, [9])]


def test_a_job_that_stops_anywhere_continues_after_its_last_finished_file(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": range(300_000)}))
    table.append(pa.table({"id": range(300_000, 300_010)}))
    seen: list[int] = []
    position = (0, 0)
    for stop_after in (1, 2, 3, 9):
        pending: list[int] = []
        for number, batch in enumerate(pickle.loads(pickle.dumps(table)).follow(*position), 1):
            pending += batch.rows["id"].to_pylist()
            if batch.is_last_of_file:
                seen += pending
                pending, position = [], (batch.version, batch.file + 1)
            if number == stop_after:
                break
    assert seen == [*range(300_010)]


def test_follow_yields_the_chosen_columns_of_the_rows_that_match(table: txlog.Table) -> None:
    found = list(table.follow(0, columns=["p"], where="id in (1, 4)"))
    assert [(each.version, each.is_last_of_file, each.rows.to_pydict()) for each in found] == [
        (1, True, {"p": ["p1"]}),
        (2, True, {"p": ["p0"]}),
    ]


def test_files_keep_their_number_where_a_condition_leaves_others_out(table: txlog.Table) -> None:
    (file_of_1,) = [file for version, file, ids in followed(table, 1) if version == 1 and 1 in ids]
    assert followed(table, 1, where="p = 'p1' and id < 2") == [(1, file_of_1, [1])]
    assert followed(table, 1, file_of_1 + 1, where="p = 'p1' and id < 2") == []


def test_rows_of_other_partition_columns_are_not_read_as_the_newest(table: txlog.Table) -> None:
    table.overwrite(rows_of(9), schema_mode="overwrite", partition_by=[])
    with pytest.raises(txlog.SchemaMismatchError, match="the partition columns were different"):
        followed(table, 2)
    assert followed(table, 4, on_change="added") == [(4, 0, [9])]


def test_follow_skips_files_that_only_moved_rows(table: txlog.Table) -> None:
    before = followed(table, 0)
    with table.transaction(operation="OPTIMIZE", data_change=False) as transaction:
        rows = table.to_arrow()
        transaction.overwrite(rows)
    assert followed(table, 0) == before


@pytest.mark.parametrize("change", ["delete", "update", "overwrite"])
def test_a_version_that_changed_rows_stops_unless_an_option_is_given(change: str, table: txlog.Table) -> None:
    if change == "delete":
        table.delete("id = 2")
    elif change == "update":
        table.update({"id": 20}, "id = 2")
    else:
        table.overwrite(rows_of(20), where="p = 'p0'")
    table.append(rows_of(30))
    with pytest.raises(txlog.InvalidInputError, match=r"version 4 \(\w+\) changed rows") as caught:
        followed(table, 3)
    assert caught.value.version == 4
    assert followed(table, 3, on_change="skip") == [(5, 0, [30])]
    added = {each for version, _, ids in followed(table, 3, on_change="added") for each in ids if version == 4}
    assert (20 in added) == (change != "delete")


def test_what_cannot_be_followed_is_refused_with_its_reason(table: txlog.Table) -> None:
    with pytest.raises(txlog.NotFoundError, match="version 5 does not exist yet: the newest is 3"):
        table.follow(5)
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid on_change '.*': expected 'fail', 'skip' or 'added'"):
        table.follow(0, on_change="ignore")  # type: ignore[arg-type]
    with pytest.raises(txlog.InvalidInputError, match="from_version"):
        table.follow(-1)
    (Path(table.uri) / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(txlog.TxlogError, match="version 1|" + f"{1:020}"):
        followed(txlog.Table.open(table.uri), 1)


def test_rows_of_an_older_schema_come_in_the_newest_one_if_it_can_read_them(table: txlog.Table) -> None:
    table.add_columns(pa.schema({"note": pa.string()}))
    assert next(table.follow(1)).rows.schema.names == ["id", "p", "note"]
    table.overwrite(pa.table({"id": ["x"], "p": ["y"]}), schema_mode="overwrite")
    with pytest.raises(txlog.InvalidInputError, match="version 1 cannot be read with the columns of version 5"):
        list(table.follow(1))


def test_columns_that_no_row_to_read_has_are_no_reason_to_stop(table: txlog.Table) -> None:
    """All rows under the old names were read: by a stream that is up to date, for example."""
    table.set_properties({"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"})
    begin = table.version
    table.rename_column("id", "middle")
    table.rename_column("middle", "number")
    table.append(pa.table({"number": [50], "p": ["new"]}))
    assert [batch.rows["number"].to_pylist() for batch in table.follow(begin)] == [[50]]
    assert table.changes(begin).read_all()["number"].to_pylist() == [50]


def test_rows_with_columns_that_the_newest_version_lacks_stop_whatever_was_defined_between(table: txlog.Table) -> None:
    table.set_properties({"delta.columnMapping.mode": "name"})
    begin = table.version
    table.append(pa.table({"id": [40], "p": ["old"]}))
    table.set_properties({"delta.appendOnly": "false"})
    table.rename_column("id", "number")
    table.append(pa.table({"number": [50], "p": ["new"]}))
    for first in (begin, begin + 1):
        with pytest.raises(txlog.SchemaMismatchError, match=f"rows of version {begin + 1} cannot be read"):
            list(table.follow(first))
    assert [batch.rows["number"].to_pylist() for batch in table.follow(begin + 2)] == [[50]]


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5), min_size=1, max_size=5), st.data())
def test_a_follower_that_continues_after_any_file_sees_each_remaining_file_once(
    commits: list[list[int]], data: st.DataObject
) -> None:
    from txlog.testing.memory_store import memory_table_store

    with pytest.MonkeyPatch.context() as patch:
        store = memory_table_store()
        patch.setattr("txlog.table.open_store", lambda *_given: store)
        table = txlog.Table.create("memory", SCHEMA, ["p"])
        for ids in commits:
            table.append(rows_of(*ids))
        every = list(table.follow(0))
        cut = data.draw(st.sampled_from(every))
        rest = list(table.follow(cut.version, cut.file + 1))
        assert [(each.version, each.file) for each in rest] == [
            (each.version, each.file) for each in every if (each.version, each.file) > (cut.version, cut.file)
        ]
        assert sorted(each for batch in every for each in batch.rows["id"].to_pylist()) == sorted(
            each for ids in commits for each in ids
        )


def test_a_file_that_was_vacuumed_is_an_error_of_the_version_that_added_it(table: txlog.Table) -> None:
    table.overwrite(rows_of(9))
    table.vacuum(0, force=True)
    with pytest.raises(txlog.NotFoundError, match=r"version 1 added .*, which is missing: .* vacuum") as caught:
        followed(table, 1)
    assert caught.value.version == 1
    assert f"at v{table.version}" not in str(caught.value)


def test_a_damaged_file_is_an_error_of_the_version_that_added_it(table: txlog.Table) -> None:
    path = next(Path(table.uri).glob("p=p1/*.parquet"))
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(txlog.CorruptLogError) as caught:
        followed(table, 0)
    assert caught.value.version in (1, 2)


def test_files_of_a_version_with_more_statistics_than_one_array_holds_are_read_a_few_at_a_time(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All chunks are the same memory."""
    log = table._open_table.log
    state = log.newest_state()
    one = table.files().slice(0, 1)
    one = one.set_column(one.schema.get_field_index("stats"), "stats", pa.array(["x" * (64 << 20)]))
    many = pa.concat_tables([one] * 40)
    monkeypatch.setattr(DeltaLog, "files", lambda self, state: many)
    follower = Follower(log, state, select(table.uri, state), None)
    found = [at for at, _ in follower.scan_tasks(FileRange(state.version, True, 38, 40))]
    assert found == [38, 39]
