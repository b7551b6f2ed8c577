"""A verification of many files: each is counted and compared, some are named, and little is kept of one."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.audit.live_files import LiveFile, LiveFileSet
from txlog.audit.verify import DATA_FILES_MAX, EXAMPLES_MAX, verify_table
from txlog.core.store import open_store
from txlog.core.versions.upkeep._version_checksum import write_checksum
from txlog.result.audits import Finding

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])
FILES = DATA_FILES_MAX + 50


def add(number: int, **changes: Any) -> dict[str, Any]:
    found = {"path": f"f{number}", "partitionValues": {"day": "mon"}, "size": 5, "modificationTime": 1}
    return {"add": {**found, "dataChange": True, **changes}}


def commit(table: txlog.Table, version: int, lines: list[dict[str, Any]]) -> Path:
    path = Path(table.uri, "_delta_log", f"{version:020}.json")
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """Files by the thousand, of which none exists; a checkpoint holds them."""
    made = txlog.Table.create(tmp_path / "t", SCHEMA, ("day",))
    commit(made, 1, [{"commitInfo": {}}, *(add(number) for number in range(FILES))])
    made.create_checkpoint()
    return made


def verified(table: txlog.Table, **options: Any) -> list[Finding]:
    return list(verify_table(open_store(table.uri), **options).findings)


def test_each_step_reports_its_progress(table: txlog.Table) -> None:
    reported: dict[str, list[tuple[int, int]]] = {}
    verified(table, on_progress=lambda what, done, total: reported.setdefault(what, []).append((done, total)))
    assert reported.keys() == {"commits", "checkpoint 1", "data files"}
    assert reported["commits"] == [(1, 2), (2, 2)]
    assert reported["checkpoint 1"][-1] == reported["data files"][-1] == (FILES, FILES)


def test_many_missing_data_files_are_counted_and_some_are_named(table: txlog.Table) -> None:
    findings = verified(table)
    assert len(findings) == DATA_FILES_MAX + 1
    assert {finding.path for finding in findings[:-1]} == {f"f{number}" for number in range(DATA_FILES_MAX)}
    assert (findings[-1].rule, findings[-1].message) == ("missing-file", "and 50 more data files")


def test_of_many_breaches_of_one_rule_the_first_are_named_with_their_lines(table: txlog.Table) -> None:
    lines = [{"commitInfo": {}}, add(-1), *(add(10_000 + number, partitionValues={}) for number in range(100))]
    path = commit(table, 2, lines)
    path.write_text(path.read_text().replace("\n", "\n\n", 1))
    findings = verified(table, data_files=False)
    assert [finding.line for finding in findings] == [number + 4 for number in range(EXAMPLES_MAX)]
    assert {finding.rule for finding in findings} == {"wrong-partition-values"}
    assert findings[-1].message.endswith("; and 80 more")


def test_a_broken_line_of_a_file_is_named_in_a_large_commit(table: txlog.Table) -> None:
    lines = [json.dumps(add(20_000 + number)) for number in range(500)]
    lines[321] = lines[321].replace('"size": 5', '"size": "five"')
    Path(table.uri, "_delta_log", f"{2:020}.json").write_text("\n".join(lines) + "\n")
    (finding,) = verified(table)
    assert (finding.rule, finding.where) == ("corrupt-commit", f"{2:020}.json:322")


def test_a_checkpoint_that_lacks_or_repeats_files_is_found(table: txlog.Table) -> None:
    Path(table.uri, "_delta_log", f"{1:020}.crc").unlink()  # it would show that, too
    commit(table, 1, [{"commitInfo": {}}, *(add(number) for number in range(FILES + 30)), add(0, path="%66%30x")])
    findings = verified(table, data_files=False)
    assert [finding.message for finding in findings[:2]] == [f"it lacks f{FILES}", f"it lacks f{FILES + 1}"]
    assert len(findings) == EXAMPLES_MAX + 1
    assert findings[-1].message == "and 11 differences more"


def test_partition_values_of_a_mapped_table_go_by_physical_names(tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}
    table = txlog.Table.create(tmp_path / "t", SCHEMA, ("day",), properties)
    table.append(pa.table({"id": [1], "day": ["mon"]}))
    assert verified(table) == []
    commit(table, 2, [add(1)])
    (finding,) = verified(table, data_files=False)
    assert (finding.rule, finding.line) == ("wrong-partition-values", 1)
    physical = [key for key, _ in table.snapshot(1).files().to_pylist()[0]["partitionValues"]]
    assert physical != ["day"]
    assert finding.message == f"f1 has values of day; partitioned by {physical[0]}"


# --- checksum files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({}, []),
        ({"numFiles": 7}, [f"it counts 7 files of {FILES * 5:,} bytes, and the log has {FILES:,} of {FILES * 5:,}"]),
        ({"tableSizeBytes": 7}, [f"it counts {FILES:,} files of 7 bytes, and the log has {FILES:,} of {FILES * 5:,}"]),
        ({"setTransactions": [{"appId": "a", "version": 4}]}, ["application 'a' is at 4, but in the log at None"]),
        ({"domainMetadata": [{"domain": "d", "configuration": "", "removed": False}]},
         ["its domain metadata differs from the log's"]),
        ({"domainMetadata": None, "setTransactions": None}, []),
    ],
)  # fmt: skip
def test_a_checksum_file_is_held_against_the_log(
    table: txlog.Table, changes: dict[str, Any], messages: list[str]
) -> None:
    assert write_checksum(table._open_table.log, table._open_table.log.newest_state())
    path = Path(table.uri, "_delta_log", f"{1:020}.crc")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    findings = verified(table, data_files=False)
    assert [(finding.rule, finding.message, finding.where) for finding in findings] == [
        ("checksum-differs", message, path.name) for message in messages
    ]


def test_an_unreadable_checksum_file_is_only_a_warning(table: txlog.Table) -> None:
    Path(table.uri, "_delta_log", f"{1:020}.crc").write_text("{")
    verification = verify_table(open_store(table.uri), data_files=False)
    assert [(finding.rule, finding.severity) for finding in verification.findings] == [("bad-checksum", "warning")]
    assert verification.is_sound


# --- what is kept of a file -------------------------------------------------------------------------------------------

keys = st.tuples(st.sampled_from(["a", "b", "c%20d", "e"]), st.sampled_from([None, "v1", "v2"]))
entries = st.tuples(st.sampled_from(["a", "b", "c d", "e"]), st.integers(0, 2**63 - 1), st.sampled_from(["x", None]))


@given(st.lists(st.tuples(keys, st.none() | entries), max_size=30))
def test_live_files_behave_like_a_dictionary(steps: list[tuple[Any, Any]]) -> None:
    files = LiveFileSet()
    model: dict[Any, LiveFile] = {}
    for version, (key, entry) in enumerate(steps):
        if entry is None:
            assert files.remove(key) == (model.pop(key, None) is not None)
        else:
            path, size, day = entry
            files.add(key, path, size, {"p": "1", "day": day}, version)
            model[key] = LiveFile(path, size, (("day", day), ("p", "1")), version)
        assert (len(files), files.size_bytes) == (len(model), sum(file.size for file in model.values()))
    assert sorted(files, key=repr) == sorted(model.values(), key=repr)
    for key, _ in steps:
        slot, live = files.slot(key), model.get(key)
        assert (slot is None) == (live is None)
        if slot is not None and live is not None:
            assert files.holds(slot, live.size, live.partition)
            assert not files.holds(slot, live.size ^ 1, live.partition)
            assert not files.holds(slot, live.size, (("day", "y"), ("p", "1")))
    seen = bytearray(files.slots)
    for key in [*model][::2]:
        slot = files.slot(key)
        assert slot is not None
        assert not seen[slot], "no two share a slot"
        seen[slot] = 1
    assert sorted(files.without(seen), key=repr) == sorted([*model.values()][1::2], key=repr) or len(model) == 0


def test_a_live_file_costs_little_more_than_its_path() -> None:
    number, length = 20_000, 100
    tracemalloc.start()
    files = LiveFileSet()
    for each in range(number):
        path = f"{each:0{length}}"
        files.add((path, None), path, 10**9 + each, {"day": str(each % 50)}, each)
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes / number < length + 250
