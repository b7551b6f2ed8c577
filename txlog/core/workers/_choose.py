"""Which workers a command uses: those that the caller gives, or threads; and whether the command's tasks can get there.

In: the argument ``workers``, and the place of a table's files as tasks get it. Out: `Workers`.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from txlog.core.util import invalid
from txlog.core.wording import argument
from txlog.core.workers._base import Workers
from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from concurrent.futures import Executor

GivenWorkers: TypeAlias = "Executor | Workers"
"""What callers pass as ``workers``."""


class Opened(Protocol):
    """Data files, by plain data (``core.changes.tasks._task_table.TaskStore``)."""

    @property
    def uri(self) -> str: ...

    @property
    def files(self) -> Any: ...


def given_workers(given: Any, table: str) -> Workers:
    """The argument as workers. A Dask client counts as its executor.

    Raises ``InvalidInputError`` for anything else than an executor or workers.
    """
    if all(hasattr(given, name) for name in ("slots", "crosses", "map")):
        found: Workers = given
        return found
    executor = given.get_executor(pure=False) if hasattr(given, "get_executor") else given
    if isinstance(executor, type) or not hasattr(executor, "submit"):
        expected = "a concurrent.futures.Executor such as ProcessPoolExecutor(8), or txlog.spark.workers(spark)"
        raise invalid("workers", given, expected, table=table)
    from txlog.core.workers._executor import ExecutorWorkers

    return ExecutorWorkers.of(executor)


def require_openable(workers: Workers, store: Opened) -> None:
    """Raises ``InvalidInputError`` if the workers run in other processes, and these could not open the table's files.
    Makes no request."""
    if not workers.crosses:
        return
    there = require_crossing(store, "what opens the table, such as its credential provider,", store.uri)
    try:
        assert there.files is not None
    except TxlogError as error:
        raise InvalidInputError(
            f"{argument('workers')} run in other processes, and these could not open the table: {error.message}",
            table=store.uri,
        ) from error


def require_crossing(value: Any, what: str, table: str) -> Any:
    """What arrives of a value in another process. Raises ``InvalidInputError`` if it cannot be sent there."""
    try:
        return pickle.loads(pickle.dumps(value))
    except TxlogError:
        raise
    except Exception as error:  # pickling runs the value's own code, which may raise anything
        raise InvalidInputError(
            f"{argument('workers')} run in other processes, and {what} cannot be sent there ({type(error).__name__}:"
            f" {error}): use what can be pickled, such as a function of a module, or leave {argument('workers')} out",
            table=table,
        ) from error
