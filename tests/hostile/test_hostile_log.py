"""Whatever stands in a log, only a TxlogError leaves the library. Longer: `integration/test_hostile_input.py`."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hostile_log
import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import txlog
from txlog.audit.verify import verify_table
from txlog.core.format.commit_file import LogLimits
from txlog.core.store import open_store
from txlog.core.versions.files import DeltaLog


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return hostile_log.build_tables(tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("shape", hostile_log.SHAPES)
def test_every_log_of_these_tests_is_sound_before_it_is_damaged(tables: dict[str, Path], shape: str) -> None:
    table = str(tables[shape])
    rows = txlog.Table.open(table).snapshot().to_arrow()
    assert sorted(rows.column("id").to_pylist()) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert verify_table(open_store(table)).is_sound


@hypothesis.settings(derandomize=True, max_examples=hypothesis.settings.default.max_examples // 2)
@hypothesis.given(rng=st.randoms(use_true_random=False), shape=st.sampled_from(hostile_log.SHAPES))
def test_only_a_txlog_error_comes_out_of_a_damaged_log(tables: dict[str, Path], rng: object, shape: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        table = shutil.copytree(tables[shape], Path(scratch) / "t")
        done = [hostile_log.mutate(table, rng) for _ in range(2)]  # type: ignore[arg-type]
        hypothesis.note(f"{shape}: {done}")
        assert hostile_log.escapes(table) == []


@pytest.mark.parametrize(
    ("limits", "reported"),
    [
        (LogLimits(checkpoint_rows_min=3), "more than the limit of"),
        (LogLimits(checkpoint_memory_min_bytes=-10_000_000), "decodes to more than the limit of"),
        (LogLimits(commit_bytes=100), "more than the limit of 100"),
        (LogLimits(line_bytes=50), "more than the limit of 50"),
    ],
    ids=["rows of a checkpoint", "memory of a checkpoint", "bytes of a commit", "bytes of a line"],
)
def test_a_limit_that_is_passed_names_the_file_and_the_limit(
    tables: dict[str, Path], tmp_path: Path, limits: LogLimits, reported: str
) -> None:
    table = shutil.copytree(tables["classic"], tmp_path / "t")
    checkpoint = table / "_delta_log" / f"{3:020d}.checkpoint.parquet"
    rows = pq.read_table(checkpoint)
    pq.write_table(rows.take([*range(rows.num_rows)] + [0] * 40_000), checkpoint)  # more rows than bytes
    with pytest.raises(txlog.CorruptLogError, match=reported) as caught:
        DeltaLog(open_store(str(table)), limits).newest_state()
    assert caught.value.path is not None


def _empty(table: Path) -> None:
    (table / "_delta_log" / f"{1:020d}.json").write_bytes(b"")


def _torn(table: Path) -> None:
    path = table / "_delta_log" / f"{1:020d}.json"
    path.write_bytes(path.read_bytes()[:40])


def _gone(table: Path) -> None:
    (table / "_delta_log" / f"{1:020d}.json").unlink()


def _without_its_start(table: Path) -> None:
    txlog.Table.open(table).create_checkpoint()
    for path in sorted((table / "_delta_log").glob("*.json"))[:-1]:
        path.unlink()
    next((table / "_delta_log").glob("*.checkpoint.parquet")).write_bytes(b"PAR1")


def _torn_data_file(table: Path) -> None:
    next(table.glob("*.parquet")).write_bytes(b"PAR1")


@pytest.mark.parametrize(
    ("damage", "advised"),
    [
        (_empty, "stop all writers, delete it"),
        (_torn, "stop all writers, delete it"),
        (_gone, "cannot be read until a copy of the file is put back"),
        (_without_its_start, "cannot be read until a copy of the file is put back"),
        (_torn_data_file, "Restore it from a copy, or remove it from the table"),
    ],
)
def test_the_error_for_a_damaged_file_says_what_to_do_and_restoring_a_copy_repairs_it(
    tmp_path: Path, damage: Callable[[Path], None], advised: str
) -> None:
    table = tmp_path / "t"
    written = txlog.Table.create(table, pa.schema([("id", pa.int64())]))
    for number in range(2):
        written.append(pa.table({"id": [number]}))
    written._open_table.post_commit.drain()
    copy = shutil.copytree(table, tmp_path / "copy")
    damage(table)
    for checksum in (table / "_delta_log").glob("*.crc"):
        checksum.unlink()
    with pytest.raises(txlog.CorruptLogError) as caught:
        txlog.Table.open(table).snapshot().to_arrow()
    assert advised in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    for path in [path for path in copy.rglob("*") if path.is_file()]:
        shutil.copy(path, table / path.relative_to(copy))
    assert txlog.Table.open(table).snapshot().to_arrow().num_rows == 2


@pytest.mark.parametrize("body", [b"", b'{"commitInfo":{"ti'])
def test_the_newest_commit_torn_and_deleted_as_advised_leaves_a_table_that_can_be_written(
    tmp_path: Path, body: bytes
) -> None:
    table = tmp_path / "t"
    written = txlog.Table.create(table, pa.schema([("id", pa.int64())]))
    written.append(pa.table({"id": [1]}))
    written._open_table.post_commit.drain()
    (torn := table / "_delta_log" / f"{1:020d}.json").write_bytes(body)
    with pytest.raises(txlog.CorruptLogError, match=r"delete it and the \.crc file of its version, and write its rows"):
        txlog.write(table, pa.table({"id": [2]}))
    torn.unlink()
    torn.with_suffix(".crc").unlink(missing_ok=True)
    assert txlog.write(table, pa.table({"id": [1]})).version == 1
    assert txlog.Table.open(table).snapshot().to_arrow()["id"].to_pylist() == [1]
    assert verify_table(open_store(str(table))).is_sound


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("metaData", {"schemaString": "id long"}),
        ("metaData", {"configuration": {"delta.columnMapping.mode": "name"}}),
        ("metaData", {"configuration": {"delta.columnMapping.mode": "id"}}),
        ("add", {"path": "../../x"}),
    ],
    ids=["a schema that is none", "columns without a name", "columns without an id", "a path that leaves the table"],
)
def test_a_broken_protocol_rule_is_reported_with_the_table_and_verify_names_its_line(
    tmp_path: Path, kind: str, change: dict[str, Any]
) -> None:
    written = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    written.append(pa.table({"id": [1]}))
    written._open_table.post_commit.drain()
    commit = tmp_path / "t" / "_delta_log" / f"{0 if kind == 'metaData' else 1:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    at = next(number for number, line in enumerate(lines) if kind in line)
    lines[at][kind].update(change)
    commit.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for checksum in commit.parent.glob("*.crc"):
        checksum.unlink()
    with pytest.raises(txlog.CorruptLogError) as caught:
        txlog.Table.open(tmp_path / "t").snapshot().to_arrow()
    assert str(caught.value).startswith(f"{tmp_path / 't'} v1: ")
    assert str(caught.value).endswith("run `txlog verify` to find the damaged commit and line")
    found = verify_table(open_store(str(tmp_path / "t"))).findings
    assert (commit.name, at + 1) in [(finding.path, finding.line) for finding in found]
