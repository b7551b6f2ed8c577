"""Selective overwrites hold rows made from what their handle read: what others changed since then is never lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
Overwrite: TypeAlias = Callable[..., Any]
OVERWRITES: dict[str, Overwrite] = {
    "where": lambda table, data, **options: table.overwrite(data, "day = 'mon'", **options),
    "partitions": lambda table, data, **options: table.overwrite_partitions(data, **options),
}
by_region = pytest.mark.parametrize("overwrite", OVERWRITES.values(), ids=OVERWRITES)


def rows_of(*rows: tuple[Any, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def found(table: Table) -> list[tuple[Any, Any]]:
    return sorted((row["id"], row["day"]) for row in Table.open(table.uri).snapshot().to_arrow().to_pylist())


def made(path: Path, **properties: str) -> Table:
    table = Table.create(path / "t", SCHEMA, ["day"], properties)
    table.append(rows_of((1, "mon"), (2, "tue")))
    return Table.open(table.uri)


def one_more(rows: Any) -> pa.Table:
    return rows_of(*((row["id"] + 1, row["day"]) for row in rows.to_arrow(where="day = 'mon'").to_pylist()))


@by_region
def test_an_overwrite_from_an_outdated_read_conflicts_until_the_handle_reads_again(
    tmp_path: Path, overwrite: Overwrite
) -> None:
    first, second = made(tmp_path), Table.open(tmp_path / "t")
    counted, late = one_more(first.snapshot()), one_more(second.snapshot())
    overwrite(first, counted)
    for _ in range(2):
        with pytest.raises(txlog.ConflictError, match="read the table again") as caught:
            overwrite(second, late)
        assert "run it again." not in str(caught.value)
        assert 'pass on_conflict="rerun"' in str(caught.value)
        assert caught.value.winner_version == 2
    overwrite(second, one_more(second.snapshot()))
    assert found(first) == [(2, "tue"), (3, "mon")]


@by_region
def test_a_handle_that_read_nothing_replaces_what_is_there(tmp_path: Path, overwrite: Overwrite) -> None:
    table = made(tmp_path)
    assert table.schema.names == SCHEMA.names, "columns are no rows"
    overwrite(Table.open(table.uri), rows_of((5, "mon")))
    overwrite(table, rows_of((9, "mon")))
    assert found(table) == [(2, "tue"), (9, "mon")]


@by_region
def test_an_overwrite_with_rows_of_an_explicitly_read_old_version_does_not_conflict(
    tmp_path: Path, overwrite: Overwrite
) -> None:
    table = made(tmp_path)
    overwrite(Table.open(table.uri), rows_of((5, "mon")))
    old = table.snapshot(1).to_arrow(where="day = 'mon'")
    overwrite(table, old)
    assert found(table) == [(1, "mon"), (2, "tue")]


@by_region
@pytest.mark.parametrize(
    "rival",
    [
        lambda t: t.append(rows_of((7, "tue"))),
        lambda t: t.overwrite(rows_of((7, "tue")), "day = 'tue'"),
        lambda t: t.delete("day = 'tue'"),
        lambda t: t.set_properties({"delta.checkpointInterval": "7"}),
    ],
)
def test_an_overwrite_does_not_conflict_with_changes_outside_of_its_region(
    tmp_path: Path, overwrite: Overwrite, rival: Callable[[Table], Any]
) -> None:
    table = made(tmp_path)
    rows = one_more(table.snapshot())
    rival(Table.open(table.uri))
    overwrite(table, rows)
    assert (2, "mon") in found(table)
    assert (1, "mon") not in found(table)


@by_region
@pytest.mark.parametrize(
    "rival",
    [
        lambda t: t.delete("id = 1"),
        lambda t: t.update({"id": txlog.expr("10")}, "id = 1"),
        lambda t: t.overwrite(rows_of()),
    ],
)
def test_rows_that_others_changed_are_not_replaced_unseen(
    tmp_path: Path, overwrite: Overwrite, rival: Callable[[Table], Any]
) -> None:
    table = made(tmp_path)
    rows = one_more(table.snapshot())
    rival(Table.open(table.uri))
    left = found(table)
    with pytest.raises(txlog.ConflictError):
        overwrite(table, rows)
    assert found(table) == left


@by_region
def test_rows_that_others_appended_unseen_stay_or_conflict_by_the_level_of_isolation(
    tmp_path: Path, overwrite: Overwrite
) -> None:
    table = made(tmp_path)
    rows = one_more(table.snapshot())
    Table.open(table.uri).append(rows_of((7, "mon")))
    overwrite(table, rows)
    assert found(table) == [(2, "mon"), (2, "tue"), (7, "mon")]
    serializable = made(tmp_path / "s", **{"delta.isolationLevel": "Serializable"})
    rows = one_more(serializable.snapshot())
    Table.open(serializable.uri).append(rows_of((7, "mon")))
    with pytest.raises(txlog.ConcurrentAppendError):
        overwrite(serializable, rows)


@by_region
def test_unseen_rows_that_a_rewrite_moved_are_not_replaced(tmp_path: Path, overwrite: Overwrite) -> None:
    table = made(tmp_path)
    rows = one_more(table.snapshot())
    Table.open(table.uri).append(rows_of((7, "mon")))
    deltalake.DeltaTable(table.uri).optimize.compact()
    with pytest.raises(txlog.ConflictError, match="moved rows"):
        overwrite(table, rows)
    assert (7, "mon") in found(table)


@by_region
def test_a_rewrite_of_seen_rows_changes_nothing(tmp_path: Path, overwrite: Overwrite) -> None:
    table = made(tmp_path)
    table.append(rows_of((3, "mon")))
    table.snapshot()
    deltalake.DeltaTable(table.uri).optimize.compact()
    overwrite(table, rows_of((9, "mon")))
    assert found(table) == [(2, "tue"), (9, "mon")]


@by_region
def test_an_overwrite_does_not_conflict_with_its_own_handles_commits(tmp_path: Path, overwrite: Overwrite) -> None:
    table = made(tmp_path)
    table.snapshot()
    Table.open(table.uri).append(rows_of((8, "tue")))
    for number in range(3):
        table.append(rows_of((number, "mon")))
        overwrite(table, rows_of((10 + number, "mon")))
        assert found(table) == [(2, "tue"), (8, "tue"), (10 + number, "mon")]


@by_region
def test_an_overwrite_conflicts_with_changes_since_a_given_read_version(tmp_path: Path, overwrite: Overwrite) -> None:
    table = made(tmp_path)
    overwrite(table, rows_of((5, "mon")), read_version=1)
    with pytest.raises(txlog.ConflictError, match="read the table again"):
        overwrite(table, rows_of((6, "mon")), read_version=1)
    overwrite(table, rows_of((6, "mon")), read_version=2)
    with pytest.raises(txlog.InvalidInputError, match="the newest version is 3"):
        overwrite(table, rows_of((6, "mon")), read_version=4)
    assert found(table) == [(2, "tue"), (6, "mon")]


@by_region
def test_an_overwrite_conflicts_if_commits_that_it_has_not_read_were_cleaned_up(
    tmp_path: Path, overwrite: Overwrite
) -> None:
    table = made(tmp_path)
    table.snapshot()
    other = Table.open(table.uri)
    for _ in range(2):
        other.append(rows_of((8, "tue")))
    other.create_checkpoint()
    assert table.version == 3
    (tmp_path / "t" / "_delta_log" / f"{2:020}.json").unlink()
    with pytest.raises(txlog.ConflictError, match="can no longer be read"):
        overwrite(table, rows_of((9, "mon")))


@by_region
def test_an_overwrite_in_a_transaction_is_made_from_what_the_handle_read_too(
    tmp_path: Path, overwrite: Overwrite
) -> None:
    table = made(tmp_path)
    table.snapshot()
    overwrite(Table.open(table.uri), rows_of((5, "mon")))
    with pytest.raises(txlog.ConflictError), table.transaction() as txn:
        overwrite(txn, rows_of((6, "mon")))
    table.snapshot()
    with table.transaction() as txn:
        overwrite(txn, rows_of((6, "mon")))
    assert found(table) == [(2, "tue"), (6, "mon")]


@by_region
@pytest.mark.parametrize("read", [lambda txn: txn.read("day = 'mon'"), lambda txn: txn.snapshot.to_arrow()])
def test_an_overwrite_in_a_transaction_replaces_what_the_transaction_read(
    tmp_path: Path, overwrite: Overwrite, read: Callable[[Any], pa.Table]
) -> None:
    """The handle's earlier read does not count then: rows appended since are in the new rows, and would be twice."""
    table = made(tmp_path)
    table.snapshot()
    Table.open(table.uri).append(rows_of((5, "mon")))
    Table.open(table.uri).delete("id = 1")
    with table.transaction() as txn:
        mine = [row for row in read(txn).to_pylist() if row["day"] == "mon"]
        overwrite(txn, rows_of(*((row["id"] + 1, row["day"]) for row in mine)))
    assert found(table) == [(2, "tue"), (6, "mon")]


