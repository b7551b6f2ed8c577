"""Spans and counters of what txlog does, printed by OpenTelemetry's console exporters.

Another exporter sends them to Jaeger, Grafana or a vendor. Needs `opentelemetry-sdk`.
"""

import tempfile

import pyarrow as pa
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

import txlog
from txlog.integrations.opentelemetry import OpenTelemetryHooks

tracers, meters = TracerProvider(), MeterProvider([PeriodicExportingMetricReader(ConsoleMetricExporter())])
tracers.add_span_processor(
    BatchSpanProcessor(
        ConsoleSpanExporter(formatter=lambda span: f"{span.name}: {span.end_time - span.start_time} ns\n")
    )
)

with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    txlog.Table.create(f"{folder}/orders", {"id": pa.int64()})
    table = txlog.Table.open(f"{folder}/orders", hooks=OpenTelemetryHooks(tracers, meters))
    with tracers.get_tracer("my job").start_as_current_span("nightly load"):
        table.append(pa.table({"id": range(1000)}))
        table.delete("id < 10")

tracers.shutdown()
meters.shutdown()
