"""How much work is left for a change after commits of others: it decides whether that is done inside of a turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.changes.plan import RowOptions, change_locally
from txlog.core.changes.tasks.operations import DeleteSpec
from txlog.core.versions._plan import LITTLE_WORK_S
from txlog.core.writing import UnsentFiles

FILES = 100


class StandingClock(ambient.Ambient):
    """What was measured takes no time, so that what is left is an estimate alone."""

    def monotonic_s(self) -> float:
        return 1.0


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    with ambient.use(StandingClock()):
        yield


def test_the_remaining_work_of_a_change_counts_only_new_files_and_new_vectors(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = txlog.Table.create(str(tmp_path / "t"), schema, properties={"delta.enableDeletionVectors": "true"})
    for number in range(FILES):
        table.append(pa.table({"id": [number, 100, 200]}, schema))
    mine = txlog.Table.open(str(tmp_path / "t"))._open_table
    state = mine.log.newest_state()
    operation = DeleteSpec("id = 100").bind(state)
    change, _ = change_locally(mine, state, operation, RowOptions(), UnsentFiles(mine.store.files), with_vectors=True)
    change.execute(state)
    little_s = change.remaining_work_s(state)
    assert little_s < LITTLE_WORK_S, "all was looked into"
    table.append(pa.table({"id": [300]}, schema))
    assert change.remaining_work_s(mine.log.newest_state()) == little_s, "statistics exclude the new file"
    table.append(pa.table({"id": [100, 101]}, schema))
    one_file_s = change.remaining_work_s(mine.log.newest_state())
    assert little_s < one_file_s < LITTLE_WORK_S
    table.delete("id = 200")
    state = mine.log.newest_state()
    assert change.remaining_work_s(state) > LITTLE_WORK_S, "each file has a vector that was not read"
    change.execute(state)
    assert change.remaining_work_s(state) < LITTLE_WORK_S
