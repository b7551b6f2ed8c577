"""What every change of rows takes, overwrites and transactions among them: how rows go, and what a lost race does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.writing.commit_options import CommitOptions
from txlog.table import Table
from txlog.table_transaction import Transaction

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
Row: TypeAlias = tuple[int, str]
START: list[Row] = [(1, "mon"), (2, "mon"), (3, "tue"), (4, "wed")]
NEW: Row = (9, "mon")

Overwrite: TypeAlias = Callable[..., Any]
OVERWRITES: dict[str, Overwrite] = {
    "where": lambda table, data, **options: table.overwrite(data, "day = 'mon'", **options),
    "partitions": lambda table, data, **options: table.overwrite_partitions(data, **options),
    "all": lambda table, data, **options: table.overwrite(data, **options),
}
by_region = pytest.mark.parametrize("region", OVERWRITES)
MODES: dict[str, dict[str, str]] = {"dv": VECTORS, "copy": {}, "feed": FEED, "both": VECTORS | FEED}


def rows_of(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def made(path: Path, partition_by: list[str], properties: dict[str, str]) -> Table:
    table = Table.create(path / "t", SCHEMA, partition_by, properties)
    table.append(rows_of(*START))
    return table


def found(table: Table, version: int | None = None) -> list[Row]:
    return sorted((row["id"], row["day"]) for row in Table.open(table.uri).snapshot(version).to_arrow().to_pylist())


def beside(table: Table, *rivals: Callable[[Table], Any]) -> pa.RecordBatchReader:
    """The new row; other writers commit after the overwrite was planned, before it commits."""

    def batches() -> Iterator[pa.RecordBatch]:
        for rival in rivals:
            rival(Table.open(table.uri))
        yield from rows_of(NEW).to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def folded(table: Table) -> list[Row]:
    """The rows that the change feed makes, of all versions."""
    rows: list[Row] = []
    for change in table.changes(0).read_all().to_pylist():
        row = (change["id"], change["day"])
        if change["_change_type"] in ("insert", "update_postimage"):
            rows.append(row)
        else:
            rows.remove(row)
    return sorted(rows)


# --- on_conflict ------------------------------------------------------------------------------------------------------

RIVALS: dict[str, tuple[Callable[[Table], Any], list[Row]]] = {
    "appends": (lambda t: t.append(rows_of((7, "mon"), (8, "tue"))), [*START, (7, "mon"), (8, "tue")]),
    "deletes": (lambda t: t.delete("id in (1, 3)"), [(2, "mon"), (4, "wed")]),
    "updates": (
        lambda t: t.update({"id": txlog.expr("id + 10")}),
        [(11, "mon"), (12, "mon"), (13, "tue"), (14, "wed")],
    ),
    "moves": (
        lambda t: t.update({"day": txlog.expr("'mon'")}, "id = 4"),
        [(1, "mon"), (2, "mon"), (3, "tue"), (4, "mon")],
    ),
    "upserts": (lambda t: t.upsert(rows_of((2, "mon"), (5, "wed")), ["id"]), [*START, (5, "wed")]),
    "overwrites": (lambda t: t.overwrite(rows_of((6, "tue"))), [(6, "tue")]),
    "rewrites": (lambda t: t.optimize(), START),
    "sets a property": (lambda t: t.set_properties({"delta.checkpointInterval": "7"}), START),
}


@pytest.mark.parametrize(
    ("rival", "properties"),
    [
        pytest.param(
            rival,
            properties,
            id=f"{rival}-{mode}",
            marks=() if (number + place) % 2 == 0 else pytest.mark.hunt(part="properties"),
        )
        for number, rival in enumerate(RIVALS)
        for place, (mode, properties) in enumerate(MODES.items())
    ],
)
@by_region
def test_an_overwrite_with_rerun_gives_the_rows_as_if_it_had_run_last(
    tmp_path: Path, region: str, rival: str, properties: dict[str, str]
) -> None:
    table = made(tmp_path, ["day"] if region == "partitions" else [], properties)
    change, left = RIVALS[rival]
    result = OVERWRITES[region](table, beside(table, change), on_conflict="rerun")
    stays = [] if region == "all" else [row for row in left if row[1] != "mon"]
    assert found(table) == sorted([*stays, NEW])
    assert result.metrics.rows == 1
    assert verify_table(table._open_table.store).is_sound
    if "delta.enableChangeDataFeed" in properties:
        assert folded(table) == found(table)


@by_region
def test_an_overwrite_that_lost_a_race_runs_again_only_with_rerun(tmp_path: Path, region: str) -> None:
    table = made(tmp_path, ["day"], {})
    delete, overwrite = RIVALS["deletes"][0], OVERWRITES[region]
    with pytest.raises(txlog.ConflictError):
        overwrite(table, beside(table, delete))
    delete_more: Callable[[Table], Any] = lambda t: t.delete("day = 'mon'")  # noqa: E731
    result = overwrite(table, beside(table, delete_more), on_conflict="rerun")
    assert result.metrics.reexecutions == 1


@pytest.mark.parametrize("region", ["where", "partitions"])
def test_an_overwrite_with_rerun_replaces_rows_that_its_handle_has_not_read(tmp_path: Path, region: str) -> None:
    table = made(tmp_path, ["day"], {})
    table.snapshot()
    Table.open(table.uri).update({"id": txlog.expr("id + 10")}, "day = 'mon'")
    with pytest.raises(txlog.ConflictError):
        OVERWRITES[region](table, rows_of(NEW))
    OVERWRITES[region](table, rows_of(NEW), on_conflict="rerun")
    assert [row for row in found(table) if row[1] == "mon"] == [NEW]


@by_region
def test_an_overwrite_that_is_tied_to_a_version_cannot_ask_to_run_again(tmp_path: Path, region: str) -> None:
    table = made(tmp_path, ["day"], {})
    with pytest.raises(txlog.InvalidInputError, match="leave one of them out"):
        OVERWRITES[region](table, rows_of(NEW), on_conflict="rerun", read_version=1)
    assert found(table) == sorted(START)


@by_region
def test_a_concurrent_definition_change_ends_an_overwrite_with_rerun(tmp_path: Path, region: str) -> None:
    table = made(tmp_path, ["day"], {})
    add: Callable[[Table], Any] = lambda t: t.add_columns("n int")  # noqa: E731
    with pytest.raises(txlog.MetadataChangedError):
        OVERWRITES[region](table, beside(table, add), on_conflict="rerun")
    assert found(table) == sorted(START)


def test_an_overwrite_with_rerun_adds_columns_unless_others_changed_the_definition(tmp_path: Path) -> None:
    table = made(tmp_path, [], {})
    more = pa.table({"id": [9], "day": ["mon"], "n": [5]})

    def beside_rival(rival: Callable[[Table], Any]) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            rival(Table.open(table.uri))
            yield from more.to_batches()

        return pa.RecordBatchReader.from_batches(more.schema, batches())

    beside_a_property = beside_rival(RIVALS["sets a property"][0])
    with pytest.raises(txlog.MetadataChangedError):
        table.overwrite(beside_a_property, "day = 'mon'", schema_mode="merge", on_conflict="rerun")
    beside_an_append = beside_rival(RIVALS["appends"][0])
    table.overwrite(beside_an_append, "day = 'mon'", schema_mode="merge", on_conflict="rerun")
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 3, "day": "tue", "n": None},
        {"id": 4, "day": "wed", "n": None},
        {"id": 8, "day": "tue", "n": None},
        {"id": 9, "day": "mon", "n": 5},
    ]


@by_region
def test_an_overwrite_with_rerun_and_a_checkpoint_is_committed_once(tmp_path: Path, region: str) -> None:
    table = made(tmp_path, ["day"], {})
    once = {"on_conflict": "rerun", "app_id": "loader", "checkpoint_id": 1}
    result = OVERWRITES[region](table, beside(table, RIVALS["appends"][0]), **once)
    assert (result.outcome, result.version) == ("committed", 3)
    again = OVERWRITES[region](Table.open(table.uri), rows_of(NEW), **once)
    assert (again.outcome, again.version) == ("already_committed", 3)


def test_an_overwrite_that_replaces_no_rows_by_no_rows_makes_a_version(tmp_path: Path) -> None:
    table = made(tmp_path, [], {})
    assert table.overwrite(rows_of(), "day = 'sun'").version == 2
    assert table.overwrite(rows_of(), "day = 'sun'", on_conflict="rerun").version == 3


# --- read_version of every row ----------------------------------------------------------------------------------------


def test_an_overwrite_of_every_row_may_name_the_version_that_its_rows_were_made_from(tmp_path: Path) -> None:
    table = made(tmp_path, [], {})
    table.append(rows_of((5, "thu")))
    table.overwrite(rows_of(NEW), read_version=1)
    assert found(table) == [(5, "thu"), NEW], "rows that were appended later stay"
    table.delete("id = 5")
    with pytest.raises(txlog.ConflictError, match="read the table again"):
        table.overwrite(rows_of((6, "mon")), read_version=3)
    assert found(table) == [NEW]
    with pytest.raises(txlog.InvalidInputError, match="leave one of them out"):
        table.overwrite(pa.table({"x": [1]}), schema_mode="overwrite", read_version=4)


# --- mode -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize(
    ("mode", "vectors", "copied"), [(None, 1, 0), ("merge-on-read", 1, 0), ("copy-on-write", 0, 2)]
)
def test_the_mode_decides_how_the_rows_of_a_predicate_are_removed(
    tmp_path: Path, mode: Any, vectors: int, copied: int, in_transaction: bool
) -> None:
    table = made(tmp_path, [], VECTORS)
    if in_transaction:
        with table.transaction() as txn:
            txn.overwrite(rows_of(NEW), "day = 'mon'", row_mode=mode)
        result = txn.result
    else:
        result = table.overwrite(rows_of(NEW), "day = 'mon'", row_mode=mode)
    vector_files = [*Path(table.uri).glob("*.bin")]
    assert (len(vector_files), result.metrics.rows_copied, result.metrics.rows_deleted) == (vectors, copied, 2)
    assert found(table) == [(3, "tue"), (4, "wed"), NEW]


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "delete": lambda txn, how: txn.delete("id = 1", **how),
    "update": lambda txn, how: txn.update({"day": txlog.expr("'x'")}, "id = 1", **how),
    "upsert": lambda txn, how: txn.upsert(rows_of((1, "x")), ["id"], **how),
    "merge": lambda txn, how: txn.merge(rows_of((1, "x")), ["id"], **how).when_matched_update_all().execute(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_change_in_a_transaction_takes_a_mode_and_reports_its_progress(
    tmp_path: Path, change: str, mode: str
) -> None:
    table = made(tmp_path, [], VECTORS)
    reported: list[tuple[int, int]] = []
    with table.transaction() as txn:
        CHANGES[change](txn, {"row_mode": mode, "on_progress": lambda step, done, of: reported.append((done, of))})
    assert len([*Path(table.uri).glob("*.bin")]) == (mode == "merge-on-read")
    assert reported == [(1, 1)]
    assert found(table) == sorted([*START[1:], *([] if change == "delete" else [(1, "x")])])


@by_region
def test_an_option_that_the_table_lacks_or_that_is_unknown_is_refused_before_a_row_is_read(
    tmp_path: Path, region: str
) -> None:
    table = made(tmp_path, ["day"], {})

    def unread() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a row was read")
        yield

    overwrite, data = OVERWRITES[region], pa.RecordBatchReader.from_batches(SCHEMA, unread())
    if region == "where":
        with pytest.raises(txlog.InvalidInputError, match="enable them with"):
            overwrite(table, data, row_mode="merge-on-read")
        with pytest.raises(
            txlog.InvalidInputError, match="Invalid row_mode 'fast': expected 'merge-on-read' or 'copy-on-write'"
        ):
            overwrite(table, data, row_mode="fast")
    with pytest.raises(txlog.InvalidInputError, match="Invalid on_conflict 'retry': expected 'rerun' or 'fail'"):
        overwrite(table, data, on_conflict="retry")


# --- txlog.write ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"mode": "overwrite", "where": "day = 'mon'"}, {"mode": "overwrite_partitions"}])
def test_txlog_write_takes_the_options_of_overwrites(tmp_path: Path, how: dict[str, Any]) -> None:
    table = made(tmp_path, ["day"], VECTORS)
    rival, left = RIVALS["updates"]
    with pytest.raises(txlog.ConflictError):
        txlog.write(table.uri, beside(table, lambda t: t.delete("id = 1")), **how)
    with pytest.raises(txlog.ConflictError, match="read the table again"):
        txlog.write(table.uri, rows_of(NEW), **how, read_version=1)
    table.append(rows_of((1, "mon")))
    result = txlog.write(table.uri, beside(table, rival), **how, on_conflict="rerun")
    assert result.metrics.reexecutions == 1
    assert found(table) == sorted([*(row for row in left if row[1] != "mon"), NEW])


def test_write_takes_the_mode_of_rows_as_row_mode(tmp_path: Path) -> None:
    table = made(tmp_path, [], VECTORS)
    result = txlog.write(table.uri, rows_of(NEW), "overwrite", where="day = 'mon'", row_mode="copy-on-write")
    assert (result.metrics.rows_copied, [*Path(table.uri).glob("*.bin")]) == (2, [])


@pytest.mark.parametrize("given", [{"row_mode": "copy-on-write"}, {"on_conflict": "rerun"}, {"read_version": 0}])
def test_an_append_refuses_options_about_replaced_rows(tmp_path: Path, given: dict[str, Any]) -> None:
    table = made(tmp_path, [], {})
    with pytest.raises(txlog.InvalidInputError, match=f"{next(iter(given))} is for overwrites"):
        txlog.write(table.uri, rows_of(NEW), **given)
    assert table.version == 1


# --- all of them ------------------------------------------------------------------------------------------------------

# Python makes rows from the table's own rows in a transaction, which knows what it read; SQL and Spark say reads_table.
# Only sinks say what makes a commit void.
COMMON = {*CommitOptions.__struct_fields__, "on_progress"} - {"isolation", "reads_table", "void_from"}


@pytest.mark.parametrize("name", ["delete", "update", "upsert", "merge", "overwrite", "overwrite_partitions"])
def test_every_change_of_a_table_takes_the_same_options(name: str) -> None:
    by_file = name == "overwrite_partitions"  # no row stays in a file whose other rows go
    assert inspect.signature(getattr(Table, name)).parameters.keys() >= COMMON | (set() if by_file else {"row_mode"})


@pytest.mark.parametrize("name", ["delete", "update", "upsert", "merge"])
def test_every_change_in_a_transaction_takes_row_mode_and_on_progress(name: str) -> None:
    assert inspect.signature(getattr(Transaction, name)).parameters.keys() >= {"row_mode", "on_progress"}


RULED = "id int not null comment 'key', g int generated always as (id + 1), d string default 'x', s struct<a: int>"


@pytest.mark.parametrize("rules", [None, "keep", "drop"])
def test_a_new_schema_says_which_rules_of_columns_it_drops_unless_it_was_told_to(
    tmp_path: Path, rules: Any, caplog: pytest.LogCaptureFixture
) -> None:
    table = txlog.Table.create(tmp_path / "t", RULED)
    rows = pa.table({"id": pa.array([1], pa.int32()), "g": pa.array([2], pa.int32()), "d": ["y"], "new": [1.5]})
    result = table.overwrite(rows, schema_mode="overwrite", column_rules=rules)
    dropped = "NOT NULL of id, the comment of id, the expression of the generated column of g, the default of d"
    if rules is None:
        assert dropped in result.notes[0]
        assert 'column_rules="keep"' in result.notes[0]
        assert dropped in caplog.text
    else:
        assert not result.notes
    assert table.schema.field("id").nullable == (rules != "keep")
    table.append(pa.table({"id": pa.array([5], pa.int32())}))
    last = table.to_arrow(where="id = 5").to_pylist()[0]
    assert (last["g"], last["d"]) == ((6, "x") if rules == "keep" else (None, None))


def test_rules_that_a_new_type_does_not_allow_are_named_even_if_they_were_to_be_kept(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id int not null comment 'key', v int comment 'value'")
    rows = pa.table({"id": ["one"], "v": pa.array([1], pa.int32())})
    (note,) = table.overwrite(rows, schema_mode="overwrite", column_rules="keep").notes
    assert "without NOT NULL of id, the comment of id:" in note


def test_rules_of_columns_are_for_a_new_schema(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id int")
    rows = pa.table({"id": pa.array([1], pa.int32())})
    with pytest.raises(txlog.InvalidInputError, match='column_rules is for schema_mode="overwrite"'):
        table.overwrite(rows, column_rules="keep")
    with pytest.raises(txlog.InvalidInputError, match="column_rules"):
        table.overwrite(rows, schema_mode="overwrite", column_rules="all")  # type: ignore[arg-type]
