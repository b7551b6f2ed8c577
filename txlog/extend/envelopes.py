"""What an entry of the group ``txlog.envelopes`` must be: it reads the change events of a source as rows of tables.

In: messages, such as those of Debezium. Out: for each table that they are of, the rows that changed. `txlog serve`
takes messages by HTTP where a client names the envelope.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from txlog.errors import SchemaMismatchError

__all__ = ["DELETED", "REPLACED", "MessageChanges", "ReadsEnvelopes", "require_one_meaning"]

REPLACED, DELETED = "u", "d"
"""What a message does: its row replaces the one of its key, or deletes it."""


class MessageChanges(NamedTuple):
    """What messages do to one table.

    ``source`` is the table's name there. ``rows`` are in the order of the messages, with the columns that these have,
    and ``kinds`` says of each `REPLACED` or `DELETED`; of a deleted row only the key counts. ``keys`` are the columns
    that identify a row, if the messages say so. ``is_emptied``: the table is emptied before these rows. ``existing``
    has for columns, each as one value, what rows have that were there before the column, if it is not null.
    """

    source: str
    rows: pa.RecordBatch
    kinds: pa.Array
    keys: tuple[str, ...] = ()
    is_emptied: bool = False
    existing: Mapping[str, pa.Array] = {}


class ReadsEnvelopes(Protocol):
    """What a package offers in the group ``txlog.envelopes``, under the name of the envelope."""

    def __call__(self, messages: Sequence[Any], columns: Callable[[str], pa.Schema]) -> Sequence[MessageChanges]:
        """The rows of messages; messages that change no row have none.

        Args:
            messages: The messages, as values of JSON; None is one without a value.
            columns: The columns of the table for a table of the source, for messages that do not have their types.

        Raises:
            InvalidInputError: A message is none of this envelope, or has a value that Delta lacks; the error names its
                number, from 1.
            SchemaMismatchError: The columns change in a way that cannot be followed.
        """


def require_one_meaning(source: str, known: Collection[str], names: Sequence[str]) -> None:
    """Refuse events after which a column may have become another one, which events do not say.

    Args:
        source: The table that the events are of.
        known: The columns that it had.
        names: The columns that the events have.

    Raises:
        SchemaMismatchError: There is a new column, and another one is gone.
    """
    added, gone = [name for name in names if name not in known], sorted({*known} - {*names})
    if added and gone:
        raise SchemaMismatchError(
            f"{source} has the new columns {', '.join(added)}, and lacks {', '.join(gone)}: the events do not say"
            " whether these were renamed. Rename or drop the columns of the table yourself, then go on with these"
            " events"
        )
