"""Which files a compaction puts together, as decisions over the list of files."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor
from txlog.core.format.file_columns import FILES_SCHEMA, adds_to_batch
from txlog.core.format.schema import STRING, TIMESTAMP, Field
from txlog.core.maintenance import _bins as bins_module
from txlog.core.maintenance._bins import (
    PlannedBin,
    bins_not_yet_clustered,
    bins_of,
    bins_to_cluster,
    bins_to_purge,
    bins_with_files,
    cheapest_first,
    grouped,
)

DAY = {"day": Field("day", STRING)}


def file(
    path: str, size: int, *, day: str | None = None, modified: int = 0, rows: int | None = 100, dead: int = 0
) -> AddFile:
    vector = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*", 4, 40, dead) if dead else None
    stats = None if rows is None else f'{{"numRecords":{rows}}}'
    values = {} if day is None else {"day": day}
    return AddFile(path, values, size, modified, True, stats=stats, deletion_vector=vector)


def table_of(*adds: AddFile) -> pa.Table:
    return pa.Table.from_batches([adds_to_batch(adds)], FILES_SCHEMA)


def paths(bins: list[PlannedBin]) -> list[list[str]]:
    return [[add.path for add in each.files] for each in bins_with_files(bins)]


def test_small_files_go_together_in_the_order_they_were_written_up_to_the_target() -> None:
    adds = [file("c", 40, modified=1), file("b", 40, modified=2), file("a", 40, modified=3), file("d", 40, modified=4)]
    assert paths(bins_of(table_of(*reversed(adds)), {}, 100)) == [["c", "b"], ["a", "d"]]


def test_files_of_one_millisecond_go_together_in_the_order_of_the_log() -> None:
    assert paths(bins_of(table_of(file("b", 10), file("c", 10), file("a", 10)), {}, 100)) == [["b", "c", "a"]]


def test_files_of_the_target_size_and_lone_small_files_stay() -> None:
    assert bins_of(table_of(file("large", 100), file("small", 10)), {}, 100) == []


def test_only_files_of_equal_partition_values_are_compacted_together() -> None:
    adds = [file("a", 10, day="x"), file("b", 10, day="y"), file("c", 10, day="x"), file("d", 10, day="")]
    assert paths(bins_of(table_of(*adds, file("e", 10, day="")), DAY, 100)) == [["a", "c"], ["d", "e"]]


def test_a_file_of_any_size_with_many_dead_rows_is_rewritten_alone_and_one_with_few_is_not() -> None:
    many, few = file("many", 500, dead=6), file("few", 500, dead=5)
    assert paths(bins_of(table_of(many, few), {}, 100)) == [["many"]]


def test_deleted_rows_do_not_count_towards_the_target_size() -> None:
    adds = [file("a", 90, dead=60), file("b", 90, dead=60)]
    assert paths(bins_of(table_of(*adds), {}, 100)) == [["a", "b"]]


def test_a_file_with_a_vector_and_no_count_of_rows_is_rewritten() -> None:
    assert paths(bins_of(table_of(file("a", 500, rows=None, dead=1)), {}, 100)) == [["a"]]


def test_a_file_larger_than_all_smaller_ones_together_is_left_where_asked_unless_many_of_its_rows_are_dead() -> None:
    sizes = {"a": 900, "b": 100, "c": 41, "d": 40, "e": 10, "f": 10}
    adds = [file(name, size, day="x") for name, size in sizes.items()] + [file("g", 30, day="y"), file("h", 9, day="y")]
    found = bins_of(table_of(*adds), DAY, 2000, leaves_larger=True)
    assert paths(found) == [["b", "c", "d", "e", "f"]], "c alone is larger than what follows, but b takes all of them"
    assert bins_of(table_of(*adds), DAY, 2000, files_min=6, leaves_larger=True) == []
    adds[0] = file("a", 900, day="x", dead=50)
    assert paths(bins_of(table_of(*adds), DAY, 2000, leaves_larger=True)) == [["a", "b", "c", "d", "e", "f"]]


@pytest.mark.parametrize("sizes", [[1], [1, 5, 2, 40]], ids=str)
def test_a_stream_of_small_files_is_compacted_with_work_that_grows_little_faster_than_its_rows(
    sizes: list[int],
) -> None:
    """Each row is rewritten as often as its file doubles, and few files are left."""
    live: list[AddFile] = []
    written = 0
    for number in range(0, 640, 10):
        live += [file(f"{each}", sizes[each % len(sizes)], modified=each) for each in range(number, number + 10)]
        for each in bins_with_files(bins_of(table_of(*live), {}, 1 << 40, files_min=10, leaves_larger=True)):
            size = sum(add.size for add in each.files)
            written += size
            live = [add for add in live if add not in each.files] + [file(f"of {number}", size, modified=number)]
    total = sum(add.size for add in live)
    assert written <= total * 6, "to rewrite all of them each time takes 32"
    assert len(live) <= 10 + 10


def test_a_purge_takes_each_file_with_dead_rows_and_each_named_one_alone() -> None:
    adds = [file("a", 10), file("b", 900, dead=1), file("c", 10)]
    assert paths(bins_to_purge(table_of(*adds), also=["c"])) == [["b"], ["c"]]


def test_a_budget_is_spent_on_the_bins_that_remove_most_files_for_their_size() -> None:
    (few,) = bins_of(table_of(file("a", 50), file("b", 50)), {}, 1000)
    (many,) = bins_of(table_of(*(file(str(number), 10) for number in range(10))), {}, 1000)
    assert cheapest_first([few, many], 120) == [many]
    assert cheapest_first([few, many], 250) == [many, few]
    assert cheapest_first([few, many], 50) == []
    assert cheapest_first([few, many], None) == [few, many]


def test_bins_are_committed_in_groups_bounded_by_bytes_and_files() -> None:
    bins = bins_of(table_of(*(file(str(number), 60) for number in range(6))), {}, 120)
    assert [len(group) for group in grouped(bins, 240, 100)] == [2, 1]
    assert [len(group) for group in grouped(bins, 10_000, 4)] == [2, 1]
    assert [len(group) for group in grouped(bins, 10, 1)] == [1, 1, 1]


def test_spellings_of_one_partition_value_are_one_partition_and_absent_values_are_null() -> None:
    fields = {"at": Field("at", TIMESTAMP), "n": Field("n", STRING)}
    texts = ["2026-01-01 00:00:00", "2026-01-01T00:00:00.000000Z", "2026-01-02 00:00:00"]
    adds = [
        replace(file(f"{at}{n}", 10), partition_values={"at": text, **({} if n is None else {"n": n})})
        for at, text in enumerate(texts)
        for n in (None, "", "x")
    ]
    found = bins_of(table_of(*adds), fields, 1000)
    assert paths(found) == [["0None", "0", "1None", "1"], ["0x", "1x"], ["2None", "2"]]


def test_partitions_are_told_apart_whatever_the_order_of_the_log_is() -> None:
    written = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "z"), ("e", "y"), ("f", "x"), ("g", "z")]
    adds = [file(path, 10, day=day, modified=at) for at, (path, day) in enumerate(written)]
    large = file("large", 1000, day="y")
    for order in (adds, adds[::-1], [large, *adds[3:], *adds[:3]]):
        assert paths(bins_of(table_of(*order), DAY, 100)) == [["a", "c", "f"], ["b", "e"], ["d", "g"]]


@given(st.lists(st.tuples(st.integers(1, 120), st.sampled_from("xy"), st.integers(0, 100)), max_size=30))
def test_no_file_is_in_two_bins_and_none_is_larger_than_the_target(given: list[tuple[int, str, int]]) -> None:
    adds = [file(str(n), size, day=day, modified=n, dead=dead) for n, (size, day, dead) in enumerate(given)]
    bins = bins_with_files(bins_of(table_of(*adds), DAY, 100))
    taken = [add.path for each in bins for add in each.files]
    assert len(taken) == len(set(taken))
    for each in bins:
        assert len({add.partition_values["day"] for add in each.files}) == 1
        live = sum(
            add.size * (1 - (add.deletion_vector.cardinality / 100 if add.deletion_vector else 0)) for add in each.files
        )
        assert live <= 100 or len(each.files) == 1


def test_a_plan_makes_no_object_for_a_file_and_its_groups_only_for_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    adds_of = bins_module.add_files_of

    def counted(files: pa.Table) -> list[AddFile]:
        made.append(files.num_rows)
        return adds_of(files)

    monkeypatch.setattr(bins_module, "add_files_of", counted)
    files = table_of(*(file(f"{at:04}", 10 + at % 7, day=f"{at % 5}", dead=at % 40 == 0) for at in range(1_000)))
    groups = grouped(bins_of(files, DAY, 100), 10_000, 50)
    bins_to_purge(files), bins_to_cluster(files, DAY, "[]", 500), bins_not_yet_clustered(files, ["day"], 100, 500)
    assert made == []
    bins_with_files(groups[0])
    assert made == [sum(each.num_files for each in groups[0])]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30), st.sampled_from("abc")), max_size=40))
def test_a_bin_has_the_size_and_the_gain_of_its_files(drawn: list[tuple[int, int, str]]) -> None:
    adds = [file(f"{at}", size, day=day, dead=dead) for at, (size, dead, day) in enumerate(drawn)]
    for planned in bins_of(table_of(*adds), DAY, 100):
        own = [adds[row] for row in planned.rows.tolist()]
        gone = sum(add.deletion_vector.cardinality / 100 for add in own if add.deletion_vector)
        assert planned.size_bytes == sum(add.size for add in own)
        assert planned.gain == pytest.approx(len(own) - 1 + gone)
        assert len({add.partition_values["day"] for add in own}) == 1
