"""A merge engine that another package offers: at every door that merges rows it works as txlog's own engines do."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from typer.testing import CliRunner

import txlog
from tests.packages import hide, install
from txlog.cli.app import app
from txlog.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from txlog.spark.options import parse_write_options
from txlog.spark.planning import commit, plan
from txlog.spark.task import write_in_task

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extension" / "txlog_acme.py"
OFFERS = {
    "txlog.merge_engines": {"greatest": "txlog_acme:Greatest", "longest": "txlog_longest:Longest"},
    "txlog.properties": {"txlog.longest.ties": "txlog_longest:TIES"},
}
LONGEST = """
import numpy as np
import pyarrow.compute as pc
from txlog.extend import PropertyRule
from txlog.extend.merge_engines import Merged, MergeEngine

class Longest(MergeEngine, frozen=True):  # the whole row with the longest text; of equals the first or the last
    name, takes_whole_rows, retracts = "longest", True, True
    ties: str = "first"

    @classmethod
    def of(cls, options):
        return cls(keys=options.keys, ties=options.text("longest.ties") or "first")

    def merged(self, rows):
        length = pc.fill_null(pc.utf8_length(rows.column("t")), -1).to_numpy()
        adds = rows.runs.filter(~rows.runs.retracts)
        by = adds.sorted_by(length)
        last = by.last()
        best = by.first(length[by.rows] == length[by.rows[last[by.keys]]]) if self.ties == "first" else last
        there = best >= 0
        chosen = by.rows[best[there]]
        is_new = np.zeros(len(best), dtype=bool)
        is_new[there] = chosen >= rows.runs.num_old
        found = rows.new.take(chosen[chosen >= rows.runs.num_old] - rows.runs.num_old)
        return Merged(found, is_new, rows.runs.has_row() & ~there)

TIES = PropertyRule(str, "first or last")
"""
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("t", pa.string())])
FIRST, SECOND = [(1, 5, "a"), (2, 1, None), (1, 4, "b")], [(1, 2, "c"), (2, None, "z"), (3, 7, "q")]
MERGED = [(1, 5, "c"), (2, 1, "z"), (3, 7, "q")]
"""By hand: the greatest value of each column."""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    modules = {"txlog_acme": EXAMPLE.read_text(), "txlog_longest": LONGEST}
    install(monkeypatch, tmp_path / "site", "txlog-acme", OFFERS, modules)


def rows(found: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, each, strict=True)) for each in found], schema)


def read(table: txlog.Table | str) -> list[tuple[Any, ...]]:
    """What another reader finds."""
    found = deltalake.DeltaTable(table if isinstance(table, str) else table.uri).to_pyarrow_table().to_pylist()
    return sorted(tuple(row[name] for name in ("id", "n", "t")) for row in found)


def by_property(folder: Path) -> txlog.Table:
    return txlog.Table.create(folder, SCHEMA, properties={"txlog.merge-engine": "Greatest"})


def upserted(folder: Path) -> None:
    for part in (FIRST, SECOND):
        by_property_or_open(folder).upsert(rows(part), keys=["id"])


def by_property_or_open(folder: Path) -> txlog.Table:
    return txlog.Table.open(folder) if txlog.Table.exists(folder) else by_property(folder)


def asked_by_the_call(folder: Path) -> None:
    table = txlog.Table.create(folder, SCHEMA)
    for part in (FIRST, SECOND):
        table.upsert(rows(part), keys=["id"], merge_engine="greatest")


def in_a_transaction(folder: Path) -> None:
    for part in (FIRST, SECOND):
        with by_property_or_open(folder).transaction() as txn:
            txn.upsert(rows(part), keys=["id"])


def by_sql(folder: Path) -> None:
    names = f"delta.`{folder}`"
    txlog.sql(f"create table {names} (id bigint, n bigint, t string) tblproperties ('txlog.merge-engine' = 'greatest')")
    for part in (FIRST, SECOND):
        txlog.Table.open(folder).upsert(rows(part), keys=["id"])


def by_the_command_line(folder: Path) -> None:
    txlog.Table.create(folder, SCHEMA)
    for part in (FIRST, SECOND):
        pq.write_table(rows(part), file := f"{folder}.parquet")
        command = ["upsert", str(folder), file, "--key", "id", "--merge-engine", "greatest", "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["table"] == str(folder)


def by_a_sink(folder: Path) -> None:
    """Two tasks may have one key: the engine says that their order does not matter."""
    sink = txlog.Sink(by_property(folder), "app", mode="upsert", keys=["id"])
    for checkpoint_id, part in enumerate((FIRST, SECOND)):
        for task_id, own in enumerate((part[:2], part[2:])):
            with pickle.loads(pickle.dumps(sink)).task(checkpoint_id, task_id) as task:
                task.write(rows(own))
            sink.stage(pickle.loads(pickle.dumps(task.committable)))
        sink.prepare(checkpoint_id, range(2))
        sink.commit(checkpoint_id)


def by_spark(folder: Path) -> None:
    """What Spark's writer does on the driver and in tasks, with all that goes there pickled."""
    types = {"id": LongType(), "n": LongType(), "t": StringType()}
    given = parse_write_options({"path": str(folder), "upsertKeys": "id", "mergeEngine": "Greatest"})
    txlog.Table.create(folder, SCHEMA)
    for part in (FIRST, SECOND):
        job, _ = plan(given, StructType([StructField(*each) for each in types.items()]), overwrite=False)
        there = pickle.loads(pickle.dumps((given, job)))
        context: Any = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 0, cpus=lambda: 1)
        done = write_in_task(*there, context, iter(rows(part).to_batches()))
        commit(given, job, [pickle.loads(pickle.dumps(done))])


