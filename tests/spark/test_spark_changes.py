"""A Spark write of changes without a JVM: planned on the driver, written in tasks, committed on the driver.

The oracle is a dict of rows by their key; for merge engines, one that plain Python merges row by row.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import merge_model
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import txlog
from txlog.spark import open_tables
from txlog.spark.errors import TxlogErrorInSpark, crossing
from txlog.spark.options import parse_stream_options, parse_write_options
from txlog.spark.planning import commit, plan
from txlog.spark.settings import SessionSettings
from txlog.spark.task import TaskMessage, write_in_task

Change = tuple[Any, ...]
"""Kind, key, value, and sequence if the changes have one."""

COLUMNS = {"op": pa.string(), "k": pa.int64(), "v": pa.int64(), "at": pa.int64()}
FRAME = StructType([StructField(name, StringType() if name == "op" else LongType(), nullable=True) for name in COLUMNS])
CHANGES = {"upsertKeys": "k", "rowKindColumn": "op"}


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    open_tables._open.clear()
    yield
    open_tables._open.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = txlog.Table.create(tmp_path / "t", "k bigint not null, v bigint not null")
    table.append(pa.table({"k": [1, 2, 3], "v": [10, 20, 30]}))
    return tmp_path / "t"


def write(path: Path, tasks: Sequence[Sequence[Change]], **more: str) -> txlog.WriteResult | None:
    """What Spark does: plan, a task for each list of changes, and the commit of what they sealed."""
    options = parse_write_options({"path": str(path), **CHANGES, **more})
    count = len(COLUMNS) if "sequenceBy" in more else len(COLUMNS) - 1
    job, _ = plan(options, StructType(FRAME.fields[:count]), overwrite=False)
    committables = []
    for number, changes in enumerate(tasks):
        context: Any = SimpleNamespace(partitionId=lambda at=number: at, taskAttemptId=lambda: 0, cpus=lambda: 1)
        given = [dict(zip(COLUMNS, change, strict=False)) for change in changes]
        batch = pa.RecordBatch.from_pylist(given, pa.schema([*COLUMNS.items()][:count]))
        committables.append(write_in_task(options, job, context, iter([batch])))
    return commit(options, job, committables)


def rows(path: Path) -> dict[int, int]:
    found = txlog.Table.open(path).snapshot().to_arrow().to_pylist()
    assert len({row["k"] for row in found}) == len(found)
    return {row["k"]: row["v"] for row in found}


def test_the_changes_of_all_tasks_land_as_one_version(path: Path) -> None:
    tasks = [[("u", 1, 11, 1), ("d", 2, None, 2)], [("c", 4, 40, 1), ("d", 9, None, 3), ("u", 4, 41, 4)], []]
    result = write(path, tasks, sequenceBy="at", txnAppId="job", txnVersion="3")
    assert result is not None
    assert (result.version, result.metrics.rows_inserted, result.metrics.rows_updated) == (2, 1, 1)
    assert rows(path) == {1: 11, 3: 30, 4: 41}
    named = set(txlog.Table.open(path).snapshot().files()["path"].to_pylist())
    assert {file.name for file in path.glob("keys-*")} == set()
    assert named <= {file.name for file in path.glob("*.parquet")}


def test_the_first_changes_create_the_table(tmp_path: Path) -> None:
    more = {"sequenceBy": "at", "partitionBy": "v", "delta.enableDeletionVectors": "true"}
    write(tmp_path / "new", [[("u", 1, 11, 1), ("d", 2, None, 2)], [("u", 4, 41, 4)]], **more)
    table = txlog.Table.open(tmp_path / "new")
    assert [entry["operation"] for entry in table.history()] == ["MERGE", "CREATE TABLE"]
    assert (table.schema.names, table.partition_columns) == (["k", "v", "at"], ("v",))
    assert table.properties["delta.enableDeletionVectors"] == "true"
    assert rows(tmp_path / "new") == {1: 11, 4: 41}


def test_of_one_key_in_two_tasks_the_sequence_decides_and_without_one_it_is_refused(path: Path) -> None:
    tasks = [[("u", 1, 12, 2), ("d", 3, None, 1)], [("u", 1, 11, 1), ("u", 3, 33, 2)]]
    with pytest.raises(TxlogErrorInSpark, match=r"tasks 0 and 1 .*df\.repartition.*or set sequenceBy"), crossing():
        write(path, [[change[:3] for change in task] for task in tasks])
    assert rows(path) == {1: 10, 2: 20, 3: 30}
    write(path, tasks, sequenceBy="at")
    assert rows(path) == {1: 12, 2: 20, 3: 33}


def test_a_row_without_a_valid_kind_ends_the_task_with_the_names_of_the_options(path: Path) -> None:
    with pytest.raises(TxlogErrorInSpark, match=r"'x'.*\. Convert other values in the DataFrame"), crossing():
        write(path, [[("x", 1, 1, 1)]], sequenceBy="at")
    with pytest.raises(txlog.InvalidInputError, match="column v must not be null"):
        write(path, [[("u", 1, None, 1)]], sequenceBy="at")
    assert len(list(path.glob("*.parquet"))) == 1


def test_contradictory_options_of_changes_are_refused_before_any_task(path: Path, tmp_path: Path) -> None:
    def planned(at: Path, *, overwrite: bool = False, **options: str) -> Any:
        return plan(parse_write_options({"path": str(at), **options}), FRAME, overwrite=overwrite)

    with pytest.raises(txlog.InvalidInputError, match=r"an overwrite .* replaces all"):
        planned(path, overwrite=True, **CHANGES)
    for wrong in ({"upsertKeys": "other"}, {"upsertKeys": "k", "rowKindColumn": "kind"}):
        with pytest.raises(txlog.InvalidInputError, match="no column"):
            planned(tmp_path / "other", **wrong)
        assert not txlog.Table.exists(tmp_path / "other")
    with pytest.raises(txlog.InvalidInputError, match="the DataFrame has no column kind; it has op, k, v, at"):
        planned(path, upsertKeys="k", rowKindColumn="kind")
    with pytest.raises(txlog.SchemaMismatchError, match="at"):
        planned(path, **CHANGES)
    lacking = StructType([FRAME["k"]])
    with pytest.raises(txlog.SchemaMismatchError, match=r"the DataFrame lacks v: .*mergeEngine=partial-update"):
        plan(parse_write_options({"path": str(path), "upsertKeys": "k"}), lacking, overwrite=False)
    plan(parse_write_options({"path": str(path), **CHANGES}), StructType([FRAME["op"], FRAME["k"]]), overwrite=False)
    for name, value in (("sequenceBy", "at"), ("changelogMode", "retract"), ("mergeEngine", "first-row")):
        with pytest.raises(txlog.InvalidInputError, match=f"option {name} is for row changes: also set upsertKeys"):
            planned(path, **{name: value})
    with pytest.raises(txlog.InvalidInputError, match=r"changelogMode=retract .* set rowKindColumn"):
        planned(path, upsertKeys="k", changelogMode="retract")
    with pytest.raises(txlog.InvalidInputError, match=r"mergeEngine and txlog\.merge-engine mean the same"):
        planned(path, upsertKeys="k", mergeEngine="first-row", **{"txlog.merge-engine": "first-row"})
    for name in ("mergeSchema", "overwriteSchema"):
        with pytest.raises(txlog.InvalidInputError, match=f"option {name} does not go with upsertKeys"):
            planned(path, **CHANGES, **{name: "true"})
    assert parse_stream_options({"path": str(path), **CHANGES}).write.changelog is not None


def test_a_retracted_row_is_deleted_and_in_retract_mode_a_delete_takes_only_its_row(path: Path) -> None:
    tasks = [[("-U", 1, 10), ("+U", 1, 11), ("-U", 2, 20)], [("-D", 3, None), ("+I", 4, 40)]]
    write(path, tasks)
    assert rows(path) == {1: 11, 4: 40}
    write(path, [[("-U", 1, 11), ("+U", 1, 12)], [("-D", 4, 41)]], changelogMode="RETRACT")
    assert rows(path) == {1: 12, 4: 40}
    write(path, [[("-D", 4, 40)], [("-U", 1, 11)]], changelogMode="RETRACT")
    assert rows(path) == {1: 12}


# --- changes that do not fit ------------------------------------------------------------------------------------------

UNFIT = [[("d", 1, None), ("u", 2, 21)], [("d", 9, None), ("u", 3, 31), ("c", 4, 40)]]
"""Of a table that has 1 once, 2 once, 3 twice and 9 never, dealt out to two tasks."""


def quarantined(path: Path) -> list[tuple[Any, ...]]:
    found = [pq.read_table(file, partitioning=None) for file in (path / "_txlog/quarantine").glob("*")]
    return sorted((row["k"], row["v"], row["_kind"], row["_case"]) for each in found for row in each.to_pylist())


@pytest.fixture
def with_twins(path: Path) -> Path:
    txlog.Table.open(path).append(pa.table({"k": [3], "v": [33]}))
    return path


def test_changes_that_do_not_fit_go_into_quarantine_case_by_case_and_the_others_land(with_twins: Path) -> None:
    path = with_twins
    write(path, UNFIT, onMismatch="missing=quarantine", txnAppId="a/b", txnVersion="7")
    assert rows(path) == {2: 21, 3: 31, 4: 40}
    assert quarantined(path) == [(9, None, "-D", "missing")]
    told = txlog.Table.open(path).history(1)[0]["operationParameters"]
    assert told["heldBack"] == "1"
    assert told["quarantine"].startswith("_txlog/quarantine/a-b.7.")
    write(path, [[("u", 2, 22)], [("d", 3, None)], [("d", 8, None)]], onMismatch="quarantine")
    assert rows(path) == {2: 22, 4: 40}
    assert quarantined(path) == [(8, None, "-D", "missing"), (9, None, "-D", "missing")]


def test_several_rows_of_a_key_stay_where_the_option_says_so(with_twins: Path) -> None:
    write(with_twins, UNFIT, onMismatch="several=quarantine")
    kept = txlog.Table.open(with_twins).to_arrow().to_pylist()
    assert sorted((row["k"], row["v"]) for row in kept) == [(2, 21), (3, 30), (3, 33), (4, 40)]
    assert quarantined(with_twins) == [(3, 31, "+U", "several")]


def test_changes_that_do_not_fit_fail_the_write_by_the_option_and_its_error_names_the_option(with_twins: Path) -> None:
    why = r"there is no row to delete with k=9\. .* or write with onMismatch=missing=quarantine\n"
    with pytest.raises(TxlogErrorInSpark, match=why), crossing():
        write(with_twins, UNFIT, onMismatch="missing=fail")
    with pytest.raises(txlog.InvalidInputError, match=r"several rows have the key k=3"):
        write(with_twins, UNFIT, onMismatch="several=fail")
    assert txlog.Table.open(with_twins).version == 2
    write(with_twins, UNFIT)
    assert rows(with_twins) == {2: 21, 3: 31, 4: 40}
    assert not (with_twins / "_txlog/quarantine").exists()


def test_what_a_merge_engine_cannot_store_fails_or_is_held_back_as_the_option_says(tmp_path: Path) -> None:
    path, sums = tmp_path / "t", {f"txlog.{name}": value for name, value in SUMS.items()}
    table = txlog.Table.create(path, MERGED, properties=sums)
    table.append(pa.table({"k": [1, 2], "s": [1, 1], "n": [2**63 - 1, 5], "t": ["a", "b"]}))
    tasks = [[("+I", {"k": 1, "s": 1, "n": 1, "t": "x"}), ("+I", {"k": 2, "s": 1, "n": 1, "t": "y"})]]
    with pytest.raises(txlog.InvalidInputError, match="the sum of column n does not fit its type"):
        merge(path, tasks)
    merge(path, tasks, onMismatch="unfit=quarantine")
    assert {key: (row["n"], row["t"]) for key, row in merged(path).items()} == {1: (2**63 - 1, "a"), 2: (6, "y")}
    (file,) = (path / "_txlog/quarantine").iterdir()
    assert [(row["k"], row["n"], row["_case"]) for row in pq.read_table(file).to_pylist()] == [(1, 1, "unfit")]


# --- merge engines --------------------------------------------------------------------------------------------------

MERGED = "k bigint not null, s bigint, n bigint, t string"
ROW = pa.schema([("op", pa.string()), ("k", pa.int64()), ("s", pa.int64()), ("n", pa.int64()), ("t", pa.string())])
SUMS = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "fields.t.aggregate-function": "last_value",
}
ENGINES = {
    "deduplicate by sequence": ({"merge-engine": "deduplicate", "sequence.field": "s"}, ("+I", "+U")),
    "partial-update": ({"merge-engine": "partial-update", "ignore-delete": "true"}, ("+I", "-U", "+U", "-D")),
    "remove on delete": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        ("+I", "+U", "-D"),
    ),
    "sequence group": ({"merge-engine": "partial-update", "fields.s.sequence-group": "n,t"}, ("+I", "+U")),
    "aggregation": (SUMS, ("+I", "-U", "+U", "-D")),
    "first-row": ({"merge-engine": "first-row", "ignore-delete": "true"}, ("+I", "+U", "-D")),
}
Merging = tuple[str, dict[str, Any]]


def merge(path: Path, tasks: Sequence[Sequence[Merging]], schema: pa.Schema = ROW, **more: str) -> Any:
    """As `write`, of rows with the columns of ``schema``; all that goes from process to process is pickled."""
    options = parse_write_options({"path": str(path), **CHANGES, **more})
    types = [StringType() if pa.types.is_string(field.type) else LongType() for field in schema]
    frame = StructType([StructField(name, kind) for name, kind in zip(schema.names, types, strict=True)])
    job, _ = plan(options, frame, overwrite=False)
    options, job = pickle.loads(pickle.dumps((options, job)))
    messages = []
    for number, changes in enumerate(tasks):
        context: Any = SimpleNamespace(partitionId=lambda at=number: at, taskAttemptId=lambda: 7, cpus=lambda: 1)
        batch = pa.RecordBatch.from_pylist([{**row, "op": kind} for kind, row in changes], schema)
        message = TaskMessage.of(write_in_task(options, job, context, iter(batch_of(batch))), SessionSettings())
        messages.append(pickle.loads(pickle.dumps(message)))
    open_tables._open.clear()
    return commit(options, job, [message.committable for message in messages])


def batch_of(whole: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for first in range(0, whole.num_rows, 3):
        yield whole.slice(first, 3)


def merged(path: Path) -> dict[int, dict[str, Any]]:
    return {row["k"]: row for row in txlog.Table.open(path).snapshot().to_arrow().to_pylist()}


def drawn(chance: random.Random, kinds: Sequence[str]) -> list[Merging]:
    def value(of: Sequence[Any]) -> Any:
        return chance.choice([None, *of])

    return [
        (
            chance.choice(kinds),
            {"k": chance.randrange(6), "s": value(range(5)), "n": value(range(-9, 9)), "t": value("ab")},
        )
        for _ in range(chance.randrange(1, 24))
    ]


@pytest.mark.parametrize("is_stored", [True, False], ids=["property", "option"])
@pytest.mark.parametrize("which", ENGINES)
def test_tasks_merge_by_every_engine_as_plain_python_does(tmp_path: Path, which: str, is_stored: bool) -> None:
    engine, kinds = ENGINES[which]
    named = {f"txlog.{name}": value for name, value in engine.items()}
    vectors = {"delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(tmp_path / "t", MERGED, properties={**vectors, **(named if is_stored else {})})
    reported = {"mergeEngine": named.pop("txlog.merge-engine")}
    chance, changelog = random.Random(which), []
    for batch in range(4):
        changes = drawn(chance, kinds)
        changelog += changes
        tasks = [[change for change in changes if change[1]["k"] % 3 == task] for task in range(3)]
        given = {} if is_stored and batch % 2 else {key.lower(): value for key, value in {**reported, **named}.items()}
        for outcome in ("committed", "already_committed"):
            result = merge(table_path := tmp_path / "t", tasks, **given, txnAppId="app", txnVersion=str(batch))
            assert result.outcome == outcome
        assert merged(table_path) == merge_model.apply(engine, ROW.names[1:], {}, changelog)
    assert txlog.Table.open(table.uri).version == 4
    assert not [*(tmp_path / "t").glob("keys-*")], "each commit takes its files of changes away"


def test_columns_that_a_frame_lacks_stay_as_they_are_in_a_partial_update_alone(tmp_path: Path) -> None:
    txlog.Table.create(tmp_path / "t", MERGED)
    two = pa.schema([ROW.field("op"), ROW.field("k"), ROW.field("t")])
    for schema, row in ((ROW, {"k": 1, "s": 1, "n": 10}), (two, {"k": 1, "t": "a"})):
        merge(tmp_path / "t", [[("+U", row)]], schema, mergeEngine="partial-update")
    assert merged(tmp_path / "t") == {1: {"k": 1, "s": 1, "n": 10, "t": "a"}}
    with pytest.raises(txlog.SchemaMismatchError, match="the changes lack s, n"):
        merge(tmp_path / "t", [[("+U", {"k": 1, "t": "b"})]], two, mergeEngine="aggregation")


def test_two_tasks_rows_with_one_key_are_merged_only_if_a_sequence_orders_them(
    tmp_path: Path,
) -> None:
    table = txlog.Table.create(tmp_path / "t", MERGED)
    tasks = [[("+U", {"k": 1, "s": 2, "n": 2})], [("+U", {"k": 1, "s": 1, "n": 3, "t": "a"})]]
    partial = {"mergeEngine": "partial-update"}
    why = r"tasks 0 and 1 .*k=1.*df\.repartition\(<upsertKeys>\), or set"
    with pytest.raises(TxlogErrorInSpark, match=why), crossing():
        merge(tmp_path / "t", tasks, **partial)
    assert txlog.Table.open(table.uri).version == 0
    merge(tmp_path / "t", tasks, sequenceBy="s", **partial)
    assert merged(tmp_path / "t") == {1: {"k": 1, "s": 2, "n": 2, "t": "a"}}


def test_a_merge_engine_unlike_the_tables_is_refused_before_any_task(tmp_path: Path) -> None:
    stored = {f"txlog.{name}": value for name, value in SUMS.items()}
    txlog.Table.create(tmp_path / "t", MERGED, properties=stored)
    frame = StructType([StructField(name, LongType()) for name in ("k", "s", "n")] + [StructField("t", StringType())])

    def planned(**options: str) -> Any:
        return plan(
            parse_write_options({"path": str(tmp_path / "t"), "upsertKeys": "k", **options}), frame, overwrite=False
        )

    planned(mergeEngine="aggregate", **{"txlog.fields.n.aggregate-function": "SUM"})
    with pytest.raises(txlog.InvalidInputError, match=r"differ from txlog\.merge-engine = first-row: all its writers"):
        planned(mergeEngine="first-row")
    with pytest.raises(txlog.InvalidInputError, match=r"differ from txlog\.sequence\.field = s: all its writers"):
        planned(sequenceBy="s")
    txlog.Table.create(tmp_path / "plain", MERGED)
    at_plain = {"path": str(tmp_path / "plain"), "upsertKeys": "k", "txlog.fields.x.aggregate-function": "sum"}
    with pytest.raises(txlog.InvalidInputError, match=r"names 'x', which is not a column; the columns are k, s, n, t"):
        plan(parse_write_options({**at_plain, "mergeEngine": "aggregation"}), frame, overwrite=False)


def test_kinds_that_an_engine_cannot_take_back_end_the_task_by_name(tmp_path: Path) -> None:
    txlog.Table.create(tmp_path / "t", MERGED, properties={"txlog.merge-engine": "first-row"})
    with pytest.raises(txlog.InvalidInputError, match="merge-engine first-row cannot retract"):
        merge(tmp_path / "t", [[("-D", {"k": 1})]])
    assert not [*(tmp_path / "t").glob("*.parquet")]
