"""Operations of a table that packages bring: the point that methods of `Table` and `Transaction` ask.

In: a method's name. Out: what does it. The method has the signature and the documentation, checks nothing that the
operation needs to know, and passes its arguments on by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from txlog.core.points import Point

OPERATIONS: Final[Point[Callable[..., Any]]] = Point("txlog.operations", "the operation")
"""Entries of the group ``txlog.operations`` are functions. Their first argument is the open table, as `txlog.extend`
gives it; the others are those of the method, by name."""


def operation(name: str) -> Callable[..., Any]:
    """What does the operation. Raises UnsupportedFeatureError if no installed package brings it."""
    return OPERATIONS.load(name)
