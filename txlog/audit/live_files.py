"""A compact set of a table's live files, for verification: a million take about 300 MB, most of it their paths.

In: files as commits add and remove them. Out: what is recorded for one file, and all remaining files. A dictionary
holds paths and arrays hold numbers: an object for each file would take twice the memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from txlog.core.format.actions import FileKey

PartitionKey: TypeAlias = tuple[tuple[str, str | None], ...]


class LiveFile(msgspec.Struct, frozen=True):
    """A live file: its path as in the log, its size in bytes, its partition, and the version that added it."""

    path: str
    size: int
    partition: PartitionKey
    version: int


class LiveFileSet:
    """Live files by key, which holds the canonical path. Each has a slot below ``slots`` while it is live.

    ``size_bytes`` is their total size.
    """

    def __init__(self) -> None:
        self._slot_of: dict[FileKey | str, int] = {}
        self._sizes, self._versions, self._partitions = array("q"), array("q"), array("q")
        self._partition_numbers: dict[PartitionKey, int] = {}
        self._partition_keys: list[PartitionKey] = []
        self._free: list[int] = []
        self.size_bytes = 0
        self._spelled: dict[FileKey | str, str] = {}  # the few paths that are not canonical in the log

    def __len__(self) -> int:
        return len(self._slot_of)

    def __iter__(self) -> Iterator[LiveFile]:
        return (self._file(key, slot) for key, slot in self._slot_of.items())

    @property
    def slots(self) -> int:
        return len(self._sizes)

    def slot(self, key: FileKey) -> int | None:
        return self._slot_of.get(_short(key))

    def add(self, key: FileKey, path: str, size: int, partition_values: Mapping[str, str | None], version: int) -> None:
        short = _short(key)
        slot = self._slot_of.get(short)
        if slot is None:
            slot = self._slot_of[short] = self._new_slot()
        self.size_bytes += size - self._sizes[slot]
        self._sizes[slot], self._versions[slot] = size, version
        self._partitions[slot] = self._partition_number(tuple(sorted(partition_values.items())))
        if path == key[0]:
            self._spelled.pop(short, None)
        else:
            self._spelled[short] = path

    def remove(self, key: FileKey) -> bool:
        """Remove a file, and return whether it was live."""
        short = _short(key)
        slot = self._slot_of.pop(short, None)
        if slot is None:
            return False
        self.size_bytes -= self._sizes[slot]
        self._sizes[slot] = 0
        self._free.append(slot)
        self._spelled.pop(short, None)
        return True

    def holds(self, slot: int, size: int, partition: PartitionKey) -> bool:
        """Whether the file in a slot has exactly this size and partition."""
        return self._sizes[slot] == size and self._partition_keys[self._partitions[slot]] == partition

    def without(self, seen: bytearray) -> Iterator[LiveFile]:
        """The files whose slot is not marked in ``seen``, which has one byte per slot."""
        return (self._file(key, slot) for key, slot in self._slot_of.items() if not seen[slot])

    def _file(self, short: FileKey | str, slot: int) -> LiveFile:
        path = self._spelled.get(short) or (short if isinstance(short, str) else short[0])
        return LiveFile(path, self._sizes[slot], self._partition_keys[self._partitions[slot]], self._versions[slot])

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        for column in (self._sizes, self._versions, self._partitions):
            column.append(0)
        return len(self._sizes) - 1

    def _partition_number(self, partition: PartitionKey) -> int:
        number = self._partition_numbers.get(partition)
        if number is None:
            number = self._partition_numbers[partition] = len(self._partition_keys)
            self._partition_keys.append(partition)
        return number


def _short(key: FileKey) -> FileKey | str:
    """Just the path for a file without a deletion vector, as nearly all are: that halves the memory."""
    return key[0] if key[1] is None else key
