"""The recipes of docs/integrations.md for schedulers and dbt, word for word, run by the real programs: `make hunt
PART=integrations`.

Airflow has an environment of its own, so a run selects its tests or the others with ``-k``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pages import blocks, tab

import txlog

PAGE = "docs/integrations.md"
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64())])

# What the page speaks of, and a task that dies once, after its rows are in the table.
EXTRACT = """
from pathlib import Path
import pyarrow as pa
import txlog

def extract(day):
    with open("FOLDER/extracted", "a") as out:
        out.write(f"{str(day)[:10]}\\n")
    yield pa.RecordBatch.from_pydict({"day": [str(day)[:10]] * 2, "id": [1, 2]})
"""
DIES_ONCE = """
wrote = load

def load(job, run, rows):
    said = wrote(job, run, rows)
    if not Path("FOLDER/died").exists():
        Path("FOLDER/died").touch()
        raise ConnectionError("after the commit")
    return said
"""


def job(recipe: str, folder: Path) -> str:
    """A module that a scheduler runs: ``load`` of the page, and the recipe in one of its tabs."""
    (load,) = (block for block in blocks(PAGE) if "def load(" in block)
    return said_of(EXTRACT + load + DIES_ONCE + tab(PAGE, recipe), folder)


def said_of(code: str, folder: Path) -> str:
    return code.replace("s3://bucket", str(folder)).replace("FOLDER", str(folder))


def days_of(folder: Path) -> dict[str, int]:
    return Counter(deltalake.DeltaTable(str(folder / "orders")).to_pyarrow_table()["day"].to_pylist())


def extracted(folder: Path) -> list[str]:
    return (folder / "extracted").read_text().split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    txlog.Table.create(tmp_path / "orders", SCHEMA)
    return tmp_path


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


RUN_DAG = """
import datetime, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb

initdb()
bag = DagBag("FOLDER/dags")
assert not bag.import_errors, bag.import_errors
for day in sys.argv[1:]:
    run = bag.dags["orders"].test(logical_date=datetime.datetime.fromisoformat(f"{day}T00:00+00:00"))
    print(day, run.state, "after tries:", [task.try_number for task in run.get_task_instances()])
"""


def test_airflow_retries_and_backfills_and_each_date_is_there_once(folder: Path) -> None:
    (folder / "dags").mkdir()
    (folder / "dags" / "orders.py").write_text(job("Airflow", folder))
    (folder / "run_dag.py").write_text(said_of(RUN_DAG, folder))
    said = run(
        folder,
        "run_dag.py",
        *("2026-11-20", "2026-11-18", "2026-11-19", "2026-11-20"),
        AIRFLOW_HOME=str(folder),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY="0",
    )
    assert "2026-11-20 success after tries: [2]" in said, said
    assert days_of(folder) == {"2026-11-18": 2, "2026-11-19": 2, "2026-11-20": 2}, said
    assert extracted(folder) == ["2026-11-20", "2026-11-18", "2026-11-19"], "a repeated run does not make the rows"


RUN_FLOW = """
if __name__ == "__main__":
    import sys
    for day in sys.argv[1:]:
        orders(*([] if day == "as scheduled" else [day]))
"""


def test_prefect_retries_and_backfills_and_each_date_is_there_once(folder: Path) -> None:
    (folder / "flow.py").write_text(job("Prefect", folder) + RUN_FLOW)
    said = run(
        folder,
        "flow.py",
        *("2026-11-20", "2026-11-18", "as scheduled", "2026-11-20"),
        PREFECT_HOME=str(folder),
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="200",
    )
    assert (folder / "died").exists(), said
    asked, backfilled, scheduled = extracted(folder)  # a repeated run does not make the rows
    assert (asked, backfilled) == ("2026-11-20", "2026-11-18")
    assert days_of(folder) == {asked: 2, backfilled: 2, scheduled: 2}, said
    left = [each for each in Path("/proc").glob("[0-9]*") if str(folder).encode() in _environment(each)]
    assert not left, "the server of its flows ends with them"


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


PROJECT = {
    "dbt_project.yml": "{name: shop, profile: shop, flags: {send_anonymous_usage_stats: false}}",
    "profiles.yml": "{shop: {target: dev, outputs: {dev: {type: duckdb, path: warehouse.duckdb}}}}",
    "models/daily_orders.sql": "select day, count(*) as orders from {{ ref('orders') }} group by day",
}


def test_dbt_reads_a_table_and_a_model_is_published_once(folder: Path) -> None:
    orders = txlog.Table.open(folder / "orders")
    orders.set_properties({"delta.enableDeletionVectors": "true"})
    days = ["2026-10-31", *["2026-11-19"] * 2, *["2026-11-20"] * 3]
    orders.append(pa.table({"day": days, "id": range(6)}, SCHEMA))
    orders.delete("id = 5")
    daily = txlog.Table.create(folder / "daily", "day string, orders bigint")
    (folder / "models").mkdir()
    for name, text in PROJECT.items():
        (folder / name).write_text(text)
    (folder / "models" / "orders.py").write_text(said_of(tab(PAGE, "A model that reads"), folder))
    (folder / "publish.py").write_text(said_of(tab(PAGE, "After dbt: publish a model"), folder))
    for _ in range(2):
        run(folder, "-m", "dbt.cli.main", "run")
        run(folder, "publish.py")
    assert daily.version == 1
    found = [{"day": "2026-11-20", "orders": 2}]
    assert deltalake.DeltaTable(daily.uri).to_pyarrow_table().to_pylist() == found
    (folder / "audited.py").write_text(said_of(tab(PAGE, "After dbt: publish a model that passes checks"), folder))
    for _ in range(2):
        run(folder, "audited.py")
    assert deltalake.DeltaTable(daily.uri).to_pyarrow_table().to_pylist() == found
    assert {each.status for each in daily.branches()} == {"published"}
