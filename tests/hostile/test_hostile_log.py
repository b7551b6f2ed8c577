"""Whatever stands in a log, only a TxlogError leaves the library. Longer: `integration/test_hostile_input.py`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hostile_log
import hypothesis
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import txlog
from txlog.delta_log import DeltaLog
from txlog.maintenance.verify import verify_table
from txlog.protocol.commit_file import Limits
from txlog.store.open import open_store


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return hostile_log.build_tables(tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("shape", hostile_log.SHAPES)
def test_every_shape_of_log_is_whole_before_it_is_damaged(tables: dict[str, Path], shape: str) -> None:
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
    ("limits", "said"),
    [
        (Limits(checkpoint_rows_min=3), "more than the limit of"),
        (Limits(checkpoint_memory_min_bytes=-10_000_000), "decodes to more than the limit of"),
        (Limits(commit_bytes=100), "more than the limit of 100"),
        (Limits(line_bytes=50), "more than the limit of 50"),
    ],
    ids=["rows of a checkpoint", "memory of a checkpoint", "bytes of a commit", "bytes of a line"],
)
def test_a_limit_that_is_passed_names_the_file_and_the_limit(
    tables: dict[str, Path], tmp_path: Path, limits: Limits, said: str
) -> None:
    table = shutil.copytree(tables["classic"], tmp_path / "t")
    checkpoint = table / "_delta_log" / f"{3:020d}.checkpoint.parquet"
    rows = pq.read_table(checkpoint)
    pq.write_table(rows.take([*range(rows.num_rows)] + [0] * 40_000), checkpoint)  # more rows than bytes
    with pytest.raises(txlog.CorruptLogError, match=said) as caught:
        DeltaLog(open_store(str(table)), limits).head()
    assert caught.value.path is not None
