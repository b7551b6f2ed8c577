"""Deleted keys that are kept with their sequence: an older row that comes later does not bring them back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from tests.packages import hide
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

SCHEMA = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("name", pa.string())])
KEPT = {
    "delta.enableDeletionVectors": "true",
    "txlog.merge-engine": "deduplicate",
    "txlog.sequence.field": "seq",
    "txlog.tombstone-retention": "interval 7 days",
}
DAY_MS = 24 * 3600 * 1000


class Later(ambient.Ambient):
    """The real clock, some days ahead."""

    def __init__(self, days: float) -> None:
        self._ahead_ms = int(days * DAY_MS)

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


def changes(*rows: tuple[str, int, int, str | None]) -> pa.Table:
    kinds, ids, sequences, names = zip(*rows, strict=True)
    return pa.table({"op": kinds, "id": ids, "seq": sequences, "name": names})


def upsert(table: txlog.Table, *rows: tuple[str, int, int, str | None]) -> txlog.WriteResult:
    return table.upsert(changes(*rows), keys=["id"], row_kind="op")


def upsert_titled(table: txlog.Table, *rows: tuple[str, int, int, str | None]) -> None:
    """As `upsert`, of a table whose ``name`` is called ``title``."""
    table.upsert(changes(*rows).rename_columns(["op", "id", "seq", "title"]), keys=["id"], row_kind="op")


def before_the_next_put(table: txlog.Table, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """What another writer does before the next commit is put."""
    meanwhile = [act]
    log = type(table._open_table.store.log)
    put = log.put_if_absent

    def late(self: Any, name: str, body: bytes) -> Any:
        if meanwhile:
            meanwhile.pop()()
        return put(self, name, body)

    monkeypatch.setattr(log, "put_if_absent", late)


def rows_of(table: txlog.Table) -> list[tuple[int, int, str | None]]:
    return sorted((row["id"], row["seq"], row["name"]) for row in table.to_arrow().to_pylist())


def adds(table: txlog.Table) -> list[AddFile]:
    log = table._open_table.log
    return add_files_of(log.files(log.newest_state()))


def tombstones(table: txlog.Table) -> list[AddFile]:
    return [add for add in adds(table) if "txlog.tombstones" in (add.tags or {})]


@pytest.fixture(
    params=[{}, {"delta.enableChangeDataFeed": "true"}, {"delta.enableRowTracking": "true"}],
    ids=["plain", "feed", "tracking"],
)
def table(request: pytest.FixtureRequest, make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(schema=SCHEMA, properties={**KEPT, **request.param})


def test_a_late_row_does_not_bring_a_deleted_key_back_and_a_newer_one_does(table: txlog.Table) -> None:
    upsert(table, ("+I", 1, 10, "a"), ("+I", 2, 10, "b"))
    upsert(table, ("-D", 1, 20, "a"))
    upsert(table, ("+U", 1, 15, "late"), ("+U", 2, 15, "B"))
    assert rows_of(table) == [(2, 15, "B")]
    upsert(table, ("+I", 1, 21, "again"))
    assert rows_of(table) == [(1, 21, "again"), (2, 15, "B")]
    upsert(table, ("-D", 1, 19, None))
    assert rows_of(table) == [(1, 21, "again"), (2, 15, "B")]
    assert table.verify(["id"]).is_sound


def test_a_delete_that_comes_before_its_row_counts_too(table: txlog.Table) -> None:
    result = upsert(table, ("-D", 7, 5, None))
    assert (result.outcome, table.version, table.count()) == ("committed", 1, 0)
    assert upsert(table, ("+I", 7, 4, "late")).metrics.rows == 0
    assert rows_of(table) == []
    upsert(table, ("+I", 7, 5, "the same sequence, and later"))
    assert rows_of(table) == [(7, 5, "the same sequence, and later")]


def test_a_tombstone_holds_the_key_and_its_sequence_alone(table: txlog.Table) -> None:
    upsert(table, ("+I", 1, 10, "secret"))
    upsert(table, ("-D", 1, 20, "secret"))
    (add,) = tombstones(table)
    import pyarrow.parquet as pq

    (row,) = pq.read_table(Path(table.uri) / add.path, partitioning=None).select(SCHEMA.names).to_pylist()
    assert row == {"id": 1, "seq": 20, "name": None}
    assert add.deletion_vector is not None
    assert add.deletion_vector.cardinality == 1
    assert (table.count(), table.to_arrow().num_rows, table.to_dataset().count_rows()) == (0, 0, 0)
    assert table.verify().is_sound
    assert txlog.Table.open(table.uri).snapshot().to_arrow(where="id = 1").num_rows == 0


def test_a_delete_that_is_known_already_leaves_no_second_tombstone(table: txlog.Table) -> None:
    upsert(table, ("-D", 1, 20, None))
    upsert(table, ("-D", 1, 20, None), ("-D", 1, 15, None))
    assert sum(add.deletion_vector.cardinality for add in tombstones(table) if add.deletion_vector) <= 2
    upsert(table, ("-D", 1, 12, None))
    assert len(tombstones(table)) <= 2


@pytest.mark.parametrize("where", ["id <= 2", "id = 1", "seq < 100", "true", None])
@pytest.mark.parametrize("replaces", [False, True], ids=["delete", "overwrite"])
def test_a_delete_by_a_condition_leaves_tombstones(table: txlog.Table, where: str | None, replaces: bool) -> None:
    upsert(table, ("+I", 1, 1, "a"), ("+I", 2, 1, "b"), ("+I", 3, 1, "c"))
    upsert(table, ("-D", 1, 10, None))
    before = [each.path for each in tombstones(table)]
    if replaces:
        table.overwrite(SCHEMA.empty_table(), where="true" if where is None else where)
    elif where is None:
        table.delete(all=True)
    else:
        table.delete(where)
    assert [each.path for each in tombstones(table)] == before
    upsert(table, ("+I", 1, 9, "late"))
    assert 1 not in table.to_arrow()["id"].to_pylist()
    assert table.verify(["id"]).is_sound


def test_the_change_feed_tells_of_rows_and_not_of_tombstones(make_table: Callable[..., txlog.Table]) -> None:
    import deltalake

    table = make_table(schema=SCHEMA, properties={**KEPT, "delta.enableChangeDataFeed": "true"})
    upsert(table, ("+I", 1, 10, "a"))
    upsert(table, ("-D", 1, 20, None), ("-D", 9, 20, None))
    upsert(table, ("-D", 8, 1, None))
    told = [(row["_commit_version"], row["_change_type"], row["id"]) for row in table.changes(1).read_all().to_pylist()]
    assert told == [(1, "insert", 1), (2, "delete", 1)]
    theirs = pa.table(deltalake.DeltaTable(table.uri).load_cdf(starting_version=1)).to_pylist()
    assert sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in theirs) == told


def test_tombstones_of_other_writers_are_seen_after_a_lost_race(
    table: txlog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert(table, ("+I", 1, 10, "a"))
    other = txlog.Table.open(table.uri)
    before_the_next_put(table, monkeypatch, lambda: upsert(other, ("-D", 1, 20, None)))
    result = upsert(table, ("+U", 1, 15, "late"), ("+I", 2, 1, "b"))
    assert result.metrics.lost_races == 1
    assert rows_of(table) == [(2, 1, "b")]


def test_a_sink_keeps_tombstones_from_checkpoint_to_checkpoint(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "cdc", mode="upsert", keys=["id"], row_kind="op", sequence_by="seq")
    for checkpoint_id, rows in enumerate(
        [changes(("+I", 1, 10, "a")), changes(("-D", 1, 20, None)), changes(("+U", 1, 15, "late"), ("+I", 2, 1, "b"))]
    ):
        with sink.task(checkpoint_id) as task:
            task.write(rows)
        sink.commit(checkpoint_id, [task.committable])
    assert rows_of(table) == [(2, 1, "b")]


# --- upkeep -----------------------------------------------------------------------------------------------------------


def test_optimize_joins_tombstones_and_drops_expired_ones(table: txlog.Table) -> None:
    for number in range(4):
        upsert(table, ("+I", number, 1, "a"))
        upsert(table, ("-D", number, 20, None))
    assert len(tombstones(table)) == 4
    upsert(table, ("+I", 9, 1, "a"))
    table.optimize()
    (joined,) = tombstones(table)
    assert joined.deletion_vector is not None
    assert joined.deletion_vector.cardinality == 4
    table.optimize()
    assert tombstones(table) == [joined]
    upsert(table, *(("+U", number, 15, "late") for number in range(4)))
    assert rows_of(table) == [(9, 1, "a")]
    assert table.verify().is_sound
    with ambient.use(Later(days=8)):
        table.optimize()
    assert tombstones(table) == []
    upsert(table, ("+U", 1, 15, "as a new row"))
    assert rows_of(table) == [(1, 15, "as a new row"), (9, 1, "a")]


def test_tombstones_of_two_ages_in_one_file_stay_until_the_younger_is_past_the_retention() -> None:
    log, files = MemoryLogStore(), MemoryFileStore()  # whose files are as old as the ambient clock says
    table = txlog.Table(OpenTable(TableStore("memory://table", log, files)))
    create_table(table._open_table, SCHEMA, [], KEPT)
    upsert(table, ("-D", 1, 20, None))
    with ambient.use(Later(days=4)):
        upsert(table, ("-D", 2, 20, None))
        table.optimize()
        assert len(tombstones(table)) == 1
    with ambient.use(Later(days=8)):
        table.optimize()
        upsert(table, ("+U", 2, 15, "late"))
        assert rows_of(table) == []
    with ambient.use(Later(days=12)):
        table.optimize()
        assert tombstones(table) == []


def test_a_retention_that_cannot_be_read_stops_the_work_that_needs_it(make_table: Callable[..., txlog.Table]) -> None:
    table = make_table(schema=SCHEMA, properties=KEPT)
    log = Path(table.uri, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace("interval 7 days", "3 months"))
    table = txlog.Table.open(table.uri)
    table.append(pa.table({"id": [1], "seq": [1], "name": ["a"]}))
    refused = pytest.raises(
        txlog.InvalidInputError, match=r"v1: .*txlog\.tombstone-retention '3 months': expected an int"
    )
    with refused:
        table.optimize()
    with refused:
        upsert(table, ("-D", 1, 2, None))
    table.set_properties({"txlog.tombstone-retention": "90 days"})
    upsert(table, ("-D", 1, 2, None))
    table.optimize()
    assert len(tombstones(table)) == 1


def test_a_purge_takes_tombstones_out(table: txlog.Table) -> None:
    upsert(table, ("+I", 1, 10, "a"), ("+I", 2, 10, "b"))
    upsert(table, ("-D", 1, 20, None))
    table.purge()
    assert [add.deletion_vector for add in adds(table)] == [None]


def test_the_end_of_column_mapping_keeps_tombstones(table: txlog.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.rename_column("name", "title")
    upsert_titled(table, ("+I", 1, 10, "a"), ("+I", 2, 10, "b"), ("+I", 3, 10, "c"))
    upsert_titled(table, ("-D", 1, 20, None))
    (before,) = tombstones(table)
    other = txlog.Table.open(table.uri)
    before_the_next_put(table, monkeypatch, lambda: upsert_titled(other, ("-D", 2, 20, None)))
    table.drop_feature("columnMapping")
    table = txlog.Table.open(table.uri)
    assert before.modification_time in {add.modification_time for add in tombstones(table)}
    upsert_titled(table, ("+U", 1, 15, "late"), ("+U", 2, 15, "late"), ("+U", 3, 15, "C"))
    assert table.to_arrow().to_pylist() == [{"id": 3, "seq": 15, "title": "C"}]
    assert table.verify(["id"]).is_sound


@pytest.mark.parametrize("partition_by", [[], ["seq"]], ids=["whole", "partitioned"])
def test_the_end_of_type_widening_keeps_tombstones(
    make_table: Callable[..., txlog.Table], partition_by: list[str]
) -> None:
    properties = {**KEPT, "delta.enableTypeWidening": "true"}
    table = make_table(None, "id int, seq int, name string", partition_by, properties)
    upsert(table, ("+I", 1, 10, "a"), ("+I", 2, 10, "b"), ("+I", 3, 10, "c"))
    upsert(table, ("-D", 1, 20, None))
    upsert(table, ("-D", 2, 30, None))
    ages = sorted(add.modification_time for add in tombstones(table))
    table.alter_column("id", type="bigint")
    table.alter_column("seq", type="decimal(20,1)")
    table.drop_feature("typeWidening")
    table = txlog.Table.open(table.uri)
    assert {add.modification_time for add in tombstones(table)} <= {*ages}
    upsert(table, ("+U", 1, 15, "late"), ("+U", 2, 15, "late"), ("+U", 3, 15, "C"))
    assert table.to_arrow(["id", "name"]).to_pylist() == [{"id": 3, "name": "C"}]
    assert table.verify(["id"]).is_sound


def test_without_the_property_tombstones_are_honored_until_optimize_drops_them(table: txlog.Table) -> None:
    upsert(table, ("-D", 1, 20, None))
    table.unset_properties(["txlog.tombstone-retention"])
    upsert(table, ("-D", 2, 20, None), ("+I", 1, 15, "late"), ("+I", 2, 15, "in one upsert"))
    assert rows_of(table) == []
    upsert(table, ("+I", 2, 1, "no tombstone any more"))
    assert rows_of(table) == [(2, 1, "no tombstone any more")]
    table.optimize()
    assert tombstones(table) == []


# --- definition -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("txlog.sequence.field", "needs txlog.merge-engine = deduplicate and txlog.sequence.field"),
        ("delta.enableDeletionVectors", "needs delta.enableDeletionVectors = true"),
    ],
)
def test_a_table_that_cannot_keep_tombstones_is_refused(tmp_path: Path, missing: str, why: str) -> None:
    kept = {key: value for key, value in KEPT.items() if key != missing}
    with pytest.raises(txlog.InvalidInputError, match=why):
        txlog.Table.create(tmp_path, SCHEMA, properties=kept)
    with pytest.raises(txlog.InvalidInputError, match="an interval of weeks"):
        txlog.Table.create(tmp_path, SCHEMA, properties={**KEPT, "txlog.tombstone-retention": "long"})


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ({"txlog.merge-engine": "first-row"}, "deduplicate: first-row refuses deletes"),
        (
            {"txlog.merge-engine": "partial-update", "txlog.partial-update.remove-record-on-delete": "true"},
            "deduplicate: in a partial-update, an older row could still fill nulls",
        ),
        (
            {"txlog.merge-engine": "aggregation", "txlog.aggregation.remove-record-on-delete": "true"},
            "deduplicate: in an aggregation, an older row could still be added",
        ),
    ],
    ids=["first-row", "partial-update", "aggregation"],
)
def test_engines_that_merge_rows_with_older_ones_keep_no_tombstones_and_say_why(
    tmp_path: Path, engine: dict[str, str], why: str
) -> None:
    kept = {**KEPT, **engine}
    if engine["txlog.merge-engine"] == "first-row":
        del kept["txlog.sequence.field"]
    with pytest.raises(txlog.InvalidInputError, match=why):
        txlog.Table.create(tmp_path / "made", SCHEMA, properties=kept)
    if "txlog.sequence.field" in kept:
        table = txlog.Table.create(tmp_path / "set", SCHEMA, properties=KEPT)
        with pytest.raises(txlog.InvalidInputError, match=why):
            table.set_properties(engine)
        assert table.version == 0


@pytest.mark.parametrize(
    "engine",
    [
        {"txlog.merge-engine": "partial-update", "txlog.fields.seq.sequence-group": "name"},
        {
            "txlog.merge-engine": "aggregation",
            "txlog.sequence.field": "seq",
            "txlog.fields.name.aggregate-function": "last_value",
        },
    ],
    ids=["partial-update", "aggregation"],
)
def test_a_retracted_row_keeps_its_sequence_if_an_engine_keeps_no_tombstones(
    tmp_path: Path, engine: dict[str, str]
) -> None:
    table = txlog.Table.create(tmp_path, SCHEMA, properties=engine)
    for row in (("+I", 1, 5, "first"), ("-D", 1, 7, "first"), ("+I", 1, 6, "late")):
        upsert(table, row)
    assert rows_of(table) == [(1, 7, None)]
    upsert(table, ("+I", 1, 8, "new"))
    assert rows_of(table) == [(1, 8, "new")]


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_a_late_row_of_a_later_commit_is_a_new_row_where_an_engine_keeps_no_tombstones(
    tmp_path: Path, engine: str
) -> None:
    """Paimon drops such a row until its compaction has dropped the delete; docs/merge-engines.md says so."""
    table = txlog.Table.create(
        tmp_path,
        SCHEMA,
        properties={
            "txlog.merge-engine": engine,
            "txlog.sequence.field": "seq",
            f"txlog.{engine}.remove-record-on-delete": "true",
        },
    )
    upsert(table, ("+I", 1, 5, "first"))
    upsert(table, ("-D", 1, 7, None), ("+I", 1, 6, "late in the commit"))
    assert rows_of(table) == []
    upsert(table, ("+I", 1, 6, "late in a later commit"))
    assert rows_of(table) == [(1, 6, "late in a later commit")]


def test_tombstones_have_placeholder_values_in_not_null_columns(make_table: Callable[..., txlog.Table]) -> None:
    columns = (
        "s struct<k: bigint, x: int>, seq timestamp, a string not null, b binary not null, c boolean not null,"
        " d decimal(5,2) not null, e date not null, f double not null, g array<int>"
    )
    table = make_table(schema=columns, properties=KEPT)
    key = pa.array([{"k": 1}], pa.struct([("k", pa.int64()), ("x", pa.int32())]))
    at = pa.array([5], pa.timestamp("us", "UTC"))
    table.upsert(pa.table({"op": ["-D"], "s": key, "seq": at}), keys=["s.k"], row_kind="op")
    assert (len(tombstones(table)), table.count()) == (1, 0)
    with pytest.raises(txlog.InvalidInputError, match="g must not be"):
        make_table(schema="id bigint, seq bigint, g array<int> not null", properties=KEPT, name="u")


@pytest.mark.parametrize("through", ["upsert", "sink"])
@pytest.mark.parametrize(
    ("column", "is_partition", "rule", "value"),
    [
        ("amount bigint", False, "amount > 0", 50),
        ("country string not null", True, "country > 'A'", "CH"),
        ("hash binary not null", True, "hash > X'41'", b"AB"),
        ("code varchar(2) not null", False, "length(code) = 2", "AB"),
    ],
)
def test_tombstones_need_not_meet_the_rules_for_rows(
    make_table: Callable[..., txlog.Table], column: str, is_partition: bool, rule: str, value: Any, through: str
) -> None:
    name = column.split()[0]
    partition_by = [name] if is_partition else []
    table = make_table(schema=f"id bigint, seq bigint, {column}", properties=KEPT, partition_by=partition_by)
    table.add_constraint("known", rule)
    checkpoints = itertools.count()

    def change(kind: str, seq: int) -> None:
        rows = pa.table({"op": [kind], "id": [1], "seq": [seq], name: [value]})
        if through == "upsert":
            table.upsert(rows, keys=["id"], row_kind="op")
        else:
            sink = txlog.Sink(table, "app", mode="upsert", keys=["id"], row_kind="op", sequence_by="seq")
            with sink.task(next(checkpoints)) as task:
                task.write(rows)
            sink.commit(task.committable.checkpoint_id, [task.committable])

    change("+I", 1)
    change("-D", 3)
    assert (len(tombstones(table)), table.count()) == (1, 0)
    change("+U", 2)
    assert (table.count(), table.verify(["id"]).is_sound) == (0, True)
    table.add_constraint("again", f"{name} IS NOT NULL")
    table.optimize()
    change("+U", 2)
    assert table.count() == 0


def test_changes_are_compared_with_the_tables_row_if_the_first_of_them_come_too_late(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = make_table(schema=SCHEMA, properties=KEPT)
    upsert(table, ("+I", 2, 1, "first"), ("+I", 3, 1, "other"))
    upsert(table, ("+I", 2, 1, "second"), ("-D", 2, 0, "late"), ("-D", 2, 1, "last"))
    assert rows_of(table) == [(3, 1, "other")]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["+I", "+U", "-D"]), st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=4
        ),
        max_size=6,
    ),
    st.sets(st.integers(0, 5), max_size=2),
)
def test_the_result_is_the_same_in_whatever_order_commits_come(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[tuple[str, int, int]]], optimized_after: set[int]
) -> None:
    """Of each key the change with the greatest sequence stays; equal ones go by arrival."""
    table = txlog.Table.create(tmp_path_factory.mktemp("t"), SCHEMA, properties=KEPT)
    last: dict[int, tuple[int, str, str]] = {}
    for number, rows in enumerate(commits):
        named = [(kind, key, sequence, f"{number}.{at}") for at, (kind, key, sequence) in enumerate(rows)]
        upsert(table, *named)
        for kind, key, sequence, name in named:
            if key not in last or sequence >= last[key][0]:
                last[key] = (sequence, kind, name)
        if number in optimized_after:
            table.optimize()
    expected = sorted((key, sequence, name) for key, (sequence, kind, name) in last.items() if kind != "-D")
    assert rows_of(table) == expected


def test_without_what_takes_care_of_tombstones_nothing_that_would_lose_them_is_done(
    make_table: Callable[..., txlog.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(schema=SCHEMA, properties={**KEPT, "delta.columnMapping.mode": "name"})
    upsert(table, ("+I", 1, 1, "a"), ("+I", 2, 1, "b"), ("+I", 3, 1, "c"))
    upsert(table, ("-D", 1, 5, None))
    before, version = rows_of(table), table.version
    hide(monkeypatch, "txlog.tombstones:txlog.tombstone-retention")
    for rewrite in (table.optimize, table.purge, lambda: table.drop_feature("columnMapping")):
        with pytest.raises(
            txlog.UnsupportedFeatureError, match=r"txlog\.tombstone-retention.*no installed package"
        ) as e:
            rewrite()
        assert e.value.table == table.uri
    assert (rows_of(table), table.version) == (before, version)
    table.delete("id = 2")  # neither reads tombstones nor loses them
    monkeypatch.undo()
    upsert(table, ("+I", 1, 4, "late"))
    table.optimize()
    assert rows_of(table) == [(3, 1, "c")]
