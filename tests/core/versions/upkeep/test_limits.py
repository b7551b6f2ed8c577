"""What follows a commit reads the log within the same limits as everything else that reads it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.core.format.commit_file import LogLimits
from txlog.core.store import open_store
from txlog.core.versions.files import DeltaLog
from txlog.core.versions.upkeep._log_clean_up import clean_up_log
from txlog.core.versions.upkeep._log_compaction import compact_log
from txlog.errors import CorruptLogError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = pa.table({"id": [1]})
    table = txlog.Table.create(tmp_path / "t", rows.schema)
    for _ in range(3):
        table.append(rows)
    return tmp_path / "t"


def test_a_compaction_refuses_a_commit_beyond_the_limits(path: Path) -> None:
    state = DeltaLog(open_store(path)).newest_state()
    with pytest.raises(CorruptLogError, match="more than the limit of 100"):
        compact_log(DeltaLog(open_store(path), LogLimits(commit_bytes=100)), state)
    assert compact_log(DeltaLog(open_store(path)), state) is not None


def test_versions_are_kept_below_a_checkpoint_beyond_the_limits(path: Path) -> None:
    txlog.Table.open(path).create_checkpoint()
    old_s = time.time() - 90 * 86_400
    for name in path.glob("_delta_log/*.json"):
        os.utime(name, (old_s, old_s))
    state = DeltaLog(open_store(path)).newest_state()
    kept = clean_up_log(DeltaLog(open_store(path), LogLimits(checkpoint_memory_min_bytes=-10_000_000)), state)
    assert kept.names == ()
    assert clean_up_log(DeltaLog(open_store(path)), state).names
