"""What the driver-side processes of a Spark write do, without a JVM: tables kept open, hooks, batches without tasks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql.types import LongType, StructField, StructType

import txlog
from txlog.core.format.log_names import commit_name
from txlog.core.versions.upkeep._post_commit import PostCommit
from txlog.core.writing import WriteJob, write_task
from txlog.core.writing.commit_options import CommitOptions
from txlog.spark import open_tables
from txlog.spark.errors import TxlogErrorInSpark, crossing
from txlog.spark.open_tables import process_table
from txlog.spark.options import SparkWriteOptions, parse_stream_options, parse_write_options
from txlog.spark.planning import answer_renamed, commit, confirm_replay, plan
from txlog.spark.settings import SessionSettings
from txlog.spark.stream import StreamMessage, TxlogStreamWriter
from txlog.spark.task import TaskMessage

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
SCHEMA = StructType([StructField("id", LongType())])

versions: list[str] = []


class Hooks(txlog.CommitHooks):
    def on_commit(self, table: str, result: txlog.WriteResult) -> None:
        versions.append(str(result.version))


hooks = Hooks()


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    open_tables._open.clear()
    versions.clear()
    yield
    open_tables._open.clear()


@pytest.fixture
def options(tmp_path: Path) -> SparkWriteOptions:
    txlog.write(tmp_path / "t", ROWS)
    return parse_write_options({"path": str(tmp_path / "t")})


def write(options: SparkWriteOptions, job: WriteJob) -> txlog.WriteResult | None:
    files = process_table(options).store.files
    return commit(options, job, [write_task(files, job.plan, job.task(), ROWS.to_reader())])


def test_a_process_that_writes_again_reuses_the_open_table(options: SparkWriteOptions) -> None:
    first = process_table(options)
    result = write(options, plan(options, SCHEMA, overwrite=False)[0])
    assert result is not None
    assert process_table(options) is first
    assert first.log.newest_state(refresh=False).version == result.version == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_frame_without_columns_is_refused_because_spark_passes_none_of_its_rows(
    options: SparkWriteOptions, overwrite: bool
) -> None:
    with pytest.raises(txlog.SchemaMismatchError, match="the DataFrame has no columns"):
        plan(options, StructType([]), overwrite=overwrite)


def test_table_properties_of_an_existing_table_may_only_state_what_it_has(options: SparkWriteOptions) -> None:
    asked = replace(options, properties={"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match=r'with .*set_properties\(\{"delta\.appendOnly": "true"\}\)'):
        plan(asked, SCHEMA, overwrite=False)
    txlog.Table.open(options.path).set_properties({"delta.appendOnly": "true"})
    assert not plan(asked, SCHEMA, overwrite=False)[0].creates_table


def test_a_table_that_was_dropped_and_created_again_is_reopened(options: SparkWriteOptions) -> None:
    first = process_table(options)
    shutil.rmtree(options.path)
    assert plan(options, SCHEMA, overwrite=False)[0].creates_table
    txlog.write(options.path, pa.table({"id": pa.array([7], pa.int64())}))
    assert process_table(options) is not first
    write(options, plan(options, SCHEMA, overwrite=False)[0])
    assert sorted(txlog.Table.open(options.path).snapshot().to_arrow()["id"].to_pylist()) == [1, 2, 7]


def test_a_job_that_another_process_planned_on_a_newer_version_is_committed(options: SparkWriteOptions) -> None:
    process_table(options)
    this_process = dict(open_tables._open)
    open_tables._open.clear()
    txlog.Table.open(options.path).set_properties({"delta.appendOnly": "true"})
    job, _ = plan(options, SCHEMA, overwrite=False)
    open_tables._open.clear()
    open_tables._open.update(this_process)
    assert write(options, job).version == 2  # type: ignore[union-attr]


def test_hooks_are_named_by_an_option_and_loaded_where_the_commit_runs(options: SparkWriteOptions) -> None:
    for name in ("hooks", "Hooks"):
        hooked = parse_write_options({"path": options.path, "hooks": f"{__name__}:{name}"})
        write(hooked, plan(hooked, SCHEMA, overwrite=False)[0])
    assert versions == ["1", "2"]
    for name in ("no_such_module:hooks", f"{__name__}:nothing", "builtins:dict"):
        with pytest.raises(txlog.InvalidInputError, match="option hooks"):
            process_table(parse_write_options({"path": options.path, "hooks": name}))
    with pytest.raises(txlog.InvalidInputError, match="module:name"):
        parse_write_options({"path": options.path, "hooks": "hooks"})


@pytest.mark.parametrize("named_by", ["option", "checkpoint folder", "nobody"])
def test_a_complete_mode_batch_without_a_task_still_empties_the_table(
    options: SparkWriteOptions, tmp_path: Path, named_by: str
) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "the query"}))
    given = {"path": options.path}
    if named_by == "option":
        given["txnAppId"] = "the query"
    if named_by == "checkpoint folder":
        given["checkpointLocation"] = f"file:{tmp_path}"
    parsed = parse_stream_options(given)
    job, _ = plan(parsed.write, SCHEMA, overwrite=True)
    if named_by == "nobody":
        with pytest.raises(Exception, match="txnAppId"):
            TxlogStreamWriter(parsed, job).commit([], 4)
        return
    TxlogStreamWriter(parsed, job).commit([], 4)
    snapshot = txlog.Table.open(options.path).snapshot()
    assert snapshot.num_files == 0
    assert snapshot.transaction_version("the query") == 4


def test_a_stream_worker_waits_for_upkeep_once_and_a_batch_worker_always(
    options: SparkWriteOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may end the process of a write at once; one that commits a second batch of a stream stays for the third."""
    waited: list[int] = []
    monkeypatch.setattr(PostCommit, "drain", lambda self: waited.append(1))
    parsed = parse_stream_options({"path": options.path, "txnAppId": "a stream of this test alone"})
    for batch_id in range(3):
        job, _ = plan(parsed.write, SCHEMA, overwrite=True)
        TxlogStreamWriter(parsed, job).commit([], batch_id)
    assert (len(waited), txlog.Table.open(options.path).snapshot().version) == (1, 3)
    for _ in range(2):
        write(options, plan(options, SCHEMA, overwrite=False)[0])
    assert len(waited) == 3


