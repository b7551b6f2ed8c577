"""Explore schedules for any length of time: ``python integration/simulate.py --seconds 600 --seed 1``.

Every small scenario completely, some schedules of each large one, then random stories until the time is up.
``--stories 1000000`` runs that many random stories, and nothing else, with a line a minute; ``--processes 2`` shares
them among processes, each with a seed of its own (the seed, the seed + 1, ...). ``--replay LINE`` repeats one schedule.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "simulation"))

from explorer.actors import SAMPLED, SCENARIOS, any_story
from explorer.exploration import Make, Report, explore_all, explore_random, replay
from explorer.versions import InvariantBroken


def make(name: str) -> Make:
    return any_story if name == "any" else lambda choices: (SCENARIOS | SAMPLED)[name]


def simulate(seconds: float, seed: int, *, whole: bool) -> list[Report]:
    """Print each report as it comes; stop at the first broken promise. ``whole``: small scenarios come first."""
    reports = []
    for name in [*(SCENARIOS if whole else ()), *SAMPLED, "any"]:
        if name == "any":
            print(f"random stories, seed {seed}", flush=True)
            report = explore_random(name, any_story, seed=seed, seconds=seconds)
        elif name in SAMPLED:
            report = explore_random(name, make(name), seed=seed, seconds=seconds / 4 / len(SAMPLED))
        else:
            report = explore_all(name, make(name))
        reports.append(report)
        print(report, flush=True)
        if report.failure:
            print(report.failure)
            break
    return reports


def stories(number: int, seed: int, processes: int) -> bool:
    """Run this many random stories; each process stops at its first broken promise. Whether none was broken."""
    seeds = range(seed, seed + processes)
    shares = [number // processes + (n < number % processes) for n in range(processes)]
    if processes == 1:
        return _stories_of_one_seed(number, seed)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return all(pool.starmap(_stories_of_one_seed, zip(shares, seeds, strict=True), chunksize=1))


def _stories_of_one_seed(number: int, seed: int) -> bool:
    # A collector that looks at all of txlog's and pyarrow's objects again and again takes a third of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

    def say(report: Report) -> None:
        print(f"{time.strftime('%H:%M:%S')} seed {seed}: {report}", flush=True)

    print(f"{number:,} random stories, seed {seed}", flush=True)
    report = explore_random("any", any_story, seed=seed, schedules=number, tell=say)
    say(report)
    if report.failure:
        print(report.failure, flush=True)
    return report.failure is None


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600.0, help="of random stories, after the exhaustive ones")
    options.add_argument("--stories", type=int, help="only this many random ones, however long they take")
    options.add_argument("--processes", type=int, default=1, help="that share the random stories")
    options.add_argument("--seed", type=int, default=random.randrange(10**6))
    options.add_argument("--random", action="store_true", help="without the exhaustive ones")
    options.add_argument("--replay", metavar="LINE", help="scenario:choices, as a failure prints it")
    asked = options.parse_args()
    if asked.replay:
        try:
            print("\n".join(replay(make(asked.replay.rpartition(":")[0]), asked.replay).story))
        except InvariantBroken as broken:
            print(f"BROKEN: {broken}")
            return 1
        return 0
    if asked.stories:
        return int(not stories(asked.stories, asked.seed, asked.processes))
    return int(any(report.failure for report in simulate(asked.seconds, asked.seed, whole=not asked.random)))


if __name__ == "__main__":
    sys.exit(main())
