"""The kernel refuses, or the process dies, at each system call of a write: complete or absent, and the error says
which.

strace makes a call fail, or kills the process before the call is made, from outside: SIGKILL, EIO and ENOSPC at every
call of the local put, and at every call by which a whole append changes the disk (Arrow's writes of data files
included). Up to 75 s on two busy cores. Skipped, saying so, where no strace may do this.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import crash_job
import pytest
from crash_job import ACTS, Job
from fault_tools import process, require_strace, stopped_or_ended, tampered, traced_calls

from txlog.core.store import LocalLogStore, PutOutcome
from txlog.errors import StorageError

NAME = f"{1:020}.json"
BODY = b'{"commitInfo":{}}\n' * 100
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")
OF_A_PUT = "openat,newfstatat,fstat,write,fsync,link,linkat,unlink,unlinkat,close"
OF_A_WRITE = "write,pwrite64,writev,fsync,fdatasync,link,linkat,unlink,mkdir,rename,ftruncate,fallocate"
Record = Callable[[str, object], None]


def _put(root: str, reported: str) -> None:
    """One put between two calls that mark it, begun when it is being watched."""
    log = LocalLogStore(root)
    log.put_if_absent(f"{0:020}.json", BODY)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.stat("/")
    try:
        outcome = log.put_if_absent(NAME, BODY).name
    except StorageError:
        outcome = "StorageError"
    os.stat("/")
    Path(reported).write_text(outcome)


def _calls_of_the_put(tmp_path: Path) -> list[tuple[str, int]]:
    """(system call, its ordinal since the watch began)."""
    child = process(_put, str(tmp_path / "watched"), str(tmp_path / "reported"))
    assert stopped_or_ended(child)
    made: Counter[str] = Counter()
    found: list[tuple[str, int]] = []
    is_put = False
    for line in traced_calls(child, OF_A_PUT, tmp_path / "report"):
        match = re.match(r"(\w+)\(", line)
        if match is None:
            continue
        made[match[1]] += 1
        if match[1] == "newfstatat" and '"/", ' in line:
            is_put = not is_put
        elif is_put:
            found.append((match[1], made[match[1]]))
    return found


@pytest.mark.hunt(part="crashes")
def test_a_put_whose_system_call_fails_or_kills_is_complete_or_absent_and_reports_which(
    tmp_path: Path, record_property: Record
) -> None:
    require_strace("what a failing or deadly system call does to the local put")
    calls = _calls_of_the_put(tmp_path)
    assert {"openat", "write", "fsync", "unlink", "close"} <= {call for call, _ in calls}
    assert {"link", "linkat"} & {call for call, _ in calls}
    started_s = time.perf_counter()
    outcomes: Counter[str] = Counter()
    for call, nth in calls:
        for fault in FAULTS:
            root, reported = tmp_path / f"{call}-{nth}-{fault}", tmp_path / "outcome"
            reported.unlink(missing_ok=True)
            child = process(_put, str(root), str(reported))
            assert stopped_or_ended(child)
            tampered(child, call, fault, nth, tmp_path / "report")
            outcomes[_judge_put(root, reported, f"{call} number {nth}, {fault}", fault, child.exitcode)] += 1
    took_s = time.perf_counter() - started_s
    record_property("measured", f"strace: {outcomes.total()} faults in a put, {took_s:.1f} s: {dict(outcomes)}")
    assert {"killed", "StorageError", "WRITTEN", "NOT_DURABLE"} <= outcomes.keys(), outcomes


def _judge_put(root: Path, reported: Path, where: str, fault: str, exit_code: int | None) -> str:
    log = LocalLogStore(str(root))
    names = [meta.name for meta in log.list_from("")]
    is_there = NAME in names
    assert set(names) <= {NAME, f"{0:020}.json"}, where
    assert not is_there or log.read(NAME) == BODY, f"{where}: torn"
    if fault == "signal=SIGKILL":
        assert exit_code == -signal.SIGKILL, where
        outcome = "killed"
    else:
        assert exit_code == 0, f"{where}: something else than a typed error came out"
        outcome = reported.read_text()
        must_be_there = {"WRITTEN": True, "NOT_DURABLE": True, "StorageError": False}.get(outcome, is_there)
        assert is_there == must_be_there, f"{where}: {outcome}, and it is {'' if is_there else 'not '}there"
    again = log.put_if_absent(NAME, b"the next one")
    assert again is (PutOutcome.ALREADY_EXISTS if is_there else PutOutcome.WRITTEN), where
    return outcome


@pytest.mark.hunt(part="crashes")
def test_a_failed_or_deadly_system_call_leaves_a_legal_table_that_the_next_run_completes(
    memory_folder: Path, record_property: Record
) -> None:
    """The last act of the job: an append, a checkpoint, the cleanup of the log."""
    require_strace("what a failing or deadly system call does to a whole write")
    number = len(ACTS) - 1
    before = Job(str(memory_folder / "before"), str(memory_folder / "ledger"))
    crash_job.run(before, number)
    calls: Counter[str] = Counter()
    judged: set[object] = set()

    def learn(child: Any) -> None:
        for line in traced_calls(child, OF_A_WRITE, memory_folder / "report"):
            match = re.match(r"(\w+)\(", line)
            if match is not None:
                calls[match[1]] += 1

    assert _attempt(before, "watched", number, learn, judged) == "ok"
    assert {"write", "fsync", "linkat"} <= calls.keys(), calls
    injected = [(call, nth, fault) for call in calls for nth in range(1, calls[call] + 1) for fault in FAULTS]

    def tampered_attempt(injection: tuple[str, int, str]) -> str:
        call, nth, fault = injection
        name = f"{call}-{nth}-{fault}"
        report = memory_folder / f"report-{name}"
        tamper = partial(tampered, call=call, fault=fault, nth=nth, report=report)
        return _attempt(before, name, number, tamper, judged)

    with ThreadPoolExecutor(2) as pool:
        outcomes = Counter(pool.map(tampered_attempt, injected))
    record_property(
        "measured", f"strace: {outcomes.total()} faults in a whole write, {len(judged)} states: {dict(outcomes)}"
    )


def _attempt(before: Job, name: str, number: int, watch: Callable[[Any], None], judged: set[object]) -> str:
    """One act on a copy of the table, watched or worse; then what is there, and what the next run makes of it.

    An outcome that left the same as one of ``judged`` is not judged again.
    """
    job = Job(before.uri.replace("before", name), before.ledger)
    shutil.copytree(before.uri, job.uri)
    child = process(crash_job.act_alone, job, number)
    assert stopped_or_ended(child)
    watch(child)
    outcome = crash_job.outcome_of(child.exitcode)
    assert outcome in ("ok", "StorageError", "CommitStateUnknownError", "killed"), f"{name}: {outcome}"
    state = (outcome, crash_job.left(job))
    if state in judged:
        return outcome
    judged.add(state)
    found = crash_job.judged(job)
    assert number - 1 <= found <= number, name
    assert outcome != "ok" or found == number, f"{name}: acknowledged, and not there"
    crash_job.run(job)
    assert crash_job.judged(job) == len(ACTS) - 1, name
    return outcome
