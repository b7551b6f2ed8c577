"""A batch of a client and its answer, and the errors that only a service has.

In: what a client says about its rows. Out: values, which the doors (Flight, HTTP) make and the intake of a table takes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal

import msgspec
import orjson
import pyarrow as pa

from txlog.errors import InvalidInputError, TxlogError
from txlog.extend import Word, in_python, spelled
from txlog.extend.catalogs import invalid

STREAM_LENGTH_MAX = 200
_FORM_OF_CSV = {"delimiter": "commas", "null_values": "an empty value", "decimal_comma": "numbers with a point"}
"""Settings of other callers, and what a client writes instead."""
_APPLICATION = "serve/"
"""What the names of streams begin with in the table's log, so that no client moves another application's number."""


def application_of(stream: str) -> str:
    """The application in the table's log whose number is the stream's last batch."""
    return f"{_APPLICATION}{stream}"


class BusyError(TxlogError):
    """The service has no room. Nothing of the batch was taken: send it again later, or to another service."""


class StoppingError(BusyError):
    """The service is stopping: send the batch to another one, or to this one when it runs again."""


class TooLargeError(InvalidInputError):
    """The batch is larger than the service takes. Nothing of it was taken: send its rows as several batches."""


class StreamOrderError(InvalidInputError):
    """A batch has not the number that follows the stream's last one. ``expected`` is that number."""

    expected: int = 0


def error_of(error: TxlogError) -> dict[str, Any]:
    """An error as a client gets it, who knows the table's name, and need not know where it and its files are."""
    found: dict[str, Any] = {"kind": error.kind, "message": message_of(error)}
    if isinstance(error, StreamOrderError):
        found["expected"] = error.expected
    return found


def message_of(error: TxlogError) -> str:
    """The message in the words of clients, who have parameters of a URL, and none for the form of CSV."""
    return spelled(error.template, _in_requests)


def _in_requests(word: Word) -> str:
    if word.kind == "setting" and word.name in _FORM_OF_CSV:
        return _FORM_OF_CSV[word.name]
    if word.kind == "setting" and isinstance(word.value, str):
        return f"{word.name}={word.value}"
    return in_python(word)


class How(msgspec.Struct, frozen=True):
    """What rows do to the table. Batches for which it is equal may land as one commit.

    ``mode`` "append" adds the rows. With "upsert" they replace the rows with the same ``keys``; ``row_kind`` is the
    column that says which are deletes, and ``sequence_by`` the one whose greatest value is the last change of a key.
    With ``empties`` the table is emptied before them, and they land alone.
    """

    mode: Literal["append", "upsert"] = "append"
    keys: tuple[str, ...] = ()
    row_kind: str | None = None
    sequence_by: str | None = None
    empties: bool = False


class Terms(msgspec.Struct, frozen=True):
    """What a client says about its batches: for which table, what they do, when it wants the answer, how strict it is.

    ``stream`` names a series of batches with numbers from 0. ``answer`` is "committed" (in the table) or "durable" (in
    the journal). ``schema_mode`` "merge" adds columns that the table lacks. With ``quarantine``, rows that the table
    cannot store go to the table of this name.
    """

    table: str
    stream: str | None = None
    answer: Literal["committed", "durable"] = "committed"
    how: How = How()
    schema_mode: Literal["strict", "merge"] = "strict"
    quarantine: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Terms:
        """Check what a client sent, by the names that docs/serve.md lists. Raises InvalidInputError."""
        values = {name: value for name, value in given.items() if value is not None}
        if unknown := sorted(values.keys() - _KNOWN):
            raise InvalidInputError(f"unknown {unknown[0]!r}: a batch has {', '.join(sorted(_KNOWN))}")
        for name, words in _WORDS.items():
            if values.get(name, words[0]) not in words:
                raise invalid(name, values[name], " or ".join(map(repr, words)))
        keys = values.get("keys", ())
        keys = tuple(key.strip() for key in keys.split(",")) if isinstance(keys, str) else keys
        how: dict[str, Any] = {name: values[name] for name in ("mode", "row_kind", "sequence_by") if name in values}
        terms: dict[str, Any] = {name: values[name] for name in _TERMS if name in values}
        terms["how"] = {**how, "keys": keys}
        try:
            found = msgspec.convert(terms, cls)
        except msgspec.ValidationError as error:
            raise InvalidInputError(f"the description of the batch is wrong: {error}") from None
        found.check()
        return found

    @property
    def right(self) -> Literal["append", "change"]:
        """The right that such batches need."""
        only_adds_rows = self.how.mode == "append" and not self.how.empties
        return "append" if only_adds_rows and self.schema_mode == "strict" else "change"

    def check(self) -> None:
        """Raises InvalidInputError for values that do not fit together."""
        how = self.how
        if how.mode == "upsert" and not all(how.keys or ("",)):
            raise InvalidInputError("mode=upsert needs keys: the columns that identify a row, such as keys=id")
        of_upserts = {"keys": how.keys or None, "row_kind": how.row_kind, "sequence_by": how.sequence_by}
        of_appends = {"quarantine": self.quarantine}
        for name, value in (of_upserts if how.mode == "append" else of_appends).items():
            if value is not None:
                raise InvalidInputError(f"{name} is not for mode={how.mode}")
        if self.stream is not None and not 0 < len(self.stream) <= STREAM_LENGTH_MAX:
            raise InvalidInputError(f"a stream's name has 1 to {STREAM_LENGTH_MAX} characters")
        if self.quarantine == self.table:
            raise InvalidInputError("quarantine must name another table than the one that the rows are for")


