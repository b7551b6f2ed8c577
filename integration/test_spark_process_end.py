"""Spark applications that end right after their last commit: the follow-up work is done, or the next writer does it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import java_home
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from servers import S3Location, S3Server
from short_spark_job import WAYS
from spark_fixtures import SHORT_LIVED
from test_process_end import checkpoints_of, end_a_job, table_of
from test_spark_s3 import python_path

JOB = Path(__file__).with_name("short_spark_job.py")
SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
STARTS = [
    pytest.param([sys.executable, str(JOB)], id="a script"),
    pytest.param([str(SUBMIT), str(JOB)], id="spark-submit", marks=pytest.mark.hunt(part="ends")),
]


@pytest.mark.hunt(part="ends")
@pytest.mark.parametrize("start", STARTS)
def test_a_spark_job_has_written_the_checkpoints_that_were_due_as_it_ends(
    s3_server: S3Server, tmp_path: Path, start: list[str]
) -> None:
    places = {}
    for number, store in enumerate((s3_server.new_location(), S3Location(str(tmp_path / "a table"), {}))):
        for way in WAYS:
            place = replace(store, uri=f"{store.uri} {way.__name__}")
            properties = {"txlog.iceberg": "v2"} if way.__name__ == "batch" else {}
            table = table_of(place, 7 if way.__name__ == "stream_of_batches" else 8, **properties)
            table.set_properties({"delta.checkpointInterval": "10"})
            places[way.__name__, number] = place
    (folder := tmp_path / "rows").mkdir()
    for name in "12":
        pq.write_table(pa.table({"id": pa.array([int(name)], pa.int64())}), folder / f"{name}.parquet")
    tables = [(way, place.uri, place.storage_options) for (way, _), place in places.items()]
    environment = {**java_home.spark_environment(), **python_path(), "JDK_JAVA_OPTIONS": SHORT_LIVED}
    done = subprocess.run(
        [*start, json.dumps(tables), str(folder)],
        env={**environment, "SPARK_HOME": str(SUBMIT.parent.parent), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "the commit is safe" not in done.stderr
    assert "The process ends without" not in done.stderr
    for (way, _), place in places.items():
        if way == "stream_of_batches" and not checkpoints_of(place):
            assert end_a_job(place) == ""
            assert checkpoints_of(place) == [11]
        else:
            assert checkpoints_of(place) == [10], (place.uri, done.stderr[-5000:])
