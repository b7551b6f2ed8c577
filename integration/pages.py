"""The pages' blocks of Python, and what the text around them speaks of: tables, rows, frames of Spark.

In: a page. Out: the names that its blocks left, after all of them ran from top to bottom in one process. Where the page
says what a block prints, it must have printed that.
"""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r'^```python\n(.*?)^```$(?:\n\n```text title="Output"\n(.*?)^```$)?', re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return [code for code, _ in _BLOCK.findall((ROOT / page).read_text())]


def tab(page: str, title: str) -> str:
    """The block of Python in a tab of a page; tests run these where their packages are."""
    found = re.search(
        rf'^=== "{re.escape(title)}"\n\n    ```python\n(.*?)^    ```$', (ROOT / page).read_text(), re.M | re.S
    )
    assert found, f"{page} has no tab {title} with a block of Python"
    return textwrap.dedent(found[1])


def pages_that_run(*, with_spark: bool) -> list[str]:
    """The pages with blocks that run in this process: those that use Spark, or the others."""
    return [page for page in PAGES if blocks(page) and page not in ELSEWHERE and _needs_spark(page) == with_spark]


def _needs_spark(page: str) -> bool:
    return any(re.search(r"\b(spark|df)\b|writeStream|readStream", block) for block in blocks(page))


def run_page(page: str, folder: Path, spark: SparkSession | None = None) -> dict[str, Any]:
    """Run every block of a page, with the cloud's buckets and other folders inside ``folder``.

    A page with Spark gets the session, frames and streams; streams that its blocks start are ended after the block.

    Raises:
        Exception: Whatever a block raises.
        AssertionError: A block printed something else than the page says.
    """
    given = BEFORE.get(page, {})
    names: dict[str, Any] = {
        "folder": folder,
        "uri": str(folder / "new"),
        "path": str(folder / "orders"),
        "spark": spark,
    }
    _run(ALWAYS, page, folder, names)
    if page not in WITHOUT_A_TABLE:
        _run(ORDERS, page, folder, names)
    if spark is not None:
        _run(FRAMES, page, folder, names)
    for number, (code, output) in enumerate(_BLOCK.findall((ROOT / page).read_text())):
        _run(given.get(number, ""), page, folder, names)
        printed = _run(code, f"{page}, block {number}", folder, names)
        assert not output or printed == output, f"{page}, block {number}"
        for query in () if spark is None else spark.streams.active:
            query.processAllAvailable()
            query.stop()
    if spark is not None:
        spark.catalog.dropTempView("orders")  # of docs/read.md; other tests make tables of this name
    return names


def _run(code: str, name: str, folder: Path, names: dict[str, Any]) -> str:
    if "FaultyS3" not in code:  # which serves the bucket
        said = "|".join(map(re.escape, INSTEAD))
        code = re.sub(said, lambda found: INSTEAD[found[0]].replace("FOLDER", str(folder)), code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), names)
    return printed.getvalue()


INSTEAD = {
    **dict.fromkeys(("s3a://bucket", "s3://bucket"), "FOLDER"),
    **{f"s3://{bucket}": f"FOLDER/{bucket}" for bucket in ("backup", "lake", "landing")},
    **{f'"{place}/': '"FOLDER/' for place in ("/data", "/checkpoints", "/tmp")},
    **dict.fromkeys(
        ("2026-11-20T18:30:00Z", "2026-11-20T12:00:00Z", "2026-11-20 12:00", "2026-11-21T12:00:00Z"), "2999-01-01"
    ),
    'from_timestamp="2026-11-20"': 'from_timestamp="2020-01-01"',
    "while True:": "for _ in range(2):",
    "time.sleep(5)": "pass",
    "{0: 0, 1: 2}": "{0: 0}",  # one task ran
}
"""What a block says, and what runs here."""

