"""Tables that others wrote are sound; each way of breaking one is found, with file and line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.audit.verify import verify_table
from txlog.core.store import open_store
from txlog.errors import TableNotFoundError
from txlog.result.audits import Finding, Verification
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table by deltalake: six appends, a checkpoint at version 3, an overwrite, an app's versions."""
    path = tmp_path_factory.mktemp("pristine") / "table"
    for number in range(6):
        rows = pa.table({"id": [number, number + 10], "day": ["mon", "tue"]}, schema=SCHEMA)
        properties = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("app", number)])
        mode = "overwrite" if number == 4 else "append"
        deltalake.write_deltalake(path, rows, mode=mode, partition_by=["day"], commit_properties=properties)
        if number == 3:
            deltalake.DeltaTable(path).create_checkpoint()
    return path


@pytest.fixture
def table(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "table"))


def test_a_sound_table_has_no_findings_and_everything_was_looked_at(table: Path) -> None:
    verification = verify(table)
    assert verification.findings == ()
    assert verification.is_sound
    assert (verification.version, verification.commits, verification.checkpoints) == (5, 6, 1)
    assert verification.data_files == len(deltalake.DeltaTable(table).file_uris())


def test_a_table_whose_old_commits_were_cleaned_up_is_sound(table: Path) -> None:
    for version in range(3):
        commit(table, version).unlink()
    assert verify(table).findings == ()


def test_a_table_of_which_only_the_checkpoint_is_left_is_sound(table: Path) -> None:
    for version in range(6):
        commit(table, version).unlink()
    verification = verify(table)
    assert (verification.findings, verification.version) == ((), 3)
    assert verification.data_files == 8


def test_progress_is_reported_for_commits_and_for_data_files(table: Path) -> None:
    reported: list[tuple[str, int, int]] = []
    verify(table, on_progress=lambda what, done, total: reported.append((what, done, total)))
    assert ("commits", 6, 6) in reported
    assert ("data files", 4, 4) in reported


def test_a_missing_table_is_an_error_and_not_a_finding(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        verify(tmp_path)


# --- a broken log -------------------------------------------------------------------------------------------


def test_a_missing_version_is_named(table: Path) -> None:
    commit(table, 4).unlink()
    assert found(verify(table)) == [("missing-version", "00000000000000000004.json", None)]


def test_a_log_without_a_start_is_named(table: Path) -> None:
    commit(table, 0).unlink()
    (table / "_delta_log" / "00000000000000000003.checkpoint.parquet").unlink()
    (table / "_delta_log" / "_last_checkpoint").unlink()
    assert found(verify(table)) == [("no-start", "00000000000000000001.json", None)]


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda body: b"", None),
        (lambda body: body[: len(body) - 20], 4),
        (lambda body: body.replace(b'"size":', b'"size":-', 1), 2),
        (lambda body: b'{"commitInfo":{"txlog":{"actions":9}}}\n' + body, 5),
    ],
    ids=["empty", "torn", "negative size", "incomplete"],
)
def test_a_damaged_commit_is_named_with_its_line(
    table: Path, damage: Callable[[bytes], bytes], line: int | None
) -> None:
    path = commit(table, 5)
    path.write_bytes(damage(path.read_bytes()))
    verification = verify(table)
    assert [finding.rule for finding in verification.findings] == ["corrupt-commit"]
    assert (verification.findings[0].path, verification.findings[0].version) == (path.name, 5)
    if line is not None:
        assert verification.findings[0].line == line
    assert not verification.is_sound


def test_after_a_damaged_commit_checking_continues_from_the_next_checkpoint(table: Path) -> None:
    commit(table, 1).write_bytes(b"")
    verification = verify(table)
    assert found(verification) == [("corrupt-commit", "00000000000000000001.json", None)]
    assert verification.data_files == 4


def test_a_first_commit_without_metadata_is_found(table: Path) -> None:
    edit(table, 0, lambda actions: [action for action in actions if "metaData" not in action])
    assert "incomplete-start" in rules(verify(table))


