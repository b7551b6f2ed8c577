"""Events of Debezium as rows of tables: for `txlog serve`, which finds `changed_rows` in the group ``txlog.envelopes``,
and for Spark. Pure.

In: messages of Kafka, or the values of such messages, parsed. Out: rows of Arrow, with the columns of the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError
from txlog.extend.envelopes import DELETED, REPLACED, MessageChanges, require_one_meaning
from txlog.mirror.debezium import UNAVAILABLE, Event, EventField, event_of, json_of, row_of
from txlog.mirror.pgoutput import UNCHANGED
from txlog.mirror.types import column_type_of, values_of


def changed_rows(messages: Sequence[Any], columns: Callable[[str], pa.Schema]) -> list[MessageChanges]:
    """What Debezium's events do to each table: see `txlog.extend.envelopes.ReadsEnvelopes`."""
    tables: dict[str, _EventRows] = {}
    for number, message in enumerate(messages, 1):
        with _numbered(number):
            value, keys = message_of(message)
            event = event_of(value)
            if event is None:
                continue
            if not event.table:
                raise InvalidInputError("the event's source does not say which table it is of")
            if event.table not in tables:
                tables[event.table] = _EventRows(event.table, columns)
            tables[event.table].take(number, event, keys)
    return [each.changed() for each in tables.values()]


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Errors of the block name the message."""
    try:
        yield
    except TxlogError as error:
        error.message = f"message {number:,}: {error.message}"
        raise


class _EventRows:
    """The rows of one table's events."""

    def __init__(self, source: str, columns: Callable[[str], pa.Schema]) -> None:
        self._source = source
        self._columns = columns
        self._fields: dict[str, EventField] = {}
        self._last: tuple[EventField, ...] = ()
        self._rows: list[dict[str, Any]] = []
        self._kinds: list[str] = []
        self._numbers: list[int] = []
        self._keys: tuple[str, ...] = ()
        self._is_emptied = False

    def take(self, number: int, event: Event, keys: tuple[str, ...]) -> None:
        self._keys = keys or self._keys
        if event.kind == "T":
            self._rows, self._kinds, self._numbers, self._is_emptied = [], [], [], True
            return
        row = (event.before if event.kind == "D" else event.after) or {}
        fields = event.fields or self._fields_in(row)
        for field in fields:
            if field.name not in self._fields:
                for earlier in self._rows:
                    earlier.setdefault(field.name, field.existing)
        if event.fields is not None:
            known = {each.name for each in self._last or fields}
            require_one_meaning(self._source, known, [each.name for each in fields])
            self._last = event.fields
        self._fields = united([[*self._fields.values()], fields])
        texts = row_of(row, fields)
        self._rows.append({field.name: text for field, text in zip(fields, texts, strict=True)})
        self._kinds.append(DELETED if event.kind == "D" else REPLACED)
        self._numbers.append(number)

    def _fields_in(self, row: Mapping[str, Any]) -> tuple[EventField, ...]:
        """The columns of a row without a schema, as the table has them."""
        return tuple(each for each in fields_of(self._columns(self._source), row) if each.name in row)

    def changed(self) -> MessageChanges:
        arrays = [self._column(field) for field in self._fields.values()]
        existing = {
            name: values_of(pa.array([field.existing], pa.string()), field.type)
            for name, field in self._fields.items()
            if field.existing is not None
        }
        schema = pa.schema([(name, field.type.arrow) for name, field in self._fields.items()])
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        kinds = pa.array(self._kinds, pa.string())
        return MessageChanges(self._source, rows, kinds, self._keys, self._is_emptied, existing)

    def _column(self, field: EventField) -> pa.Array:
        texts = [row.get(field.name) for row in self._rows]
        try:
            return sent_values(field, texts)
        except InvalidInputError:
            for number, text in zip(self._numbers, texts, strict=True):
                with _numbered(number):
                    sent_values(field, [text])
            raise


def message_of(message: Any) -> tuple[Any, tuple[str, ...]]:
    """The value of a message, and the names of the key's columns, if it is a message of Kafka as kcat writes it
    (``kcat -J``) and has them."""
    if not isinstance(message, Mapping) or not {"topic", "offset", "payload"} <= set(message):
        return message, ()
    key = message.get("key")
    if isinstance(key, str):
        try:
            key = json_of(key)
        except InvalidInputError:
            key = None
    if isinstance(key, Mapping) and set(key) == {"schema", "payload"}:
        key = key["payload"]
    return message["payload"], tuple(key) if isinstance(key, Mapping) else ()


def fields_of(columns: pa.Schema, row: Mapping[str, Any]) -> tuple[EventField, ...]:
    """The columns of a table, for a row without a schema. Raises SchemaMismatchError if it has others."""
    unknown = sorted(set(row) - set(columns.names))
    if unknown:
        raise SchemaMismatchError(
            f"events have the new columns {', '.join(unknown)}, and not their types: let the converter write schemas"
            " (schemas.enable), or add the columns to the table"
        )
    return tuple(EventField(each.name, column_type_of(each.type), "") for each in columns)


def united(lists: Iterable[Sequence[EventField]]) -> dict[str, EventField]:
    """The columns of several schemas, by name. Raises SchemaMismatchError if the type of one changes."""
    found: dict[str, EventField] = {}
    for fields in lists:
        for field in fields:
            if found.setdefault(field.name, field).type.arrow != field.type.arrow:
                raise SchemaMismatchError(f"the type of the column {field.name} changes within a batch of events")
    return found


def sent_values(field: EventField, texts: Sequence[Any]) -> pa.Array:
    """The values of a column, from texts of `row_of`. A large value that was not sent stays Debezium's word for it, for
    which the table's writer refuses the row, or keeps what is there, as its merge engine says.

    Raises InvalidInputError for a value that Delta lacks, and for one that was not sent of a column without texts.
    """
    if UNCHANGED in texts and not pa.types.is_string(field.type.arrow):
        raise InvalidInputError(
            f"the column {field.name}: an update does not have its large value. Let the database log whole rows"
            " (REPLICA IDENTITY FULL)"
        )
    try:
        sent = [UNAVAILABLE if text is UNCHANGED else text for text in texts]
        return values_of(pa.array(sent, pa.string()), field.type)
    except InvalidInputError as error:
        raise InvalidInputError(f"the column {field.name}: {error.message}") from None
