"""Tables that track rows: a row keeps its id as long as it lives, whatever rewrites it, and its version if unchanged.

The ids are computed here from the files and the log alone, as the protocol says; Spark's Delta reads the same ones in
integration/test_interop_row_ids.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.audit.verify import verify_table
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import resolve_data_path
from txlog.core.reading import DeletionVectorReader
from txlog.errors import CorruptLogError, InvalidInputError
from txlog.table import Table

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("v", pa.int64())])
ways = pytest.mark.parametrize("way", [VECTORS, {}], ids=["vectors", "copies"])


class Tracked(NamedTuple):
    id: int
    version: int


def rows_of(*rows: tuple[int, str, int | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def made(path: Path, partition_by: Iterable[str] = (), **properties: str) -> Table:
    table = Table.create(path / "t", SCHEMA, partition_by, {**TRACKED, **properties})
    table.append(rows_of((1, "a", 10), (2, "a", 20), (3, "b", 30)))
    table.append(rows_of((4, "b", 40), (5, "a", 50)))
    return table


def tracked(table: Table) -> dict[int, Tracked]:
    """The id and commit version of each live row by its key, of the newest version."""
    snapshot = Table.open(table.uri).snapshot()
    names = snapshot.properties
    id_name, version_name = (
        names[f"delta.rowTracking.materialized{what}ColumnName"] for what in ("RowId", "RowCommitVersion")
    )
    key_name = pa.schema(snapshot.schema).field("k").name
    vectors = DeletionVectorReader(table._open_table.store, snapshot.version)
    found: dict[int, Tracked] = {}
    for add in add_files_of(snapshot.files()):
        file = pq.read_table(Path(table.uri, str(resolve_data_path(add.path).path)), partitioning=None)
        keys = file.column(physical(table, key_name)).to_pylist()
        empty = [None] * len(keys)
        ids = file.column(id_name).to_pylist() if id_name in file.schema.names else empty
        versions = file.column(version_name).to_pylist() if version_name in file.schema.names else empty
        dead = set() if add.deletion_vector is None else {*vectors.dead_rows(add.deletion_vector, len(keys)).tolist()}
        assert add.base_row_id is not None
        assert add.default_row_commit_version is not None
        assert not add.stats or id_name not in add.stats
        for position, (key, id, version) in enumerate(zip(keys, ids, versions, strict=True)):
            if position not in dead:
                assert key not in found
                found[key] = Tracked(
                    add.base_row_id + position if id is None else id,
                    add.default_row_commit_version if version is None else version,
                )
    assert len({each.id for each in found.values()}) == len(found), "two rows have one id"
    return found


def physical(table: Table, name: str) -> str:
    from txlog.core.format.column_mapping import physical_name

    field = table._open_table.log.newest_state().schema.find(name)
    assert field is not None
    return physical_name(field)


def merge(table: Table) -> Any:
    return (
        table.merge(rows_of((1, "b", 1), (2, "a", 2), (4, "z", 4), (9, "a", 9)), ["k"])
        .when_matched_delete("source.v = 4")
        .when_matched_update({"v": txlog.expr("source.v")}, "source.v = 2")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


CHANGES: dict[str, tuple[Callable[[Table], Any], set[int], set[int], set[int]]] = {
    # what it does; the keys that it updates, deletes and inserts
    "delete": (lambda t: t.delete("k in (1, 4)"), set(), {1, 4}, set()),
    "update": (lambda t: t.update({"v": txlog.expr("v + 1")}, "k in (2, 3, 5)"), {2, 3, 5}, set(), set()),
    "update to constants": (
        lambda t: t.update({"k": txlog.expr("7"), "day": txlog.expr("'x'"), "v": None}, "k = 3"),
        set(),
        set(),
        set(),
    ),
    "update that moves rows": (lambda t: t.update({"day": txlog.expr("'c'")}, "k in (1, 5)"), {1, 5}, set(), set()),
    "upsert": (lambda t: t.upsert(rows_of((8, "a", 8), (5, "b", 5), (2, "a", 2)), ["k"]), {2, 5}, set(), {8}),
    "upsert of columns": (
        lambda t: t.upsert(rows_of((8, "a", 8), (5, "b", 5)), ["k"], update_columns=["v"]),
        {5},
        set(),
        {8},
    ),
    "upsert of new keys": (
        lambda t: t.upsert(rows_of((8, "a", 8), (5, "b", 5)), ["k"], when_matched="ignore"),
        set(),
        set(),
        {8},
    ),
    "merge": (merge, {1, 2}, {4}, {9}),
    "overwrite": (lambda t: t.overwrite(rows_of((9, "a", 41)), "v > 35 and v < 45"), set(), {4}, {9}),
}


@ways
@pytest.mark.parametrize("mapping", ["none", "name", "id"])
@pytest.mark.parametrize("change", [name for name in CHANGES if name != "update to constants"])
def test_rows_keep_their_ids_and_unchanged_ones_their_versions(
    tmp_path: Path, change: str, way: dict[str, str], mapping: str
) -> None:
    act, updated, deleted, inserted = CHANGES[change]
    table = made(tmp_path, ["day"] if mapping == "none" else [], **way, **{"delta.columnMapping.mode": mapping})
    for _ in range(2):  # the second time on files that keep ids in columns
        before = tracked(table)
        act(table)
        after = tracked(table)
        version = table.version
        expected = {key: each for key, each in before.items() if key not in deleted}
        expected |= {key: Tracked(before[key].id, version) for key in updated}
        fresh = {key: after[key] for key in after.keys() - before.keys()}
        assert {key: after[key] for key in after.keys() & before.keys()} == expected
        assert fresh.keys() == inserted - before.keys()
        assert all(each.version == version and each.id > max(b.id for b in before.values()) for each in fresh.values())
        if change in ("delete", "upsert of columns", "upsert of new keys", "overwrite"):
            break
        updated, deleted, inserted = updated | inserted, set(), deleted
    assert table.history(1)[0]["tags"] == {"delta.rowTracking.preserved": "true"}
    assert verify_table(table._open_table.store).is_sound


@ways
def test_an_update_that_reads_no_column_keeps_ids(tmp_path: Path, way: dict[str, str]) -> None:
    table = made(tmp_path, **way)
    before = tracked(table)
    CHANGES["update to constants"][0](table)
    assert tracked(table)[7] == Tracked(before[3].id, table.version)


@ways
def test_a_row_that_replaces_several_keeps_the_oldest_row_id(tmp_path: Path, way: dict[str, str]) -> None:
    table = made(tmp_path, **way)
    before = tracked(table)
    table.update({"k": txlog.expr("4")}, "k = 1")
    table.upsert(rows_of((4, "x", 0)), ["k"])
    assert tracked(table)[4].id == before[1].id


@ways
def test_compaction_keeps_ids_and_versions(tmp_path: Path, way: dict[str, str]) -> None:
    table = made(tmp_path, **way)
    table.update({"v": txlog.expr("0")}, "k = 5")
    table.delete("k = 2")
    before = tracked(table)
    table.optimize()
    assert len(table.snapshot().files()) == 1
    assert tracked(table) == before


@ways
def test_changes_of_one_transaction_keep_ids_through_its_own_files(tmp_path: Path, way: dict[str, str]) -> None:
    table = made(tmp_path, **way)
    before = tracked(table)
    with table.transaction() as txn:
        txn.update({"v": txlog.expr("v + 1")}, "k = 1")
        txn.update({"v": txlog.expr("v + 1")}, "k <= 2")
        txn.upsert(rows_of((2, "q", 0)), ["k"])
    after = tracked(table)
    assert {key: each.id for key, each in after.items()} == {key: each.id for key, each in before.items()}
    assert {key for key in after if after[key].version == table.version} >= {1, 2}


def test_a_transaction_that_replaces_files_does_not_claim_kept_row_ids(
    tmp_path: Path,
) -> None:
    table = made(tmp_path)
    with table.transaction() as txn:
        txn.remove(*txn.snapshot.files()["path"].to_pylist())
        txn.append(rows_of((1, "a", 1)))
    assert table.history(1)[0]["tags"] == {"delta.rowTracking.preserved": "false"}


def test_tables_that_promise_no_ids_keep_none(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, (), {"delta.feature.rowTracking": "supported"})
    table.append(rows_of((1, "a", 1), (2, "b", 2)))
    table.update({"v": txlog.expr("7")}, "k = 1")
    assert "tags" not in table.history(1)[0]
    (file,) = [add.path for add in add_files_of(table.snapshot().files())]
    assert pq.read_schema(Path(table.uri, file)).names == SCHEMA.names


@pytest.mark.parametrize("name", ["", "k", "V"])
def test_a_table_that_names_no_column_for_ids_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    table = made(tmp_path)
    key = "delta.rowTracking.materializedRowIdColumnName"
    log = Path(table.uri, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace(table.snapshot().properties[key], name))
    table = Table.open(table.uri)
    with pytest.raises(CorruptLogError, match="materializedRowIdColumnName"):
        table.update({"v": txlog.expr("1")})
    assert table.version == 2


@pytest.mark.parametrize("what", ["RowId", "RowCommitVersion"])
def test_the_columns_that_keep_row_ids_are_not_set_or_unset_by_properties(tmp_path: Path, what: str) -> None:
    table = made(tmp_path)
    table.update({"v": txlog.expr("7")}, "k = 1")
    known, version = tracked(table), table.version
    key = f"delta.rowTracking.materialized{what}ColumnName"
    refused = pytest.raises(InvalidInputError, match=rf"{key} names the column .* cannot be set or unset")
    with refused:
        table.set_properties({key: "other"})
    with refused:
        table.unset_properties(key)
    with refused, table.transaction() as txn:
        txn.set_properties({key.lower(): "other"})
    with refused:
        table.set_properties({"delta.enableRowTracking": "false", key: "other"})
    with pytest.raises(InvalidInputError, match=f"{key} = v, and the table has a column of this name"):
        Table.create(tmp_path / "new", SCHEMA, (), {**TRACKED, key: "V"})
    Table.create(tmp_path / "new", SCHEMA, (), dict(table.snapshot().properties))
    table.set_properties({key: table.snapshot().properties[key], "mine": "set"})
    table.optimize()
    assert tracked(table) == known
    assert table.version == version + 2


@given(data=st.data())
def test_any_history_of_changes_keeps_every_id(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    way = data.draw(st.sampled_from([VECTORS, {}]))
    table = made(tmp_path_factory.mktemp("t"), data.draw(st.sampled_from([[], ["day"]])), **way)
    known = tracked(table)
    keys = st.integers(1, 9)
    for _ in range(data.draw(st.integers(1, 4))):
        some = data.draw(st.lists(keys, min_size=1, max_size=4, unique=True))
        listed = ", ".join(map(str, some))
        kind = data.draw(st.sampled_from(["delete", "update", "upsert", "overwrite", "optimize", "merge"]))
        source = rows_of(*((key, data.draw(st.sampled_from("ab")), key) for key in some))
        version = table.version
        changed = {key for key in some if key in known}
        expected = dict(known)
        if kind == "delete":
            table.delete(f"k in ({listed})")
            expected = {key: each for key, each in known.items() if key not in changed}
        elif kind == "update":
            table.update({"v": txlog.expr("k"), "day": txlog.expr("'c'")}, f"k in ({listed})")
        elif kind == "upsert":
            table.upsert(source, ["k"])
        elif kind == "merge":
            builder = table.merge(source, ["k"]).when_matched_update({"v": txlog.expr("source.v")}, "source.k > 4")
            builder.when_matched_update_all().when_not_matched_insert_all().execute()
        elif kind == "overwrite":
            table.overwrite(source, f"k in ({listed})")
            expected = {key: each for key, each in known.items() if key not in changed}
        else:
            table.optimize()
        after = tracked(table)
        if kind in ("update", "upsert", "merge"):
            expected |= {key: Tracked(known[key].id, table.version) for key in changed}
        if kind == "overwrite":
            assert all(after[key].version == table.version for key in some)
            highest = max((each.id for each in known.values()), default=-1)
            assert all(after[key].id > highest or key not in known for key in some)
        new = after.keys() - expected.keys()
        assert {key: after[key] for key in expected} == expected
        assert all(after[key].version > version for key in new)
        known = after


def test_ids_are_looked_up_again_where_another_writer_moved_a_key(tmp_path: Path) -> None:
    """Rows of the source that were written for a lost race are used again only with the same ids."""
    table = made(tmp_path, **VECTORS)
    ours = Table.open(table.uri)
    log = ours._open_table.store.log
    real, overtaken = log.put_if_absent, []

    def put(name: str, body: bytes) -> Any:
        if not overtaken:
            overtaken.append(name)
            other = Table.open(table.uri)
            other.delete("k = 2")
            other.append(rows_of((2, "again", 0)))
        return real(name, body)

    log.put_if_absent = put  # type: ignore[method-assign]
    before = tracked(table)
    ours.upsert(rows_of((2, "ours", 1), (3, "ours", 1)), ["k"])
    after = tracked(table)
    assert after[3] == Tracked(before[3].id, 5)
    assert after[2].id > before[5].id, "the row of another writer, which took the place of the deleted one"
    assert sorted(row["v"] for row in ours.snapshot().to_arrow().to_pylist()) == [1, 1, 10, 40, 50]
