"""A table that others append to, change, restore, compact and vacuum at random, and what each of its versions holds.

In: a folder and a seed. Out: a table, and its rows by version in plain Python. Readers beside it get exactly these.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import txlog
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError, TxlogError

__all__ = ["PROPERTIES", "Beside"]

PROPERTIES = {"delta.enableChangeDataFeed": "true"}


class Beside:
    """A table that others work on. ``versions`` has the ids of each version."""

    def __init__(self, uri: Path, seed: int) -> None:
        self.random = random.Random(seed)
        vectors = str(self.random.random() < 0.5).lower()
        properties = {**PROPERTIES, "delta.enableDeletionVectors": vectors}
        self.table = txlog.Table.create(uri, "id bigint, p int", ["p"] if seed % 2 else [], properties)
        self.next = 0
        self.vacuumed = -1
        """The newest version that a vacuum may have taken files from."""
        self.versions: list[tuple[int, ...]] = [()]
        self.restored: set[int] = set()

    def step(self) -> None:
        steps: list[Callable[[], tuple[int, ...]]] = [self.append, self.append, self.delete, self.update, self.restore]
        steps += [self.optimize, self.vacuum]
        rows = self.random.choice(steps)()
        self.versions += [rows] * (self.table.version + 1 - len(self.versions))

    @property
    def rows(self) -> tuple[int, ...]:
        return self.versions[-1]

    def append(self) -> tuple[int, ...]:
        new = range(self.next, self.next + 3)
        self.next += 3
        self.table.append(pa.table({"id": list(new), "p": pa.array([each % 2 for each in new], pa.int32())}))
        return (*self.rows, *new)

    def delete(self) -> tuple[int, ...]:
        left = self.random.randrange(3)
        self.table.delete(f"id % 3 = {left}")
        return tuple(each for each in self.rows if each % 3 != left)

    def update(self) -> tuple[int, ...]:
        by = 1000
        chosen = self.random.randrange(3)
        self.table.update({"id": txlog.expr(f"id + {by}")}, f"id % 3 = {chosen}")
        return tuple(each + by if each % 3 == chosen else each for each in self.rows)

    def restore(self) -> tuple[int, ...]:
        version = self.random.randrange(len(self.versions))
        try:
            self.restored.add(self.table.restore(version=version).version)
        except NotFoundError:
            assert version <= self.vacuumed, "only a vacuum takes files"
            return self.rows
        return self.versions[version]

    def optimize(self) -> tuple[int, ...]:
        self.table.optimize()
        return self.rows

    def vacuum(self) -> tuple[int, ...]:
        self.table.vacuum(0, force=True)
        self.vacuumed = self.table.version - 1
        self.versions += [self.rows] * (self.table.version + 1 - len(self.versions))
        return self.rows

    def check_loss(self, error: TxlogError, version: int) -> None:
        """A vacuum took what ``version`` needs, and the error names the table and the file or version."""
        assert isinstance(error, (NotFoundError, CorruptLogError)), "a vector's file that is gone is a CorruptLogError"
        assert version <= self.vacuumed, "only a vacuum takes files"
        assert self.table.uri in str(error)
        assert "vacuum" in str(error) or error.path is not None

    def check_stop(self, error: TxlogError, last_read: int) -> None:
        """Either that, or a version after ``last_read`` removed or changed rows, or brought other files for them."""
        if not isinstance(error, InvalidInputError):
            self.check_loss(error, last_read + 1)
            return
        assert self.table.uri in str(error)
        rows = map(Counter, self.versions[last_read:])
        changed = any(before - after for before, after in itertools.pairwise(rows))
        assert changed or any(version > last_read for version in self.restored), "no version removed or changed a row"
