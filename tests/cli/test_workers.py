"""``--workers``: a command's tasks run in processes, with the same result."""

from __future__ import annotations

import concurrent.futures
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app


def test_commands_with_workers_run_their_tasks_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[int] = []

    class Counted(concurrent.futures.ProcessPoolExecutor):
        def __init__(self, number: int, mp_context: Any) -> None:
            super().__init__(number, mp_context=mp_context)
            tasks.append(0)

        def submit(self, *given: Any, **named: Any) -> Any:
            tasks[-1] += 1
            return super().submit(*given, **named)

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", Counted)
    table = txlog.Table.create(tmp_path, "id bigint", properties={"delta.enableDeletionVectors": "true"})
    for number in range(6):
        table.append(pa.table({"id": [2 * number, 2 * number + 1]}))

    def run(*arguments: str) -> dict[str, Any]:
        done = CliRunner().invoke(app, [arguments[0], str(tmp_path), *arguments[1:], "--workers", "1", "--json"])
        assert done.exit_code == 0, done.output
        found: dict[str, Any] = json.loads(done.output)
        return found

    assert run("delete", "--where", "id >= 9")["version"] == 7
    assert run("update", "--set", "id=id+100", "--where", "id < 2")["version"] == 8
    assert run("optimize")["files_removed"] > 1
    assert run("verify")["sound"]
    assert run("alter-column", "id", "--not-null")["version"] == 10
    assert run("vacuum", "--dry-run")["paths"] == []
    assert all(tasks), tasks
    assert len(tasks) == 6
    assert sorted(table.to_arrow()["id"].to_pylist()) == [*range(2, 9), 100, 101]
