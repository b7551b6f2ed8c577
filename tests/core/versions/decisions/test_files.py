from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, RemoveFile
from txlog.core.format.commit_file import Commit
from txlog.core.format.file_columns import FILES_SCHEMA, add_files_of, adds_to_batch, partition_column
from txlog.core.versions.decisions.files import adds_of_batch, fold_commits, reconcile, removes_of_batch
from txlog.errors import CorruptLogError


def add(path: str, vector: str | None = None, offset: int | None = None, **values: str | None) -> AddFile:
    descriptor = DeletionVectorDescriptor("u", vector, offset, 1, 1) if vector else None
    return AddFile(path, values, 1, 2, True, '{"numRecords":1}', deletion_vector=descriptor)


def remove(path: str, vector: str | None = None, offset: int | None = None) -> RemoveFile:
    descriptor = DeletionVectorDescriptor("u", vector, offset, 1, 1) if vector else None
    return RemoveFile(path, deletion_vector=descriptor)


def live(base: list[AddFile], *commits: list[AddFile | RemoveFile]) -> list[tuple[str, str | None]]:
    newest = fold_commits(Commit(number, tuple(actions), None, 0) for number, actions in enumerate(commits))
    return [action.key for action in add_files_of(reconcile([adds_to_batch(base)], newest))]


def test_files_that_the_tail_does_not_speak_of_stay_as_they_are() -> None:
    base = [add("a", p="1"), add("b", p=None), add("c", "v", 4)]
    batch = adds_to_batch(base)
    kept = reconcile([batch], fold_commits([Commit(1, (remove("z"),), None, 0)]))
    assert kept.column("path").chunk(0).buffers()[2].address == batch.column("path").buffers()[2].address
    assert add_files_of(kept) == base


def test_a_removed_file_leaves_and_an_added_one_comes() -> None:
    assert live([add("a"), add("b")], [remove("a")], [add("c")]) == [("b", None), ("c", None)]


def test_a_file_added_again_is_there_once() -> None:
    assert live([add("a")], [remove("a")], [add("a")]) == [("a", None)]


def test_the_deletion_vector_with_its_offset_is_part_of_the_key() -> None:
    assert live([add("a")], [remove("a"), add("a", "v", 1)]) == [("a", "uv@1")]
    assert live([add("a", "v", 1)], [remove("a", "v", 2)]) == [("a", "uv@1")]
    assert live([add("a", "v")], [remove("a")]) == [("a", "uv")]
    assert live([add("a", "v", 1)], [remove("a", "v", 1)]) == []


@pytest.mark.parametrize(
    ("written", "removed"),
    [
        ("/x/y", "file:/x/y"),
        ("file:///x/y", "/x/y"),
        ("a%20b/c", "a b/c"),
        ("a b/c", "a%20b/c"),
        ("stra%C3%9Fe", "straße"),
        ("a%7Eb", "a~b"),
    ],
)
def test_two_spellings_of_a_path_are_one_file_and_the_written_one_is_kept(written: str, removed: str) -> None:
    assert live([add(written), add("other")], [remove(removed)]) == [("other", None)]
    assert live([add(written)], [remove("other")]) == [(written, None)]


def test_two_paths_that_differ_stay_two_files() -> None:
    assert len(live([add("a/b"), add("a%2Fb"), add("A/b")], [remove("c")])) == 3


def test_reconciling_slices_of_batches_equals_reconciling_whole_ones() -> None:
    base = [add(f"p{number}", "v" if number % 3 else None, p=str(number)) for number in range(50)]
    newest = fold_commits([Commit(0, tuple(remove(f"p{n}", "v" if n % 3 else None) for n in range(0, 50, 7)), None, 0)])
    batch = adds_to_batch(base)
    sliced = [batch.slice(start, 13) for start in range(0, 50, 13)]
    assert reconcile(sliced, newest).to_pylist() == reconcile([batch], newest).to_pylist()
    assert reconcile(sliced, newest).num_rows == 42


