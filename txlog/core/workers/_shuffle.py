"""Workers exchange data: tasks cut their items into pieces, and other tasks get all pieces of a group.

In: two functions and items. Out: the results of the second. `spilled_shuffle` exchanges pieces through files in a
folder, for workers that run on this machine; engines have their own exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from txlog.core import ambient
from txlog.core.format.arrow.spill import no_room
from txlog.core.workers._base import Workers

In = TypeVar("In")
Out = TypeVar("Out")


Piece: TypeAlias = tuple[int, int, bytes]
"""A group, an order and bytes for the group, which gets its pieces in ascending order."""


class ShufflingWorkers(Workers, Protocol):
    """Workers that exchange pieces by themselves, wherever they run."""

    def shuffle(
        self,
        route: Callable[[In], Iterator[Piece]],
        items: Sequence[In],
        reduce: Callable[[int, Iterable[Piece]], Out],
        groups: int,
    ) -> Iterator[tuple[int, Out]]:
        """``reduce`` of each group for which ``route`` of any item made a piece, in order of completion.

        There are about ``groups`` of them. Raises the errors of ``Workers.map``.
        """


def spilled_shuffle(
    workers: Workers,
    folder: str,
    route: Callable[[In], Iterator[Piece]],
    items: Sequence[In],
    reduce: Callable[[int, Iterable[Piece]], Out],
    on_item: Callable[[int], object] = lambda number: None,
) -> Iterator[tuple[int, Out]]:
    """The same by files in ``folder``, which the caller removes. ``on_item`` is called with the number of
    each item whose pieces are made. Raises ``StorageError`` if there is no space."""
    groups: dict[int, list[_Place]] = {}
    for number, places in workers.map(_Spill(route, folder), items):
        on_item(number)
        for place in places:
            groups.setdefault(place.group, []).append(place)
    numbers = sorted(groups)
    gathered = [(group, sorted(groups[group], key=lambda place: (place.order, place.path))) for group in numbers]
    for at, result in workers.map(_Gather(reduce), gathered):
        yield numbers[at], result


class _Place(NamedTuple):
    """Where a piece is."""

    group: int
    order: int
    path: str
    start: int
    size_bytes: int


class _Spill(msgspec.Struct, frozen=True):
    """The work of a task: the pieces of an item, one after another in a file."""

    route: Callable[[Any], Iterator[Piece]]
    folder: str

    def __call__(self, item: Any) -> list[_Place]:
        path = Path(self.folder, f"pieces-{ambient.uuid4()}")
        places, start = [], 0
        try:
            with path.open("wb") as file:
                for group, order, body in self.route(item):
                    file.write(body)
                    places.append(_Place(group, order, str(path), start, len(body)))
                    start += len(body)
        except OSError as error:
            raise no_room("rows on their way to new files", error) from error
        return places


class _Gather(msgspec.Struct, frozen=True):
    """The work of a task: the result of a group, whose pieces are read one by one."""

    reduce: Callable[[int, Iterable[Piece]], Any]

    def __call__(self, gathered: tuple[int, Sequence[_Place]]) -> Any:
        group, places = gathered
        return self.reduce(group, ((group, place.order, _read(place)) for place in places))


def _read(place: _Place) -> bytes:
    with Path(place.path).open("rb") as file:
        file.seek(place.start)
        return file.read(place.size_bytes)
