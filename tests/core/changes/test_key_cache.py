"""Upserts and merges of one handle after the other: what it knows of keys saves reading, and never changes a row."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import txlog
from tests.watched import KEYS, SCHEMA, Watched, rows, values
from txlog.core.changes.plan import _file_choice
from txlog.core.changes.tasks import _rewrite as rewrite
from txlog.core.changes.tasks import _row_work as row_work
from txlog.core.changes.tasks.operations import _keyed_change as keyed_change
from txlog.core.format import bitmaps
from txlog.core.format.bitmaps import bitmap_of
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.log_names import commit_name
from txlog.core.reading import FileKeys, KeyCache


@KEYS
def test_from_its_third_upsert_on_a_handle_reads_no_file_of_the_table(
    keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched()
    watched.others.append(rows(*range(0, 50)))
    watched.others.append(rows(*range(50, 100)))
    upsert = watched.table.upsert
    assert len(watched.read_by(lambda: upsert(rows(1, 51, 200, v=1), keys))) == 2
    assert len(watched.read_by(lambda: upsert(rows(2, 52, 200, v=2), keys))) == 4, "all data files, and their vectors"
    assert len(watched.read_by(lambda: upsert(rows(3, 53, 200, v=3), keys))) == 1, "what the first wrote"
    monkeypatch.setattr(keyed_change, "KeyPruner", None)  # nor does it judge a file by its statistics
    for number in range(4, 9):
        assert not watched.read_by(
            lambda number=number: upsert(rows(number, 50 + number, 200 + number, v=number), keys)
        )
    expected = dict.fromkeys(range(100), 0) | {200: 3}
    expected |= {each: each for each in range(1, 9)} | {each + 50: each for each in range(1, 9)}
    expected |= {each + 200: each for each in range(4, 9)}
    assert values(watched) == expected


def test_marking_a_few_more_rows_makes_bitmaps_of_these_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched()
    watched.others.append(rows(*range(3000)))
    for number in range(3):
        watched.table.upsert(rows(*range(1000), v=number), ["id"])
    made: list[int] = []
    for module in (bitmaps, row_work, rewrite):
        monkeypatch.setattr(module, "bitmap_of", lambda numbers: made.append(len(numbers)) or bitmap_of(numbers))
    for number in range(3, 6):
        made.clear()
        watched.table.upsert(rows(500, 1000 + number, v=number), ["id"])
        assert max(add.deletion_vector.cardinality for add in watched.adds() if add.deletion_vector) >= 1000
        assert 2 <= sum(made) < 20, made
    assert values(watched) == {
        **{key: 2 if key < 1000 else 0 for key in range(3000)},
        **{1000 + number: number for number in range(3, 6)},
        500: 5,
    }


@KEYS
def test_rows_with_a_null_key_are_passed_over_and_the_others_stay_where_they_are(keys: list[str]) -> None:
    watched = Watched()
    nulls = [{"id": None, "name": None, "v": 7}]
    given = [*nulls, *rows(1, 2).to_pylist(), *nulls, *rows(3).to_pylist()]
    watched.others.append(pa.Table.from_pylist(given, SCHEMA))
    for number in range(3):
        watched.table.upsert(rows(1, v=number), keys)
    assert not watched.read_by(lambda: watched.table.upsert(rows(2, 3, v=5), keys)), "all is known"
    expected = [(1, "name 1", 2), (2, "name 2", 5), (3, "name 3", 5), (None, None, 7), (None, None, 7)]
    assert watched.rows() == sorted(expected, key=repr)


def test_an_upsert_finds_rows_that_others_wrote_and_inserts_rows_that_they_deleted() -> None:
    watched = Watched()
    watched.others.append(rows(*range(100)))
    for number in range(3):
        watched.table.upsert(rows(number, v=1), ["id"])
    watched.others.append(rows(500, 501))
    watched.others.delete("id in (7, 500)")
    watched.others.upsert(rows(8, 600, v=5), ["id"])
    did = watched.table.upsert(rows(7, 8, 500, 501, 600, v=9), ["id"]).metrics
    assert (did.rows_inserted, did.rows_updated) == (2, 3)
    assert {each: v for each, v in values(watched).items() if v == 9} == dict.fromkeys((7, 8, 500, 501, 600), 9)


def test_rows_that_a_foreign_writer_moves_to_another_file_are_found_there() -> None:
    watched = Watched()
    watched.others.append(rows(*range(100)))
    for number in range(3):
        watched.table.upsert(rows(number, v=1), ["id"])
    everything = watched.others.snapshot().to_arrow().sort_by([("id", "descending")])
    watched.others.overwrite(everything)
    watched.table.upsert(rows(1, 5, v=9), ["id"])
    assert values(watched) == {each: 9 if each in (1, 5) else int(each < 3) for each in range(100)}
    assert watched.open_table.key_cache.size_bytes < 16 * 100, "the old files are dropped"


def test_an_upsert_with_cached_keys_keeps_the_tags_that_another_writer_gave_a_file() -> None:
    watched = Watched()
    watched.others.append(rows(*range(10)))
    for number in range(3):
        watched.table.upsert(rows(number, v=1), ["id"])
    live = {file.path: file for file in watched.adds()}
    path = next(path for path, file in live.items() if file.deletion_vector is not None and file.size > 0)
    tagged = replace(live[path], tags={"note": "given by another engine"}, data_change=False)
    lines = [{"commitInfo": {"operation": "BACKFILL"}}, {"add": tagged.to_json()}]
    version = watched.others.version + 1
    watched.log.put_if_absent(commit_name(version), b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert not watched.read_by(lambda: watched.table.upsert(rows(5, v=2), ["id"]))
    now = {file.path: file for file in watched.adds()}[path]
    assert now.tags == tagged.tags
    assert now.key != tagged.key, "the upsert gave it another vector"


@pytest.mark.parametrize("few", [0, 1_000])
def test_upserts_in_a_row_see_what_others_did_between_them(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_file_choice, "FEW_FILES", few)
    watched = Watched()
    watched.others.append(rows(*range(10)))
    for number in range(3):
        watched.table.upsert(rows(number, v=1), ["id"])
    for number in range(10, 22):  # more commits than a handle keeps
        watched.others.append(rows(number))
    watched.others.delete("id = 4")
    watched.table.upsert(rows(0, 4, 21, v=2), ["id"])
    watched.others.optimize()
    watched.table.upsert(rows(5, v=3), ["id"])
    log = watched.others._open_table.log
    fresh = add_files_of(log.files(log.reload()))
    assert {file.key for file in watched.adds()} == {file.key for file in fresh}
    found = {**dict.fromkeys(range(22), 0), 1: 1, 2: 1, 0: 2, 4: 2, 21: 2, 5: 3}
    assert values(watched) == found


@pytest.mark.parametrize("size", [0, 100])
def test_upserts_without_room_in_the_key_cache_read_files_and_give_the_same_rows(size: int) -> None:
    watched = Watched(key_cache_size=size)
    watched.others.append(rows(*range(100)))
    for number in range(5):
        assert watched.read_by(lambda number=number: watched.table.upsert(rows(number, v=1), ["id"]))
    assert values(watched) == {each: int(each < 5) for each in range(100)}
    assert watched.open_table.key_cache.size_bytes <= size
    assert watched.open_table.log._offered is None, "the list of files has no room either"


def test_the_size_of_the_cache_is_an_option_of_the_handle_that_goes_with_it(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, key_cache_size=12_345)
    for each in (table, pickle.loads(pickle.dumps(table))):
        assert each._open_table.key_cache.size_bytes_max == 12_345
    assert txlog.Table.open(str(tmp_path / "t"))._open_table.key_cache.size_bytes_max == 256 << 20
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid key_cache_size .*: expected a whole number"):
        txlog.Table.open(str(tmp_path / "t"), key_cache_size=-1)


@KEYS
@pytest.mark.parametrize("partition_by", [[], ["name"]], ids=["", "by name"])
def test_the_key_cache_knows_the_positions_of_rows_that_its_handle_wrote(
    keys: list[str], partition_by: list[str]
) -> None:
    """Also where an insert that is ignored leaves gaps in the source, and where files are rolled."""
    watched = Watched(partition_by=partition_by)
    watched.others.append(rows(*range(4)))
    for _ in range(3):
        watched.table.upsert(rows(0, 1), keys)
    watched.table.upsert(rows(*range(20), v=1), keys, when_matched="ignore")
    watched.table.upsert(rows(3, 17, 4, v=2), keys)
    watched.table.upsert(rows(17, 19, v=3), keys)
    expected = dict.fromkeys(range(20), 1) | {0: 0, 1: 0, 2: 0, 3: 2, 4: 2, 17: 3, 19: 3}
    assert values(watched) == expected


def test_rows_of_an_upsert_that_writes_several_row_groups_are_found_where_they_are() -> None:
    """Row groups go to several files in turns, so a file then has rows from here and there of the source."""
    watched = Watched()
    watched.others.set_properties({"delta.targetFileSize": "1mb"})
    watched.others.append(rows(*range(4)))
    for _ in range(3):
        watched.table.upsert(rows(0, 1), ["id"])
    many = pa.array(range(10, 300_010))
    once = pa.table({"id": many, "name": pa.nulls(len(many), pa.string()), "v": pa.repeat(1, len(many))})
    watched.table.upsert(once, ["id"])
    again = range(10, 300_010, 1000)
    watched.table.upsert(rows(*again, v=2), ["id"])
    found = watched.others.snapshot().to_arrow(["id", "v"]).sort_by("id")
    assert found["id"].to_pylist() == [*range(4), *range(10, 300_010)]
    assert found.filter(pc.equal(found["v"], 2))["id"].to_pylist() == [*again]


@KEYS
def test_of_several_rows_of_one_key_the_last_replaces_the_rows_with_cached_keys(keys: list[str]) -> None:
    watched = Watched()
    watched.others.append(rows(*range(10)))
    for number in range(3):
        watched.table.upsert(rows(number, v=1), keys)
    several = pa.concat_tables([rows(7, 7, 3, v=5), rows(9, v=6), rows(3, 20, 7, 20, v=7)])
    did = watched.table.upsert(several, keys, on_duplicate="last").metrics
    assert (did.rows_inserted, did.rows_updated) == (1, 3)
    assert values(watched) == {each: int(each < 3) for each in range(10)} | {7: 7, 3: 7, 9: 6, 20: 7}
    newest = pa.concat_tables([rows(3, 9, 3, v=8), rows(3, v=7)])
    watched.table.upsert(newest, keys, on_duplicate="last", sequence_by="v")
    assert {each: v for each, v in values(watched).items() if v == 8} == {3: 8, 9: 8}


# --- merges -----------------------------------------------------------------------------------------------------------


def merge(table: txlog.Table, data: pa.Table, keys: list[str], **clauses: str | None) -> None:
    """Update and insert all; ``clauses`` are the conditions."""
    builder = table.merge(data, keys).when_matched_update_all(clauses.get("matched"))
    builder.when_not_matched_insert_all(clauses.get("not_matched")).execute()


@KEYS
@pytest.mark.parametrize("matched", [None, "source.v > 1", "target.v < source.v"])
def test_from_its_third_merge_on_a_handle_reads_a_file_only_if_a_clause_needs_its_values(
    keys: list[str], matched: str | None
) -> None:
    watched = Watched()
    watched.others.append(rows(*range(0, 100, 2)))
    watched.others.append(rows(*range(1, 100, 2)))
    first_files = {file.path for file in watched.adds()}
    for data in (rows(0, 1, 200, v=1), rows(0, 1, 200, v=2)):
        read = watched.read_by(lambda data=data: merge(watched.table, data, keys, matched=matched))
        assert first_files <= read
    read = watched.read_by(lambda: merge(watched.table, rows(2, 4, 300, v=3), keys, matched=matched))
    needs_values = matched is not None and "target" in matched
    assert len(first_files & read) == needs_values, "the file of even ids has rows whose values decide"
    merge(watched.table, rows(3, 301, v=4), keys, matched="target.v > source.v")
    expected = dict.fromkeys(range(100), 0) | {0: 2, 1: 2, 2: 3, 4: 3, 200: 2, 300: 3, 301: 4}
    assert values(watched) == expected


def test_upserts_and_merges_by_the_same_keys_share_the_key_cache() -> None:
    watched = Watched()
    watched.others.append(rows(*range(100)))
    watched.table.upsert(rows(1, v=1), ["id"])
    first = {file.path for file in watched.adds()}
    merge(watched.table, rows(2, v=2), ["id"])
    assert not first & watched.read_by(lambda: merge(watched.table, rows(3, v=3), ["id"]))
    assert not first & watched.read_by(lambda: watched.table.upsert(rows(4, v=4), ["id"]))
    assert values(watched) == {each: each if each in (1, 2, 3, 4) else 0 for each in range(100)}


def test_a_merge_of_rows_that_the_table_lacks_by_source_looks_at_every_row() -> None:
    watched = Watched()
    watched.others.append(rows(*range(10)))
    for number in range(3):
        merge(watched.table, rows(number, v=1), ["id"])
    watched.table.merge(rows(1, 2, 3), ["id"]).when_not_matched_by_source_delete("target.v = 0").execute()
    assert values(watched) == {0: 1, 1: 1, 2: 1, 3: 0}


def test_repeated_and_null_source_keys_mean_the_same_with_cached_keys() -> None:
    watched = Watched()
    watched.others.append(rows(*range(10)))
    for number in range(3):
        merge(watched.table, rows(number, v=1), ["id"])
    without_key = pa.table({"id": pa.array([None], pa.int64()), "name": ["no key"], "v": [8]}, SCHEMA)
    with pytest.raises(txlog.InvalidInputError, match="two source rows match the same row of the table, by id=4"):
        merge(watched.table, pa.concat_tables([without_key, rows(5, 4, 4, v=7)]), ["id"])
    repeated = pa.concat_tables([without_key, rows(20, 5, 20, v=7), without_key])
    assert merge(watched.table, repeated, ["id"]) is None
    assert [row for row in watched.rows() if row[2] >= 7] == sorted(
        [(5, "name 5", 7), (20, "name 20", 7), (20, "name 20", 7), (None, "no key", 8), (None, "no key", 8)], key=repr
    )
    watched.others.delete("v >= 7")
    merge(watched.table, rows(6, v=9), ["id"])
    assert values(watched) == {each: 1 if each < 3 else 0 for each in range(10) if each != 5} | {6: 9}


def test_a_merge_may_give_inserted_rows_other_keys_than_the_sources() -> None:
    watched = Watched()
    watched.others.append(rows(*range(4)))
    for _ in range(3):
        merge(watched.table, rows(0, v=1), ["id"])
    shifted = watched.table.merge(rows(10, 11, v=2), ["id"])
    shifted.when_not_matched_insert(
        {"id": txlog.expr("source.id + 100"), "name": txlog.expr("source.name"), "v": txlog.expr("source.v")}
    ).execute()
    merge(watched.table, rows(10, 111, v=3), ["id"])
    assert values(watched) == {0: 1, 1: 0, 2: 0, 3: 0, 110: 2, 111: 3, 10: 3}


# --- any history ------------------------------------------------------------------------------------------------------

MERGES = ("merge", "merge newer", "merge out")
OPERATION = st.tuples(
    st.sampled_from(("upsert", "insert", "update", "their upsert", "their append", "their delete", "rewrite", *MERGES)),
    st.lists(st.integers(0, 7), min_size=1, max_size=5, unique=True),
)


@KEYS
@given(st.lists(OPERATION, max_size=8))
def test_any_history_of_changes_gives_the_same_rows_with_and_without_a_key_cache(
    keys: list[str], history: list[tuple[str, list[int]]]
) -> None:
    watched, expected = Watched(), dict.fromkeys(range(0, 8, 2), 0)
    watched.others.append(rows(*expected))
    for _ in range(3):
        watched.table.upsert(rows(0), keys)
    for number, (what, ids) in enumerate(history, start=1):
        data = rows(*ids, v=number)
        if what in ("upsert", "their upsert"):
            (watched.table if what == "upsert" else watched.others).upsert(data, keys)
            expected |= dict.fromkeys(ids, number)
        elif what == "insert":
            watched.table.upsert(data, keys, when_matched="ignore")
            expected = dict.fromkeys(ids, number) | expected
        elif what == "update":
            watched.table.upsert(data, keys, update_columns=["v"], when_not_matched="ignore")
            expected |= dict.fromkeys(expected.keys() & set(ids), number)
        elif what == "merge":
            merge(watched.table, data, keys)
            expected |= dict.fromkeys(ids, number)
        elif what == "merge newer":
            merge(watched.table, data, keys, matched="source.v > target.v + 2", not_matched="source.id > 3")
            expected |= {
                each: number for each in ids if (number > expected[each] + 2 if each in expected else each > 3)
            }
        elif what == "merge out":
            watched.table.merge(data, keys).when_matched_delete().when_not_matched_insert_all().execute()
            expected = {each: v for each, v in expected.items() if each not in ids} | {
                each: number for each in ids if each not in expected
            }
        elif what == "their append":
            new = [each for each in ids if each not in expected]
            watched.others.append(rows(*new, v=number))
            expected |= dict.fromkeys(new, number)
        elif what == "their delete":
            watched.others.delete(f"id in ({', '.join(map(str, ids))})")
            expected = {each: v for each, v in expected.items() if each not in ids}
        else:
            watched.others.overwrite(watched.others.snapshot().to_arrow())
        assert values(watched) == expected, (number, what, ids)


# --- files that other programs write again under the same name ----------------------------------------------------


def test_a_file_whose_path_left_the_table_is_forgotten() -> None:
    cache = KeyCache(1 << 20)
    keys = cache.of("table", (), [pa.int64()])
    values, _ = keys.numbers.of([pa.array(range(100))])
    files = [(f"{name}.parquet", 10, 1) for name in "abcdefgh"]
    keys.add([FileKeys.of(file, values, np.arange(100)) for file in files])
    wanted, _ = keys.numbers.of([pa.array([7])])
    assert set(keys.find(wanted, files)) == set(files)
    keys.drop_others(files[1:])
    assert set(keys.find(wanted, files)) == set(files[1:])
