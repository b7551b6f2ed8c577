"""What a type checker says of a program that uses txlog: nothing of a right one, and every mistake of a wrong one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

RIGHT = """
from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import txlog
from txlog import Table, WriteResult


class Told(txlog.CommitHooks):
    def on_commit(self, table: str, result: WriteResult) -> None:
        print(table, result.metrics.lost_to)


def load(path: Path, schema: Any, rows: Any) -> int | None:
    retry = txlog.RetryPolicy(max_attempts=3)
    table = Table.create(path, schema, ["day"], exist_ok=True, hooks=Told(), retry=retry)
    result: WriteResult = table.append(rows, schema_mode="merge", app_id="a", checkpoint_id=1)
    if result.outcome == "already_committed":
        return result.version
    with table.transaction("Serializable") as txn:
        txn.append(txn.read(where="amount > 100", columns=["id"]))
        txn.set_transaction("topic/0", 5)
    snapshot = table.snapshot(timestamp=dt.datetime.now(dt.timezone.utc))
    files: int = snapshot.num_files
    print(txn.result.version, files, snapshot.properties.get("x"), snapshot.transaction_version("a"))
    try:
        txlog.write(str(path), rows, "overwrite", partition_by=["day"])
    except txlog.CommitStateUnknownError as error:
        if error.version is not None:
            table.resolve(error.txn_id, error.version)
    except txlog.ConflictError as error:
        print(error.reasons[0].winner_version, error.kind)
    sink = txlog.Sink(table, "orders")
    with sink.task(1, 0, 0) as task:
        task.write(rows)
    sink.stage(task.committable)
    sink.prepare(1, {0: 0})
    for checkpoint_id in sink.recover().partial:
        sink.discard(checkpoint_id)
    txlog.probe_store(path).require_safe()
    return sink.last_checkpoint_id()
"""

WRONG = """
from typing import Any
from txlog import Table, write
rows: Any = []
table = Table.open("x")
table.append(rows, schema_mode="widen")  # arg-type
write("x", rows, "upsert")  # arg-type
table.transaction("ReadCommitted")  # arg-type
table.vacuumed()  # attr-defined
table.snapshot().to_spark()  # attr-defined
table.append(rows, app_id=5)  # arg-type
table.snapshot(version="3")  # arg-type
table.delete("id = 1", mode="merge")  # arg-type
table.set_properties(["a"])  # arg-type
table.append()  # call-arg
print(table.append(rows).outcome == "commited")  # comparison-overlap
"""


def test_mypy_accepts_a_correct_program_and_finds_every_mistake_of_a_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "right.py", "wrong.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    found = re.findall(r"^wrong\.py:(\d+): error: .*\[(\S+)\]$", done.stdout, re.MULTILINE)
    lines = enumerate(WRONG.splitlines(), start=1)
    assert found == [(str(number), line.split("# ")[1]) for number, line in lines if "  # " in line], done.stdout
    assert "right.py" not in done.stdout, done.stdout
    assert done.stderr == ""