@pytest.mark.parametrize("properties", [{}, {"delta.columnMapping.mode": "name"}])
def test_an_overwrite_may_name_a_column_that_is_younger_than_its_read(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path, **properties)
    table.snapshot()
    Table.open(table.uri).add_columns({"note": pa.string()})
    new = pa.table({"id": [3], "day": ["tue"], "note": [None]}, rows_of().schema.append(pa.field("note", pa.string())))
    table.overwrite(new, "note is null and day = 'tue'")
    assert found(table) == [(1, "mon"), (3, "tue")]
    table.snapshot()
    Table.open(table.uri).add_columns({"more": pa.string()})
    Table.open(table.uri).delete("id = 1")
    with pytest.raises(txlog.ConflictError, match="removed"):
        table.overwrite(new.slice(0, 0), "more is null and day = 'mon'")


def test_a_changed_row_conflicts_only_where_its_file_held_rows_of_the_region(tmp_path: Path) -> None:
    flat = Table.create(tmp_path / "t", SCHEMA)
    flat.append(rows_of((1, "mon"), (2, "mon")))
    flat.append(rows_of((100, "tue"), (101, "tue")))
    table = Table.open(flat.uri)
    table.snapshot()
    flat.delete("id = 100")
    table.overwrite(rows_of((3, "wed")), "id <= 3")
    flat.delete("id = 3")
    with pytest.raises(txlog.ConflictError):
        table.overwrite(rows_of((3, "thu")), "id <= 3")
    assert found(table) == [(101, "tue")]


