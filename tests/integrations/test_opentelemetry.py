"""What OpenTelemetry's own SDK gets of writes: spans of each step, and counters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import txlog
from tests.losing_writer import losing_to
from txlog.integrations.opentelemetry import OpenTelemetryHooks

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


class Told:
    """An SDK that keeps what it gets, and a handle that tells it."""

    def __init__(self, path: Path) -> None:
        self.spans, self.reader, tracers = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = tracers.get_tracer("the program")
        self.hooks = OpenTelemetryHooks(tracers, MeterProvider([self.reader]))
        txlog.Table.create(path, ROWS.schema)
        self.table = txlog.Table.open(path, hooks=self.hooks)

    def names(self) -> list[str]:
        return [span.name for span in self.spans.get_finished_spans()]

    def span(self, name: str) -> ReadableSpan:
        return next(span for span in self.spans.get_finished_spans() if span.name == name)

    def counted(self) -> dict[str, float]:
        data = self.reader.get_metrics_data()
        assert data is not None
        scopes = (scope for resource in data.resource_metrics for scope in resource.scope_metrics)
        found = (metric for scope in scopes for metric in scope.metrics)
        return {metric.name: sum(point.value for point in metric.data.data_points) for metric in found}


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "t")


def test_a_write_is_spans_in_the_span_of_the_program(told: Told) -> None:
    with told.tracer.start_as_current_span("job") as job:
        told.table.append(ROWS)
    assert told.names() == ["txlog.plan", "txlog.write", "txlog.commit", "job"]
    for span in told.spans.get_finished_spans()[:3]:
        assert span.parent is not None
        assert span.parent.span_id == job.get_span_context().span_id
        assert span.attributes == {"txlog.table": told.table.uri}
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


def test_rows_bytes_and_lost_races_are_counted(told: Told) -> None:
    told.table.append(ROWS)
    losing_to(told.table, lambda table: table.append(ROWS), told.hooks).append(ROWS)
    counted = told.counted()
    assert (counted["txlog.commits"], counted["txlog.rows"], counted["txlog.lost_races"]) == (2, 4, 1)
    assert counted["txlog.bytes"] > 0


def test_a_change_that_runs_again_is_a_span(told: Told) -> None:
    told.table.append(ROWS)
    losing_to(told.table, lambda table: table.append(ROWS), told.hooks).delete("id = 1")
    assert told.names()[-2:] == ["txlog.rerun", "txlog.commit"]


def test_upkeep_and_a_vacuum_are_spans(told: Told) -> None:
    told.table.set_properties({"delta.checkpointInterval": "2"})
    told.table.append(ROWS)
    told.table.vacuum()
    told.table._open_table.post_commit.drain()
    assert {"txlog.checkpoint", "txlog.vacuum"} <= {*told.names()}


def test_what_fails_is_a_span_with_its_error(told: Told) -> None:
    with pytest.raises(txlog.SchemaMismatchError):
        told.table.append(pa.table({"other": [1]}))
    span = told.span("txlog.plan")
    assert span.attributes is not None
    assert span.attributes["error.type"] == "SchemaMismatchError"
    assert not span.status.is_ok


def test_a_conflict_is_counted(told: Told) -> None:
    told.table.append(ROWS)
    version = told.table.version
    txlog.Table.open(told.table.uri).delete("id = 1")
    with pytest.raises(txlog.ConflictError):
        told.table.overwrite(ROWS, read_version=version)
    assert told.counted()["txlog.conflicts"] == 1
