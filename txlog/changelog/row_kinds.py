"""Row kinds: what a row of a changelog does to the table, in the notations of the systems that write changelogs.

In: a column of strings or codes. Out: a code for each row. The model is Flink's four kinds: ``+I`` a new row, ``-U``
the old and ``+U`` the new version of a changed row, ``-D`` a deleted row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.util import described, invalid, one_of
from txlog.core.wording import advice, argument
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3
"""Flink's ``RowKind.toByteValue()``."""

TAKEN_BACK: Final = 4
"""In change files for the commit: a ``-D`` of a retract stream, which removes only the row that it carries."""

KINDS: Final = ("+I", "-U", "+U", "-D")
"""Flink's ``RowKind.shortString()``, by code."""

_OTHER_WORDS: Final = advice(
    "other words for row kinds", f"{argument('row_kinds')} defines the meaning of other values"
)
_TRUNCATES: Final = ("t", "truncate", "TRUNCATE")
"""Debezium's `op` of a truncated table, and its name."""
_BOOLEANS: Final = advice(
    "booleans as row kinds",
    f'define their meaning with {argument("row_kinds")}, such as row_kinds={{True: "-D", False: "+U"}}',
)

_WORDS: Final[Mapping[str, int]] = {
    **{word: code for code, word in enumerate(KINDS)},
    **{word: code for code, word in enumerate(("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"))},
    # what feeds with one event for each change call an update
    **dict.fromkeys(("update", "UPDATE"), UPDATE_AFTER),
    # Debezium's `op`: created, read by a snapshot, updated, deleted
    **{"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE},
    # the change data feed's `_change_type`
    **{"insert": INSERT, "update_preimage": UPDATE_BEFORE, "update_postimage": UPDATE_AFTER, "delete": DELETE},
}


class RowKinds:
    """Reads the kinds of rows.

    Args:
        words: The meaning of more strings or numbers in the column, each one of ``+I``, ``-U``, ``+U`` and ``-D``. They
            add to the known words: Flink's short strings and names, Debezium's ``c``, ``r``, ``u`` and ``d``, the
            values of the change data feed's ``_change_type``, and ``update``. Flink's codes (0 to 3) are known too,
            unless ``words`` has numbers or booleans, which are another code.

    Raises:
        InvalidInputError: ``words`` is not such a mapping.
    """

    def __init__(self, words: Mapping[Any, str] | None = None) -> None:
        self._codes: dict[Any, int] = dict(_WORDS)
        if words is None:
            self._codes |= {code: code for code in range(len(KINDS))}
            return
        if not isinstance(words, Mapping) or not words:
            raise InvalidInputError(
                f"{argument('row_kinds')} must map values to {', '.join(KINDS)}, not {described(words)}"
            )
        for word, kind in words.items():
            if kind not in KINDS:
                raise invalid(f"row_kinds[{word!r}]", kind, one_of(KINDS))
        if all(isinstance(word, str) for word in words):
            self._codes |= {code: code for code in range(len(KINDS))}
        self._codes |= {word: KINDS.index(kind) for word, kind in words.items()}

    def of(self, column: pa.Array, name: str, first_row: int = 0) -> NDArray[np.int8]:
        """The code of each row.

        Args:
            column: Strings or integers; booleans if ``row_kinds`` defines them.
            name: The column's name, for error messages.
            first_row: The number of rows before these, for error messages.

        Raises:
            InvalidInputError: A row has no kind or an unknown one, or the column's type is not supported.
        """
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        self._check_type(column.type, name)
        distinct = pc.unique(column)
        codes = [self._codes.get(word, -1) for word in distinct.to_pylist()]
        if -1 in codes:
            word = distinct[codes.index(-1)].as_py()
            row = first_row + (pc.index(column.is_null(), True) if word is None else pc.index(column, word)).as_py()
            if isinstance(word, str) and word in _TRUNCATES:
                raise InvalidInputError(
                    f"row {row} (counting from 0) truncates the table ({name} = {word!r}), which no row kind does:"
                    f" commit the changes before it, delete all rows (Table.delete(all=True), with a"
                    f" separate {argument('app_id')} and {argument('checkpoint_id')}), and go on with the changes after"
                    " it. If the truncate should not empty the table, filter it out"
                )
            known = one_of(self._codes)
            shown = "null" if word is None else repr(word)
            raise InvalidInputError(
                f"Invalid row kind {shown} in column {name}, row {row} (counting from 0): expected {known}."
                f" {_OTHER_WORDS}"
            )
        places = pc.index_in(column, value_set=distinct).to_numpy(zero_copy_only=False)
        found: NDArray[np.int8] = np.array(codes, dtype=np.int8)[places] if codes else np.empty(0, np.int8)
        return found

    def replaces(self, row: Mapping[str, Any], column: str) -> bool:
        """Whether a row, as an object of JSON with its kind in ``column``, stands in the table afterwards: one that is
        deleted needs only its key."""
        kind = row.get(column)
        return not isinstance(kind, str | int) or self._codes.get(kind) not in (DELETE, UPDATE_BEFORE)

    def _check_type(self, data_type: pa.DataType, name: str) -> None:
        """In Python, True and 1.0 equal 1, so a column of another type would be read as codes."""
        types = pa.types
        if types.is_boolean(data_type):
            if any(isinstance(word, bool) for word in self._codes):
                return
            raise InvalidInputError(f"the row kinds in column {name} are booleans: {_BOOLEANS}")
        is_text = types.is_string(data_type) or types.is_large_string(data_type)
        if not (is_text or types.is_integer(data_type) or types.is_null(data_type)):
            raise InvalidInputError(
                f"the row kinds in column {name} have the type {data_type}, but must be strings or whole numbers"
            )
