"""What a type checker says about a program that uses txlog: nothing about a correct one, and every mistake in a wrong
one."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import txlog

ROOT = Path(__file__).parent.parent

RIGHT = """
from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import txlog
from txlog import Table, WriteResult


class Told(txlog.CommitHooks):
    def on_commit(self, table: str, result: WriteResult) -> None:
        print(table, result.metrics.lost_to)


def load(path: Path, schema: Any, rows: Any) -> int | None:
    retry = txlog.RetryPolicy(max_attempts=3)
    table = Table.create(path, schema, ["day"], exist_ok=True, hooks=Told(), retry=retry)
    result: WriteResult = table.append(rows, schema_mode="merge", app_id="a", checkpoint_id=1)
    if result.outcome == "already_committed":
        return result.version
    with table.transaction("Serializable") as txn:
        txn.append(txn.read(where="amount > 100", columns=["id"]))
        txn.set_transaction("topic/0", 5)
    snapshot = table.snapshot(timestamp=dt.datetime.now(dt.timezone.utc))
    files: int = snapshot.num_files
    print(txn.result.version, files, snapshot.properties.get("x"), snapshot.transaction_version("a"))
    try:
        txlog.write(str(path), rows, "overwrite", partition_by=["day"])
    except txlog.CommitStateUnknownError as error:
        if error.version is not None:
            table.resolve(error.txn_id, error.version)
    except txlog.ConflictError as error:
        print(error.reasons[0].winner_version, error.kind)
    sink = txlog.Sink(table, "orders")
    with sink.task(1, 0, 0) as task:
        task.write(rows)
    sink.stage(task.committable)
    sink.prepare(1, {0: 0})
    for checkpoint_id in sink.recover().partial:
        sink.discard(checkpoint_id)
    txlog.probe_store(path).require_safe()
    return sink.last_checkpoint_id()
"""

EVERY = """
# mypy: disallow-any-expr
from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import txlog
from txlog import Sink, Snapshot, Table


def open_tables(uri: str) -> tuple[Table, bool]:
    table = Table.create(uri, "id bigint, day date", ["day"], {"delta.appendOnly": "false"}, cluster_by=None)
    other = Table.open(table.uri, storage_options={"timeout": "5s"}, credential_provider=None)
    txlog.write(uri, {"id": [1]}, "append")
    return other, Table.exists(uri) and txlog.resolve(uri, "x", 0, "id bigint")


def read(table: Table, snapshot: Snapshot) -> int:
    schema: pa.Schema = table.schema
    names: list[str] = snapshot.schema.names + schema.names
    rows = [table.to_arrow(["id"], "id > 1"), snapshot.to_arrow(), table.head(3), snapshot.head(), snapshot.files()]
    counts = [each.num_rows for each in rows] + [each.num_rows for each in snapshot.to_batches()]
    counts += [each.num_rows for each in table.changes(1)]
    print(table.to_dataset(), snapshot.to_dataset())
    for found in table.follow(0, on_change="skip"):
        print(found.version, found.file, found.rows.num_rows)
    print(table.to_pandas().shape, table.to_polars().shape, snapshot.to_pandas().shape, snapshot.to_polars().shape)
    print(table.files("id = 1").num_rows, table.num_files, table.properties["x"], table.partition_columns[0])
    print(names, snapshot.timestamp, snapshot.table_id, snapshot.properties["x"])
    print(snapshot.protocol.min_reader_version, snapshot.partition_columns[0], snapshot.clustering_columns)
    print(len(table.history()), snapshot.transactions)  # type: ignore[misc]  # a commit's values are any JSON
    print(snapshot.delta_schema, snapshot.num_files, snapshot.size_bytes, snapshot.transaction_version("a"))
    return table.version + snapshot.version + table.count() + snapshot.count("id = 1") + sum(counts)


def change(table: Table, data: pa.Table) -> int | None:
    results = [
        table.append(data),
        table.overwrite(data, "id = 1"),
        table.overwrite_partitions(data),
        table.delete(txlog.col("id") > 1),
        table.update({"id": txlog.col("id") + 1, "day": txlog.lit("mon"), "n": txlog.expr("n * 2")}),
        table.upsert(data, ["id"], merge_engine={"merge-engine": "first-row"}, row_kind="op", row_kinds={1: "+I"}),
        table.merge(data, "source.id = target.id").when_matched_update_all().when_not_matched_insert_all().execute(),
        table.add_files(["part-0.parquet"]),
        table.set_properties({"a": "b"}),
        table.unset_properties(["a"]),
        table.add_columns("more string"),
        table.rename_column("more", "less"),
        table.alter_column("less", comment="text", first=True),
        table.drop_columns(["less"]),
        table.set_description("orders"),
        table.add_constraint("positive", "id > 0"),
        table.drop_constraint("positive"),
        table.cluster_by(["id"]),
        table.sync_identity("id"),
        table.drop_feature("deletionVectors"),
    ]
    return max(result.version or 0 for result in results) + results[0].metrics.rows


