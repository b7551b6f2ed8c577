"""Caches the keys of data files between a handle's upserts, so small upserts need not read files again.

In: the keys of whole files with their positions, as read or written. Out: for given keys, their rows in every cached
file. Data files are immutable, so the cache never gets stale, and it holds only positions: everything else about a file
comes from its live ``add``. A file whose path has left the table is forgotten, in case another program writes a new
file under its name. Files that do not fit into the budget are not cached, and are read each time.

The keys of all files are one sorted run, and later files add runs. Two runs are merged if the later one is larger than
a quarter of the earlier one: so there are few runs, and keys seldom move. Keys of files that are no longer live are
dropped when they are more than a quarter.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from txlog.core import ambient
from txlog.core.format.actions import FileId, LiveKey
from txlog.core.format.statistics_read import num_records
from txlog.core.parallel import new_lock
from txlog.core.reading._key_values import FileKeys, KeyNumbers, KeyPlaces, KeyValues
from txlog.core.util import cached_property

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.core.format.actions import AddFile
    from txlog.core.reading._key_folder import KeyColumns, KeyFolder
    from txlog.core.store import TableFiles

_GROWTH = 4
_SEARCHED_AT_ONCE = 1 << 20
_POSITION_MAX = 1 << 32
_PLACE_BYTES = 8  # a file number, and a position in the file
_FILE_BYTES = 400  # approximate memory of a path and its entries in the tables
_CONTAINER_BYTES = 64
_SAMPLED = 256  # one of this many keys is in a large run's sample, which stays in the CPU cache
_SAMPLED_ROWS = 1 << 18
_SAMPLED_WANTED = 1 << 14
_FINDS = 8  # in the kept keys of a file, before they are cached
_STAGED_FILES = 64  # keys kept between a task and its commit


class _Run(msgspec.Struct, frozen=True, dict=True):
    """Keys of several files, sorted by their first numbers."""

    values: KeyValues
    files: NDArray[np.uint32]
    positions: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def _sample(self) -> NDArray[Any]:
        found: NDArray[Any] = self.values.numbers[::_SAMPLED].copy()
        return found

    def first_of(self, wanted: NDArray[Any]) -> NDArray[np.int64]:
        """``np.searchsorted`` in the keys' numbers.

        If few of many keys are wanted, NumPy waits for memory at each step of each search, one search after another.
        Here a sample narrows each search down, and all of them step together.
        """
        numbers = self.values.numbers
        if len(numbers) < _SAMPLED_ROWS or len(wanted) > _SAMPLED_WANTED:
            return np.searchsorted(numbers, wanted)
        first = np.maximum(np.searchsorted(self._sample, wanted) - 1, 0) * _SAMPLED
        last, step = len(numbers) - 1, _SAMPLED
        while step:
            at = first + (step - 1)
            first += step * ((at <= last) & (numbers[np.minimum(at, last)] < wanted))
            step >>= 1
        return first

    def at(self, places: Any) -> _Run:
        return _Run(self.values.at(places), self.files[places], self.positions[places])


class _Held(msgspec.Struct, frozen=True):
    """The cache's content at one moment; never changed, so readers need no lock.

    ``numbers`` maps each file to its number. It may have later files too, whose numbers are not below ``len(sizes)``;
    ``sizes`` has the row count of each file.
    """

    runs: tuple[_Run, ...]
    numbers: dict[FileId, int]
    sizes: tuple[int, ...]


class HeldFiles(Protocol):
    """A list of files, in whatever form."""

    @property
    def nbytes(self) -> int: ...


class KeyCache:
    """The cached keys of one table's files, by set of key columns. Thread-safe, even after a fork."""

    def __init__(self, size_bytes_max: int, store: TableFiles | None = None) -> None:
        """``store`` has the table's files, for the keys that are kept beside it."""
        self.size_bytes_max = size_bytes_max
        self._store = store
        self.lock = new_lock()
        """Around changes."""
        self._by_keys: OrderedDict[tuple[str, KeyColumns], CachedKeys] = OrderedDict()
        self.live: HeldFiles | None = None
        """The live files of the version before the last change, all of them."""
        self._live_bytes = 0
        self._vector_sizes: dict[LiveKey, int] = {}
        self._staged: OrderedDict[str, pa.RecordBatch] = OrderedDict()
        self._staged_bytes = 0
        self.vectors: Mapping[LiveKey, BitMap64] = {}
        """The dead rows of files, by file and vector. Vectors never change either."""

    @property
    def size_bytes(self) -> int:
        """Everything cached: the keys by set of key columns, the list of live files, and vectors."""
        keys = sum(each.size_bytes for each in [*self._by_keys.values()])
        return keys + self._live_bytes + self._staged_bytes + sum(self._vector_sizes.values())

    def hold(self, live: HeldFiles, vectors: Mapping[LiveKey, BitMap64]) -> None:
        """Besides keys, cache vectors and the list of live files, so the next list reads only what is new.

        They replace the cached ones. Does nothing if no keys are cached.
        """
        with self.lock:
            known, self._vector_sizes = self._vector_sizes, {}
            self.live, self._live_bytes, self.vectors = None, 0, {}
            if all(each.is_empty for each in self._by_keys.values()):
                return
            live_bytes = live.nbytes
            left_bytes = self.size_bytes_max - self.size_bytes - live_bytes
            if left_bytes >= 0:
                self.live, self._live_bytes = live, live_bytes
            sizes = {key: known[key] if key in known else _vector_bytes(dead) for key, dead in vectors.items()}
            if left_bytes >= sum(sizes.values()):
                self.vectors, self._vector_sizes = vectors, sizes

    def keep_staged(self, path: str, keys: pa.RecordBatch) -> None:
        """Cache the key columns of a small data file that a task of this process wrote, in row order, so the commit
        need not read the file."""
        if self.size_bytes_max:
            with self.lock:
                self._drop_staged(path)
                self._staged[path] = keys
                self._staged_bytes += keys.nbytes
                while len(self._staged) > _STAGED_FILES:
                    self._drop_staged(next(iter(self._staged)))

    def staged(self, path: str) -> pa.RecordBatch | None:
        """What `keep_staged` cached of the file."""
        return self._staged.get(path)

    def drop_staged(self, paths: Iterable[str]) -> None:
        """Forget what `keep_staged` cached of committed files."""
        with self.lock:
            for path in paths:
                self._drop_staged(path)

    def _drop_staged(self, path: str) -> None:
        dropped = self._staged.pop(path, None)
        self._staged_bytes -= 0 if dropped is None else dropped.nbytes

    def of(
        self, table_id: str, columns: KeyColumns, types: Sequence[pa.DataType], *, are_kept: bool = False
    ) -> CachedKeys:
        """The cache for one set of key columns. A table recreated at the same location, and a column with another
        type, have their own. ``are_kept``: keys are also kept beside the table, for later processes."""
        with self.lock:
            found = self._by_keys.pop((table_id, columns), None)
            if found is None:
                found = CachedKeys(self, new_key_numbers(types))
            self._by_keys[table_id, columns] = found
            if not are_kept or self._store is None:
                found.folder = None
            elif found.folder is None:
                from txlog.core.reading._key_folder import KeyFolder

                found.folder = KeyFolder(self._store, table_id, columns, found.numbers.secret)
            return found

    def fits(self, size_bytes: int, wanted_by: CachedKeys) -> bool:
        """Whether this much more fits into the budget; least recently used key columns are dropped for it."""
        if all(each is not wanted_by for each in self._by_keys.values()):
            return False  # it was dropped while an upsert still used it
        for key, each in [*self._by_keys.items()]:
            if each is wanted_by or self.size_bytes + size_bytes <= self.size_bytes_max:
                break
            del self._by_keys[key]
        return self.size_bytes + size_bytes <= self.size_bytes_max


