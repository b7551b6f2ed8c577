"""Workers exchange pieces: each group gets all of its pieces, in order, and no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.workers._executor import ExecutorWorkers
from txlog.core.workers._shuffle import spilled_shuffle
from txlog.core.workers._threads import ThreadWorkers

Piece = tuple[int, int, bytes]


def told(group: int, pieces: Iterable[Piece]) -> list[Piece]:
    return list(pieces)


@given(
    st.lists(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 5), st.binary(max_size=9)), max_size=9), max_size=9)
)
def test_every_group_gets_its_pieces_in_order(items: list[list[Piece]]) -> None:
    with ThreadPoolExecutor(2) as executor:
        for workers in (ThreadWorkers(2), ExecutorWorkers.of(executor)):
            with TemporaryDirectory() as folder:
                found = dict(spilled_shuffle(workers, folder, iter, items, told))
            everything = [piece for item in items for piece in item]
            assert found.keys() == {group for group, _, _ in everything}
            for group, pieces in found.items():
                assert [order for _, order, _ in pieces] == sorted(order for _, order, _ in pieces)
                assert sorted(pieces) == sorted(piece for piece in everything if piece[0] == group)


def test_a_folder_without_space_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(txlog.StorageError, match="TMPDIR"):
        list(spilled_shuffle(ThreadWorkers(2), str(tmp_path / "absent"), iter, [[(0, 0, b"x")]], told))


def test_an_error_in_the_middle_of_a_route_is_raised_and_nothing_is_reduced(tmp_path: Path) -> None:
    reduced: list[int] = []

    def route(item: int) -> Iterator[Piece]:
        yield item, 0, b"x"
        if item == 3:
            raise txlog.CorruptLogError("a file is damaged", path="3.parquet")

    def reduce(group: int, pieces: Iterable[Piece]) -> None:
        reduced.append(group)

    with pytest.raises(txlog.CorruptLogError, match="a file is damaged"):
        list(spilled_shuffle(ThreadWorkers(2), str(tmp_path), route, range(5), reduce))
    assert not reduced
