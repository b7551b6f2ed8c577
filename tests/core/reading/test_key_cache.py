"""The keys of files in memory: found where they are, within the budget, and given up with their files."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from txlog.core.format.actions import FileId
from txlog.core.reading._key_cache import CachedKeys, FileKeys, KeyCache
from txlog.core.reading._key_values import KeyValues

Content = dict[FileId, list[Any]]


def cached(kind: pa.DataType = pa.int64(), size_bytes_max: int = 1 << 30) -> CachedKeys:  # noqa: B008
    return KeyCache(size_bytes_max).of("table", (), [kind])


def file_keys(cache: CachedKeys, file: FileId, keys: list[Any]) -> FileKeys:
    kind = pa.int64() if cache.numbers.is_exact else pa.string()
    values, rows = cache.numbers.of([pa.array(keys, kind)])
    return FileKeys.of(file, values, np.arange(len(keys)) if rows is None else rows)


def found(cache: CachedKeys, keys: list[Any], files: list[FileId]) -> dict[FileId, list[tuple[int, Any]]]:
    kind = pa.int64() if cache.numbers.is_exact else pa.string()
    places = cache.find(cache.numbers.of([pa.array(keys, kind)])[0], files)
    for each in places.values():
        assert each.positions.dtype == np.uint64
        assert (np.diff(each.positions.astype(np.int64)) > 0).all(), "positions ascend"
    return {
        file: [(int(at), keys[key]) for at, key in zip(each.positions, each.keys, strict=True)]
        for file, each in places.items()
    }


def expected(content: Content, keys: list[Any], files: list[FileId]) -> dict[FileId, list[tuple[int, Any]]]:
    return {
        file: [(at, key) for at, key in enumerate(content[file]) if key in keys] for file in files if file in content
    }


def test_a_file_without_keys_has_no_matches_after_all_others_are_dropped() -> None:
    cache = cached()
    cache.add([file_keys(cache, ("empty", 1, 1), []), file_keys(cache, ("full", 1, 1), [1, 2])])
    cache.drop_others([("empty", 1, 1)])
    assert found(cache, [1], [("empty", 1, 1)]) == {("empty", 1, 1): []}


@given(st.data(), st.sampled_from((1 << 18, (1 << 18) + 1, (1 << 18) + 255)), st.integers(1, 1 << 20))
def test_a_few_keys_are_found_among_many(data: Any, num_keys: int, num_values: int) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    keys = random.integers(-num_values, num_values, num_keys)
    cache = cached()
    cache.add([FileKeys.of(("many", 1, 1), KeyValues(keys, None), np.arange(num_keys))])
    known = [*keys[random.integers(0, num_keys, 20)].tolist(), int(keys.min()), int(keys.max())]
    wanted = np.unique([*known, *random.integers(-2 * num_values, 2 * num_values, 20).tolist()])

    places = cache.find(KeyValues(wanted, None), [("many", 1, 1)])["many", 1, 1]

    assert places.positions.tolist() == np.flatnonzero(np.isin(keys, wanted)).tolist()
    assert wanted[places.keys].tolist() == keys[places.positions].tolist()


@given(st.data(), st.sampled_from((pa.int64(), pa.string())))
def test_keys_are_found_in_each_file_that_is_held_and_live(data: Any, kind: pa.DataType) -> None:
    values = st.integers(-2, 9) if kind == pa.int64() else st.integers(-2, 9).map(str)
    cache, content, live = cached(kind), Content(), list[FileId]()
    for number in range(data.draw(st.integers(1, 8))):
        batch: Content = {
            (f"{number}-{each}", 1, 1): data.draw(st.lists(st.one_of(values, st.none()), max_size=12))
            for each in range(data.draw(st.integers(1, 3)))
        }
        cache.add([file_keys(cache, file, keys) for file, keys in batch.items()])
        content |= batch
        live += batch
        if data.draw(st.booleans()):
            live = data.draw(st.lists(st.sampled_from(live), unique=True)) if live else []
            cache.drop_others(live)
        keys = data.draw(st.lists(values, unique=True))
        asked = data.draw(st.lists(st.sampled_from([*live, ("never added", 1, 1)]), unique=True))
        assert found(cache, keys, asked) == expected(content, keys, asked)


def test_both_halves_of_a_fingerprint_have_to_agree() -> None:
    cache, file = cached(pa.string()), ("a", 1, 1)
    halves = np.array([5, 5, 6], np.uint64), np.array([1, 2, 2], np.uint64)
    cache.add([FileKeys.of(file, KeyValues(*halves), np.arange(3))])
    places = cache.find(KeyValues(np.array([5], np.uint64), np.array([2], np.uint64)), [file])[file]
    assert places.positions.tolist() == [1]


def test_the_keys_of_many_small_files_are_merged_into_few_runs() -> None:
    cache = cached()
    content = {(str(number), 1): list(range(number, number + 10)) for number in range(300)}
    for file, keys in content.items():
        cache.add([file_keys(cache, file, keys)])
    assert len(cache._held.runs) < 8
    assert found(cache, [5, 299], [*content]) == expected(content, [5, 299], [*content])


def test_what_does_not_fit_the_budget_is_not_held_and_what_is_held_counts() -> None:
    cache = cached(size_bytes_max=10_000)
    small, large = ("small", 1, 1), ("large", 1, 1)
    assert not cache.is_wanted(small, 100)
    assert cache.is_wanted(small, 100), "the second time it is looked into"
    assert not cache.is_wanted(large, 1_000)
    assert not cache.is_wanted(large, 1_000), "there is no room"
    cache.add([file_keys(cache, small, [1] * 100), file_keys(cache, large, [1] * 1_000)])
    assert set(found(cache, [1], [small, large])) == {small}
    held = sum(run.values.numbers.nbytes + run.files.nbytes + run.positions.nbytes for run in cache._held.runs)
    assert held == 1_600 < cache.size_bytes <= 10_000
    assert not cache.is_wanted(small, 100), "it is held"


def test_removed_files_make_room() -> None:
    cache = cached()
    files = [(str(number), 1, 1) for number in range(8)]
    cache.add([file_keys(cache, file, [*range(100)]) for file in files])
    full = cache.size_bytes
    cache.drop_others(files[1:])
    assert cache.size_bytes == full, "not worth the work yet"
    cache.drop_others(files[4:])
    assert cache.size_bytes == full / 2
    assert set(found(cache, [7], files)) == set(files[4:])
    cache.drop_others([])
    assert cache.size_bytes == 0
    assert cache.is_empty


def test_other_key_columns_make_room_for_the_requested_ones() -> None:
    cache = KeyCache(5_000)
    first, second = cache.of("table", (), [pa.int64()]), cache.of("other", (), [pa.int64()])
    first.add([file_keys(first, ("f", 1, 1), [*range(200)])])
    second.add([file_keys(second, ("f", 1, 1), [*range(200)])])
    assert cache.size_bytes == second.size_bytes > 0
    assert cache.of("other", (), [pa.int64()]) is second
    assert cache.of("table", (), [pa.int64()]) is not first
    first.add([file_keys(first, ("g", 1, 1), [1])])
    assert cache.size_bytes == second.size_bytes, "what was dropped holds nothing more"


def test_lists_and_vectors_are_held_with_keys_within_the_budget() -> None:
    cache = KeyCache(20_000)
    live, few, many = pa.table({"path": ["a"]}), BitMap64(range(10)), BitMap64(range(0, 20_000, 2))
    cache.hold(live, {(("a", 1, 1), "v"): few})
    assert cache.size_bytes == 0, "nothing is held before keys are"
    keys = cache.of("table", (), [pa.int64()])
    keys.add([file_keys(keys, ("a", 1, 1), [1])])
    cache.hold(live, {(("a", 1, 1), "v"): few})
    assert cache.vectors[(("a", 1, 1), "v")] is few
    assert cache.size_bytes >= keys.size_bytes + live.nbytes + len(few.serialize())
    cache.hold(live, {(("a", 1, 1), "w"): many})
    assert not cache.vectors
    assert cache.size_bytes == keys.size_bytes + live.nbytes


def test_an_addition_that_fails_leaves_no_file_half_known(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cached()
    cache.add([file_keys(cache, ("a", 1, 1), [1, 2])])

    def no_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("numpy.concatenate", no_memory)
        with pytest.raises(MemoryError):
            cache.add([file_keys(cache, ("b", 1, 1), [1, 2])])
    assert set(found(cache, [2], [("a", 1, 1), ("b", 1, 1)])) == {("a", 1, 1)}
    cache.add([file_keys(cache, ("c", 1, 1), [9, 1])])
    assert found(cache, [1], [("b", 1, 1), ("c", 1, 1)]) == {("c", 1, 1): [(1, 1)]}
    cache.add([file_keys(cache, ("b", 1, 1), [3, 1])])
    assert found(cache, [1], [("b", 1, 1), ("c", 1, 1)]) == {("b", 1, 1): [(1, 1)], ("c", 1, 1): [(1, 1)]}


def test_threads_find_each_file_whole_or_not_at_all() -> None:
    cache, wrong, is_over = cached(), [], threading.Event()
    content = {(str(number), 1): [number, 1_000, -number] for number in range(400)}

    def ask() -> None:
        while not is_over.is_set():
            places = found(cache, [1_000], [*content])
            wrong.extend(file for file, each in places.items() if each != [(1, 1_000)])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for each in threads:
        each.start()
    for number, (file, keys) in enumerate(content.items(), start=1):
        cache.add([file_keys(cache, file, keys)])
        if number % 100 == 0:
            cache.drop_others([*content][number - 50 :])
    is_over.set()
    for each in threads:
        each.join()
    assert not wrong
    assert len(found(cache, [1_000], [*content][350:])) == 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_uses_its_copy_though_a_thread_of_the_parent_held_the_lock() -> None:
    cache = KeyCache(1 << 20)
    keys = cache.of("table", (), [pa.int64()])
    keys.add([file_keys(keys, ("a", 1, 1), [1])])
    held, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with cache.lock:
            held.set()
            may_go_on.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = _forked(cache)
    may_go_on.set()
    holder.join()
    assert child == 0


def _forked(cache: KeyCache) -> int:
    """The exit code of a child in which another thread, that has no lock, uses the cache."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        results: list[Any] = []

        def use() -> None:
            keys = cache.of("table", (), [pa.int64()])
            keys.add([file_keys(keys, ("b", 1, 1), [1])])
            results.append(found(keys, [1], [("a", 1, 1), ("b", 1, 1)]))

        thread = threading.Thread(target=use, daemon=True)
        thread.start()
        thread.join(20)
        code = 0 if results == [{("a", 1, 1): [(0, 1)], ("b", 1, 1): [(0, 1)]}] else 2
    finally:
        os._exit(code)


def test_keys_of_staged_files_count_until_their_commit_and_only_for_the_last_files() -> None:
    cache = KeyCache(1 << 20)
    keys = pa.record_batch({"id": pa.array(range(100))})
    for number in range(70):
        cache.keep_staged(f"file-{number}", keys)
        cache.keep_staged(f"file-{number}", keys)
    assert cache.size_bytes == 64 * keys.nbytes
    assert cache.staged("file-0") is None
    cache.drop_staged(f"file-{number}" for number in range(69))
    assert cache.size_bytes == keys.nbytes
    assert cache.staged("file-69") is keys