def test_an_overwrite_replaces_nan_that_the_bounds_of_another_writer_leave_out(tmp_path: Path) -> None:
    """deltalake leaves NaN out of the maximum, and NaN is greater than any number."""
    deltalake.write_deltalake(tmp_path / "t", pa.table({"x": [1.0, float("nan")]}))
    table = Table.open(tmp_path / "t")
    table.overwrite(pa.table({"x": [7.0]}), "x > 5")
    assert sorted(table.snapshot().to_arrow()["x"].to_pylist()) == [1.0, 7.0]


@pytest.mark.parametrize("change", ["delete", "update", "upsert", "merge"])
def test_a_change_tied_to_a_version_says_that_running_it_again_cannot_help(tmp_path: Path, change: str) -> None:
    table = made(tmp_path)
    Table.open(table.uri).overwrite(rows_of((5, "mon")), "day = 'mon'")
    changes: dict[str, Callable[[], Any]] = {
        "delete": lambda: table.delete("day = 'mon'", read_version=1),
        "update": lambda: table.update({"id": txlog.expr("7")}, "day = 'mon'", read_version=1),
        "upsert": lambda: table.upsert(rows_of((1, "x")), ["id"], read_version=1),
        "merge": lambda: table.merge(rows_of((1, "x")), ["id"], read_version=1).when_matched_delete().execute(),
    }
    with pytest.raises(txlog.ConflictError, match="read the table again") as caught:
        changes[change]()
    assert "run it again." not in str(caught.value)