DOORS: list[Callable[[Path], None]] = [
    upserted,
    asked_by_the_call,
    in_a_transaction,
    by_sql,
    by_the_command_line,
    by_a_sink,
    by_spark,
]


@pytest.mark.parametrize("door", DOORS)
def test_it_merges_rows(door: Callable[[Path], None], tmp_path: Path) -> None:
    door(tmp_path / "t")
    assert read(str(tmp_path / "t")) == MERGED
    assert txlog.Table.open(tmp_path / "t").verify().is_sound


@pytest.mark.parametrize("ties", ["first", "last"])
def test_one_that_takes_whole_rows_has_options_of_its_own_and_retracts(tmp_path: Path, ties: str) -> None:
    properties = {"txlog.merge-engine": "longest", "TXLOG.longest.ties": ties}
    table = txlog.Table.create(tmp_path / "t", SCHEMA, properties=properties)
    kinds = pa.schema([*SCHEMA, ("op", pa.string())])
    table.upsert(rows([(1, 1, "abc"), (2, 2, "x")]), keys=["id"])
    table.upsert(rows([(1, 3, "ab", "+U"), (1, 4, "xyz", "+U"), (2, 2, "x", "+I")], kinds), keys=["id"], row_kind="op")
    assert read(table) == [(1, 1, "abc") if ties == "first" else (1, 4, "xyz"), (2, 2, "x")]
    same = {"merge-engine": "longest", "longest.ties": ties}
    table.upsert(rows([(1, 9, "longer")]), keys=["id"], merge_engine=same)
    assert read(table)[0] == (1, 9, "longer")
    with pytest.raises(InvalidInputError, match=r"differ from txlog\.longest\.ties = none"):
        table.upsert(rows([(1, 9, "longer")]), keys=["id"], merge_engine={"longest.ties": "none"})
    with pytest.raises(SchemaMismatchError, match="lack n"):
        table.upsert(pa.table({"id": [1], "t": ["a"]}), keys=["id"])


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({"txlog.fields.n.aggregate-function": "sum"}, "merge-engine greatest has no aggregate functions"),
        ({"txlog.sequence.field": "n"}, r"merge-engine greatest has no sequence\.field"),
        ({"txlog.longest.ties": "first"}, "is for merge-engine longest, not greatest"),
        ({"txlog.aggregation.remove-record-on-delete": "true"}, "is for merge-engine aggregation, not greatest"),
        ({"txlog.tombstone-retention": "interval 1 day", "delta.enableDeletionVectors": "true"}, "with another engine"),
    ],
)
def test_an_option_that_it_does_not_read_is_refused(tmp_path: Path, properties: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        txlog.Table.create(tmp_path / "t", SCHEMA, properties={"txlog.merge-engine": "greatest", **properties})
    assert not (tmp_path / "t").exists()


def test_rows_that_it_cannot_take_back_and_columns_that_it_cannot_compare_are_refused(tmp_path: Path) -> None:
    table = by_property(tmp_path / "t")
    kinds = pa.schema([*SCHEMA, ("op", pa.string())])
    with pytest.raises(InvalidInputError, match="merge-engine greatest cannot retract"):
        table.upsert(rows([(1, 1, "a", "-D")], kinds), keys=["id"], row_kind="op")
    with pytest.raises(InvalidInputError, match="whose values have no order"):
        table.add_columns(pa.schema([("flags", pa.list_(pa.int64()))]))
    assert table.version == 0


@pytest.mark.parametrize(
    ("broken", "match"),
    [
        ("raise KeyError('n')", "KeyError: 'n'"),
        ("return Merged(rows.new.slice(0, 0), rows.runs.has_row(), ~rows.runs.has_row())", "0 rows.*1 of 1 keys"),
        ("return Merged(rows.new.slice(0, 1), rows.runs.has_row(), rows.runs.has_row())", "have none"),
        ("return Merged(rows.new.select(['id']).slice(0, 1), rows.runs.has_row(), ~rows.runs.has_row())", "columns id"),
    ],
)
def test_one_that_fails_or_makes_what_no_table_could_store_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, match: str
) -> None:
    text = f"""
from txlog.extend.merge_engines import Merged, MergeEngine

class Broken(MergeEngine, frozen=True):
    name = "broken"

    def merged(self, rows):
        {broken}
"""
    offers = {"txlog.merge_engines": {"broken": "txlog_broken:Broken"}}
    install(monkeypatch, tmp_path / "broken", "txlog-broken", offers, {"txlog_broken": text})
    table = txlog.Table.create(tmp_path / "t", SCHEMA)
    with pytest.raises(UnsupportedFeatureError, match=f"merge-engine broken could not merge.*{match}") as told:
        table.upsert(rows(FIRST[:1]), keys=["id"], merge_engine="broken")
    assert (told.value.table, table.version) == (table.uri, 0)


