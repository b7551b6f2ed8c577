"""Damaged and malicious Parquet data files, read by a child process that may not grow: errors of ours, and no crash.

The size of a batch is not bounded: up to 131,072 rows, each as long as the file makes it. In a process without its own
limit, such a file takes all memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fuzz
import hostile_data
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.actions import AddFile

BUDGET_S = fuzz.budget_s(6)
PER_CHILD = 100


@pytest.mark.hunt(part="damage")
def test_no_damage_to_a_data_file_crashes_a_reader_or_lets_anything_but_a_txlog_error_escape(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    root = tmp_path / "tables"
    hostile_data.build_tables(root)
    journal = tmp_path / "journal"
    tried = 0
    for printed in fuzz.children(hostile_data.__file__, root, journal, budget=BUDGET_S, per_child=PER_CHILD):
        assert printed == "", f"the seeds repeat it: {printed[:4000]}"
        tried += PER_CHILD
    record_property("measured", f"damaged data files: {tried} in {BUDGET_S:.0f} s")


# What the file is, what of it is read, and the error.
BOMBS: dict[str, tuple[Callable[[Path], object], str, str, str]] = {
    "an eighth of a million rows of 64 KiB": (
        hostile_data.dictionary,
        "list(snapshot.to_batches())",
        "StorageError",
        "not enough memory for the rows of a data file",
    ),
    "half a million groups, one in the other": (
        lambda path: path.write_bytes(hostile_data.footer(500_000, 5)),
        "snapshot.to_arrow()",
        "CorruptLogError",
        "too deeply nested",
    ),
    "2**62 rows, of which no column is read": (
        lambda path: path.write_bytes(hostile_data.footer(0, 1 << 62)),
        "snapshot.to_arrow(columns=[])",
        "CorruptLogError",
        "claims 4611686018427387904 rows, more than the limit of",
    ),
    "fewer than no rows": (
        lambda path: path.write_bytes(hostile_data.footer(0, -1)),
        "snapshot.to_arrow(columns=[])",
        "CorruptLogError",
        "a data file",
    ),
}
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2048 << 20,) * 2)
import txlog
snapshot = txlog.Table.open(sys.argv[1]).snapshot()
try:
    print("answer:", eval(sys.argv[2]))
except txlog.TxlogError as error:
    print(error.kind, error)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_raises_a_txlog_error_under_a_memory_limit(tmp_path: Path, name: str) -> None:
    lay, expression, kind, reported = BOMBS[name]
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.string())]))
    file = tmp_path / "t" / "part.parquet"
    lay(file)
    assert file.stat().st_size < 5_000_000
    with table.transaction() as transaction:
        transaction.add(
            AddFile("part.parquet", {}, size=file.stat().st_size, modification_time=1, data_change=True, stats=None)
        )
    command = [sys.executable, "-c", READ, str(table.uri), expression]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(f"{kind} {table.uri} v1: "), done.stdout
    assert reported in done.stdout
