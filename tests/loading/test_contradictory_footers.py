"""Files with a footer that contradicts itself are not added."""

from __future__ import annotations

from pathlib import Path

import pytest

import txlog
from tests.core.format.arrow.test_parquet_footer import SHORT, WHOLE, chunk, parquet, row_group


def test_a_file_with_a_contradictory_footer_is_refused(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "id bigint")
    (tmp_path / "new.parquet").write_bytes(parquet(row_group(WHOLE), row_group(chunk({12: SHORT}))))
    with pytest.raises(txlog.InvalidInputError, match="a bound of column id is shorter than its type"):
        table.add_files(["new.parquet"])
    assert table.version == 0