def writes_without_it(table: txlog.Table) -> Iterator[Callable[[], object]]:
    """Everything by which a writer merges rows, or says how: the table has an engine that is not installed."""
    uri = table.uri
    yield lambda: table.upsert(rows(FIRST), keys=["id"])
    yield lambda: table.upsert(rows(FIRST), keys=["id"], merge_engine="deduplicate")
    yield lambda: table.set_properties({"delta.appendOnly": "false"})
    with table.transaction() as txn:
        yield lambda: txn.upsert(rows(FIRST), keys=["id"])
    yield lambda: txlog.Sink(table, "app", mode="upsert", keys=["id"]).task(0).__enter__().write(rows(FIRST))
    options = parse_write_options({"path": uri, "upsertKeys": "id"})
    frame = StructType([StructField("id", LongType()), StructField("n", LongType()), StructField("t", StringType())])
    yield lambda: plan(options, frame, overwrite=False)


def test_a_table_whose_engine_is_not_installed_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_property(tmp_path / "t")
    table.upsert(rows(FIRST), keys=["id"])
    before = {str(path) for path in tmp_path.rglob("*.*")}
    hide(monkeypatch, "txlog.merge_engines:greatest")
    for write in writes_without_it(table):
        with pytest.raises(UnsupportedFeatureError, match="merge engine 'greatest', which no installed") as told:
            write()
        assert told.value.features == ("greatest",)
        assert told.value.table == table.uri
    pq.write_table(rows(SECOND), tmp_path / "rows.parquet")
    done = CliRunner().invoke(app, ["upsert", table.uri, str(tmp_path / "rows.parquet"), "--key", "id"])
    assert done.exit_code == 1
    assert "merge engine 'greatest'" in " ".join(done.output.split())
    (tmp_path / "rows.parquet").unlink()
    assert {str(path) for path in tmp_path.rglob("*.*")} == before
    with pytest.raises(InvalidInputError, match="expected 'deduplicate', 'aggregation'"):
        txlog.Table.create(tmp_path / "new", SCHEMA, properties={"txlog.merge-engine": "greatest"})
    table.append(rows([(9, 9, "i")]))
    assert (9, 9, "i") in read(table)


def test_a_task_in_another_process_finds_it_there_too_or_is_refused(tmp_path: Path) -> None:
    """A process that is started afresh has of the package what is on its path, and of the sink what was pickled."""
    sink = txlog.Sink(by_property(tmp_path / "t"), "app", mode="upsert", keys=["id"])
    (tmp_path / "sink").write_bytes(pickle.dumps((sink, rows(FIRST))))
    task = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    sink, rows = pickle.load(file)
with sink.task(0, 0) as task:
    task.write(rows)
sink.stage(task.committable)
"""
    command = [sys.executable, "-c", task, str(tmp_path / "sink")]
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    refused = subprocess.run(command, env=without, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "merging the rows of this table needs the merge engine 'greatest', which no installed" in refused.stderr
    there = {**without, "PYTHONPATH": str(tmp_path / "site" / "txlog-acme")}
    subprocess.run(command, env=there, cwd=ROOT, check=True)
    sink.prepare(0, [0])
    sink.commit(0)
    assert read(f"{tmp_path}/t") == [(1, 5, "b"), (2, 1, None)]