def within_a_transaction(table: Table, data: pa.Table) -> int | None:
    with table.transaction() as txn:
        print(txn.snapshot.version, txn.read("id = 1").num_rows)
        txn.append(data)
        txn.overwrite(data)
        txn.overwrite_partitions(data)
        txn.remove_partitions("day = '2026-11-20'")
        txn.delete("id = 1")
        txn.update({"id": txlog.expr("2")})
        txn.upsert(data, ["id"], when_matched="ignore")
        txn.merge(data, ["id"]).when_matched_delete().execute()
        txn.add()
        txn.remove("part-0.parquet")
        txn.set_transaction("app", 1)
    return txn.result.version


def tend(table: Table) -> list[str]:
    print(table.optimize(dry_run=True).versions, table.purge().versions, table.restore(1).version)
    print(table.create_checkpoint(), table.check_deleted(1), table.tag("name").version, table.tags()[0].name)
    table.untag("name")
    print(table.vacuum(dry_run=True).dry_run, table.maintain(dry_run=True).dry_run, table.export_iceberg().version)
    print(table.compact_log(), table.clean_up_log(), table.resolve("x", 1), table.snapshot(tag="name").version)
    print([batch.num_rows for batch in table.diff_rows(0, keys="id")])
    print(table.partitions("id > 1").num_rows, table.description)
    branch = table.branch("name", version=1)
    print(branch.check("id > 1").passed, branch.rebase().version, branch.publish(keep=True).version)
    print(branch.discard().version, table.branches()[0].status)
    with table.audit(["id > 1"]) as staged:
        print(staged.uri)
    print(table.diff(0).rows_after, table.report(limit=5).facts.advice, table.repair(remove=True).version)
    print(table.generate("symlink_format_manifest"))
    return [finding.rule for finding in table.verify().findings]


def begin(table: Table) -> list[int]:
    copied = table.copy_into("folder", "csv", schema_mode="merge")
    versions = [Table.convert("folder").version, table.clone("copy", shallow=True).version, copied.version]
    tasks = table.scan_tasks(["id"], target_bytes=1)
    print(len(tasks), table.to_lazy(), table.snapshot().to_lazy())
    return versions


def through_a_sink(table: Table, data: pa.Table, others: Sequence[txlog.Committable]) -> int | None:
    sink = Sink(table, "orders")
    with sink.task(1) as task:
        task.write(data)
    sink.stage(task.committable, *others)
    sink.prepare(1, {0: 0})
    print(sink.partition_of(data, 2), sink.recover().partial, sink.discard(2), sink.abandon(3))
    print(sink.last_checkpoint_id(), sink.sealed(), sink.app_id, sink.committed("2026-11-20"), sink.committed(1))
    print(sink.once("2026-11-20", data).outcome, sink.for_key("2026-11-21").commit(0).version)
    return sink.commit(1).version
"""

# What the program uses of packages that have no types of their own.
PYARROW = """
from collections.abc import Iterator

class Schema:
    names: list[str]

class RecordBatch:
    num_rows: int

class RecordBatchReader:
    def __iter__(self) -> Iterator[RecordBatch]: ...

class Table:
    num_rows: int

class Array: ...
class ChunkedArray: ...
class DataType: ...
"""

PANDAS = """
class DataFrame:
    shape: tuple[int, int]
"""

# Of the other packages that txlog imports, the program sees nothing; numpy's types alone take longer than txlog's.
SETTINGS = """
[mypy]
follow_imports = skip

