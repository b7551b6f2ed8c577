"""Spans and counters of OpenTelemetry for what txlog does to tables.

In: the program's tracer and meter providers. Out: `OpenTelemetryHooks`, for ``Table.open(uri, hooks=...)``, and
`observe_numbers`, by which ``txlog serve`` exports what it counts. Needs ``pip install opentelemetry-api``, and an SDK
of the program's choice that exports what it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from opentelemetry import metrics, trace

from txlog.errors import ConflictError
from txlog.hooks import CommitHooks, Step
from txlog.result import WriteResult, in_milliseconds

__all__ = ["OpenTelemetryHooks", "observe_numbers"]


class CountedNumber(Protocol):
    """A number of a service."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def value(self) -> float: ...


def observe_numbers(described: Mapping[str, str], numbers: Callable[[], Iterable[CountedNumber]]) -> None:
    """Have the program's meter provider observe a service's numbers: an entry of the group ``txlog.metrics``.

    Args:
        described: The name of each number, and what it is.
        numbers: Returns all numbers as they are now.
    """
    meter = metrics.get_meter("txlog.serve")

    def observed(name: str) -> Callable[[metrics.CallbackOptions], Iterable[metrics.Observation]]:
        return lambda _: [metrics.Observation(each.value, dict(each.labels)) for each in numbers() if each.name == name]

    for name, about in described.items():
        goes_down = name.startswith("waiting")
        create = meter.create_observable_gauge if goes_down else meter.create_observable_counter
        create(f"txlog.serve.{name}", [observed(name)], description=about)


class OpenTelemetryHooks(CommitHooks):
    """A span for each step (``txlog.commit`` and so on), and counters, all with the table's URI as ``txlog.table``.

    A span's parent is the span that the program has open in the thread. A checkpoint's thread has none.

    Args:
        tracer_provider: Where spans go; None means the program's global provider.
        meter_provider: Where counters go; None means the program's global provider.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("txlog", tracer_provider=tracer_provider)
        meter = metrics.get_meter("txlog", meter_provider=meter_provider)
        self._commits = meter.create_counter("txlog.commits", description="Writes by outcome")
        self._rows = meter.create_counter("txlog.rows", description="Rows written")
        self._bytes = meter.create_counter("txlog.bytes", "By", "Size of the data files added")
        self._lost = meter.create_counter("txlog.lost_races", description="Versions that another writer took first")
        self._waited = meter.create_counter("txlog.waited", "s", "Time waited between attempts to commit")
        self._conflicts = meter.create_counter("txlog.conflicts", description="Writes that a conflict ended")

    def on_commit(self, table: str, result: WriteResult) -> None:
        of_table, did = {"txlog.table": table}, result.metrics
        self._commits.add(1, {**of_table, "txlog.outcome": result.outcome})
        self._rows.add(did.rows, of_table)
        self._bytes.add(did.bytes, of_table)
        self._waited.add(did.waited_s, of_table)
        for operation, count in did.lost_to.items():
            self._lost.add(count, {**of_table, "txlog.winner": operation})

    def on_conflict(self, table: str, error: ConflictError) -> None:
        self._conflicts.add(1, {"txlog.table": table, "error.type": error.kind})

    def on_step(self, table: str, step: Step) -> None:
        began_ns = in_milliseconds(step.began) * 1_000_000
        span = self._tracer.start_span(f"txlog.{step.name}", start_time=began_ns, attributes={"txlog.table": table})
        if step.error is not None:
            span.set_attribute("error.type", type(step.error).__name__)
            span.set_status(trace.StatusCode.ERROR, str(step.error))
        span.end(began_ns + int(step.seconds * 1e9))
