"""Fault injection: a store that wraps another one and, on request, answers wrongly, late or not at all.

In: a store, and its faults: one line of text (``"put_if_absent#2=fail_after list_from#1=hole"``), steps of a script, or
a function. Out: the same interface, a record of every call, and a line that repeats the faults. `FAULTS` lists all
faults; docs/testing.md shows a job that runs under them.
"""

from __future__ import annotations

import random  # noqa: TID251 -- the seed is given, so the same faults can be repeated
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.definition import commit_definition
from txlog.core.format.log_names import commit_version, parse_log_name
from txlog.core.store import FileStore, LogCapabilities, LogStore, ObjectMeta, OutputFile, PutOutcome, TableStore
from txlog.core.versions import OpenTable, open_table_of
from txlog.errors import InvalidInputError, StorageError
from txlog.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FAULTS",
    "Crashed",
    "Fault",
    "FaultyFileStore",
    "FaultyLogStore",
    "InFlightPut",
    "StoreCall",
    "faulty_table_store",
    "parse_faults",
    "random_faults",
    "with_faults",
]

Step = Callable[..., Any]
"""``step(real, name, *arguments)`` is called in place of ``real``, the operation of the wrapped store."""


class Crashed(BaseException):
    """The process died at a store call. No ``except Exception`` catches this, and later calls have no effect."""


class StoreCall(NamedTuple):
    """One call: the ``number``-th of its operation, counted from 1. ``fault`` is the injected fault, if any."""

    operation: str
    number: int
    name: str
    fault: Fault | None = None


class Fault(msgspec.Struct, frozen=True):
    """A fault of `FAULTS` by name, with its argument if it has one (``hole=2``)."""

    kind: str
    argument: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in FAULTS:
            raise InvalidInputError(f"Invalid fault {self.kind!r}: expected one of {', '.join(FAULTS)}")

    def is_of(self, operation: str) -> bool:
        """Whether a call of ``operation`` can have this fault."""
        return _ONLY_OF.get(self.kind, operation) == operation

    def __str__(self) -> str:
        return self.kind if self.argument is None else f"{self.kind}={self.argument:g}"


Decide = Callable[[StoreCall], Fault | Step | None]
"""Called before each store call. A fault or a step that it returns replaces the call; None lets the call through."""


class InFlightPut:
    """A delayed put whose caller got no answer: `land` executes it, which writes the file if the name is still free."""

    def __init__(self, log: LogStore, name: str, body: bytes, after_calls: int | None) -> None:
        self.name = name
        self.body = body
        self.after_calls = after_calls
        self._log = log

    def land(self) -> PutOutcome:
        return self._log.put_if_absent(self.name, self.body)


class _Intercepted:
    """Counts and records calls, and replaces some by a fault or a step."""

    def __init__(self, faults: str | Decide) -> None:
        self.calls: list[tuple[str, str]] = []
        self.trace: list[StoreCall] = []
        self.script: dict[str, list[Fault | Step | None]] = {}
        self._counts: dict[str, int] = {}
        self._decide: Decide | None = None
        self._lock = threading.Lock()
        self._has_crashed = False
        if callable(faults):
            self._decide = faults
        else:
            for (operation, number), fault in parse_faults(faults).items():
                steps = self.script.setdefault(operation, [])
                steps.extend([None] * (number - len(steps)))
                steps[number - 1] = fault

    @property
    def line(self) -> str:
        """The faults that happened, as a line that repeats them, without the steps of a script."""
        return " ".join(f"{call.operation}#{call.number}={call.fault}" for call in self.trace if call.fault)

    def names(self, operation: str) -> list[str]:
        """The names this operation was called with, in order."""
        return [name for called, name in self.calls if called == operation]

    def _call(self, operation: str, real: Callable[..., Any], name: str, *arguments: Any) -> Any:
        if self._has_crashed:
            raise Crashed(f"{operation} {name}: the process has died")
        with self._lock:
            number = self._counts[operation] = self._counts.get(operation, 0) + 1
            self.calls.append((operation, name))
            call = StoreCall(operation, number, name)
            self.trace.append(call)
            place = len(self.trace) - 1
            steps = self.script.get(operation)
            step = steps.pop(0) if steps else None
        if step is None and self._decide is not None:
            step = self._decide(call)
        self._before(call)
        if isinstance(step, Fault):
            self.trace[place] = call._replace(fault=step)
            try:
                return FAULTS[step.kind](self, step, operation, real, name, *arguments)
            except Crashed:
                self._has_crashed = True
                raise
        return real(name, *arguments) if step is None else step(real, name, *arguments)

    def _before(self, call: StoreCall) -> None:
        """Run before each call; subclasses override it."""


