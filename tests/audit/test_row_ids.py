"""Row ids that a table promises and does not have, that two rows have, or that new rows would get again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.store import open_store
from txlog.result.audits import Finding
from txlog.table import Table

ON = {"delta.enableRowTracking": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", "id bigint", properties=ON)
    for start in (0, 3):
        table.append(pa.table({"id": [start, start + 1, start + 2]}))
    return table


def findings(table: Table) -> tuple[Finding, ...]:
    return verify_table(open_store(table.uri)).findings


def add_again(table: Table, **changed: Any) -> str:
    """Add the last file again, as changed; returns its path."""
    log = Path(table.uri, "_delta_log")
    lines = [json.loads(line) for line in (log / f"{2:020}.json").read_text().splitlines()]
    (add,) = (line["add"] for line in lines if "add" in line)
    add = {key: value for key, value in {**add, "dataChange": False, **changed}.items() if value is not None}
    lines = [{"commitInfo": {"operation": "COMPUTE STATS"}}, {"add": add}]
    (log / f"{3:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    path: str = add["path"]
    return path


def test_a_table_whose_rows_have_their_own_ids_is_sound(table: Table) -> None:
    table.append(pa.table({"id": pa.array([], pa.int64())}))
    table.update({"id": txlog.expr("id + 10")}, "id > 1")
    table.optimize()
    assert findings(table) == ()


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"baseRowId": None}, "row-ids-missing"),
        ({"defaultRowCommitVersion": None}, "row-ids-missing"),
        ({"baseRowId": 2}, "row-ids-shared"),
        ({"baseRowId": 0}, "row-ids-shared"),
        ({"baseRowId": 4}, "row-ids-above-mark"),
    ],
)
def test_row_ids_that_are_missing_shared_or_not_counted_are_found(
    table: Table, changed: dict[str, Any], rule: str
) -> None:
    path = add_again(table, **changed)
    (finding,) = findings(table)
    assert (finding.rule, finding.version, finding.severity) == (rule, 3, "error")
    assert (finding.path == path) or (rule == "row-ids-shared" and path in finding.message)
    assert "drop the feature rowTracking" in finding.message


def test_the_cure_that_the_finding_names_makes_the_table_sound(table: Table) -> None:
    add_again(table, baseRowId=0)
    table = Table.open(table.uri)
    table.drop_feature("rowTracking")
    table.set_properties(ON)
    assert findings(table) == ()


def test_a_high_water_mark_that_cannot_be_read_is_found(table: Table) -> None:
    log = Path(table.uri, "_delta_log")
    domain = {"domain": "delta.rowTracking", "configuration": "{}", "removed": False}
    lines = [{"commitInfo": {"operation": "X"}}, {"domainMetadata": domain}]
    (log / f"{3:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (finding,) = findings(table)
    assert (finding.rule, "no high-water mark" in finding.message) == ("row-ids-above-mark", True)


def test_files_without_ids_are_sound_while_nothing_promises_ids(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    table.append(pa.table({"id": [1]}))
    table.set_properties({"delta.feature.rowTracking": "supported"})
    table.append(pa.table({"id": [2]}))
    assert findings(table) == ()


def test_a_writer_beside_a_check_raises_no_alarm(table: Table) -> None:
    appended: list[int | None] = []

    def append(what: str, done: int, total: int) -> None:
        if what == "data files" and not appended:  # after the log was read, before the ids are looked at
            appended.append(table.append(pa.table({"id": [7, 8]})).version)

    before = table.version
    found = verify_table(open_store(table.uri), on_progress=append)
    assert (found.findings, found.version) == ((), before)
    assert appended == [before + 1]
    assert findings(table) == ()
