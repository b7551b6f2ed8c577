"""Files that are small to store and huge to read are refused, in a process that may not grow.

All the tables are read by one child process with an address space of 4 GiB, which answers with what each raised and
how much memory it held at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog

pytestmark = pytest.mark.hunt(part="large")

ADDRESS_SPACE_BYTES = 4 << 30
RESIDENT_MAX_BYTES = 1_600_000_000

CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
import txlog
answers = {}
for path in sys.argv[2:]:
    try:
        txlog.Table.open(path).snapshot().to_arrow()
    except txlog.TxlogError as error:
        answers[path] = [error.kind, str(error)]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([answers, int(peak.split()[1]) * 1024]))
"""

# --- the bombs ----------------------------------------------------------------------------------------------------


def _dictionary(log: Path) -> str:
    """One value of 64 KiB in each of 16,384 rows: a gigabyte, and some kilobytes on disk."""
    paths = pa.array(["x" * 65_536] * 1024)
    name = _write_checkpoint(log, (_adds(paths) for _ in range(16)))
    assert (log / name).stat().st_size < 200_000
    return name


def _many_rows(log: Path) -> str:
    """Three million rows, all alike, at far less than a byte each."""
    name = _write_checkpoint(log, (_adds(pa.repeat(pa.scalar("p"), 100_000)) for _ in range(30)))
    assert (log / name).stat().st_size < 1_000_000
    return name


def _write_checkpoint(log: Path, adds: Iterable[pa.StructArray]) -> str:
    """A checkpoint that stands in for version 0, which goes."""
    txlog.Table.open(str(log.parent)).create_checkpoint()
    path = log / f"{0:020d}.checkpoint.parquet"
    small = pq.read_table(path).slice(0, 2).select(["protocol", "metaData"])
    schema = small.schema.append(pa.field("add", _adds(pa.array([], pa.string())).type))
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for batch in small.append_column(schema.field("add"), pa.nulls(2, schema.field("add").type)).to_batches():
            writer.write_batch(batch)
        for add in adds:
            empty = [pa.nulls(len(add), field.type) for field in schema if field.name != "add"]
            writer.write_batch(pa.RecordBatch.from_arrays([*empty, add], schema=schema))
    (log / f"{0:020d}.json").unlink()
    (log / f"{1:020d}.json").write_text('{"txn":{"appId":"a","version":1}}\n')
    return path.name


def _adds(paths: pa.Array) -> pa.StructArray:
    sizes = pa.repeat(pa.scalar(1, pa.int64()), len(paths))
    changes = pa.repeat(pa.scalar(True), len(paths))
    names = ["path", "size", "modificationTime", "dataChange"]
    return pa.StructArray.from_arrays([paths, sizes, sizes, changes], names)


def _line(text: Callable[[], str]) -> Callable[[Path], str]:
    """A commit whose second line this is."""

    def written(log: Path) -> str:
        commit = log / f"{1:020d}.json"
        commit.write_text(f'{{"commitInfo":{{}}}}\n{text()}\n{{"txn":{{"appId":"a","version":1}}}}\n')
        return commit.name

    return written


# What each is, how it is laid, and what the error says of it.
BOMBS: dict[str, tuple[Callable[[Path], str], str]] = {
    "a dictionary that makes a gigabyte": (_dictionary, "decodes to more than the limit of"),
    "more rows than bytes": (_many_rows, "claims 3000002 rows, more than the limit of 1000000"),
    "JSON nested 5,000 deep": (_line(lambda: '{"metaData":' * 5000 + "1" + "}" * 5000), "line 2"),
    "3M keys": (_line(lambda: '{"metaData":{' + ",".join(f'"{n}":1' for n in range(3_000_000)) + "}}"), "line 2"),
    "a line of 70 MB": (_line(lambda: '{"metaData":{"id":"' + "x" * (70 << 20) + '"}}'), "limit of 67108864"),
    "2**64": (_line(lambda: '{"txn":{"appId":"a","version":18446744073709551616}}'), "line 2"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple[str, str, str]], int]:
    """What reading each table raised, and the file that is to blame; and the most memory that took, in bytes."""
    root = tmp_path_factory.mktemp("bombs")
    laid = {}
    for number, (name, (lay, _)) in enumerate(BOMBS.items()):
        table = root / str(number)
        txlog.write(str(table), pa.table({"id": [1]}))
        laid[name] = (str(table), lay(table / "_delta_log"))
    command = [sys.executable, "-c", CHILD, str(ADDRESS_SPACE_BYTES), *(table for table, _ in laid.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    raised, peak_bytes = json.loads(done.stdout)
    return {name: (*raised.get(table, ("nothing", "")), file) for name, (table, file) in laid.items()}, peak_bytes


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_the_name_of_its_file(
    name: str, answers: tuple[dict[str, tuple[str, str, str]], int]
) -> None:
    kind, text, file = answers[0][name]
    assert kind == "CorruptLogError"
    assert BOMBS[name][1] in text
    assert file in text


def test_the_bombs_one_after_another_stay_within_memory(
    answers: tuple[dict[str, tuple[str, str, str]], int], record_property: Callable[[str, object], None]
) -> None:
    record_property("measured", f"reading the bombs: {answers[1] / 1e6:.0f} MB resident at most")
    assert answers[1] < RESIDENT_MAX_BYTES
