"""Change events of a source as batches: bodies of messages, and what the reader of their envelope makes of them.

In: the body of a request and the terms of its client. Out: for each table that the messages are of, the terms of an
upsert and its rows. The readers are other packages, found in the group ``txlog.envelopes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

import txlog
from txlog.core.format.schema import to_arrow
from txlog.errors import InvalidInputError, TxlogError
from txlog.extend import Point, computed_names, open_table_of
from txlog.extend.envelopes import MessageChanges, ReadsEnvelopes, require_one_meaning
from txlog.serve.batches import Terms

ENVELOPES: Final[Point[ReadsEnvelopes]] = Point("txlog.envelopes", "what reads the messages of")
_KIND = "__op"
_NOTHING = pa.RecordBatch.from_pylist([], pa.schema([]))
_ARE_THE_EVENTS = ("mode", "row_kind", "sequence_by", "quarantine")


class EventBatch(NamedTuple):
    """What messages are to one table: the terms of an upsert, its rows, and what rows have in new columns that were
    there before them."""

    terms: Terms
    rows: pa.RecordBatch
    existing: Mapping[str, pa.Array]

    @property
    def is_nothing(self) -> bool:
        """Whether it changes nothing, and has no number that the table is to remember."""
        return not self.rows.num_rows and not self.terms.how.empties and self.terms.stream is None


class EventTerms:
    """What a client says about messages.

    Args:
        envelope: The envelope, such as "debezium".
        given: What else it says, by name. ``table`` is where the messages of one table of the source go; without it
            each goes to the table of that name.

    Raises:
        InvalidInputError: What is said does not fit messages.
        UnsupportedFeatureError: Nothing reads this envelope.
    """

    def __init__(self, envelope: str, given: Mapping[str, Any]) -> None:
        for name in _ARE_THE_EVENTS:
            if name in given:
                raise InvalidInputError(f"{name} is not for envelope={envelope}: the events say what becomes of rows")
        self._table: str | None = given.get("table")
        if self._table is None and "stream" in given:
            raise InvalidInputError(
                "a stream numbers the batches of one table: send the events of each to /tables/NAME/rows, or leave"
                " stream out. If the events of a row come again in the same order, the row stays the same"
            )
        self._read = ENVELOPES.load(envelope, f"envelope={envelope}")
        self._given = dict(given)
        self.terms = self._terms(self._table or "", ("key",))
        """What all of its batches have in common."""

    def batches(self, body: bytes, table: Callable[[str], txlog.Table]) -> list[EventBatch]:
        """The batches of a body. ``table`` opens a table by its name.

        Raises:
            InvalidInputError: The body has a message that is no event, or a value that Delta lacks.
            SchemaMismatchError: The columns change in a way that cannot be followed.
            TableNotFoundError: A table does not exist, and what opening it raises.
        """

        def columns(source: str) -> pa.Schema:
            return to_arrow(open_table_of(table(self._table or source)).known_state().schema)

        found = self._read(_messages(body), columns)
        if self._table is not None and len(found) > 1:
            names = ", ".join(each.source for each in found)
            raise InvalidInputError(
                f"the events are of several tables, {names}, and these are the rows of {self._table!r}: send them to"
                " /rows, from where each goes to the table of its name, or sort them by table"
            )
        if not found and self._table is not None:
            found = [MessageChanges("", _NOTHING, pa.array([], pa.string()))]
        return [self._batch(each, table(self._table or each.source)) for each in found]

    def _batch(self, changed: MessageChanges, table: txlog.Table) -> EventBatch:
        if not changed.rows.num_rows:  # no keys are needed, and a truncate has none
            terms = Terms.of({**self._given, "table": self._table or changed.source, "keys": None})
            how = msgspec.structs.replace(terms.how, empties=changed.is_emptied)
            return EventBatch(msgspec.structs.replace(terms, how=how), _NOTHING, {})
        schema = open_table_of(table).known_state().schema
        columns, has = to_arrow(schema), {name.lower() for name in changed.rows.schema.names}
        lacking = [each for each in columns if each.name.lower() not in has | {*computed_names(schema)}]
        own = {each.lower(): each for each in columns.names}
        named = [own.get(name.lower(), name) for name in changed.rows.schema.names]
        with TxlogError.located(table.uri):
            require_one_meaning(changed.source, {*named} & {*columns.names} | {each.name for each in lacking}, named)
        kind = _KIND
        while kind in has or kind in columns.names:
            kind = f"_{kind}"
        keys = self._given.get("keys") or changed.keys
        if not keys:
            raise InvalidInputError(
                f"it is not known which columns identify a row of {changed.source}: pass keys=id, or send Kafka's"
                " messages with their keys",
                table=table.uri,
            )
        terms = self._terms(self._table or changed.source, keys)
        how = msgspec.structs.replace(terms.how, row_kind=kind, empties=changed.is_emptied)
        nulls = [pa.nulls(changed.rows.num_rows, each.type) for each in lacking]
        rows = pa.RecordBatch.from_arrays(
            [*changed.rows.columns, *nulls, changed.kinds],
            names=[*changed.rows.schema.names, *(each.name for each in lacking), kind],
        )
        return EventBatch(msgspec.structs.replace(terms, how=how), rows, changed.existing)

    def _terms(self, table: str, keys: Sequence[str] | str) -> Terms:
        return Terms.of({**self._given, "table": table, "mode": "upsert", "keys": keys})


_DECODER = msgspec.json.Decoder(float_hook=Decimal)  # a message may have more digits than a float


def _messages(body: bytes) -> list[Any]:
    """A JSON value, an array of some, or a line for each; an empty line is a message without a value."""
    try:
        whole = _decoded(body)
    except ValueError:
        found = []
        for number, line in enumerate(body.splitlines(), 1):
            try:
                found.append(_decoded(line))
            except ValueError as error:
                raise InvalidInputError(f"message {number:,}: this is not JSON: {error}") from None
        return found
    return whole if isinstance(whole, list) else [whole]


def _decoded(text: bytes) -> Any:
    try:
        return _DECODER.decode(text) if text.strip() else None
    except (RecursionError, ArithmeticError) as error:
        raise ValueError(str(error)) from None
