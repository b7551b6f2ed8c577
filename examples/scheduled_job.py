"""A job that a scheduler runs for each day, such as Airflow or Prefect: retried, backfilled, and run twice at once.

The job names itself and the day. Whatever the scheduler does, the rows of each day are in the table once, and a run
that is repeated does not even make its rows.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

import txlog

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64())])
extracted: list[str] = []


def extract(day: str, *, fails: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of one day, from a source that may fail in the middle."""
    extracted.append(day)
    for first in (0, 50):
        yield pa.RecordBatch.from_pydict({"day": [day] * 50, "id": range(first, first + 50)}, SCHEMA)
        if fails:
            raise ConnectionError("the source went away")


def load(uri: str, job: str, run: str, rows: Iterator[pa.RecordBatch]) -> txlog.WriteResult:
    """What a task calls: with Airflow, ``job`` is the DAG's id and ``run`` the logical date."""
    return txlog.Sink(txlog.Table.open(uri), job).once(run, rows)


with tempfile.TemporaryDirectory() as folder:
    table = txlog.Table.create(f"{folder}/orders", SCHEMA)
    uri = table.uri

    try:
        load(uri, "orders", "2026-11-20", extract("2026-11-20", fails=True))
    except ConnectionError as error:
        print("first try:  ", error)
    print("retry:      ", load(uri, "orders", "2026-11-20", extract("2026-11-20")))
    print("once more:  ", load(uri, "orders", "2026-11-20", extract("2026-11-20")))
    print("backfill:   ", load(uri, "orders", "2026-11-18", extract("2026-11-18")))

    with ThreadPoolExecutor(2) as twice:
        both = list(twice.map(lambda _: load(uri, "orders", "2026-11-21", extract("2026-11-21")), range(2)))
    print("two at once:", sorted(result.outcome for result in both))

    rows = table.to_arrow()["day"].to_pylist()
    print({day: rows.count(day) for day in sorted(set(rows))}, "extracted", len(extracted), "times")
    assert {day: rows.count(day) for day in rows} == {"2026-11-18": 100, "2026-11-20": 100, "2026-11-21": 100}