class FaultyLogStore(_Intercepted):
    """A `LogStore` that injects faults into another one.

    ``faults`` is a line of text or a `Decide`. ``script[operation]`` holds faults and steps for the next calls; None
    lets a call through. ``in_flight`` holds the delayed puts that have not been executed yet. The faults
    ``cleaned_up`` and ``recreated`` need ``files``, the table's file store.
    """

    def __init__(self, inner: LogStore, faults: str | Decide = "", *, files: FileStore | None = None) -> None:
        super().__init__(faults)
        self.inner = inner
        self.files = files
        self.in_flight: list[InFlightPut] = []

    @property
    def capabilities(self) -> LogCapabilities:
        return self.inner.capabilities

    def list_from(self, start: str) -> list[ObjectMeta]:
        found: list[ObjectMeta] = self._call("list_from", self.inner.list_from, start)
        return found

    def read(self, name: str) -> bytes:
        body: bytes = self._call("read", self.inner.read, name)
        return body

    def stat(self, name: str) -> ObjectMeta:
        found: ObjectMeta = self._call("stat", self.inner.stat, name)
        return found

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        outcome: PutOutcome = self._call("put_if_absent", self.inner.put_if_absent, name, body)
        return outcome

    def put(self, name: str, body: bytes | memoryview) -> None:
        self._call("put", self.inner.put, name, body)

    def delete(self, name: str) -> None:
        self._call("delete", self.inner.delete, name)

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        return self.inner.remove_stale_temporaries(dry_run=dry_run)

    def make_durable(self, name: str) -> None:
        self._call("make_durable", self.inner.make_durable, name)

    def round_trip_s(self) -> float:
        return self.inner.round_trip_s()

    def _before(self, call: StoreCall) -> None:
        for put in list(self.in_flight):
            if put.after_calls is not None:
                put.after_calls -= 1
                if put.after_calls <= 0:
                    self.in_flight.remove(put)
                    put.land()


class FaultyFileStore(_Intercepted):
    """A `FileStore` that injects faults into another one. ``publish`` is an operation too, with the file's path."""

    def __init__(self, inner: FileStore, faults: str | Decide = "") -> None:
        super().__init__(faults)
        self.inner, self.part_bytes, self.needs_read_back = inner, inner.part_bytes, inner.needs_read_back

    def create(self, path: str) -> OutputFile:
        output: OutputFile = self._call("create", self.inner.create, path)
        return _FaultyOutputFile(self, path, output)

    def write(self, path: str, body: pa.Buffer | bytes) -> ObjectMeta:
        found: ObjectMeta = self._call("write", lambda _: self.inner.write(path, body), path)
        return found

    def replace(self, path: str, body: bytes) -> None:
        self._call("replace", lambda _: self.inner.replace(path, body), path)

    def open(self, path: str) -> Any:
        return self._call("open", self.inner.open, path)

    def read_from(self, path: str, start: int) -> bytes:
        found: bytes = self._call("read_from", lambda _: self.inner.read_from(path, start), path)
        return found

    def stat(self, path: str) -> ObjectMeta:
        found: ObjectMeta = self._call("stat", self.inner.stat, path)
        return found

    def list(self, folder: str = "", **asked: Any) -> Iterator[Sequence[ObjectMeta]]:
        pages = self.inner.list(folder, **asked)
        yield from iter(lambda: self._call("list", lambda _: next(pages, None), folder), None)

    def make_durable(self, paths: Iterable[str], *, with_contents: bool = False) -> None:
        named, asked = [*paths], {"with_contents": with_contents}
        self._call("make_durable", lambda _: self.inner.make_durable(named, **asked), named[0] if named else "")

    def delete(self, path: str) -> None:
        self._call("delete", self.inner.delete, path)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def publish(self, path: str, output: OutputFile) -> ObjectMeta:
        found: ObjectMeta = self._call("publish", lambda _: output.publish(), path)
        return found