def test_every_field_of_an_add_survives_the_columns() -> None:
    full = AddFile(
        "p", {"a": "1", "b": None}, 5, 6, False, "{}", {"t": "u", "n": None},
        DeletionVectorDescriptor("i", "abc", None, 3, 4), 7, 8, "liquid",
    )  # fmt: skip
    assert add_files_of(pa.Table.from_batches([adds_to_batch([full])])) == [full]


# --- checkpoint rows -----------------------------------------------------------------------------------------


def checkpoint_batch(rows: list[Any], kind: pa.StructType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(rows, kind)], names=["add"])


def test_rows_of_other_actions_are_left_out_and_absent_columns_are_null() -> None:
    kind = pa.struct([("path", pa.string()), ("size", pa.int64()), ("modificationTime", pa.int64())])
    row = {"path": "p", "size": 1, "modificationTime": 2}
    adds = adds_of_batch(checkpoint_batch([None, row, None], kind))
    assert adds is not None
    assert adds.schema == FILES_SCHEMA
    assert add_files_of(pa.Table.from_batches([adds])) == [AddFile("p", {}, 1, 2, False)]
    assert adds_of_batch(checkpoint_batch([None], kind)) is None
    assert removes_of_batch(checkpoint_batch([None], kind)) is None


def test_types_of_other_writers_are_brought_to_ours() -> None:
    kind = pa.struct(
        [
            ("path", pa.large_string()),
            ("size", pa.int32()),
            ("modificationTime", pa.int64()),
            ("stats", pa.string_view()),
            ("deletionVector", pa.struct([("pathOrInlineDv", pa.string()), ("storageType", pa.large_string())])),
        ]
    )
    row = {"path": "p", "size": 1, "modificationTime": 2, "stats": "{}"}
    with_vector = {**row, "deletionVector": {"pathOrInlineDv": "v", "storageType": "u"}}
    adds = adds_of_batch(checkpoint_batch([row, with_vector], kind))
    assert adds is not None
    assert adds.column("stats").to_pylist() == ["{}", "{}"]
    assert [vector and vector["storageType"] for vector in adds.column("deletionVector").to_pylist()] == [None, "u"]


@pytest.mark.parametrize("missing", ["path", "size", "modificationTime"])
def test_a_checkpoint_row_without_a_required_field_is_corrupt(missing: str) -> None:
    kind = pa.struct([("path", pa.string()), ("size", pa.int64()), ("modificationTime", pa.int64())])
    row = {"path": "p", "size": 1, "modificationTime": 2}
    with pytest.raises(CorruptLogError, match=missing):
        adds_of_batch(checkpoint_batch([{**row, missing: None}], kind))


def test_statistics_that_are_only_typed_become_text_and_text_is_kept_where_it_is() -> None:
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("stats", pa.string()),
            ("stats_parsed", pa.struct([("numRecords", pa.int64())])),
        ]
    )
    row = {"path": "p", "size": 1, "modificationTime": 2}
    rows = [
        {**row, "stats": '{"numRecords": 1}', "stats_parsed": {"numRecords": 1}},
        {**row, "stats_parsed": {"numRecords": 2}},
        row,
    ]
    adds = adds_of_batch(checkpoint_batch(rows, kind))
    assert adds is not None
    assert adds.column("stats").to_pylist() == ['{"numRecords": 1}', '{"numRecords":2}', None]


# --- partition values ----------------------------------------------------------------------------------------


def test_a_partition_column_is_the_lookup_in_each_files_map() -> None:
    chance = random.Random(3)
    for shape in ("same order", "any order", "some absent", "none"):
        files = []
        for number in range(40):
            pairs = [("a", f"a{number % 5}"), ("b", None if number % 7 == 0 else f"b{number}"), ("c", "x")]
            if shape == "any order":
                chance.shuffle(pairs)
            if shape == "some absent":
                pairs = [pair for pair in pairs if chance.random() < 0.7]
            files.append(add(f"p{number}", **dict(pairs if shape != "none" else [])))
        batch = adds_to_batch(files)
        for name in ("a", "b", "c", "d"):
            expected = [file.partition_values.get(name) for file in files]
            assert partition_column(batch, name).to_pylist() == expected
            assert partition_column(batch.slice(11, 9), name).to_pylist() == expected[11:20]
    assert partition_column(adds_to_batch([]), "a").to_pylist() == []