ELSEWHERE = {
    "docs/managed-tables.md": "with the stand-in of a server: tests/unity/test_managed_page.py",
    "docs/mirror.md": "with a PostgreSQL server: test_mirror",
    "docs/sail.md": "a process has one kind of session: test_pages starts one",
    "docs/tutorial.md": "a notebook: test_pages runs its cells",
}

WITHOUT_A_TABLE = {
    "README.md",
    "docs/append.md",
    "docs/follow-changes.md",
    "docs/index.md",
    "docs/start.md",
    "docs/testing.md",
}

ALWAYS = """
import os, time
os.chdir(folder)
import deltalake, duckdb, polars
import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
import txlog, txlog.spark
checkpoint_id, task_id, attempt = 18, 0, 0
checkpoints = str(folder / "checkpoints")
numbers = {name: pa.int64() for name in ("id", "customer", "sku", "time", "changes")}
flags = {name: pa.bool_() for name in ("seen", "checked")}
others = {"day": pa.string(), "status": pa.string(), "country": pa.string(), "amount": pa.float64(),
          "price": pa.float64(), "limit": pa.float64()}
schema = pa.schema({**numbers, **flags, **others})
some = [{"id": n, "day": f"2026-11-2{n % 2}", "amount": 150.0, "limit": 100.0, "country": "de"} for n in range(4)]
rows = pa.Table.from_pylist(some, schema=schema)
data = rows.select(["id", "day", "amount"])
batch, batches = data, data.to_batches()
wider = data.append_column("note", pa.array(["a"] * 4))
changes = rows.append_column("op", pa.array(["d", "u", "u", "u"]))
corrections, stream, add_one = rows, [rows], lambda read: read
friday = data.filter(pc.field("day") == "2026-11-20")
adjusted = lambda late: late.slice(0, 1)
"""

ORDERS = """
table = txlog.Table.create("s3://bucket/orders", schema, partition_by=["day"])
while table.version < 45:
    table.append(rows)
prices = pa.table({"sku": [7], "price": [1.5]})
"""

FRAMES = """
frame = spark.createDataFrame(rows)
frame.where("id = 3").write.parquet(str(folder / "landed"))
df = spark.createDataFrame(data)
"""

