"""What `make test` has no time for: parts, each with a time budget and a one-line result.

    python integration/hunt.py                              every part
    python integration/hunt.py races large --seconds 600    these parts; searches run for that long
    python integration/hunt.py stories -- --seed 1          the rest goes to the part's command

A part is the tests with ``@pytest.mark.hunt(part="...")``, or a program. Its output is in build/hunt; a part that
exceeds its budget is ended and has failed. As many parts run at once as there are processors; those whose tests keep
all processors busy run first and alone. The exit code is 0 if every part succeeded. Only the standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import java_home
from clean_environment import clean

__all__ = ["PARTS", "Part", "hunt", "marked_files"]

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "build" / "hunt"
SEARCH_S = 300
ICEBERG = "build/iceberg"
NEW_SEEDS = {"TXLOG_FUZZ_SEED": "random", "TXLOG_FUZZ_S": "{seconds}"}


@dataclass(frozen=True)
class Part:
    """Commands that run one after another until one fails; ``{seconds}`` in them is how long a search takes."""

    finds: str
    budget_s: int
    """Some twice what it takes on two processors with another part beside it."""
    commands: Sequence[Sequence[str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_search: bool = False
    """It searches for ``--seconds``, which come on top of its budget."""
    is_parallel: bool = False
    """Its tests run on all processors, so no other part runs beside it."""


def pytest(*arguments: str, is_parallel: bool = False) -> Sequence[str]:
    workers = ("-n", "auto", "--dist", "worksteal") if is_parallel else ()
    return (sys.executable, "-m", "pytest", "--timeout", "0", *workers, *arguments)


def elsewhere(environment: str, *arguments: str) -> Sequence[Sequence[str]]:
    """Pytest in another environment, which make builds first, and which lacks what the fixtures need."""
    return (
        ("make", "--silent", f"{environment}/.installed"),
        (f"{ROOT}/{environment}/bin/python", "-m", "pytest", "--noconftest", *arguments),
    )


def of_spark(environment: str) -> dict[str, str]:
    return {
        "PYSPARK_PYTHON": f"{ROOT}/{environment}/bin/python",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT}/integration",
    }


def on_older_spark(version: str) -> Sequence[Sequence[str]]:
    """The checks of a Spark that is not the newest, in a classic session and in one of Spark Connect."""
    environment = f"build/spark-{version}"
    install, check = elsewhere(environment, "-s", "integration/check_spark_versions.py")
    settings = ("env", *(f"{name}={value}" for name, value in of_spark(environment).items()))
    return install, (*settings, *check), (*settings, "TXLOG_SPARK=connect", *check)


# From what decides most about the protocol to what is farthest from it.
PARTS: dict[str, Part] = {
    "scenarios": Part("a schedule of a small scenario that breaks a promise; all of them", 3600, is_parallel=True),
    "mutants": Part("a bug put into the protocol that the explorer lets pass", 900, is_parallel=True),
    "conflicts": Part("a cell of the conflict matrix that Spark's Delta answers otherwise", 2400),
    "stories": Part(
        "a random story that breaks a promise, from a new seed",
        900,
        [(sys.executable, "integration/simulate.py", "--random", "--seconds", "{seconds}")],
        is_search=True,
    ),
    "properties": Part(
        "an example against a property, from a new seed",
        900,
        [
            pytest("tests", "-m", "hypothesis", is_parallel=True),
            pytest("-m", "hunt(part='properties')", "{files}", is_parallel=True),
        ],
        {"TXLOG_FUZZ_SEED": "random", "TXLOG_EXAMPLES": "{seconds}"},
        is_search=True,
        is_parallel=True,
    ),
    "damage": Part(
        "damage to a log or a file that crashes a reader, from a new seed",
        300,
        [pytest("-m", "", "{files}", "integration/test_hostile_footers.py", is_parallel=True)],
        NEW_SEEDS,
        is_search=True,
        is_parallel=True,
    ),
    "crashes": Part("a step, request or system call at which a death leaves a table that is not legal", 1800),
    "power-cuts": Part("an acknowledged write that a power cut takes", 1200),
    "ends": Part("an end or an interrupt of a process that leaves work undone or calls that fail", 1200),
    "races": Part(
        "a write that is lost, doubled or fails where many processes write and are killed",
        3600,
        [
            pytest("-m", "hunt(part='races')", "{files}"),
            pytest("-m", "", "integration/test_row_races.py", "integration/test_changelog_races.py"),
        ],
        {
            "TXLOG_RACE_SEED": "random",
            "TXLOG_RACE_SECONDS": "{seconds}",
            "TXLOG_RACE_UPSERTERS": "8",
            "TXLOG_RACE_CALLS": "25",
            "TXLOG_RACE_ROUNDS": "30",
            "TXLOG_RACE_CHECKPOINTS": "6",
        },
        is_search=True,
    ),
    "serve": Part(
        "a batch that is lost or doubled while services and their clients are killed, and memory that grows", 900
    ),
    "core-alone": Part(
        "a test of the core that needs an extension: all of them in a copy of the tree without extensions",
        1200,
        [(sys.executable, "integration/core_alone.py", "-n", "auto", "--dist", "worksteal")],
        is_parallel=True,
    ),
    "branches": Part("a call at which a death or a lost answer leaves a branch, or what it published, half done", 600),
    "clones": Part("a random program of a table and its clones after which one has other rows than a model", 300),
    "large": Part("a table or a file whose size no reader bears: bombs, large checkpoints, long sources", 900),
    "clouds": Part(
        "what Azure's or Google's store, versitygw or MinIO answers otherwise; races and round trips there",
        900,
        [
            pytest(
                *("-m", "hunt(part='clouds')", "{files}"),
                *("integration/test_object_store_contract.py", "integration/test_sink_processes.py"),
            )
        ],
    ),
    "mirror": Part(
        "a change that a mirror loses, doubles or mixes up while it and its database are killed",
        300,
        [pytest("-m", "hunt(part='mirror')", "{files}")],
        {"TXLOG_RACE_SEED": "random", "TXLOG_MIRROR_SECONDS": "{seconds}"},
        is_search=True,
    ),
    "sql": Part("a statement of SQL that Spark's Delta runs otherwise", 3600),
    "zones": Part("a time without a zone that an expression or a door reads otherwise than Spark", 3600),
    "spark": Part(
        "what Spark and Spark's Delta do otherwise, in more cases than make test has",
        7200,
        environment={"TXLOG_KILLS": "3"},
    ),
    "merges": Part(
        "a random merge that Spark's Delta does otherwise, in rows or metrics, from a new seed",
        1200,
        environment=NEW_SEEDS,
        is_search=True,
    ),
    "definitions": Part(
        "a program of definition changes by txlog and Spark's Delta in turns that ends otherwise, from a new seed",
        1200,
        environment=NEW_SEEDS,
        is_search=True,
    ),
    "spark-versions": Part(
        "what the oldest Sparks that txlog allows do otherwise, classic and through Spark Connect",
        1800,
        [command for version in ("4.0", "4.1") for command in on_older_spark(version)],
    ),
    "iceberg-spark": Part(
        "an Iceberg export that Iceberg's own runtime in Spark reads otherwise",
        900,
        elsewhere(ICEBERG, "integration/check_iceberg_spark.py"),
        of_spark(ICEBERG),
    ),
    "newest": Part(
        "what fails with the newest versions of Spark and all other packages",
        3600,
        [("make", "--silent", "newest")],
        is_parallel=True,
    ),
    "lowest": Part(
        "what fails with the lowest versions that txlog allows",
        900,
        [("make", "--silent", "lowest")],
        is_parallel=True,
    ),
    "integrations": Part(
        "what Ray, Daft, Dagster, Airflow, Prefect or dbt writes or reads otherwise, or adds twice",
        2400,
        [
            *elsewhere("build/integrations", "integration/check_ray.py", "integration/check_dagster.py"),
            *elsewhere("build/daft", "integration/check_daft.py"),
            *elsewhere("build/schedulers", "-k", "not airflow", "integration/check_schedulers.py"),
            *elsewhere("build/airflow", "-k", "airflow", "integration/check_schedulers.py"),
        ],
    ),
    "benchmarks": Part("a benchmark that does not start", 600),
}


def marked_files(part: str) -> list[str]:
    """The files with tests of this part."""
    return sorted(
        str(path.relative_to(ROOT))
        for folder in ("tests", "integration")
        for path in (ROOT / folder).rglob("test_*.py")
        if f'hunt(part="{part}")' in path.read_text()
    )


def hunt(parts: Mapping[str, Part], seconds: int = SEARCH_S, arguments: Sequence[str] = ()) -> bool:
    """Run the parts, print a line for each when it ends and a summary; whether all succeeded."""
    return asyncio.run(_hunt(parts, seconds, arguments))


async def _hunt(parts: Mapping[str, Part], seconds: int, arguments: Sequence[str]) -> bool:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    free_processors = asyncio.Semaphore(os.cpu_count() or 1)
    failed = []

    async def run(name: str, part: Part) -> None:
        async with free_processors:
            is_success, line = await _run(name, part, seconds, arguments)
        if arguments:  # a specific request, such as the replay of a story
            print((OUTPUT / f"{name}.txt").read_text(errors="replace"))
        print(line, flush=True)
        if not is_success:
            failed.append(name)

    for name, part in parts.items():
        if part.is_parallel:
            await run(name, part)
    others = [(name, part) for name, part in parts.items() if not part.is_parallel]
    # The longest first: a long one that began last would run alone.
    await asyncio.gather(*(run(name, part) for name, part in sorted(others, key=lambda each: -each[1].budget_s)))
    summary = f"{len(parts) - len(failed)} of {len(parts)} parts found nothing"
    print(f"hunt: {summary}" + (f"; look into {', '.join(failed)}: {OUTPUT}" if failed else ""))
    return not failed


async def _run(name: str, part: Part, seconds: int, arguments: Sequence[str]) -> tuple[bool, str]:
    began_s = time.monotonic()
    budget_s = part.budget_s + (seconds if part.is_search else 0)
    environment = {
        **java_home.spark_environment(),
        **{k: v.format(seconds=seconds) for k, v in part.environment.items()},
    }
    output = OUTPUT / f"{name}.txt"
    outcome = "nothing found"
    with output.open("w") as out:
        for command in _commands(name, part, seconds, arguments):
            print("$", *command, file=out, flush=True)
            left_s = began_s + budget_s - time.monotonic()
            code = await _ended_within(command, left_s, environment, out)
            if code is None:
                outcome = "OVER BUDGET"
            elif code:
                outcome = "FAILED"
            if code != 0:
                break
    took_s = time.monotonic() - began_s
    last = ([line for line in output.read_text(errors="replace").splitlines() if line.strip()] or [""])[-1].strip("= ")
    return outcome == "nothing found", f"{name:15} {outcome:13} {took_s:5.0f} s of {budget_s:5} s  {last[:120]}"


def _commands(name: str, part: Part, seconds: int, arguments: Sequence[str]) -> list[list[str]]:
    commands = list(part.commands)
    if not commands:
        commands = [pytest("-m", f"hunt(part='{name}')", "{files}", is_parallel=part.is_parallel)]
    filled = [[word.format(seconds=seconds, files="{files}") for word in command] for command in commands]
    for command in filled:
        if "{files}" in command:
            at = command.index("{files}")
            command[at : at + 1] = marked_files(name)
    filled[-1] += arguments
    return filled


async def _ended_within(
    command: Sequence[str], seconds: float, environment: Mapping[str, str], out: IO[str]
) -> int | None:
    """Its exit code; None where it had to be ended, with all that it started, as it is when the hunt is interrupted."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=dict(environment),
        stdout=out,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return await asyncio.wait_for(process.wait(), max(seconds, 0.1))
    except asyncio.TimeoutError:
        return None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def main() -> int:
    listed = "\n".join(f"  {name:15} {part.finds}" for name, part in PARTS.items())
    options = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"parts and what each finds:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("parts", nargs="*", metavar="PART", help="without any, all of them")
    options.add_argument("--seconds", type=int, default=SEARCH_S, help="how long each search takes")
    clean(os.environ)
    given = sys.argv[1:]
    split = given.index("--") if "--" in given else len(given)
    asked = options.parse_args(given[:split])
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown:
        options.error(f"no part is called {unknown[0]}: there are {', '.join(PARTS)}")
    names = asked.parts or PARTS
    return int(not hunt({name: PARTS[name] for name in names}, asked.seconds, given[split + 1 :]))


if __name__ == "__main__":
    sys.exit(main())
