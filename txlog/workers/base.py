"""`Workers`: where the tasks of a change run. A change decides which tasks there are, and knows no more of where.

In: a function and its arguments, which may have to be pickled. Out: its results, each with the number of its argument.

What holds on every kind of workers, and what tasks are written for:

1. A task may run twice, at the same time too: an engine repeats what failed, and what is slow.
2. So every run gives its files new names.
3. A ``TxlogError`` of a task is raised where its result would be, with its class.
4. Results are small: what is large is written to files, and the result names them.
5. A task owns the files that it wrote until it returns, and deletes them if it fails. Whoever receives its result owns
   them from then on, whether a commit names them or not. So results of tasks that had begun are received before the
   error of another one is raised, where that is possible. Files of a run whose result nobody receives stay as orphans,
   which a vacuum removes.
6. A task opens what it needs by plain data (``tasks.task_table.TaskTable``). Open handles and credential providers do
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
        """``work`` of each item, with the item's place in ``items``, in the order in which they end.

        Raises what ``work`` raises first, after tasks that had begun have ended; the others are not run.
        """
