"""Types whose values a package brings: the point ``txlog.types``.

In: the name of a type. Out: what the installed package for it does with its values, a `TypeSupport`. The core alone
reads such a column as its data files have it, and refuses to make or to change a table that has one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

    from txlog.core.format.schema import DataType
    from txlog.core.points import Point


class FileForm(Protocol):
    """How one data file stores a column of the type, if it is another form than the type's own. One thread uses it.

    ``kind`` is the column's type in the file.
    """

    kind: pa.DataType

    def stored(self, array: pa.Array) -> pa.Array:
        """These rows of the column in the file's form, of which `TypeSupport.from_file` makes equal ones."""

    def bounds(self) -> tuple[Any, Any]:
        """What is between ``minValues`` and ``maxValues`` of the file's statistics for the column, given all rows that
        were stored; None for no bound."""


class TypeSupport(Protocol):
    """What a package does with the values of one type. It runs in tasks, and touches no log.

    ``advice`` says how to make values that `conversion` takes. ``functions`` are its functions in SQL, by their names
    in lower case, each a ``txlog.extend.PackageFunction``.
    """

    advice: str
    functions: Mapping[str, Any]

    def conversion(self, source: pa.DataType, column: str) -> Callable[[pa.Array], pa.Array] | None:
        """How arrays of this type become the type's Arrow form, of equal length; None if they cannot. ``column`` is for
        errors.

        The function raises ``txlog.extend.BadRow`` for a value that the type does not have.
        """

    def from_file(self, array: pa.Array) -> pa.Array | None:
        """A column as a data file has it, in the type's Arrow form; None if this is no form of the type.

        Raises ValueError saying what is wrong with a value, and its row, counted from 0.
        """

    def file_form(self, configuration: Mapping[str, str], names: tuple[str, ...], first: pa.Array) -> FileForm | None:
        """How a new file of a table with these properties stores the column, if ``first`` are its first rows; None: in
        the type's own form. ``names`` has one name, or those of a field of structs from the column on."""

    def bound_of_part(self, bound: Any, part: str, data_type: DataType, *, is_maximum: bool) -> Any:
        """The bound of a part of the values, taken as ``data_type``, as the statistics of a plain column of that type
        have it; None if nothing is known.

        ``bound`` is what the statistics of a file, which may be hostile, have for the column; ``part`` is the name that
        ``PackageFunction.part`` gives it.
        """

    def bounds_as_text(self, bounds: pa.Array) -> pa.StringArray:
        """Bounds of columns, values of the type, as the texts that the statistics' JSON has; null for no value."""

    def typed_bounds(self, texts: pa.StringArray) -> pa.Array:
        """The reverse: null for a text that is no bound, since it may be hostile."""

    def shown(self, column: pa.Array | pa.ChunkedArray) -> list[Any] | None:
        """A value for people in place of each value of a column, in a terminal, a notebook and JSON; None if this is no
        column of the type."""

    def cast(self, expression: Any, data_type: Any, *, is_try: bool) -> Any:
        """``CAST`` of a bound expression of the type, or to the type; ``TRY_CAST`` with ``is_try``.

        Raises ValueError for a cast that does not exist.
        """


def type_support(name: str) -> TypeSupport | None:
    """What the installed package for the type does; None if there is none. Raises UnsupportedFeatureError as
    ``Point.get`` does."""
    return _point().get(name)


def all_supports() -> Iterator[TypeSupport]:
    """What all installed packages do that can be used here."""
    for name in _point().names():
        with contextlib.suppress(UnsupportedFeatureError):
            support = type_support(name)
            if support is not None:
                yield support


def shown_by_packages(column: pa.Array | pa.ChunkedArray) -> list[Any] | None:
    """The values for people of a column of a package's type; None if it is none, or the package cannot be used."""
    try:
        found = (support.shown(column) for support in all_supports())
        return next((values for values in found if values is not None), None)
    except UnsupportedFeatureError:
        return None


def is_supported(name: str) -> bool:
    return type_support(name) is not None


@functools.cache
def _point() -> Point[TypeSupport]:
    from txlog.core.points import Point

    return Point("txlog.types", "the type")
