"""A job that dies before any request to an object store is ended by running it again, as on a local disk.

The job of `crash_job` works through a gate before an S3 server (`request_gate`), which kills it as soon as it sends
the request of a given number, and sends that no further: so the server is left in every state that a death at any
moment can leave, since it changes with requests alone. After each death a fresh process finds a legal state, and
running the job again ends it. Not tested here: an upload that is cut off in the middle, which no server keeps.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path

import crash_job
import pytest
from crash_job import ACTS, Job
from fault_tools import end_of, process
from request_gate import gate
from servers import S3Server

Record = Callable[[str, object], None]


def _job(server: S3Server, folder: Path) -> Job:
    location = server.new_location()
    return Job(location.uri, str(folder / location.uri.split("/")[-2]), location.storage_options)


def _run_through_a_gate(server: S3Server, job: Job, die_at: int | None) -> tuple[int | None, list[str]]:
    """Its exit code, and every request that it made to change something; the last one, if it died, was never sent."""
    reported: list[str] = []
    child: list[BaseProcess] = []

    def deed(number: int, what: str) -> bool:
        reported.append(what)
        if number == die_at:
            child[0].kill()
        return number != die_at

    with gate(server.url, deed) as url:
        child.append(process(crash_job.run, Job(job.uri, job.ledger, {**job.storage_options, "endpoint_url": url})))
        return end_of(child[0]), reported


@pytest.mark.hunt(part="crashes")
def test_a_job_that_dies_before_any_request_is_ended_by_its_next_run(
    s3_server: S3Server, tmp_path: Path, record_property: Record
) -> None:
    whole = _job(s3_server, tmp_path)
    exit_code, steps = _run_through_a_gate(s3_server, whole, None)
    assert exit_code == 0
    assert crash_job.judged(whole) == crash_job.acknowledged(whole) == len(ACTS) - 1

    def die_at(number: int) -> str:
        job = _job(s3_server, tmp_path)
        exit_code, reported = _run_through_a_gate(s3_server, job, number)
        died = f"died at request {number}, {reported[-1]}"
        assert exit_code == -signal.SIGKILL, f"{died}: exit code {exit_code}"
        acknowledged, found = crash_job.acknowledged(job), crash_job.judged(job)
        assert acknowledged <= found <= acknowledged + 1, f"{died}: {acknowledged} was acknowledged, {found} is there"
        again = process(crash_job.run, job)
        assert end_of(again) == 0, f"{died}: the next run failed"
        assert crash_job.judged(job) == len(ACTS) - 1, died
        return reported[-1]

    with ThreadPoolExecutor(4) as pool:
        deaths = list(pool.map(die_at, range(len(steps))))
    record_property("measured", f"crash points: a job on S3 died before each of its {len(deaths)} requests")
    for request in (
        f"PUT _delta_log/{0:020}.json",
        f"PUT _delta_log/{len(ACTS):020}.json",
        f"PUT _delta_log/{3:020}.checkpoint.parquet",
        f"PUT _delta_log/{3:020}.crc",
        "PUT _delta_log/_last_checkpoint",
    ):
        assert any(death.startswith(request) for death in deaths), f"no process died at {request}"
    assert any(".parquet" in death and "_delta_log" not in death for death in deaths), "no process died at a data file"
