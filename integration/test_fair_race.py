"""Writers at full speed on one S3 server behind a slow network: all of them are served, on one machine or on many."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from fair_race import run_race
from servers import S3Location
from slow_network import slow_network

import txlog

WRITERS = 3
SECONDS = 6.0


@pytest.mark.parametrize(
    "machines", [pytest.param("one machine", marks=pytest.mark.hunt(part="races")), "a machine each"]
)
def test_no_writer_starves(machines: str, s3_location: S3Location, tmp_path: Path) -> None:
    uri = s3_location.uri
    with slow_network(s3_location.storage_options["endpoint_url"], 0.015) as network:
        options = {**s3_location.storage_options, "endpoint_url": network.url}
        txlog.Table.create(uri, {"id": pa.int64()}, storage_options=options)
        race = run_race(
            *("txlog", uri, options, WRITERS, SECONDS), machines=tmp_path if machines == "a machine each" else None
        )
    assert race.failed == 0
    assert race.least_share >= 1 / 3, race
    assert race.longest_s < 5 + 4 * WRITERS / race.per_s, race
    table = txlog.Table.open(uri, storage_options=s3_location.storage_options)
    assert table.snapshot().count() >= sum(race.appends)
