"""A writer whose table was made again, or put back to an older state, since it was opened."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.writes import write_batch
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome
from txlog.core.versions._open_table import OpenTable
from txlog.errors import CorruptLogError
from txlog.result import WriteResult
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def append(open_table: OpenTable, **options: Any) -> WriteResult:
    return write_batch(open_table, ROWS, WriteOptions(create=True, **options))


def test_commits_of_a_table_recreated_during_our_put_are_not_taken_for_winners(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    def made_anew(real: Any, name: str, body: bytes) -> PutOutcome:
        scripted_log.inner.objects.clear()
        clock.elapsed_s += 1
        other = open_handle()
        for _ in range(4):
            append(other)
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [made_anew]
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        append(table)
    assert Table(open_handle()).snapshot().version == 3


def test_a_table_restored_from_an_older_copy_under_an_open_handle_is_an_error(
    table: OpenTable, scripted_log: Any, clock: Any
) -> None:
    """As of a copy that was put in its place: what was acknowledged since is gone, and nothing is built on that."""
    append(table)
    del scripted_log.inner.objects[commit_name(2)]
    clock.elapsed_s += 7200
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        append(table)
    assert commit_name(2) not in scripted_log.inner.objects
