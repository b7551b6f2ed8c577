"""Delta's Java kernel and its catalog client on the same managed tables, through the same server: it reads what txlog
writes, published or not, and txlog reads what it commits.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE

import pyarrow as pa
import pytest
from java_home import java_home
from spark_fixtures import SHORT_LIVED
from spark_jars import kernel_jars

import txlog
from txlog.testing.unity_server import UnityServer

NAME = "main.s.t"
PROGRAM = Path(__file__).with_name("ManagedTable.java")

Kernel = Callable[..., list[int]]


@pytest.fixture(scope="session")
def class_path() -> str:
    """The kernel's jars, from Maven, and those of pyspark."""
    pyspark = pytest.importorskip("pyspark")
    folder, missing = kernel_jars()
    if missing:
        pytest.skip(f"NOT TESTED: with Delta's Java kernel: {missing[0].name} cannot be fetched")
    of_spark = Path(pyspark.__file__).parent / "jars"
    return f"{folder}/*:{of_spark}/*"


@pytest.fixture(scope="session")
def ask(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Asks one process of the program, which starts while the first test makes its table."""
    errors = tmp_path_factory.mktemp("kernel") / "stderr"
    command = [f"{java_home()}/bin/java", *SHORT_LIVED.split(), "-cp", class_path, str(PROGRAM)]
    with errors.open("w") as stderr:
        process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=stderr, encoding="utf-8")
    assert process.stdin is not None
    assert process.stdout is not None
    questions, answers = process.stdin, process.stdout

    def answer(*values: str) -> str:
        with suppress(BrokenPipeError):  # the process has ended, and has no answer either
            questions.write("\t".join(values) + "\n")
            questions.flush()
        line = answers.readline()
        if "jdk.compiler" in (said := errors.read_text()):
            pytest.skip("NOT TESTED: with Delta's Java kernel: this Java has no compiler")
        assert line, said[-3000:]
        return line

    yield answer
    process.kill()
    process.communicate()


@pytest.fixture
def server(tmp_path: Path) -> UnityServer:
    return UnityServer(tmp_path / "server")


@pytest.fixture
def kernel(ask: Callable[..., str], server: UnityServer) -> Kernel:
    """What the program reads: the version, then the first column of each row, sorted."""

    def read(*more: str) -> list[int]:
        record = server.table(NAME)
        version, *rows = map(int, ask(server.uri, NAME, record["uuid"], record["location"], *more).split())
        return [version, *sorted(rows)]

    return read


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "note": [str(each) for each in ids]})


def test_the_kernel_sees_each_row_and_txlog_sees_its_commit(kernel: Kernel, server: UnityServer) -> None:
    with server:
        table = txlog.Catalog(server.uri).create(NAME, "id bigint, note string", partition_by="note")
        for first in range(0, 24, 2):
            table.append(rows(first, first + 1))
        table.create_checkpoint()
        table.delete("id < 5")
        table.upsert(rows(23, 40), ["id"])
        table._open_table.post_commit.drain()
        expected = [*range(5, 24), 40]
        assert kernel() == [14, *expected]
        assert kernel("by.kernel") == [14, *expected]
        again = txlog.Catalog(server.uri).table(NAME)
        assert (again.version, again.history(1)[0]["operation"]) == (15, "Manual Update")
        assert table.append(rows(50)).version == 16
        assert kernel() == [16, *expected, 50]
        assert again.verify().is_sound


def test_the_kernel_reads_versions_that_nobody_has_published(kernel: Kernel, server: UnityServer) -> None:
    with server:
        table = txlog.Catalog(server.uri).create(NAME, "id bigint, note string")
        for each in range(4):
            table.append(rows(each))
        table._open_table.post_commit.drain()
        log = Path(table.uri) / "_delta_log"
        for version in range(1, 5):  # as if each writer had died before it published
            (log / f"{version:020}.json").unlink(missing_ok=True)
        record = server.table(NAME)
        staged = {path.name[:20]: path for path in (log / "_staged_commits").iterdir()}
        record["commits"] = [_record(version, staged[f"{version:020}"]) for version in range(4, 0, -1)]
        assert kernel() == [4, 0, 1, 2, 3]
        assert txlog.Catalog(server.uri).table(NAME).to_arrow().num_rows == 4


def _record(version: int, path: Path) -> dict[str, object]:
    size = path.stat().st_size
    return {
        "version": version,
        "timestamp": version,
        "file-name": path.name,
        "file-size": size,
        "file-modification-timestamp": 1,
    }
