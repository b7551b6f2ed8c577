"""The arguments of a kernel, which are arrays, arrays of several chunks, or scalars: one value for all rows.

In: what a kernel was given. Out: arrays of one length; or a kernel that takes all three forms, made from one that takes
arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import pyarrow as pa

from txlog.core.format.arrow.arrays import one_array

Function = TypeVar("Function", bound=Callable[..., Any])


def as_arrays(given: Sequence[Any]) -> list[pa.Array]:
    """The arguments as arrays of one length; one row if all of them are scalars."""
    length = next((len(each) for each in given if not isinstance(each, pa.Scalar)), 1)
    return [pa.repeat(each, length) if isinstance(each, pa.Scalar) else one_array(each) for each in given]


def as_given(given: Sequence[Any], found: pa.Array) -> Any:
    """What was computed of `as_arrays`: a scalar if all arguments are."""
    return found[0] if all(isinstance(each, pa.Scalar) for each in given) else found


def takes_scalars(function: Function) -> Function:
    """Decorate a function of one array, and of what is no column: it then takes a scalar or several chunks too."""

    @functools.wraps(function)
    def computed(values: Any, *others: Any, **named: Any) -> Any:
        return as_given([values], function(*as_arrays([values]), *others, **named))

    return cast(Function, computed)
