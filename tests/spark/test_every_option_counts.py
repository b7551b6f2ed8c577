"""Every option of a Spark write, in every mode: it has an effect, or the write is refused. None is ignored.

The data source runs without a JVM: it plans, writes as one task, and commits. An option has an effect if the commit,
the files, the notified hooks or the error differ from those of the same write without it.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from write_outcomes import commits_since

import txlog
from txlog.core.versions import OpenTable
from txlog.spark import open_tables, source, stream
from txlog.spark.options import KNOWN, KNOWN_OF_STREAMS
from txlog.spark.source import TxlogDataSource

MODES: dict[str, dict[str, str]] = {
    "create": {},
    "append": {},
    "overwrite": {},
    "overwrite of partitions": {"partitionOverwriteMode": "dynamic"},
    "overwrite of a region": {"replaceWhere": "id NOT IN (2, 3)"},
    "overwrite of the schema": {"overwriteSchema": "true"},
    "upsert": {"upsertKeys": "id"},
    "stream that appends": {},
    "stream in complete mode": {},
    "stream that upserts": {"upsertKeys": "id"},
}
OVERWRITES = {mode for mode in MODES if mode.startswith("overwrite")} | {"stream in complete mode"}
ROWS = {"id": [1, 4], "day": ["mon", "mon"]}
notified: list[int | None] = []
retry_policies: list[Any] = []
outcomes_without: dict[str, Any] = {}


class Hooks(txlog.CommitHooks):
    def on_commit(self, table: str, result: txlog.WriteResult) -> None:
        notified.append(result.version)


hooks = Hooks()


@dataclass(frozen=True)
class Case:
    """One option in a situation in which it can matter. ``beside`` are more options, with and without it, and
    ``beside_keys`` are the ones that only row changes have."""

    given: dict[str, str]
    rows: dict[str, list[Any]] = field(default_factory=lambda: ROWS)
    beside: dict[str, str] = field(default_factory=dict)
    beside_keys: dict[str, str] = field(default_factory=dict)
    before: Callable[[txlog.Table], object] | None = None
    meanwhile: Callable[[txlog.Table], object] | None = None
    batches: tuple[int, ...] = (5,)
    rows_of_changes: dict[str, list[Any]] | None = None


NEW_COLUMN = {**ROWS, "more": [7, 8]}
CHANGED_TWICE = {"id": [1, 1], "day": ["mon", "tue"], "at": [2, 1]}
DELETED_WITH_OTHER_VALUES = {"id": [1], "day": ["of no row"], "op": ["-D"]}
DELETED = {"id": [1, 8], "day": ["mon", "mon"], "op": ["-U", "-D"]}
MANY = {"id": random.Random(7).sample(range(5, 1 << 62), 40_000), "day": ["mon"] * 40_000}
FEW = "id < unix_seconds(TIMESTAMP '1970-01-01 00:00:05')"
RETRIES = {"num-retries": "3", "min-wait-ms": "7", "max-wait-ms": "70", "total-timeout-ms": "7000"}


def changes_what_is_replaced(table: txlog.Table) -> None:
    table.update({"day": txlog.expr("'wed'")}, "id = 1")


CASES = {
    "txnAppId": Case({"txnAppId": "orders"}),
    "txnVersion": Case({"txnVersion": "8"}),
    "txnAppId and txnVersion": Case({"txnAppId": "orders", "txnVersion": "8"}),
    "txnFingerprint": Case({"txnFingerprint": "offsets"}, beside={"txnAppId": "orders"}),
    "mergeSchema": Case({"mergeSchema": "true"}, NEW_COLUMN),
    "overwriteSchema": Case({"overwriteSchema": "true"}, NEW_COLUMN),
    "dataChange": Case({"dataChange": "false"}),
    "partitionBy": Case({"partitionBy": "id"}),
    "clusterBy": Case({"clusterBy": "id"}),
    "tableProperties": Case({"tableProperties": '{"Team": "a"}'}),
    "partitionOverwriteMode": Case({"partitionOverwriteMode": "dynamic"}),
    "replaceWhere": Case({"replaceWhere": "id NOT IN (2, 3)"}),
    "rowMode": Case({"rowMode": "copy-on-write"}),
    "onConflict": Case({"onConflict": "rerun"}, meanwhile=changes_what_is_replaced),
    "readVersion": Case({"readVersion": "0"}, before=changes_what_is_replaced),
    "readsTable": Case({"readsTable": "true", "readVersion": "0"}, before=changes_what_is_replaced),
    "upsertKeys": Case({"upsertKeys": "id"}),
    "rowKindColumn": Case({"rowKindColumn": "op"}, rows_of_changes=DELETED),
    "sequenceBy": Case({"sequenceBy": "at"}, rows_of_changes=CHANGED_TWICE),
    "changelogMode": Case(
        {"changelogMode": "retract"}, beside_keys={"rowKindColumn": "op"}, rows_of_changes=DELETED_WITH_OTHER_VALUES
    ),
    "mergeEngine": Case({"mergeEngine": "first-row"}),
    "txlog.merge-engine": Case({"txlog.merge-engine": "first-row"}),
    "onMismatch": Case({"onMismatch": "missing=fail"}, beside_keys={"rowKindColumn": "op"}, rows_of_changes=DELETED),
    "userMetadata": Case({"userMetadata": "by hand"}),
    "maxRecordsPerFile": Case({"maxRecordsPerFile": "1"}),
    "targetFileSize": Case({"targetFileSize": "1"}, MANY),
    "compression": Case({"compression": "gzip"}),
    "parquet.compression": Case({"parquet.compression": "gzip"}),
    "isolationLevel": Case({"isolationLevel": "Serializable"}),
    "hooks": Case({"hooks": f"{__name__}:hooks"}),
    "skipEmpty": Case({"skipEmpty": "true"}, {"id": [], "day": []}, beside={"txnAppId": "orders"}),
    "skipEmpty=false": Case({"skipEmpty": "false"}, {"id": [], "day": []}),
    "mustCreate": Case({"mustCreate": "true"}),
    "timeZone": Case({"timeZone": "+05:00"}, before=lambda table: table.add_constraint("few", FEW)),
    **{f"commit.retry.{name}": Case({f"commit.retry.{name}": value}) for name, value in RETRIES.items()},
    "skipCommittedBatches": Case({"skipCommittedBatches": "true"}, batches=(5, 4)),
    "checkpointLocation": Case({"checkpointLocation": "CHECKPOINTS"}),
    "delta.appendOnly": Case({"delta.appendOnly": "true"}),
    "storage.<key>": Case({"storage.nothing": "of value"}),
    "catalog": Case({"catalog": "http://127.0.0.1:1"}),
}
IS_WHAT_HAPPENS_ANYWAY = {
    ("mergeSchema", "overwrite of the schema"),
    ("skipEmpty", "create"),  # the version has the table's schema
    ("mustCreate", "create"),
    ("timeZone", "create"),  # a new table has no constraint yet
    ("skipEmpty", "stream that appends"),
    ("skipEmpty", "stream that upserts"),
    *(("skipEmpty=false", mode) for mode in MODES if not mode.startswith("stream")),
}
"""The option asks for what the mode does without it."""


NAMES_OF_PYTHON = re.compile(
    r"(?<!\.)\b(\w+_(id|by|mode|version|where|conflict|metadata)|fingerprint|isolation|checkpoint)\b"
)


@pytest.fixture(autouse=True)
def task_of_spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    local = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "5"}
    task = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 0, cpus=lambda: 1, getLocalProperty=local.get)
    for module in (source, stream):
        monkeypatch.setattr(module, "TaskContext", SimpleNamespace(get=lambda: task))

    def opened(store: Any, retry: Any, hooks: Any, **place: Any) -> OpenTable:
        retry_policies.append(retry)
        return OpenTable(store, retry, hooks, **place)

    monkeypatch.setattr(open_tables, "OpenTable", opened)
    yield
    open_tables._open.clear()


def test_every_known_option_is_tried() -> None:
    assert {name for name in {*KNOWN, *KNOWN_OF_STREAMS} if name not in CASES} == {"path"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_no_option_of_a_write_is_ignored(name: str, mode: str, tmp_path: Path) -> None:
    case = CASES[name]
    if case.given.keys() & MODES[mode].keys():
        pytest.skip("the option makes the mode")
    without = outcome_without(tmp_path / "without", case, mode)
    with_it = outcome_of(tmp_path / "with", case, mode, case.given)
    assert (without == with_it) == ((name, mode) in IS_WHAT_HAPPENS_ANYWAY), with_it
    assert not NAMES_OF_PYTHON.search(str(with_it[-1])), with_it[-1]


@pytest.mark.parametrize("mode", MODES)
def test_the_same_write_twice_has_the_same_outcome(mode: str, tmp_path: Path) -> None:
    """Or else the test above could not fail."""
    case = Case({})
    assert outcome_of(tmp_path / "one", case, mode, {}) == outcome_of(tmp_path / "two", case, mode, {})


def outcome_without(folder: Path, case: Case, mode: str) -> Any:
    """Written once for all options in the same situation."""
    situation = repr((replace(case, given={}), mode))
    if situation not in outcomes_without:
        outcomes_without[situation] = outcome_of(folder, case, mode, {})
    return outcomes_without[situation]


# --- one write and what came of it ----------------------------------------------------------------------------------


def outcome_of(folder: Path, case: Case, mode: str, given: dict[str, str]) -> Any:
    path = folder / "t"
    open_tables._open.clear()
    notified.clear()
    retry_policies.clear()
    (folder / "checkpoints" / "offsets").mkdir(parents=True)
    for batch in case.batches:
        (folder / "checkpoints" / "offsets" / str(batch)).write_text("offsets")
    if mode != "create":
        properties = {"delta.enableDeletionVectors": "true"}
        old = {"id": [1, 2, 3], "day": ["mon", "mon", "tue"]}
        txlog.write(path, pa.table(old), partition_by=["day"], properties=properties)
        if case.before is not None:
            case.before(txlog.Table.open(path))
    first = txlog.Table.open(path).version + 1 if path.exists() else 0
    changes_rows = "upsertKeys" in MODES[mode]
    beside = {**case.beside, **(case.beside_keys if changes_rows else {})}
    if "txnAppId" in beside and not mode.startswith("stream"):
        beside["txnVersion"] = "8"
    options = {"path": str(path), **MODES[mode], **beside, **given}
    if "checkpointLocation" in options:
        options["checkpointLocation"] = str(folder / "checkpoints")
    rows = case.rows_of_changes if changes_rows and case.rows_of_changes else case.rows
    error = None
    try:
        _write(options, mode, pa.table(rows, schema=_arrow(rows)), case)
    except Exception as raised:
        error = type(raised.__cause__).__name__, getattr(raised.__cause__, "message", str(raised))
    found = (commits_since(path, first), sorted(notified), [repr(each) for each in retry_policies], error)
    shutil.rmtree(folder)
    return found


def _write(options: dict[str, str], mode: str, rows: pa.Table, case: Case) -> None:
    data_source = TxlogDataSource({key.lower(): value for key, value in options.items()})
    schema = StructType([StructField(column.name, _SPARK[column.type]) for column in rows.schema])
    overwrite = mode in OVERWRITES
    for number in case.batches if mode.startswith("stream") else (None,):
        writer: Any = (
            data_source.writer(schema, overwrite) if number is None else data_source.streamWriter(schema, overwrite)
        )
        message = writer.write(iter(rows.to_batches()))
        if case.meanwhile is not None and mode != "create":
            case.meanwhile(txlog.Table.open(options["path"]))
        writer.commit([message], *([] if number is None else [number]))


_SPARK = {pa.int64(): LongType(), pa.string(): StringType()}


def _arrow(rows: dict[str, list[Any]]) -> pa.Schema:
    return pa.schema([(name, pa.int64() if name in ("id", "more", "at") else pa.string()) for name in rows])