def test_a_file_added_and_removed_by_one_commit_is_found_at_its_line(table: Path) -> None:
    def remove_what_it_adds(actions: list[Any]) -> list[Any]:
        add = next(action["add"] for action in actions if "add" in action)
        return [*actions, {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}}]

    lines = edit(table, 5, remove_what_it_adds)
    assert ("duplicate-action", "00000000000000000005.json", lines) in found(verify(table))


def test_removing_a_file_that_is_not_in_the_table_is_found_at_its_line(table: Path) -> None:
    removal = {"remove": {"path": "day=mon/never.parquet", "dataChange": True, "deletionTimestamp": 1}}
    lines = edit(table, 5, lambda actions: [*actions, removal])
    assert found(verify(table)) == [("remove-of-inactive-file", "00000000000000000005.json", lines)]


def test_two_spellings_of_one_path_are_one_file(table: Path) -> None:
    spelled = {"day=mon": "d%61y=mon", "day=tue": "day%3Dtue"}

    def respell(actions: list[Any]) -> list[Any]:
        text = json.dumps([action for action in actions if "remove" in action])
        for plain, escaped in spelled.items():
            text = text.replace(plain, escaped)
        return [*(action for action in actions if "remove" not in action), *json.loads(text)]

    edit(table, 4, respell)
    assert verify(table).findings == ()


@pytest.mark.parametrize("path", ["../other/part.parquet", "a/%2e%2e/b", "_delta_log/x.parquet", "a%00b"])
def test_a_path_that_may_not_be_is_found_and_not_followed(table: Path, path: str) -> None:
    add = {"path": path, "partitionValues": {"day": "mon"}, "size": 1, "modificationTime": 1, "dataChange": True}
    lines = edit(table, 5, lambda actions: [*actions, {"add": add}])
    assert found(verify(table)) == [("unsafe-path", "00000000000000000005.json", lines)]


def test_partition_values_that_are_not_the_tables_are_found(table: Path) -> None:
    add = {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    edit(table, 5, lambda actions: [*actions, {"add": add}])
    assert "wrong-partition-values" in rules(verify(table, data_files=False))


def test_a_partition_value_that_does_not_fit_its_columns_type_is_found(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([1, 2, None], pa.int32()), "id": [1, 2, 3]})
    deltalake.write_deltalake(tmp_path / "t", rows, partition_by=["n"])
    assert verify(tmp_path / "t").findings == ()
    values = {"partitionValues": {"n": "x"}}
    edit(tmp_path / "t", 0, lambda actions: [{"add": {**a["add"], **values}} if "add" in a else a for a in actions])
    findings = verify(tmp_path / "t", data_files=False).findings
    assert [finding.rule for finding in findings] == ["wrong-partition-values"] * 3
    assert "is a int, but a partition value is 'x'" in findings[0].message


