"""Processes of one machine that append to one table hand their commits over to the one that commits: each append lands
once, whoever is killed or stands still.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import txlog

WORKER = Path(__file__).parent / "hand_over_worker.py"
PUT_S = 0.02


class Writers:
    """Processes that append at the same time, each ``appends`` rows of its own."""

    def __init__(self, folder: Path, writers: int, appends: int) -> None:
        self.path = folder / "table"
        txlog.Table.create(self.path, {"id": pa.int64()})
        (folder / "tmp").mkdir()
        self._environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
        self.acknowledged: dict[int, tuple[int, str]] = {}
        self.processes = [self._start(writer, appends) for writer in range(writers)]

    def _start(self, writer: int, appends: int) -> subprocess.Popen[str]:
        command = [sys.executable, str(WORKER), str(self.path), "queue", str(PUT_S), str(writer), str(appends)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=self._environment, **pipes)

    def begin(self) -> None:
        for process in self.processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def end(self) -> None:
        """Wait for all, and collect what was acknowledged."""
        for writer, process in enumerate(self.processes):
            printed, _ = process.communicate(timeout=120)
            for line in printed.splitlines():
                number, version, txn_id = line.split()
                self.acknowledged[1_000_000 * writer + int(number)] = int(version), txn_id

    def check(self) -> Counter[int]:
        """Every acknowledged append is in its version, and none is there twice. Returns how often so many share one."""
        held: dict[str, int] = {}
        sizes: Counter[int] = Counter()
        rows = txlog.Table.open(self.path).to_arrow().column("id").to_pylist()
        assert len(rows) == len(set(rows))
        assert set(rows) >= self.acknowledged.keys()
        for file in sorted((self.path / "_delta_log").glob("*.json"))[1:]:
            info = orjson.loads(file.read_bytes().splitlines()[0])["commitInfo"]
            txn_ids = [each["txnId"] for each in info["txlog"].get("joined", ())] or [info["txnId"]]
            sizes[len(txn_ids)] += 1
            for txn_id in txn_ids:
                assert txn_id not in held, f"{txn_id} is in versions {held[txn_id]} and {file.name}"
                held[txn_id] = int(file.stem)
        assert {txn_id: version for version, txn_id in self.acknowledged.values()}.items() <= held.items()
        return sizes


@pytest.mark.parametrize("writers", [6])
def test_processes_of_one_machine_share_versions(writers: int, tmp_path: Path) -> None:
    race = Writers(tmp_path, writers, 12)
    race.begin()
    race.end()
    assert [process.returncode for process in race.processes] == [0] * writers
    assert len(race.acknowledged) == 12 * writers
    sizes = race.check()
    assert max(sizes) > 1, sizes
    assert sum(sizes.values()) < 12 * writers
    assert not [*(tmp_path / "tmp").rglob("*.offer"), *(tmp_path / "tmp").rglob("*.done")]


def test_killed_processes_lose_and_double_nothing_of_the_others(tmp_path: Path) -> None:
    race = Writers(tmp_path, 6, 30)
    race.begin()
    chance = random.Random(os.environ.get("TXLOG_FUZZ_SEED", "1"))
    for victim in race.processes[:3]:
        time.sleep(chance.uniform(0.1, 0.3))
        victim.send_signal(signal.SIGKILL)
    race.end()
    assert [process.returncode for process in race.processes[3:]] == [0] * 3
    assert sum(number >= 3_000_000 for number in race.acknowledged) == 90
    race.check()


def test_a_suspended_process_blocks_nobody_and_doubles_nothing_when_it_resumes(tmp_path: Path) -> None:
    race = Writers(tmp_path, 5, 25)
    race.begin()
    time.sleep(0.3)
    race.processes[0].send_signal(signal.SIGSTOP)
    for process in race.processes[1:]:
        process.wait(timeout=120)
    race.processes[0].send_signal(signal.SIGCONT)
    race.end()
    assert [process.returncode for process in race.processes] == [0] * 5
    assert len(race.acknowledged) == 125
    race.check()
