"""`Table.merge` of a source in which several rows have one key: what is well defined is done, all else is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
import txlog.core.changes.tasks.operations._merge_source as merge_source
from txlog.audit.verify import verify_table
from txlog.core.changes.plan import MergeBuilder
from txlog.errors import InvalidInputError
from txlog.table import Table

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true", **VECTORS}
MODES = pytest.mark.parametrize("properties", [VECTORS, {}, FEED], ids=["vectors", "copies", "feed"])
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("op", pa.string())])


def rows(*given: tuple[Any, Any, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


def made(path: Path, properties: dict[str, str], *given: tuple[Any, Any, Any]) -> Table:
    table = txlog.Table.create(path, SCHEMA, properties=properties)
    table.append(rows(*(given or ((1, 10, "a"), (2, 20, "a"), (3, 30, "a")))))
    return table


def found(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow().to_pylist()), key=repr)


@MODES
def test_a_source_row_that_no_clause_applies_to_stands_in_nobodys_way(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path, properties)
    source = rows((1, 1, "no"), (1, 2, "u"), (1, 3, "no"), (2, 4, "no"), (2, 5, "no"), (7, 6, "no"), (7, 7, "no"))
    merge = table.merge(source, ["id"]).when_matched_update({"v": txlog.expr("source.v")}, "source.op = 'u'")
    merge = merge.when_not_matched_insert_all().when_not_matched_by_source_update({"op": txlog.expr("'alone'")})
    did = merge.execute().metrics
    assert found(table) == [(1, 2, "a"), (2, 20, "a"), (3, 30, "alone"), (7, 6, "no"), (7, 7, "no")]
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (2, 2, 0)
    assert verify_table(table._open_table.store).is_sound


@MODES
@pytest.mark.parametrize("condition", [None, "source.op = 'd'"], ids=["always", "by a condition"])
def test_a_row_that_several_source_rows_delete_is_deleted_once(
    tmp_path: Path, properties: dict[str, str], condition: str | None
) -> None:
    table = made(tmp_path, properties)
    source = rows((1, 1, "d"), (9, 0, "d"), (1, 2, "d"), (1, 3, "d"), (9, 1, "d"))
    did = table.merge(source, ["id"]).when_matched_delete(condition).when_not_matched_insert_all().execute().metrics
    assert found(table) == [(2, 20, "a"), (3, 30, "a"), (9, 0, "d"), (9, 1, "d")]
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (2, 0, 1)
    if "delta.enableChangeDataFeed" in properties:
        assert sorted(table.changes(2).read_all()["_change_type"].to_pylist()) == ["delete", "insert", "insert"]


@MODES
def test_the_clause_that_applies_first_to_a_pair_decides_for_it(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, properties)
    source = rows((1, 1, "d"), (1, 2, "x"), (2, 1, "x"), (2, 2, "u"))
    merge = table.merge(source, ["id"]).when_matched_delete("source.op = 'd'")
    merge = merge.when_matched_delete("source.op = 'x' and target.id = 1").when_matched_update_all("source.op = 'u'")
    did = merge.execute().metrics
    assert found(table) == [(2, 2, "u"), (3, 30, "a")]
    assert (did.rows_inserted, did.rows_updated, did.rows_deleted) == (0, 1, 1)


def test_conditions_on_both_sides_choose_among_the_source_rows(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS, (1, 10, "a"), (1, 20, "a"), (1, 30, "a"))
    source = rows((1, 10, "first"), (1, 20, "second"))
    table.merge(source, ["id"]).when_matched_update_all("source.v = target.v").execute()
    assert found(table) == [(1, 10, "first"), (1, 20, "second"), (1, 30, "a")]


@MODES
@pytest.mark.parametrize("ops", [("u", "u"), ("u", "d"), ("d", "u"), ("d", "d", "u")])
def test_a_row_that_is_changed_in_two_ways_is_refused_by_its_key_and_place(
    tmp_path: Path, properties: dict[str, str], ops: tuple[str, ...]
) -> None:
    table = made(tmp_path, properties)
    source = rows(*((2, 5, op) for op in ops), (3, 1, "u"))
    merge = table.merge(source, ["id"]).when_matched_delete("source.op = 'd'").when_matched_update_all()
    (path,) = table.snapshot().files()["path"].to_pylist()
    match = rf"two source rows match the same row of the table, by id=2 \(row 1 of {path}, counting from 0\)"
    with pytest.raises(InvalidInputError, match=match):
        merge.execute()
    assert table.version == 1
    assert found(table) == [(1, 10, "a"), (2, 20, "a"), (3, 30, "a")]


def test_a_dead_row_is_never_ambiguous(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("id = 1")
    did = table.merge(rows((1, 1, "u"), (1, 2, "u"), (2, 3, "u")), ["id"]).when_matched_update_all().execute().metrics
    assert (did.rows_updated, found(table)) == (1, [(2, 3, "u"), (3, 30, "a")])


def test_a_null_key_of_the_source_has_no_part_in_it(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    source = rows((None, 1, "u"), (2, 2, "no"), (None, 3, "u"), (2, 4, "u"))
    table.merge(source, ["id"]).when_matched_update_all("source.op = 'u'").execute()
    assert found(table) == [(1, 10, "a"), (2, 4, "u"), (3, 30, "a")]
    with pytest.raises(InvalidInputError, match="id=2 "):
        table.merge(source, ["id"]).when_matched_update_all().execute()


def test_a_merge_in_a_transaction_decides_alike(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    with table.transaction() as txn:
        txn.append(rows((4, 40, "a")))
        for source in (rows((4, 1, "no"), (4, 2, "u")), rows((1, 0, "d"), (1, 1, "d"))):
            merge = txn.merge(source, ["id"]).when_matched_update_all("source.op = 'u'")
            merge.when_matched_delete("source.op = 'd'").execute()
    assert found(table) == [(2, 20, "a"), (3, 30, "a"), (4, 2, "u")]
    with pytest.raises(InvalidInputError, match="id=2 "), table.transaction() as txn:
        txn.merge(rows((2, 1, "u"), (2, 1, "u")), ["id"]).when_matched_update_all().execute()


def test_a_merge_decides_alike_with_the_keys_that_the_handle_keeps(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    for turn in range(4):
        source = rows((1, turn, "u"), (1, 9, "no"), (2, 9, "no"))
        table.merge(source, ["id"]).when_matched_update_all("source.op = 'u'").execute()
        assert found(table) == [(1, turn, "u"), (2, 20, "a"), (3, 30, "a")]
    table.merge(rows((1, 0, "d"), (1, 1, "d")), ["id"]).when_matched_delete().execute()
    with pytest.raises(InvalidInputError, match="id=2 "):
        table.merge(rows((2, 0, "u"), (2, 1, "u")), ["id"]).when_matched_update_all().execute()
    assert found(table) == [(2, 20, "a"), (3, 30, "a")]


CLAUSES = ("update", "update u", "delete", "delete d", "insert", "alone")
keys = st.one_of(st.integers(0, 3), st.none())
table_rows = st.lists(st.tuples(keys, st.integers(0, 2), st.just("a")), min_size=1, max_size=6)
source_rows = st.lists(st.tuples(keys, st.integers(0, 2), st.sampled_from(["u", "d", "no"])), max_size=8)
clause_lists = st.lists(st.sampled_from(CLAUSES), min_size=1, max_size=4)


def with_clauses(merge: MergeBuilder[Any], clauses: list[str]) -> MergeBuilder[Any]:
    for clause in clauses:
        if clause.startswith("update"):
            condition = "source.op = 'u' and source.v >= target.v" if clause == "update u" else None
            merge.when_matched_update(
                {"v": txlog.expr("target.v + source.v"), "op": txlog.expr("source.op")}, condition
            )
        elif clause.startswith("delete"):
            merge.when_matched_delete("source.op = 'd'" if clause == "delete d" else None)
        elif clause == "insert":
            merge.when_not_matched_insert_all("source.op != 'd'")
        else:
            merge.when_not_matched_by_source_update({"op": txlog.expr("'alone'")}, "target.v > 0")
    return merge


def model(old: list[Any], new: list[Any], clauses: list[str]) -> list[Any] | None:
    """What is left, pair by pair; None if two pairs change one row and not both delete it."""

    def clause_of(target: Any, source: Any) -> str | None:
        applies = {
            "update": True,
            "update u": source[2] == "u" and source[1] >= target[1],
            "delete": True,
            "delete d": source[2] == "d",
        }
        return next((clause for clause in clauses if applies.get(clause)), None)

    result = []
    for target in old:
        joined = [source for source in new if source[0] == target[0] is not None]
        changes = [(clause, source) for source in joined if (clause := clause_of(target, source))]
        updates = [source for clause, source in changes if clause.startswith("update")]
        if len(changes) > 1 and updates:
            return None
        if updates:
            result.append((target[0], target[1] + updates[0][1], updates[0][2]))
        elif not changes:
            is_alone = not joined and "alone" in clauses and target[1] > 0
            result.append((target[0], target[1], "alone") if is_alone else target)
    known = {target[0] for target in old}
    if "insert" in clauses:
        result += [source for source in new if (source[0] is None or source[0] not in known) and source[2] != "d"]
    return result


@pytest.mark.parametrize("pairs_at_once", [1 << 17, 3])
@given(table_rows, source_rows, clause_lists, st.booleans())
def test_any_merge_gives_the_rows_of_a_plain_python_model_or_is_refused_with_it(
    tmp_path_factory: pytest.TempPathFactory,
    pairs_at_once: int,
    old: list[Any],
    new: list[Any],
    clauses: list[str],
    with_vectors: bool,
) -> None:
    table = made(tmp_path_factory.mktemp("t"), VECTORS if with_vectors else {}, *old)
    expected = model(old, new, clauses)
    merge = with_clauses(table.merge(rows(*new), "target.id = source.id"), clauses)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merge_source, "PAIRS_AT_ONCE", pairs_at_once)
        if expected is None:
            with pytest.raises(InvalidInputError, match="two source rows match the same row"):
                merge.execute()
            return
        merge.execute()
    assert found(table) == sorted(expected, key=repr)