[mypy-txlog.*,pyarrow.*,pandas.*,polars.*]
follow_imports = silent
"""

WRONG = """
from typing import Any
from txlog import Table, write
rows: Any = []
table = Table.open("x")
table.append(rows, schema_mode="widen")  # arg-type
write("x", rows, "upsert")  # arg-type
table.transaction("ReadCommitted")  # arg-type
table.vacuumed()  # attr-defined
table.snapshot().to_spark()  # attr-defined
table.delete("id = 1", row_mode="merge")  # arg-type
table.set_properties(["a"])  # arg-type
table.append()  # call-arg
print(table.append(rows).outcome == "commited")  # comparison-overlap
"""

FACES = {"table": txlog.Table, "snapshot": txlog.Snapshot, "transaction": txlog.Transaction, "sink": txlog.Sink}

# A text is wrong for the arguments with these names, as it is for each that is true or false; for others, a number is.
NUMBERS_AND_CHOICES = re.compile(
    "attempt|checkpoint_id|column_mapping|format|from_file|interval_s|isolation|key_cache_size|limit|max_.*"
    "|missing_columns|mode|n|nullable|num_tasks|on_change|on_conflict|on_duplicate|on_mismatch|retention_hours|row_mode"
    "|schema_mode|small_files_min|target_bytes|target_file_size|task_id|vacuum_every_hours|(.*_)?version|when_.*"
)
TAKE_BOTH = re.compile("checkpoint|data|inventory|rows|schema|(.*_)?timestamp")
TAKE_BOTH_HERE = frozenset(
    (("table.convert", "partition_by"), ("table.merge", "source"), ("transaction.merge", "source"))
)


def wrong_calls() -> Iterator[str]:
    """Each call of the public faces, once for each of its arguments, which is of a wrong type."""
    functions: dict[str, Any] = {"txlog.write": txlog.write, "txlog.resolve": txlog.resolve, "txlog.Sink": txlog.Sink}
    for variable, face in FACES.items():
        calls = {name: getattr(face, name) for name in dir(face) if not name.startswith("_")}
        functions |= {f"{variable}.{name}": call for name, call in calls.items() if callable(call)}
    for call, function in functions.items():
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
        for wrong in parameters:
            if TAKE_BOTH.fullmatch(wrong.name) or (call, wrong.name) in TAKE_BOTH_HERE:
                continue
            value = '"1"' if NUMBERS_AND_CHOICES.fullmatch(wrong.name) or isinstance(wrong.default, bool) else "1"
            needed = [each for each in parameters if each is not wrong and each.default is each.empty]
            others = [f"{each.name}=given" for each in needed if each.kind is not each.VAR_POSITIONAL]
            is_listed = wrong.kind is wrong.VAR_POSITIONAL
            yield f"{call}({', '.join([value if is_listed else f'{wrong.name}={value}', *others])})"


def test_the_program_of_every_call_makes_every_call() -> None:
    called = {node.attr for node in ast.walk(ast.parse(EVERY)) if isinstance(node, ast.Attribute)}
    public = {name for face in FACES.values() for name in dir(face) if not name.startswith("_")}
    assert public - called == set()


def test_mypy_accepts_a_correct_program_and_finds_every_mistake_of_a_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "every.py").write_text(EVERY)
    (tmp_path / "wrong.py").write_text(WRONG)
    wrong = [*wrong_calls()]
    variables = ", ".join(f"{variable}: txlog.{face.__name__}" for variable, face in FACES.items())
    begins = f"import txlog\nfrom typing import Any\ndef calls({variables}, given: Any) -> None:\n"
    (tmp_path / "every_wrong.py").write_text(begins + "".join(f"    {call}\n" for call in wrong))
    for package, types in (("pyarrow", PYARROW), ("pandas", PANDAS)):
        (tmp_path / "stubs" / package).mkdir(parents=True)
        (tmp_path / "stubs" / package / "__init__.pyi").write_text(types)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join([str(tmp_path / "stubs"), str(ROOT)])}
    programs = ["right.py", "every.py", "wrong.py", "every_wrong.py"]
    done = subprocess.run(
        [*command, *programs], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    refused = re.findall(r"^every_wrong\.py:(\d+): error: .*\[arg-type\]$", done.stdout, re.MULTILINE)
    assert [call for number, call in enumerate(wrong, start=4) if str(number) not in refused] == []
    told = [line for line in done.stdout.splitlines() if not line.startswith("every_wrong.py")]
    found = [each.groups() for line in told if (each := re.match(r"wrong\.py:(\d+): error: .*\[(\S+)\]$", line))]
    lines = enumerate(WRONG.splitlines(), start=1)
    assert found == [(str(number), line.split("# ")[1]) for number, line in lines if "  # " in line], told
    assert [line for line in told if not line.startswith("wrong.py")] == []
    assert done.stderr == ""
