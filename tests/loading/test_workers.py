"""Calls that take files or tables over have their tasks run on the workers that they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.workers.test_every_command import LOADING, require_tasks
from txlog.table import Table

CALLS: dict[str, Callable[[Table, Path, Any], object]] = {
    "add_files": lambda table, folder, pool: table.add_files(["new.parquet"], workers=pool),
    "clone": lambda table, folder, pool: table.clone(folder / "copy", workers=pool),
    "convert": lambda table, folder, pool: Table.convert(folder / "others", workers=pool),
}


@pytest.mark.parametrize("name", LOADING)
def test_a_call_runs_its_tasks_on_the_workers_that_it_is_given(tmp_path: Path, name: str) -> None:
    require_tasks(CALLS[name], tmp_path)
