"""`Workers`: where a change's tasks run. A change decides which tasks there are, but not where they run.

In: a function and its arguments, which may have to be pickled. Out: its results, each with the number of its argument.

What holds for all workers, and what tasks must allow for:

1. A task may run twice, even at the same time: an engine repeats what failed, and what is slow.
2. So every run gives its files new names.
3. A task's ``TxlogError`` is raised in place of its result, with its class.
4. Results are small: what is large is written to files, and the result names them.
5. A task owns the files that it wrote until it returns, and deletes them if it fails. Whoever receives its result owns
   them from then on, whether a commit names them or not. So, if possible, the results of running tasks are received
   before another task's error is raised. Files of a run whose result nobody receives stay as orphans, which a vacuum
   removes.
6. A task opens what it needs from plain data (``core.changes.tasks._task_table.TaskTable``). Open handles do not cross
to another
   process, and a credential provider only if it can be pickled. `given.require_openable` finds out before the first
   task begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

_SHARES_PER_SLOT = 4  # so a slow one does not keep the others waiting for long


class Workers(Protocol):
    """Used by one thread."""

    @property
    def slots(self) -> int:
        """About how many tasks run at the same time."""

    @property
    def crosses(self) -> bool:
        """Whether tasks run in other processes: then the work, its items and its results are pickled."""

    @property
    def shares_disk(self) -> bool:
        """Whether tasks certainly run on this machine, and can read files in its folders."""

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        """``work`` of each item, with the item's place in ``items``, in order of completion.

        Raises the first error of ``work`` once all running tasks have ended; the others do not run.
        """


def shares(items: Sequence[In], workers: Workers, most: int) -> list[Sequence[In]]:
    """Cut small pieces of work into shares, one for each task, in order: a few for each worker, and none larger than
    ``most``."""
    size = max(1, min(most, -(-len(items) // (_SHARES_PER_SLOT * workers.slots))))
    return [items[at : at + size] for at in range(0, len(items), size)]