def test_columns_with_one_name_in_data_files_are_found(tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name"}
    Table.create(tmp_path / "t", "a bigint, s array<struct<x bigint, y bigint>>", properties=properties)
    assert verify(tmp_path / "t").is_sound

    def alike(actions: list[Any]) -> list[Any]:
        for action in actions:
            if "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])
                for field in schema["fields"][1]["type"]["elementType"]["fields"]:
                    field["metadata"]["delta.columnMapping.physicalName"] = "col-1"
                action["metaData"]["schemaString"] = json.dumps(schema)
        return actions

    edit(tmp_path / "t", 0, alike)
    verification = verify(tmp_path / "t")
    assert rules(verification) == ["repeated-physical-name"]
    assert "col-1" in verification.findings[0].message


def test_one_transaction_that_landed_twice_is_found(table: Path) -> None:
    for version in (2, 5):
        edit(table, version, lambda actions: with_commit_info(actions, txnId="same"))
    verification = verify(table)
    assert rules(verification) == ["duplicate-txn-id"]
    assert verification.findings[0].version == 5


def test_a_transaction_that_landed_behind_its_fence_is_found(table: Path) -> None:
    fence = {"operation": "FENCE", "operationParameters": {"txnIds": '["late", "another"]'}}
    edit(table, 3, lambda actions: with_commit_info(actions, **fence))
    assert verify(table).is_sound
    edit(table, 5, lambda actions: with_commit_info(actions, txnId="late"))
    verification = verify(table)
    assert rules(verification) == ["fenced-transaction"]
    assert verification.findings[0].version == 5


def test_an_application_that_goes_back_is_a_warning(table: Path) -> None:
    edit(table, 5, lambda actions: [*without(actions, "txn"), {"txn": {"appId": "app", "version": 2}}])
    verification = verify(table)
    assert rules(verification) == ["transaction-went-back"]
    assert verification.is_sound


def test_an_in_commit_timestamp_that_does_not_advance_is_found(table: Path) -> None:
    for version, timestamp in ((4, 2000), (5, 2000)):
        edit(table, version, lambda actions, t=timestamp: with_commit_info(actions, inCommitTimestamp=t))  # type: ignore[misc]
    assert rules(verify(table)) == ["timestamp-not-after"]


def test_an_acknowledged_version_that_was_rewritten_is_found(table: Path) -> None:
    edit(table, 5, lambda actions: with_commit_info(actions, txnId="theirs"))
    assert verify(table, txn_ids={5: "theirs"}).findings == ()
    assert rules(verify(table, txn_ids={5: "ours"})) == ["rewritten-version"]


def test_an_acknowledged_version_that_the_log_ends_before_is_found(table: Path) -> None:
    """As after a restore from a backup that is older than the version."""
    lost = verify(table, txn_ids={6: "ours"})
    assert rules(lost) == ["lost-version"]
    assert not lost.is_sound


# --- broken checkpoints -------------------------------------------------------------------------------------


def test_a_checkpoint_that_lacks_a_file_is_found(table: Path) -> None:
    rewrite_checkpoint(table, lambda rows: [*rows[:-1]])
    assert set(rules(verify(table))) == {"checkpoint-differs"}


def test_a_checkpoint_that_lists_a_file_the_log_does_not_have_is_found(table: Path) -> None:
    def add_one(rows: list[Any]) -> list[Any]:
        row = next(row for row in rows if row["add"])
        return [*rows, {**row, "add": {**row["add"], "path": "day=mon/ghost.parquet"}}]

    rewrite_checkpoint(table, add_one)
    verification = verify(table)
    assert rules(verification) == ["checkpoint-differs"]
    assert "ghost.parquet" in verification.findings[0].message


def test_a_checkpoint_with_another_application_version_is_found(table: Path) -> None:
    def move_on(rows: list[Any]) -> list[Any]:
        return [{**row, "txn": {**row["txn"], "version": 99}} if row["txn"] else row for row in rows]

    rewrite_checkpoint(table, move_on)
    assert rules(verify(table)) == ["checkpoint-differs"]


def test_a_checkpoint_that_cannot_be_read_is_found(table: Path) -> None:
    path = table / "_delta_log" / "00000000000000000003.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:200])
    assert found(verify(table)) == [("corrupt-checkpoint", path.name, None)]


def test_many_differences_of_one_checkpoint_are_counted(table: Path) -> None:
    def add_many(rows: list[Any]) -> list[Any]:
        row = next(row for row in rows if row["add"])
        return [*rows, *({**row, "add": {**row["add"], "path": f"day=mon/{n}.parquet"}} for n in range(50))]

    rewrite_checkpoint(table, add_many)
    findings = verify(table).findings
    assert len(findings) == 21
    assert "30" in findings[-1].message


def test_half_a_multipart_checkpoint_is_a_warning(table: Path) -> None:
    log = table / "_delta_log"
    shutil.copy(
        log / "00000000000000000003.checkpoint.parquet",
        log / "00000000000000000004.checkpoint.0000000001.0000000002.parquet",
    )
    verification = verify(table)
    assert rules(verification) == ["incomplete-checkpoint"]
    assert verification.is_sound


def test_a_checkpoint_that_others_write_during_a_verify_is_no_finding(table: Path) -> None:
    checkpoints: list[int] = []

    def write_checkpoint(*_: object) -> None:
        if not checkpoints:
            checkpoints.append(Table.open(table).create_checkpoint())

    assert rules(verify(table, on_progress=write_checkpoint)) == []
    assert checkpoints


@pytest.mark.parametrize("hint", ["", "not json", '{"version": 4, "size": 3}', '{"size": 3}'])
def test_a_useless_hint_is_a_warning(table: Path, hint: str) -> None:
    (table / "_delta_log" / "_last_checkpoint").write_text(hint)
    verification = verify(table)
    assert rules(verification) == ["bad-hint"]
    assert verification.is_sound


# --- broken data files --------------------------------------------------------------------------------------


def test_a_missing_data_file_is_named(table: Path) -> None:
    victim = live_file(table)
    (table / victim).unlink()
    assert found(verify(table)) == [("missing-file", victim, None)]


def test_a_data_file_that_was_cut_short_is_named(table: Path) -> None:
    victim = live_file(table)
    (table / victim).write_bytes((table / victim).read_bytes()[:-1])
    assert found(verify(table)) == [("wrong-size", victim, None)]


def test_a_data_file_behind_an_outward_link_is_named_and_the_others_are_looked_at(table: Path, tmp_path: Path) -> None:
    victim, other = live_files(table)[:2]
    outside = tmp_path / "elsewhere.parquet"
    (table / victim).rename(outside)
    (table / victim).symlink_to(outside)
    (table / other).unlink()
    verification = verify(table)
    assert sorted((finding.rule, finding.path) for finding in verification.findings) == [
        ("missing-file", other),
        ("unreachable-file", victim),
    ]
    assert not verification.is_sound


def test_verify_can_leave_out_data_files(table: Path) -> None:
    (table / live_file(table)).unlink()
    verification = verify(table, data_files=False)
    assert (verification.findings, verification.data_files) == ((), 0)


def test_a_file_that_is_no_longer_live_may_be_missing(table: Path) -> None:
    dead = set(table.glob("day=*/*.parquet")) - {table / path for path in live_files(table)}
    assert dead
    for path in dead:
        path.unlink()
    assert verify(table).findings == ()


# --- helpers ------------------------------------------------------------------------------------------------


def test_an_unknown_feature_is_reported_alongside_the_other_checks(table: Path) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"], "writerFeatures": ["new"]}
    commit(table, 6).write_text(json.dumps({"protocol": protocol}) + "\n")
    verification = verify(table)
    assert verification.is_sound
    assert rules(verification) == ["unknown-feature"]
    assert "table feature new" in verification.findings[0].message
    del protocol["readerFeatures"]
    commit(table, 6).write_text(json.dumps({"protocol": protocol}) + "\n")
    assert rules(verify(table)) == ["bad-protocol"]


def verify(table: Path, **options: Any) -> Verification:
    return verify_table(open_store(table), **options)


def rules(verification: Verification) -> list[str]:
    return [finding.rule for finding in verification.findings]


def found(verification: Verification) -> list[tuple[str, str | None, int | None]]:
    def key(finding: Finding) -> tuple[str, str | None, int | None]:
        return finding.rule, finding.path, finding.line

    return [key(finding) for finding in verification.findings]


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def edit(table: Path, version: int, change: Callable[[list[Any]], list[Any]]) -> int:
    """Rewrite a commit; returns its number of lines."""
    path = commit(table, version)
    actions = change([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return len(actions)


def without(actions: list[Any], key: str) -> list[Any]:
    return [action for action in actions if key not in action]


def with_commit_info(actions: list[Any], **fields: Any) -> list[Any]:
    return [
        {"commitInfo": {**action["commitInfo"], **fields}} if "commitInfo" in action else action for action in actions
    ]


def rewrite_checkpoint(table: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    path = table / "_delta_log" / "00000000000000000003.checkpoint.parquet"
    checkpoint = pq.read_table(path)
    pq.write_table(pa.Table.from_pylist(change(checkpoint.to_pylist()), schema=checkpoint.schema), path)


def live_files(table: Path) -> list[str]:
    actions = pa.table(deltalake.DeltaTable(table).get_add_actions(flatten=True))
    return [str(path) for path in actions.column("path").to_pylist()]


def live_file(table: Path) -> str:
    return live_files(table)[0]


def test_footers_are_read_and_their_rows_compared_with_the_statistics(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint")
    for number in range(4):
        table.append(pa.table({"id": [number]}))
    damaged, longer, whole, gone = sorted(table.files()["path"].to_pylist())
    body = bytearray((tmp_path / "t" / damaged).read_bytes())
    body[-20:-8] = b"\xff" * 12
    (tmp_path / "t" / damaged).write_bytes(body)
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "t" / longer)
    (tmp_path / "t" / gone).unlink()
    with ThreadPoolExecutor(2) as workers:
        found = table.verify(data_files=False, footers=True, workers=workers)
    assert {(finding.rule, finding.path) for finding in found.findings} == {
        ("bad-footer", damaged),
        ("wrong-count", longer),
    }
    assert "has 3 rows, and its statistics say 1" in str(found.findings)
    assert table.verify(data_files=False).is_sound
    steps: list[tuple[str, int, int]] = []
    table.verify(footers=True, on_progress=lambda *step: steps.append(step))
    assert ("footers", 4, 4) in steps
    assert whole not in str(found.findings)


class Meanwhile(Executor):
    """An executor before whose first task something happens."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.happens = [happens]

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        while self.happens:
            self.happens.pop()()
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_files_that_a_writer_replaces_and_a_vacuum_deletes_during_a_check_are_no_findings(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")

    def replace() -> None:
        table.overwrite(pa.table({"id": [9]}))
        table.vacuum(retention_hours=0, force=True)

    found = table.verify(footers=True, workers=Meanwhile(replace))
    assert (found.findings, found.version, table.version > found.version) == ((), 2, True)
    (live,) = table.files()["path"].to_pylist()
    Path(table.uri, live).unlink()
    found = table.verify(workers=Meanwhile(lambda: table.append(pa.table({"id": [4]}))))
    assert [each.rule for each in found.findings] == ["missing-file"], "what the newest version needs, too"


def test_a_vector_that_a_writer_replaces_and_a_vacuum_deletes_during_a_check_is_no_finding(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"id": range(100)}))
    table.delete("id = 2")
    (old,) = Path(table.uri).glob("**/deletion_vector_*.bin")

    def delete_more() -> None:
        table.delete("id = 3")
        table.vacuum(retention_hours=0, force=True)

    found = table.verify(footers=True, workers=Meanwhile(delete_more))
    assert not old.exists()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, *range(4, 100)]
    assert table.files().num_rows == 1, "the file stays: only its vector is another"
    assert (found.findings, found.version, table.version > found.version) == ((), 2, True)


def test_a_property_of_txlog_that_does_nothing_is_a_warning(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", properties={"mine": "x", "txlog.groupCommit": "true"})
    commit = Path(table.uri, "_delta_log", f"{0:020}.json")
    commit.write_text(commit.read_text().replace('"txlog.groupCommit"', '"txlog.groupcommits"'))
    (finding,) = Table.open(table.uri).verify().findings
    assert (finding.rule, finding.severity, finding.version) == ("unknown-property", "warning", 0)
    assert "did you mean 'txlog.groupCommit'" in finding.message
    changed = Table.open(table.uri)
    changed.unset_properties(["txlog.groupcommits"])
    assert changed.verify().findings == ()
