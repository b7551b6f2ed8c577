"""The paths of a table, which may be more text than one Arrow array holds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from txlog.core.changes.tasks import ranges_of
from txlog.core.format import path_set
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.file_columns import FILES_SCHEMA, adds_to_batch
from txlog.core.format.path_set import PathSet
from txlog.core.format.paths import canonical_paths
from txlog.core.maintenance._version_files import difference

MIB = 1 << 20
LONG = ["part-0/" + "x" * MIB, "part-1/" + "x" * MIB]
MANY = 1100


def test_paths_of_more_text_than_one_array_holds_are_a_set_and_are_split_into_ranges() -> None:
    """All chunks are the same memory."""
    paths = PathSet("/t")
    paths.add(["added"])
    paths.add_logged(pa.chunked_array([pa.array(LONG)]))
    paths._chunks *= MANY
    assert len(paths) == 2 * MANY + 1
    with pytest.raises(pa.ArrowInvalid):
        pa.concat_arrays(paths.column().chunks)
    assert paths.holds(pa.array([LONG[1], "added", "part-1"])).to_pylist() == [True, True, False]
    assert [each.until for each in ranges_of(paths.column(), 2)] == [LONG[1], None]


def test_paths_added_one_by_one_are_in_few_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_set, "CHUNK_PATHS", 4)
    paths = PathSet("/t")
    for at in range(10):
        paths.add_uri(f"{at}%20.parquet")
    assert len(paths) == 10
    assert paths.holds(pa.array(["9 .parquet", "10 .parquet"])).to_pylist() == [True, False]
    assert [len(chunk) for chunk in paths.column().chunks] == [4, 4, 2]


def files(*chunks: list[AddFile]) -> pa.Table:
    return pa.Table.from_batches([adds_to_batch(chunk) for chunk in chunks], FILES_SCHEMA)


def test_the_paths_of_a_table_stay_in_its_chunks_in_one_spelling() -> None:
    found = canonical_paths(pa.chunked_array([["a", "%62"], [], ["c"]], pa.string()))
    assert found.to_pylist() == ["a", "b", "c"]
    assert found.num_chunks == 3


def test_two_lists_of_files_are_compared_in_any_chunks() -> None:
    a, b, same, c, d = (AddFile(name, {}, 1, 2, True, None) for name in ("a", "%62", "b", "c", "d"))
    marked = replace(c, deletion_vector=DeletionVectorDescriptor("u", "x" * 20, 1, 2, 3))
    found = difference(files([a, b], [c]), files([same], [d, marked]))
    assert ([*found.added], [*found.removed], found.num_files) == ([a, c], [d, marked], 3)