def test_an_append_batch_without_a_task_makes_no_version(options: SparkWriteOptions) -> None:
    parsed = parse_stream_options({"path": options.path})
    TxlogStreamWriter(parsed, plan(parsed.write, SCHEMA, overwrite=False)[0]).commit([], 4)
    assert txlog.Table.open(options.path).snapshot().version == 0


def test_the_error_for_an_unknown_stream_option_lists_the_stream_options() -> None:
    with pytest.raises(txlog.InvalidInputError, match="skipCommittedBatches") as caught:
        parse_stream_options({"path": "/t", "skipCommitedBatches": "true"})
    assert "did you mean 'skipCommittedBatches'" in caught.value.message
    assert "txnVersion" not in caught.value.message


def test_the_same_batch_number_from_another_folder_or_with_other_offsets_is_no_replay(
    options: SparkWriteOptions, tmp_path: Path
) -> None:
    """Of a complete mode batch without a task, whose commit is identified only by the checkpoint folder."""

    def empty_batch(folder: str, query_id: str, offsets: str, **more: str) -> None:
        checkpoint = tmp_path / folder
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": query_id}))
        (checkpoint / "offsets" / "4").write_text(offsets)
        given = {"path": options.path, "txnAppId": "named", "checkpointLocation": str(checkpoint), **more}
        parsed = parse_stream_options(given)
        TxlogStreamWriter(parsed, plan(parsed.write, SCHEMA, overwrite=True)[0]).commit([], 4)

    for _ in range(2):
        empty_batch("first", "query 1", "v1 {}")
    for folder, query_id, offsets in (("first", "query 1", "v1 {more}"), ("second", "query 2", "v1 {}")):
        with pytest.raises(Exception, match="made from other input"):
            empty_batch(folder, query_id, offsets)
    empty_batch("second", "query 2", "v1 {}", skipCommittedBatches="true")
    assert txlog.Table.open(options.path).snapshot().version == 1


def test_a_batch_is_found_under_another_name_by_its_fingerprint_alone(options: SparkWriteOptions) -> None:
    """Other applications may be at a batch of the same number, with another fingerprint or without any."""
    files, job = process_table(options).store.files, plan(options, SCHEMA, overwrite=False)[0]
    for name, fingerprint in (("a query", "query a offsets 1"), ("another", "query b"), ("a job", None)):
        named = replace(job, commit=CommitOptions(name, 7, fingerprint), job_id=name)
        task = replace(named.task(), app_id=name, checkpoint_id=7)
        commit(options, named, [write_task(files, named.plan, task, ROWS.to_reader())])
    table = process_table(options)
    for fingerprint, former, version in (
        ("query a offsets 1", None, 1),
        ("query a offsets 1", "a query", 1),
        ("query a offsets 1", "another", None),
        ("query a offsets 2", None, None),
        ("query c", None, None),
        (None, None, None),
    ):
        found = answer_renamed(table, 7, fingerprint, "the name", former)
        assert (None if found is None else found.version) == version
    assert answer_renamed(table, 8, "query a offsets 1", "the name") is None
    assert answer_renamed(table, 7, "query a offsets 1", "a query") is None