_TERMS = ("table", "stream", "answer", "schema_mode", "quarantine")
_WORDS = {"mode": ("append", "upsert"), "answer": ("committed", "durable"), "schema_mode": ("strict", "merge")}
_KNOWN = {*_TERMS, "mode", "keys", "row_kind", "sequence_by"}


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a batch.

    ``outcome`` is "committed" (in the table, as ``version`` or before it), "already_committed" (the stream's number was
    in the table before) or "durable" (in the journal). ``quarantined`` counts the rows that went to the other table.
    """

    outcome: Literal["committed", "already_committed", "durable"]
    version: int | None = None
    rows: int = 0
    quarantined: int = 0

    def to_json(self, batch: int | None = None) -> bytes:
        """The answer as a client gets it, with the number of its batch."""
        said = {} if batch is None else {"batch": batch}
        return orjson.dumps(said | msgspec.to_builtins(self))


def joined(answers: Sequence[Answer]) -> Answer:
    """The answer to a request of several batches: rows of all of them, and the weakest promise."""
    if len(answers) == 1:
        return answers[0]
    rows, aside = sum(each.rows for each in answers), sum(each.quarantined for each in answers)
    outcomes = {each.outcome for each in answers}
    return Answer("durable" if "durable" in outcomes else "committed", None, rows, aside)


class Batch:
    """Rows that wait for the table, and the promise of an answer.

    ``rows`` are as the table's check returned them, or as they came if the table computes columns or the rows are
    changes. ``place`` is where the journal has them, if it does.
    """

    __slots__ = (
        *("answer", "body", "how", "is_settled", "is_urgent", "landed", "may_skip", "number", "place", "quarantined"),
        *("rows", "size_bytes", "stream", "taken_at_s"),
    )

    def __init__(
        self,
        rows: pa.RecordBatch,
        how: How,
        stream: str | None,
        number: int | None,
        quarantined: int = 0,
        *,
        may_skip: bool = False,
    ) -> None:
        self.rows = rows
        self.how = how
        self.stream = stream
        self.number = number
        self.quarantined = quarantined
        self.may_skip = may_skip
        """Whether numbers of the stream may be missing before this one, as where only some batches have bad rows."""
        self.is_settled = False
        """Whether the rows wait no longer: they are in the table, or never will be."""
        self.size_bytes = rows.get_total_buffer_size() + _OVERHEAD_BYTES
        self.body = b""
        """The rows as an Arrow stream, once they are packed."""
        self.place: int | None = None
        self.taken_at_s = 0.0
        self.is_urgent = True
        """Whether a client waits for the commit."""
        self.answer: Future[Answer] = Future()
        """What the client waits for: the commit, or that the journal has the rows."""
        self.landed: Future[Answer] | None = self.answer
        """What waits for the commit; None if nobody does."""

    def pack(self) -> None:
        """Make the Arrow stream for the journal, and hold the rows in a copy of their own: as a client sent them, few
        rows may hold on to all that came with them."""
        rows = self.rows
        if _has_dictionaries(rows.schema):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_batch(rows)
            self.body = sink.getvalue().to_pybytes()
            return
        message = rows.serialize()
        self.body = b"".join((rows.schema.serialize(), message))
        self.rows = pa.ipc.read_record_batch(message, rows.schema)

    @property
    def is_durable(self) -> bool:
        """Whether the journal has the rows, so that their client waits for them no longer."""
        return self.place is not None

    @property
    def orders(self) -> set[str | None]:
        """What the batch must land in the order of: its stream, and the journal, which is None."""
        found: set[str | None] = set() if self.stream is None else {self.stream}
        return found if self.place is None else found | {None}

    def is_like(self, first: Batch) -> bool:
        """Whether it may land behind the rows of ``first``, in the same commit."""
        is_same = self.how is first.how or self.how == first.how
        return is_same and not self.how.empties and self.rows.schema.equals(first.rows.schema)


@functools.lru_cache(64)
def _has_dictionaries(schema: pa.Schema) -> bool:
    return "dictionary<" in str(schema)


_OVERHEAD_BYTES = 1000
"""What a batch takes beside its rows: many batches of one row count too."""
