"""The code in the pages works as shown: each block of Python passes mypy --strict. The blocks in the readme and in the
pages on reading, changing and maintaining a table that need no Spark and no cloud run, in order, on a table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

import txlog

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # not those in tabs, which repeat others

# What the text around a block speaks of.
GIVEN = """
from __future__ import annotations
import time
from collections.abc import Callable
from typing import Any
import deltalake, duckdb, polars
import pyarrow as pa
import pyarrow.compute as pc
import txlog
import txlog.spark
table = txlog.Table.open("t")
sink = txlog.Sink(table, "app")
path = uri = checkpoints = "t"
app_id, checkpoint_id, task_id, attempt, offset, topic, partition = "app", 1, 0, 0, 0, "orders", 0
write_one_source: Callable[[Any], Any]; sources: list[Any]
df: Any; events: Any; data: Any; batch: Any; batches: Any; wider: Any; rows: Any; spark: Any
changes: Any; corrections: Any; customers: Any; new_orders: Any; prices: Any; add_one: Any; stream: Any; schema: Any
load_position: Callable[[], int]; handle: Callable[[pa.Table], None]; save_position: Callable[[int], None]
adjusted: Callable[[pa.Table], pa.Table]; deleted: Any; report: Any; found: Any
"""


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text())


def test_every_block_of_python_passes_a_strict_type_checker(tmp_path: Path) -> None:
    for page in PAGES:
        for number, block in enumerate(blocks(page)):
            name = page.replace("/", "_").removesuffix(".md")
            (tmp_path / f"{name}_{number}.py").write_text(GIVEN + block)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) >= 15
    checker = ["mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports", "--no-error-summary"]
    command = [sys.executable, "-m", *checker, *names]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_readmes_python_runs_from_its_first_table_to_its_last_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text()
    text = text[text.index("## Append from Python") : text.index("## What is guaranteed")]
    day = "2026-11-20"
    data = pa.table({"id": [1, 2], "day": [day, "2026-11-21"], "amount": [150.0, 3.0]})
    names = {
        "data": data,
        "batch": data.slice(0, 1),
        "batches": data.to_batches(),
        "rows": data.slice(0, 1).append_column("note", pa.array(["a"])),
        "wider": data.append_column("note", pa.array(["a", "b"])),
        "adjusted": lambda late: late.slice(0, 1),
        "uri": str(tmp_path / "orders"),
        "polars": polars,
        "duckdb": duckdb,
        "checkpoint_id": 18,
        "task_id": 0,
        "attempt": 0,
    }
    for folder in ("events", "landing/orders"):
        (tmp_path / folder).mkdir(parents=True)
        pa.parquet.write_table(data, tmp_path / folder / "1.parquet")
    outcomes = []
    for block in BLOCK.findall(text):
        program = block.replace("s3://bucket", str(tmp_path)).replace('"/data/', f'"{tmp_path}/data-')
        program = re.sub(
            r"^sink\.prepare\(checkpoint_id, .*$", "sink.prepare(checkpoint_id, {0: 0})", program, flags=re.M
        )
        program = re.sub(r"^txlog\.spark\.read\(.*$", "", program, flags=re.M)
        program = program.replace("polars.read_delta(uri)", "").replace('spark.read.format("delta").load(uri)', "")
        program = program.replace(f"{tmp_path}/shared", f"{tmp_path}/orders")
        # This table has fewer versions.
        program = program.replace("version=41", "version=table.version")
        exec(compile("import deltalake\n" + program, "README.md", "exec"), names)
        outcomes.append(block.splitlines()[0])
    assert len(outcomes) == 7
    assert "WriteResult(version=1, committed, 2 rows, 2 files" in capsys.readouterr().out
    sink = names["sink"]
    assert isinstance(sink, txlog.Sink)
    assert sink.last_checkpoint_id() == 18


PAGES_ON_A_TABLE = ["keep-fast", "read", "follow-changes", "go-back", "change-rows", "delete-for-good", "iceberg"]


@pytest.mark.parametrize("page", PAGES_ON_A_TABLE)
def test_the_pages_python_runs_from_the_first_block_to_the_last(page: str, tmp_path: Path) -> None:
    days = ["2026-11-20", "2026-11-21"]
    numbers = {name: pa.int64() for name in ("id", "customer", "sku", "time", "changes")}
    flags = {name: pa.bool_() for name in ("seen", "checked")}
    others = {"day": pa.string(), "status": pa.string(), "amount": pa.float64(), "price": pa.float64()}
    schema = pa.schema({**numbers, **flags, **others})
    rows = pa.Table.from_pylist([{"id": number, "day": days[number % 2]} for number in range(4)], schema=schema)
    feed = {"delta.enableChangeDataFeed": str(page == "follow-changes").lower()}
    table = txlog.Table.create(tmp_path / "orders", schema, partition_by=["day"], properties=feed)
    while table.version < 45:
        table.append(rows)
    saved: list[int] = []
    names: dict[str, Any] = {
        **{"table": table, "snapshot": table.snapshot(), "txlog": txlog, "duckdb": duckdb, "polars": polars},
        **{"rows": rows, "prices": rows.slice(0, 1).select(["sku", "price"]), "corrections": rows, "stream": [rows]},
        **{"changes": rows.append_column("op", pa.array(["d", "u", "u", "u"])), "add_one": lambda read: read},
        **{"load_position": lambda: 44, "handle": lambda changes: None, "save_position": saved.append},
    }
    names["prices"] = names["prices"].set_column(0, "sku", pa.array([7], pa.int64()))
    run = 0
    for block in BLOCK.findall((ROOT / f"docs/{page}.md").read_text()):
        if any(word in block for word in ("spark", "Table.create", "customers")):  # of another table
            continue
        program = block.replace("s3://bucket", str(tmp_path)).replace("2026-11-20T18:30:00Z", "2999-01-01")
        program = program.replace("while True:", "for _ in range(2):").replace("time.sleep(5)", "pass")
        exec(compile(program, f"{page}.md", "exec"), names)
        run += 1
    assert run >= {"follow-changes": 1, "go-back": 3}.get(page, 2)
    assert txlog.Table.open(table.uri).to_arrow().num_columns == len(schema)
    assert saved == ([46] if page == "follow-changes" else [])