def test_a_rerun_of_a_named_write_is_logged_once_although_two_processes_see_it(
    options: SparkWriteOptions, caplog: pytest.LogCaptureFixture
) -> None:
    named = replace(options, commit=CommitOptions("orders", 7))
    job, is_replay = plan(named, SCHEMA, overwrite=False)
    write(named, job)
    assert not is_replay
    caplog.clear()
    caplog.set_level("INFO", "txlog")
    again, is_replay = plan(named, SCHEMA, overwrite=False)
    assert is_replay
    assert confirm_replay(named, again).outcome == "already_committed"
    (told,) = (record for record in caplog.records if "replay" in record.getMessage())
    uri = process_table(named).uri
    assert (told.levelname, told.getMessage()) == (
        "INFO",
        f"{uri}: replay dropped: checkpoint 7 of 'orders' is in v1 already",
    )


@pytest.mark.parametrize("moment", ["planned", "committed"])
def test_errors_name_a_batch_by_the_options_that_the_user_set(options: SparkWriteOptions, moment: str) -> None:
    def named(version: int, fingerprint: str | None = None) -> SparkWriteOptions:
        return replace(options, commit=CommitOptions("orders", version, fingerprint))

    late = [named(3), named(7, "b")]
    jobs = [plan(given, SCHEMA, overwrite=False)[0] for given in late] if moment == "committed" else [None, None]
    first = named(7, "a")
    write(first, plan(first, SCHEMA, overwrite=False)[0])
    for given, job, expected in (
        (late[0], jobs[0], "txnVersion 3 of txnAppId 'orders' is older than the last one committed, 7"),
        (late[1], jobs[1], "txnVersion 7 of txnAppId 'orders' is already in version 1, made from other input (txnFing"),
    ):
        with pytest.raises(TxlogErrorInSpark) as caught, crossing():
            _ = plan(given, SCHEMA, overwrite=False) if job is None else commit(given, job, [])
        message = caught.value.__cause__.message
        assert message.startswith(expected)
        assert "checkpoint" not in message
        assert "app_id" not in message


def test_errors_call_a_batch_of_a_stream_a_micro_batch(options: SparkWriteOptions, tmp_path: Path) -> None:
    parsed = parse_stream_options({"path": options.path, "txnAppId": "clicks", "checkpointLocation": str(tmp_path)})
    (tmp_path / "offsets").mkdir()
    for query_id in ("first", "second"):
        (tmp_path / "metadata").write_text(json.dumps({"id": query_id}))
        writer = TxlogStreamWriter(parsed, plan(parsed.write, SCHEMA, overwrite=True)[0])
        if query_id == "first":
            writer.commit([], 4)
            continue
        with pytest.raises(Exception, match="micro-batch 4 of stream 'clicks' is already in version 1") as caught:
            writer.commit([], 4)
    assert "checkpoint 4" not in str(caught.value)


def test_a_micro_batch_that_nothing_confirms_is_refused_until_the_user_says_that_it_is_a_replay(
    options: SparkWriteOptions, tmp_path: Path
) -> None:
    """The log no longer has the commit of the stream's last batch, and this may be another stream of its name."""
    stream = {"path": options.path, "txnAppId": "clicks", "checkpointLocation": str(tmp_path)}
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text(json.dumps({"id": "first"}))

    def run(**more: str) -> None:
        parsed = parse_stream_options(stream | more)
        TxlogStreamWriter(parsed, plan(parsed.write, SCHEMA, overwrite=True)[0]).commit([], 4)

    run()
    table = txlog.Table.open(options.path)
    table.append(pa.table({"id": [1]}))
    table.create_checkpoint()
    for version in range(table.version):
        Path(options.path, "_delta_log", commit_name(version)).unlink()
    open_tables._open.clear()  # another process
    with pytest.raises(TxlogErrorInSpark) as caught:
        run()
    message = caught.value.__cause__.message
    assert message.startswith("micro-batch 4 of stream 'clicks' is the last one committed, but its commit was cleaned")
    assert "skipCommittedBatches=true, which drops it" in message
    assert "new txnAppId" in message
    assert "without txnFingerprint" not in message
    run(skipCommittedBatches="true")
    assert txlog.Table.open(options.path).version == table.version

    named = replace(options, commit=CommitOptions("clicks", 4, "b"))
    with pytest.raises(TxlogErrorInSpark, match="run it again without txnFingerprint"), crossing():
        plan(named, SCHEMA, overwrite=False)