class _FaultyOutputFile:
    def __init__(self, files: FaultyFileStore, path: str, output: OutputFile) -> None:
        self._files = files
        self._path = path
        self._output = output

    @property
    def sink(self) -> Any:
        return self._output.sink

    def publish(self) -> ObjectMeta:
        return self._files.publish(self._path, self._output)

    def abort(self) -> None:
        self._output.abort()


def faulty_table_store(store: TableStore, faults: str | Decide = "") -> TableStore:
    """A store like ``store`` whose ``log`` is a `FaultyLogStore`. Data files are not affected."""
    return TableStore(store.uri, FaultyLogStore(store.log, faults, files=store.files), store.files, owner=store.owner)


def with_faults(table: Table, faults: str | Decide) -> Table:
    """A new handle of the table whose calls of the log fail as specified. Data files are not affected.

    Args:
        table: A handle of the table, which stays as it is.
        faults: The faults, as one line of text, or as `random_faults` draws them.

    Returns:
        The handle. ``txlog.extend.open_table_of(handle).store.log`` is its `FaultyLogStore`.

    Raises:
        InvalidInputError: The line has another form.
    """
    return Table(OpenTable(faulty_table_store(open_table_of(table).store, faults)))


def parse_faults(line: str) -> dict[tuple[str, int], Fault]:
    """Parse ``operation#number=fault`` or ``operation#number=fault=argument``, separated by spaces.

    Raises:
        InvalidInputError: A word has another form, or its operation cannot have this fault; the message quotes the
            word.
    """
    found: dict[tuple[str, int], Fault] = {}
    for word in line.split():
        match = re.fullmatch(r"([a-z_]+)#([1-9]\d*)=([a-z_]+)(?:=([0-9.e+-]+))?", word)
        if match is None:
            raise InvalidInputError(f"{word!r} is not of the form operation#number=fault or ...=fault=argument")
        argument = None if match[4] is None else float(match[4])
        fault = found[match[1], int(match[2])] = Fault(match[3], argument)
        if not fault.is_of(match[1]):
            raise InvalidInputError(f"{word!r}: only {_ONLY_OF[fault.kind]} can have the fault {fault.kind}")
    return found


def random_faults(seed: int, rate: float, kinds: Iterable[str] = ("fail_before", "fail_after", "conflict")) -> Decide:
    """Let each call fail with probability ``rate``, by one of ``kinds`` that its operation can have.
    The same ``seed`` repeats the same faults."""
    chance = random.Random(seed)
    faults = [Fault(kind) for kind in kinds]

    def decide(call: StoreCall) -> Fault | None:
        possible = [fault for fault in faults if fault.is_of(call.operation)]
        return chance.choice(possible) if possible and chance.random() < rate else None

    return decide


# --- the faults -------------------------------------------------------------------------------------------------


