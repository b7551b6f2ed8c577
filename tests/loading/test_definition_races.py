"""Changes beside a COPY INTO, which upgrades the protocol."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.core.definition.test_definition_races import UPGRADE_DOES_NOT_CONCERN, _beside, _found, made, require_landing
from txlog.table import Table


def test_an_append_beside_the_first_copy_into_lands(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [2]}), tmp_path / "in" / "a.parquet")
    mine = _beside(pa.table({"id": [1]}), lambda: Table.open(table.uri).copy_into(tmp_path / "in"))
    assert table.append(mine).version == 2
    assert [row["id"] for row in _found(table)] == [1, 2]
    assert Table.open(table.uri).copy_into(tmp_path / "in").files == ()


@pytest.mark.parametrize("change", UPGRADE_DOES_NOT_CONCERN)
def test_a_change_beside_a_copy_into_that_upgrades_the_protocol_lands(change: str, tmp_path: Path) -> None:
    table = made(tmp_path, {})
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [7], "v": [7]}), tmp_path / "in" / "a.parquet")
    require_landing(table, change, lambda other: other.copy_into(tmp_path / "in"), {7: 7})
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == table.snapshot().count()