# --- overwrites -------------------------------------------------------------------------------------------------------


def overwrite(
    options: SparkWriteOptions, rival: Callable[[txlog.Table], object] | None = None, **more: str
) -> list[int]:
    """The ids that are in the table after an overwrite of id 1, which ``rival`` came before."""
    given = parse_write_options({"path": options.path, "replacewhere": "id = 1", **more})
    job, _ = plan(given, SCHEMA, overwrite=True)
    if rival is not None:
        rival(txlog.Table.open(options.path))
    files = process_table(given).store.files
    commit(given, job, [write_task(files, job.plan, job.task(), pa.table({"id": [1]}).to_reader())])
    return sorted(txlog.Table.open(options.path).to_arrow()["id"].to_pylist())


def test_the_option_decides_whether_an_overwrite_that_lost_a_race_fails_or_runs_again(
    options: SparkWriteOptions,
) -> None:
    def more_of_it(table: txlog.Table) -> None:
        table.update({"id": txlog.expr("1")})

    with pytest.raises(txlog.ConflictError):
        overwrite(options, more_of_it)
    assert overwrite(options, more_of_it, onconflict="rerun") == [1]


def test_an_overwrite_with_rows_from_an_older_version_conflicts_with_later_changes(
    options: SparkWriteOptions,
) -> None:
    txlog.Table.open(options.path).delete("id = 1")
    with pytest.raises(txlog.ConflictError, match="read the table again"):
        overwrite(options, readversion="0")
    with pytest.raises(TxlogErrorInSpark, match="readVersion is 7, the newest version is 1"), crossing():
        overwrite(options, readversion="7")
    assert overwrite(options, readversion="1") == [1, 2]


def test_the_option_decides_how_an_overwrite_removes_rows(options: SparkWriteOptions) -> None:
    with pytest.raises(TxlogErrorInSpark, match=r"rowMode=merge-on-read needs .* or leave rowMode out"), crossing():
        overwrite(options, rowmode="merge-on-read")
    txlog.Table.open(options.path).set_properties({"delta.enableDeletionVectors": "true"})
    assert overwrite(options, rowmode="copy-on-write") == [1, 2]
    assert [*Path(options.path).glob("*.bin")] == []


@pytest.mark.parametrize("given", [{"rowmode": "copy-on-write"}, {"onconflict": "fail"}, {"readversion": "0"}])
def test_an_append_refuses_options_of_overwrites(options: SparkWriteOptions, given: dict[str, str]) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"is for overwrites: use \.mode\('overwrite'\)"):
        plan(parse_write_options({"path": options.path, **given}), SCHEMA, overwrite=False)


def test_a_first_write_makes_a_clustered_table_if_the_option_says_so(tmp_path: Path) -> None:
    given = parse_write_options({"path": str(tmp_path / "t"), "clusterBy": "id"})
    for _ in range(2):
        write(given, plan(given, SCHEMA, overwrite=False)[0])
    snapshot = txlog.Table.open(tmp_path / "t").snapshot()
    assert (snapshot.clustering_columns, snapshot.count()) == (("id",), 4)
    other = replace(given, cluster_by=("x",))
    with pytest.raises(txlog.InvalidInputError, match="clustered by id"):
        plan(other, SCHEMA, overwrite=False)


def test_a_stream_commits_the_rows_of_all_tasks_that_report_any(options: SparkWriteOptions) -> None:
    parsed = parse_stream_options({"path": options.path, "txnAppId": "a stream with a silent task"})
    writer, settings = TxlogStreamWriter(parsed, plan(parsed.write, SCHEMA, overwrite=False)[0]), SessionSettings()
    job = writer._job_in(settings, "the query", 4)
    written = write_task(process_table(options).store.files, job.plan, job.task(), ROWS.to_reader())
    message = StreamMessage(*TaskMessage.fields_of(written, settings), writer.job, "the query")
    writer.commit([message, None], 4)
    assert txlog.Table.open(options.path).snapshot().to_arrow().num_rows == 4