def new_key_numbers(types: Sequence[pa.DataType]) -> KeyNumbers:
    """With its own random secret, so nobody can choose input that gives different keys equal numbers."""
    return KeyNumbers(types, f"{ambient.uuid4()}{ambient.uuid4()}".encode())


def _vector_bytes(dead: BitMap64) -> int:
    """The most that a bitmap takes: two bytes for each number, plus its containers of up to 2^16 numbers."""
    rows = len(dead)
    containers = min(rows, (dead.max() >> 16) + 1) if rows else 0
    return _FILE_BYTES + 2 * rows + _CONTAINER_BYTES * containers


class CachedKeys:
    """The cached keys of files for one set of key columns. Thread-safe."""

    def __init__(self, cache: KeyCache, numbers: KeyNumbers) -> None:
        self.numbers = numbers
        self.folder: KeyFolder | None = None
        """The keys that are kept beside the table; None if its properties do not ask for it."""
        self._cache = cache
        self._held = _Held((), {}, ())
        self._looked_into: set[FileId] = set()
        self._finds: dict[FileId, int] = {}
        self._bytes_per_key = numbers.key_bytes + _PLACE_BYTES

    @property
    def size_bytes(self) -> int:
        held = self._held
        return self._bytes_per_key * sum(map(len, held.runs)) + _FILE_BYTES * len(held.sizes)

    @property
    def is_empty(self) -> bool:
        return not self._held.sizes

    def find(self, wanted: KeyValues, files: Collection[FileId]) -> dict[FileId, KeyPlaces]:
        """The rows with ``wanted`` keys in each of ``files`` that is cached; other files are left out."""
        held = self._held
        end = len(held.sizes)
        numbers = map(held.numbers.get, files, itertools.repeat(end))
        found = {file: number for file, number in zip(files, numbers, strict=True) if number < end}
        if not found:
            return {}
        if not held.runs:  # files without rows, or with only null keys
            return {file: KeyPlaces(np.empty(0, np.uint64), np.empty(0, np.int64)) for file in found}
        is_asked = np.zeros(len(held.sizes), dtype=bool)
        is_asked[[*found.values()]] = True
        keys, places = _searched(held.runs, wanted, is_asked)
        order = np.argsort(places.files.astype(np.uint64) << np.uint64(32) | places.positions)
        keys, places = keys[order], places.at(order)
        starts = np.searchsorted(places.files, np.arange(len(held.sizes) + 1)).tolist()
        positions = places.positions.astype(np.uint64)
        none = KeyPlaces(positions[:0], keys[:0])  # for most files if there are many
        return {
            file: none if start == end else KeyPlaces(positions[start:end], keys[start:end])
            for file, number in found.items()
            for start, end in (starts[number : number + 2],)
        }

    def find_kept(
        self, adds: Sequence[AddFile], wanted_by: Callable[[KeyNumbers], KeyValues | None]
    ) -> dict[FileId, KeyPlaces]:
        """The rows with wanted keys in each of these files whose keys are kept beside the table, in `folder`.

        ``wanted_by`` makes the wanted keys numbers; None if it has only the numbers of this cache.
        """
        assert self.folder is not None
        own = self.numbers
        numbers = {own.secret: own}

        def with_secret(secret: bytes) -> KeyValues | None:
            if own.is_exact:
                return wanted_by(own)
            if secret not in numbers:
                numbers[secret] = KeyNumbers(own.types, secret)
            return wanted_by(numbers[secret])

        often = {add.file_id for add in adds if self._was_found_often(add)}
        found = self.folder.near(adds, with_secret, whole=often)
        comparable = {file: near for file, near in found.items() if own.is_exact or near.secret == own.secret}
        self.add([FileKeys(file, near.values, near.positions) for file, near in comparable.items() if file in often])
        return {file: _places_of(near.values, near.positions, near.wanted) for file, near in found.items()}

    def _was_found_often(self, add: AddFile) -> bool:
        """Whether to read all kept keys of a file, and cache them: sorting them in costs as much as some searches."""
        with self._cache.lock:
            self._finds[add.file_id] = finds = self._finds.get(add.file_id, 0) + 1
            rows = num_records(add.stats) or 0
            return finds == _FINDS and self._cache.fits(rows * self._bytes_per_key + _FILE_BYTES, self)

    def is_wanted(self, file: FileId, num_rows: int | None) -> bool:
        """Whether to `add` this file: when it is read for the second time, and if there is space. The log gives its row
        count, if it can.

        So a single upsert never pays for reading and sorting more than it needs.
        """
        with self._cache.lock:
            if file not in self._looked_into:
                self._looked_into.add(file)
                return False
            if num_rows is None or num_rows >= _POSITION_MAX or file in self._held.numbers:
                return False
            return self._cache.fits(num_rows * self._bytes_per_key + _FILE_BYTES, self)

    def add(self, files: Sequence[FileKeys]) -> None:
        """Cache these files, as far as they fit into the budget."""
        with self._cache.lock:
            held = self._held
            runs: list[_Run] = []
            sizes: list[int] = []
            numbers: dict[FileId, int] = {}
            for each in files:
                size_bytes = (sum(sizes) + len(each.positions)) * self._bytes_per_key + _FILE_BYTES * (len(sizes) + 1)
                if each.file in held.numbers or each.file in numbers or not self._cache.fits(size_bytes, self):
                    continue
                number = numbers[each.file] = len(held.sizes) + len(sizes)
                sizes.append(len(each.positions))
                runs.append(_Run(each.values, np.full(len(each.positions), number, np.uint32), each.positions))
            if runs:
                self._held = _Held(_appended(held.runs, _merged(runs)), held.numbers, (*held.sizes, *sizes))
                # Last: no number is ever given twice, even if this is interrupted before the file has one.
                held.numbers.update(numbers)

    def drop_others(self, live: Collection[FileId]) -> None:
        """Forget files that are not ``live``, and drop their keys if they are more than a quarter."""
        with self._cache.lock:
            held = self._held
            if len(self._looked_into) > 2 * len(live) + 1000:
                self._looked_into &= set(live)
            if len(self._finds) > 2 * len(live) + 1000:
                self._finds = {file: self._finds[file] for file in live if file in self._finds}
            stays = np.zeros(len(held.sizes), dtype=bool)
            stays[[number for file in live if (number := held.numbers.get(file)) is not None]] = True
            if len(held.numbers) > stays.sum():
                kept = {file: held.numbers[file] for file in live if file in held.numbers}
                held = self._held = _Held(held.runs, kept, held.sizes)
            sizes = np.array(held.sizes, dtype=np.int64)
            if sizes[~stays].sum() * _GROWTH <= sizes.sum() and (~stays).sum() * _GROWTH <= len(stays):
                return
            renumbered = np.cumsum(stays) - 1
            runs = (run.at(stays[run.files]) for run in held.runs)
            runs = (_Run(run.values, renumbered[run.files].astype(np.uint32), run.positions) for run in runs)
            numbers = {file: int(renumbered[number]) for file, number in held.numbers.items() if stays[number]}
            self._held = _Held(tuple(run for run in runs if len(run)), numbers, tuple(sizes[stays].tolist()))