_STAGED_FOR_TWO_TABLES = """
for sink, tasks in ((orders, 8), (lines, 2)):
    for number in range(tasks):
        with sink.task(17, number) as task:
            task.write(pa.table({"id": [number]}))
        sink.stage(task.committable)
offsets = "17"
"""
BEFORE: dict[str, dict[int, str]] = {
    "docs/sinks.md": {
        3: "orders_table, lines_table = (txlog.Table.create(folder / each, 'id bigint') for each in 'ab')",
        4: _STAGED_FOR_TWO_TABLES,
    },
    "README.md": {
        1: "rows = data.slice(0, 1).append_column('note', pa.array(['a']))",
        3: 'events = spark.readStream.schema(df.schema).parquet(str(folder / "landed"))',
        4: "uri = path",
        5: "while table.version < 45: table.append(rows)",
    },
    "docs/change-columns.md": {2: "table.add_columns('tags array<int>')"},
    "docs/change-rows.md": {
        6: """
orders, table = table, txlog.Table.create("s3://bucket/customers",
    "id bigint, city string, valid_from date, valid_to date, is_current boolean")
customers = pa.table({"id": [1], "city": ["Rome"]})
""",
        7: "table = orders",
        9: """
new_orders = spark.createDataFrame(rows.slice(0, 1))
changes = spark.createDataFrame(changes.slice(0, 1))
uri = path
""",
    },
    "docs/append.md": {1: "table.add_columns('customer bigint')"},
    "docs/clone-and-convert.md": {
        2: """
(folder / "events/day=2026-11-20/region=eu").mkdir(parents=True)
pq.write_table(data, folder / "events/day=2026-11-20/region=eu/1.parquet")
""",
        3: """
import shutil
from pyiceberg.catalog.memory import InMemoryCatalog
catalog = InMemoryCatalog("catalog", warehouse=str(folder / "lake"))
catalog.create_namespace("lake")
iceberg = catalog.create_table("lake.orders", data.schema, location=str(folder / "lake/orders"))
iceberg.append(data)
last = iceberg.metadata_location.removeprefix("file://")
shutil.copy(last, folder / "lake/orders/metadata/00042-6f1c.metadata.json")
""",
        4: """
for name in ("landing/orders", "in/2026-11"):
    (folder / name).mkdir(parents=True)
pq.write_table(rows, folder / "landing/orders/1.parquet")
pq.write_table(rows, folder / "in/1.parquet")
""",
    },
    "docs/expressions.md": {
        0: "table = txlog.Table.create(uri, 'id bigint, day date, country string, amount double, limit double')"
    },
    "docs/follow-changes.md": {
        1: "while table.version < 45: table.append(rows)",
        3: """
saved = []
load_position, handle, save_position = lambda: 44, lambda changes: None, saved.append
""",
    },
    "docs/generated-columns.md": {
        0: """
import datetime
rows = pa.table({"id": [1], "at": [datetime.datetime(2026, 11, 20, 9, tzinfo=datetime.timezone.utc)]})
""",
        1: 'uri, rows = str(folder / "numbered"), pa.table({"customer": ["Ada"]})',
    },
    "docs/integrations.md": {
        0: """
import dask.dataframe
frame = dask.dataframe.from_pandas(data.to_pandas(), npartitions=2)
table = txlog.Table.create("s3://bucket/frames", data.schema)
""",
    },
    "docs/keep-fast.md": {
        1: """
nested = schema.append(pa.field("place", pa.struct({"city": pa.string()})))
schema, rows = nested, pa.Table.from_pylist(some, schema=nested)
""",
    },
    "docs/merge-engines.md": {
        1: """
table = txlog.Table.create(uri, "id bigint, ts bigint", properties={"delta.enableDeletionVectors": "true",
    "txlog.merge-engine": "deduplicate", "txlog.sequence.field": "ts"})
""",
        2: """
sold = spark.createDataFrame([(1, 23.0, 5, "+I")], "product bigint, price double, sold bigint, op string")
sold.write.parquet(str(folder / "sold"))
changes = spark.readStream.schema(sold.schema).parquet(str(folder / "sold"))
""",
    },
    "docs/spark-batch.md": {
        0: """
path = str(folder / "daily")
df = spark.createDataFrame([(1, "2026-11-20", "eu")], "id bigint, day string, region string")
""",
        1: 'df = spark.createDataFrame([("one",)], "id string")',
    },
    "docs/spark.md": {
        0: """
df = spark.readStream.schema(frame.schema).parquet(str(folder / "landed"))
""",
        2: """
txlog.Table.create("s3://bucket/customers", "id bigint, name string")
row = "struct<id bigint, name string>"
debezium = f"op string, source struct<lsn bigint>, before {row}, after {row}"
change = spark.createDataFrame([("c", (1,), None, (7, "Ada"))], debezium)
change.write.parquet(str(folder / "debezium"))
events = spark.readStream.schema(debezium).parquet(str(folder / "debezium"))
""",
        7: """
checkpoints = str(folder / "checkpoints-countries")
txlog.Table.create("s3://bucket/countries", "country string, count bigint")
""",
        8: """
df = spark.createDataFrame(data)
uri, changes, batches = path, spark.createDataFrame(rows), [df, df]
""",
        9: 'path = str(folder / "from-threads")',
    },
    "docs/several-writers.md": {0: "table = txlog.Table.create('s3://bucket/shared', data.schema)"},
    "docs/stream-changes.md": {0: "changes = changes.append_column('ts', pa.array([1, 2, 3, 4]))"},
}
"""By page and number of a block: what the text before the block speaks of."""
