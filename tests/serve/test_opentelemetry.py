"""The numbers of a service as OpenTelemetry's own SDK reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.serve.services import create, rows, serving, terms
from txlog.integrations import opentelemetry
from txlog.serve.counts import DESCRIBED, METRICS


def test_an_exporter_that_is_installed_gets_the_numbers_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path)
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("tests")
    monkeypatch.setattr(opentelemetry.metrics, "get_meter", lambda name: meter)
    with serving(tmp_path, journal=tmp_path / "journal") as service:
        METRICS.load("opentelemetry")(DESCRIBED, service.numbers)
        service.put(terms(), rows(1, 2)).result()
        service.put(terms(answer="durable"), rows(3)).result()
        found = told(reader)
        service.close()
        assert told(reader)["txlog.serve.rows", "events", None] == 3
    assert found["txlog.serve.rows", "events", None] == 2
    assert found["txlog.serve.batches", "events", "committed"] == 1
    assert found["txlog.serve.waiting_batches", "events", None] == 1
    assert {name for name, _, _ in found} <= {f"txlog.serve.{name}" for name in DESCRIBED}


def told(reader: InMemoryMetricReader) -> dict[tuple[str, Any, Any], float]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, point.attributes["table"], point.attributes.get("outcome")): point.value
        for scope in data.resource_metrics[0].scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
