"""What `verify` says about a table's Iceberg metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from txlog import Table
from txlog.audit.verify import verify_table
from txlog.core.format.log_names import commit_name
from txlog.core.store import open_store
from txlog.result.audits import Finding


@pytest.fixture
def table(tmp_path: Path) -> Table:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    table = Table.create(
        tmp_path / "t", schema, ["part"], properties={"delta.enableDeletionVectors": "true", "txlog.iceberg": "v2"}
    )
    table.append(pa.table({"id": list(range(20)), "part": ["a b", "c"] * 10}))
    table.delete("id = 4")
    table.export_iceberg()
    return table


def findings(table: Table) -> list[Finding]:
    found = verify_table(open_store(table.uri)).findings
    return [finding for finding in found if finding.rule == "iceberg-differs"]


def edit_newest_commit(table: Table, old: str, new: str) -> None:
    path = Path(table.uri) / "_delta_log" / commit_name(table.version)
    body = path.read_text()
    assert old in body
    path.write_text(body.replace(old, new))


def test_an_exported_table_is_sound(table: Table) -> None:
    assert verify_table(open_store(table.uri)).findings == ()


def test_metadata_that_lags_is_a_warning_with_how_far(table: Table) -> None:
    table.unset_properties(["txlog.iceberg"])
    table._open_table.post_commit.drain()
    table.append(pa.table({"id": [99], "part": ["c"]}))
    (finding,) = findings(table)
    assert finding.severity == "warning"
    assert "1 version behind" in finding.message or "2 versions behind" in finding.message


def test_files_and_deleted_rows_that_differ_are_named(table: Table) -> None:
    edit_newest_commit(table, '"cardinality":1', '"cardinality":2')
    messages = [finding.message for finding in findings(table)]
    assert any("deletes 1 row of" in message and "the log 2 rows" in message for message in messages)


def test_metadata_of_another_writer_is_an_error_that_names_the_repair(table: Table) -> None:
    folder = Path(table.uri) / "_iceberg/metadata"
    number = int((folder / "version-hint.text").read_text())
    document = json.loads((folder / f"v{number}.metadata.json").read_text())
    (folder / f"v{number + 1}.metadata.json").write_text(json.dumps(document))
    (finding,) = findings(table)
    assert finding.severity == "error"
    assert finding.path == f"_iceberg/metadata/v{number + 1}.metadata.json"
    assert "rebuild=True" in finding.message


def test_a_live_file_that_another_engine_adds_again_is_exported_once(table: Table) -> None:
    add_newest_file_again(table)
    Table.open(table.uri).export_iceberg()
    assert findings(table) == []


def test_a_file_that_readers_get_twice_is_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    path = add_newest_file_again(table)
    # An exporter that does not look for files that are added again.
    monkeypatch.setattr("txlog.iceberg.metadata.export._Work._live_again", lambda *arguments, **named: set())
    Table.open(table.uri).export_iceberg()
    messages = [finding.message for finding in findings(table)]
    assert len(messages) == 1
    assert f"{path} 2 times, the log only once" in messages[0].replace("%20", " ")


def add_newest_file_again(table: Table) -> str:
    """As another engine may: a live file once more, with dataChange true. Returns its path."""
    table.append(pa.table({"id": [99], "part": ["c"]}))
    table.export_iceberg()
    log = Path(table.uri) / "_delta_log"
    (add,) = (line for line in (log / commit_name(table.version)).read_text().splitlines() if '"add"' in line)
    info = json.dumps({"commitInfo": {"timestamp": 1, "operation": "X", "operationParameters": {}}})
    (log / commit_name(table.version + 1)).write_text(f"{info}\n{add}\n")
    return str(json.loads(add)["add"]["path"])
