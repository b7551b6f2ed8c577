"""`Apply`: how pure code maps over many things, without knowing about threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


class Apply(Protocol):
    """``map`` or ``parallel_map``. Pure code takes one as an argument."""

    def __call__(self, work: Callable[[In], Out], items: Iterable[In], /) -> Iterable[Out]: ...
