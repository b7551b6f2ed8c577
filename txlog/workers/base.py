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
6. A task opens what it needs from plain data (``tasks.task_table.TaskTable``). Open handles and credential providers do
   not cross.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

__all__ = ["Workers"]

In = TypeVar("In")
Out = TypeVar("Out")


class Workers(Protocol):
    """Used by one thread."""

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        """``work`` of each item, with the item's place in ``items``, in order of completion.

        Raises the first error of ``work`` once all running tasks have ended; the others do not run.
        """