def _places_of(values: KeyValues, positions: NDArray[np.uint32], wanted: KeyValues) -> KeyPlaces:
    """The rows with ``wanted`` keys among these ascending keys of one file."""
    run = _Run(values, np.zeros(len(positions), np.uint32), positions)
    keys, places = _searched([run], wanted, np.ones(1, dtype=bool))
    order = np.argsort(places.positions)
    return KeyPlaces(places.positions[order].astype(np.uint64), keys[order])


def _searched(runs: Sequence[_Run], wanted: KeyValues, is_asked: NDArray[np.bool_]) -> tuple[NDArray[np.int64], _Run]:
    """The indices in ``wanted`` of the keys found in the requested files, and where they are."""
    order = None
    if (wanted.numbers[1:] < wanted.numbers[:-1]).any():
        order = np.argsort(wanted.numbers)
        wanted = wanted.at(order)
    found: list[tuple[NDArray[np.int64], _Run]] = []
    for start in range(0, max(1, len(wanted)), _SEARCHED_AT_ONCE):
        part = wanted.at(slice(start, start + _SEARCHED_AT_ONCE))
        for run in runs:
            keys, places = _found_in(run, part, is_asked)
            keys += start
            found.append((keys if order is None else order[keys], places))
    return np.concatenate([keys for keys, _ in found]), _joined([places for _, places in found])