def _fail_before(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """The request is lost: it has no effect, and the caller gets an error; a put answers "unknown"."""
    if operation == "put_if_absent":
        return PutOutcome.UNKNOWN
    raise StorageError(f"{operation} {name}: the request was lost", path=name)


def _fail_after(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """The request takes effect, but its answer is lost: the caller gets an error; a put answers "unknown"."""
    real(name, *arguments)
    if operation == "put_if_absent":
        return PutOutcome.UNKNOWN
    raise StorageError(f"{operation} {name}: the answer was lost", path=name)


def _refused(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """A definite failure without effect (disk full, no permission)."""
    raise StorageError(f"{operation} {name}: refused", path=name)


def _late(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """A put answers "unknown" and is executed before the ``argument``-th later call (default: by `land`)."""
    assert isinstance(store, FaultyLogStore), "only a put of the log can be late"
    after = None if fault.argument is None else int(fault.argument)
    store.in_flight.append(InFlightPut(store.inner, name, bytes(arguments[0]), after))
    return PutOutcome.UNKNOWN


def _conflict(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """A put answers "already exists" without effect, as S3 does with status 409 during two concurrent puts."""
    return PutOutcome.ALREADY_EXISTS


def _not_durable(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """A put makes the file visible, but the sync of its directory fails."""
    outcome = real(name, *arguments)
    return PutOutcome.NOT_DURABLE if outcome is PutOutcome.WRITTEN else outcome


def _stale(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """A list lacks all files of its ``argument`` newest versions (default 1)."""
    found: list[ObjectMeta] = real(name, *arguments)
    versions = sorted({version for meta in found if (version := _version(meta.name)) is not None})
    hidden = set(versions[-int(fault.argument or 1) :])
    return [meta for meta in found if _version(meta.name) not in hidden]


def _hole(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """A list lacks its ``argument``-th oldest commit (default 1) but has newer ones."""
    found: list[ObjectMeta] = real(name, *arguments)
    hidden = [meta.name for meta in found if _is_commit(meta.name)][:-1][int(fault.argument or 1) - 1 :][:1]
    return [meta for meta in found if meta.name not in hidden]


def _slow(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """The caller sleeps for ``argument`` seconds (default 1) of the ambient clock before the call."""
    ambient.sleep(1.0 if fault.argument is None else fault.argument)
    return real(name, *arguments)


def _torn_temporary(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """The process dies during a put. On a local disk without unnamed temporary files, half of the body is left."""
    from txlog.core.store import LocalLogStore

    assert isinstance(store, FaultyLogStore), "only a put of the log leaves a temporary file"
    if isinstance(store.inner, LocalLogStore):
        with open(store.inner._temporary(name), "wb") as torn:
            torn.write(bytes(arguments[0])[: len(arguments[0]) // 2])
    raise Crashed(f"{operation} {name}: died while writing")


def _crash_before(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """The process dies before the call."""
    raise Crashed(f"{operation} {name}: died before")


def _crash_after(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """The process dies after the call, before it can act on the answer."""
    real(name, *arguments)
    raise Crashed(f"{operation} {name}: died after")


def _cleaned_up(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """Before the call, another engine writes a checkpoint of the newest version and deletes all older commits."""
    from txlog.core.versions.files import DeltaLog

    assert isinstance(store, FaultyLogStore), "only a log can be cleaned up"
    assert store.files is not None, "give the faulty log its table's file store: faulty_table_store does"
    log = DeltaLog(TableStore("cleaner://", store.inner, store.files))
    state = log.newest_state()
    log.write_checkpoint(state)
    for meta in store.inner.list_from(""):
        version = _version(meta.name)
        if version is not None and version < state.version:
            store.inner.delete(meta.name)
    return real(name, *arguments)


def _recreated(store: _Intercepted, fault: Fault, operation: str, real: Step, name: str, *arguments: Any) -> Any:
    """Before the call, someone drops and recreates the table: version 0 has the same schema and a new id."""
    from txlog.core.definition import Definition
    from txlog.core.versions import OpenTable
    from txlog.core.versions.files import DeltaLog

    assert isinstance(store, FaultyLogStore), "only a log can be recreated"
    assert store.files is not None, "give the faulty log its table's file store: faulty_table_store does"
    table = TableStore("recreator://", store.inner, store.files)
    state = DeltaLog(table).newest_state()
    for meta in store.inner.list_from(""):
        store.inner.delete(meta.name)
    definition = Definition(replace(state.metadata, id=ambient.uuid4()), state.protocol)
    commit_definition(OpenTable(table), None, definition, "CREATE TABLE", {})
    return real(name, *arguments)


def _version(name: str) -> int | None:
    parsed = parse_log_name(name)
    return parsed.version if parsed else None


def _is_commit(name: str) -> bool:
    return commit_version(name) is not None


FAULTS: dict[str, Callable[..., Any]] = {
    fault.__name__[1:]: fault
    for fault in (
        *(_fail_before, _fail_after, _refused, _slow),
        *(_late, _conflict, _not_durable, _torn_temporary),
        *(_stale, _hole),
        *(_crash_before, _crash_after),
        *(_cleaned_up, _recreated),
    )
}
"""The faults by name; the docstring of each function says what it does."""

_ONLY_OF = {
    **dict.fromkeys(("late", "conflict", "not_durable", "torn_temporary"), "put_if_absent"),
    **dict.fromkeys(("stale", "hole"), "list_from"),
}
"""Faults that only one operation can have."""
