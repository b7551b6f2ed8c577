"""Every operation says how far it is in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog import Table, Transaction

Steps = list[tuple[str, int, "int | None"]]
CALLS: dict[str, Callable[..., Any]] = {
    "append": lambda table, **how: table.append(pa.table({"id": [9]}), **how),
    "overwrite": lambda table, **how: table.overwrite(pa.table({"id": [9]}), **how),
    "delete": lambda table, **how: table.delete("id = 1", **how),
    "update": lambda table, **how: table.update({"id": 7}, "id = 1", **how),
    "upsert": lambda table, **how: table.upsert(pa.table({"id": [1]}), "id", **how),
    "optimize": lambda table, **how: table.optimize(**how),
    "clustering": lambda table, **how: table.optimize(zorder_by="id", **how),
    "restore": lambda table, **how: (table.overwrite(pa.table({"id": [9]})), table.restore(1, **how)),
    "clone": lambda table, **how: table.clone(f"{table.uri}-clone", **how),
    "compact_log": lambda table, **how: table.compact_log(**how),
    "vacuum": lambda table, **how: table.vacuum(**how),
    "verify": lambda table, **how: table.verify(**how),
    "report": lambda table, **how: table.report(**how),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    for number in range(4):
        txlog.write(tmp_path / "t", pa.table({"id": [number, number + 10]}))
    return Table.open(tmp_path / "t")


@pytest.mark.parametrize("name", CALLS)
def test_progress_is_a_step_how_much_of_it_is_done_and_the_total(name: str, table: Table) -> None:
    seen: Steps = []
    CALLS[name](table, on_progress=lambda *step: seen.append(step))
    assert seen
    for step, done, total in seen:
        assert isinstance(step, str)
        assert total is None or 0 <= done <= total
    for step in {step for step, _, _ in seen}:
        of_step = [done for each, done, _ in seen if each == step]
        assert of_step[-1] == max(of_step)
        if name == "clustering":
            assert of_step[-1] == next(total for each, _, total in reversed(seen) if each == step)


@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_be_called_is_refused_before_anything_is_done(name: str, table: Table) -> None:
    CALLS[name](table)  # what makes the situation of the call
    version = table.version
    with pytest.raises(txlog.InvalidInputError, match="Invalid on_progress 5"):
        CALLS[name](table, on_progress=5)
    assert Table.open(table.uri).version == version + (name == "restore")  # which overwrites first


def test_a_clustering_says_how_far_it_is_before_it_writes_a_file(table: Table) -> None:
    seen: list[str] = []
    table.optimize(zorder_by="id", on_progress=lambda step, done, total: seen.append(step))
    assert list(dict.fromkeys(seen)) == ["sampling files", "distributing the rows of files", "rewriting bytes"]


def test_every_signature_has_the_same_callback() -> None:
    for owner in (Table, Transaction):
        for name, method in inspect.getmembers(owner, inspect.isroutine):
            parameter = None if name.startswith("_") else inspect.signature(method).parameters.get("on_progress")
            assert parameter is None or parameter.annotation == "OnProgress | None", name