def _found_in(run: _Run, wanted: KeyValues, is_asked: NDArray[np.bool_]) -> tuple[NDArray[np.int64], _Run]:
    """The same in one run, for ascending keys."""
    numbers = run.values.numbers
    first = run.first_of(wanted.numbers)
    keys = np.flatnonzero(first < len(numbers))
    keys = keys[numbers[first[keys]] == wanted.numbers[keys]]
    at = first[keys]
    is_again = numbers[np.minimum(at + 1, len(numbers) - 1)] == wanted.numbers[keys]
    if is_again.any():  # only then search twice: most keys are in one row of a table
        counts = np.ones(len(keys), dtype=np.int64)
        counts[is_again] = np.searchsorted(numbers, wanted.numbers[keys[is_again]], side="right") - at[is_again]
        keys, ends = np.repeat(keys, counts), np.cumsum(counts)
        at = np.arange(len(keys)) + np.repeat(at - ends + counts, counts)
    places = run.at(at)
    is_found = is_asked[places.files]
    if wanted.second is not None and places.values.second is not None:
        is_found &= places.values.second == wanted.second[keys]
    return keys[is_found], places.at(is_found)


def _appended(runs: tuple[_Run, ...], new: _Run) -> tuple[_Run, ...]:
    """``new`` added as the last run, merged with earlier runs that are not much larger."""
    all_runs = [*runs, new]
    while len(all_runs) > 1 and len(all_runs[-2]) < _GROWTH * len(all_runs[-1]):
        all_runs[-2:] = [_merged(all_runs[-2:])]
    return tuple(all_runs)


def _merged(runs: Sequence[_Run]) -> _Run:
    """One sorted run, built column by column, so little is in memory twice."""
    if len(runs) == 1:
        return runs[0]
    # A stable sort recognizes the sorted runs and merges them.
    order = np.argsort(np.concatenate([run.values.numbers for run in runs]), kind="stable")
    return _joined(runs, order)


def _joined(runs: Sequence[_Run], order: NDArray[np.int64] | slice = slice(None)) -> _Run:
    def joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(columns)[order]

    second = [run.values.second for run in runs if run.values.second is not None]
    return _Run(
        KeyValues(joined([run.values.numbers for run in runs]), joined(second) if second else None),
        joined([run.files for run in runs]),
        joined([run.positions for run in runs]),
    )
