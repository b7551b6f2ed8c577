"""What a proposal says of itself, what its commit looks like, and which proposals are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.core.format.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
    operation_parameters,
)
from txlog.core.format.commit_file import parse_commit
from txlog.core.format.schema import LONG, STRING, Field, Struct, schema_to_json
from txlog.core.predicates import col
from txlog.core.predicates.terms.predicate import bind
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet, commit_bytes, validate_proposal
from txlog.errors import InvalidInputError

SCHEMA = Struct((Field("day", STRING), Field("id", LONG)))
METADATA = Metadata("id", schema_to_json(SCHEMA), ("day",), {}, {"provider": "parquet", "options": {}})
PROTOCOL = Protocol(1, 2)
VECTOR = DeletionVectorDescriptor("u", "ab", 1, 10, 2)


def add(path: str = "a", *, data_change: bool = True, **fields: Any) -> AddFile:
    return AddFile(path, {"day": "mon"}, 1, 0, data_change, **fields)


def remove(path: str = "r", *, data_change: bool = True, **fields: Any) -> RemoveFile:
    return RemoveFile(path, data_change, 1, True, {"day": "mon"}, 1, **fields)


def propose(*actions: Action, **fields: Any) -> Proposal:
    defaults: dict[str, Any] = {
        "txn_id": "txn-1",
        "read_version": 5,
        "read_set": ReadSet(),
        "isolation": Isolation.WRITE_SERIALIZABLE,
        "operation": "WRITE",
        "schema": SCHEMA,
        "partition_columns": ("day",),
    }
    return Proposal(actions=actions, **(defaults | fields))


def lines_of(body: bytes) -> list[dict[str, Any]]:
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.decode().splitlines()]


def commit_info_of(proposal: Proposal, **fields: Any) -> dict[str, Any]:
    body = commit_bytes(proposal, timestamp_ms=1000, engine_info="txlog/0", **fields)
    info: dict[str, Any] = lines_of(body)[0]["commitInfo"]
    return info


# --- the commit -------------------------------------------------------------------------------------------------


def test_commit_info_is_complete() -> None:
    proposal = propose(
        add(),
        operation_parameters=operation_parameters(mode="Append", partitionBy=["day"], predicate=None),
        operation_metrics={"numFiles": "1"},
        user_metadata="nightly",
        fingerprint="offsets-17",
    )
    assert commit_info_of(proposal) == {
        "timestamp": 1000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["day"]'},
        "readVersion": 5,
        "isolationLevel": "WriteSerializable",
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1"},
        "userMetadata": "nightly",
        "engineInfo": "txlog/0",
        "txnId": "txn-1",
        "txlog": {"actions": 2, "net": [1, 1], "fingerprint": "offsets-17"},
    }


def test_a_creating_commit_read_no_version() -> None:
    assert "readVersion" not in commit_info_of(propose(PROTOCOL, METADATA, read_version=-1))


def test_an_in_commit_timestamp_is_the_first_field() -> None:
    info = commit_info_of(propose(add()), in_commit_timestamp=999)
    assert next(iter(info.items())) == ("inCommitTimestamp", 999)


def test_the_declared_number_of_lines_is_theirs_and_the_parser_accepts_it() -> None:
    actions = (METADATA, SetTransaction("x", 1), DomainMetadata("d", "{}", False), add("b"), remove("c"))
    body = commit_bytes(propose(*actions), timestamp_ms=1000, engine_info="txlog/0")
    commit = parse_commit(body, 6)
    assert commit.commit_info is not None
    assert commit.commit_info.declared_actions == len(lines_of(body)) == 6
    dated = SetTransaction("x", 1, last_updated=1000)
    assert set(map(repr, commit.actions)) == {repr(dated if type(a) is SetTransaction else a) for a in actions}


def test_an_empty_commit_is_one_line() -> None:
    assert len(lines_of(commit_bytes(propose(), timestamp_ms=1, engine_info="x"))) == 1


def test_last_updated_is_always_set_and_a_given_one_is_kept() -> None:
    body = commit_bytes(
        propose(SetTransaction("new", 1), SetTransaction("kept", 2, last_updated=7)), timestamp_ms=1000, engine_info="x"
    )
    found = {line["txn"]["appId"]: line["txn"]["lastUpdated"] for line in lines_of(body)[1:]}
    assert found == {"new": 1000, "kept": 7}


def test_a_rebase_changes_nothing_but_the_time_of_the_attempt() -> None:
    proposal = propose(add("a"), add("b"), read_version=5)
    first = commit_bytes(proposal, timestamp_ms=1000, engine_info="x")
    again = commit_bytes(proposal.rebased(9), timestamp_ms=1000, engine_info="x")
    later = lines_of(commit_bytes(proposal.rebased(9), timestamp_ms=2000, engine_info="x"))
    assert again == first
    assert later[1:] == lines_of(first)[1:]
    assert later[0]["commitInfo"]["readVersion"] == 5
    assert later[0]["commitInfo"]["timestamp"] == 2000


def test_a_rebase_does_not_serialise_the_adds_again() -> None:
    proposal = propose(add("a"))
    before = proposal._serialized
    assert proposal.rebased(9)._serialized is before


def test_a_proposal_is_never_rebased_backwards() -> None:
    with pytest.raises(ValueError, match="back to 4"):
        propose(add()).rebased(4)


def test_deltalake_reads_the_commits_their_history_and_their_application(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    data = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2]}), data)
    create = propose(PROTOCOL, METADATA, read_version=-1, operation="CREATE TABLE")
    written = AddFile("a.parquet", {"day": "mon"}, data.stat().st_size, 0, True)
    append = propose(
        written,
        SetTransaction("orders", 7),
        read_version=0,
        operation_parameters=operation_parameters(mode="Append", partitionBy=["day"]),
        user_metadata="nightly",
    )
    for version, proposal in enumerate((create, append)):
        body = commit_bytes(proposal, timestamp_ms=1000 + version, engine_info="txlog/0")
        (log / f"{version:020}.json").write_bytes(body)
    table = deltalake.DeltaTable(tmp_path)
    assert table.transaction_version("orders") == 7
    assert sorted(pa.table(table.to_pyarrow_table()).to_pydict()["id"]) == [1, 2]
    newest, oldest = table.history()
    assert (newest["operation"], newest["timestamp"], newest["userMetadata"]) == ("WRITE", 1001, "nightly")
    assert newest["operationParameters"] == {"mode": "Append", "partitionBy": '["day"]'}
    assert (newest["readVersion"], newest["isolationLevel"], newest["isBlindAppend"]) == (0, "WriteSerializable", True)
    assert oldest["operation"] == "CREATE TABLE"


def test_operation_parameters_are_strings_as_spark_writes_them() -> None:
    given = operation_parameters(mode="Overwrite", partitionBy=[], isManaged=False, description=None, limit=3)
    assert given == {"mode": "Overwrite", "partitionBy": "[]", "isManaged": "false", "limit": "3"}


# --- what it says of itself -------------------------------------------------------------------------------------

READS = {
    "predicates": ReadSet(predicates=(bind(col("id") == 1, SCHEMA),)),
    "files": ReadSet(files=frozenset({"f"})),
    "whole table": ReadSet(whole_table=True),
}


@pytest.mark.parametrize(
    ("actions", "read_set", "blind"),
    [
        ((add(),), ReadSet(), True),
        ((add(), SetTransaction("a", 1)), ReadSet(app_ids=frozenset({"a"})), True),
        ((), ReadSet(), True),
        ((add(),), ReadSet(files=frozenset()), True),
        ((add(),), READS["predicates"], False),
        ((add(),), READS["files"], False),
        ((add(),), READS["whole table"], False),
        ((add(), remove()), ReadSet(), False),
        ((add(data_change=False),), ReadSet(), False),
        ((add(), METADATA), ReadSet(), False),
        ((PROTOCOL,), ReadSet(), False),
        ((AddCDCFile("c", {}, 1, False),), ReadSet(), False),
    ],
)
def test_blind_append_is_declared_honestly(actions: tuple[Action, ...], read_set: ReadSet, blind: bool) -> None:
    proposal = propose(*actions, read_set=read_set)
    assert proposal.is_blind_append is blind
    assert commit_info_of(proposal)["isBlindAppend"] is blind


@pytest.mark.parametrize(
    ("actions", "operation", "under_serializable", "under_write_serializable"),
    [
        ((add(),), "WRITE", "Serializable", "WriteSerializable"),
        (
            (add("x", data_change=False), remove("y", data_change=False)),
            "OPTIMIZE",
            "SnapshotIsolation",
            "SnapshotIsolation",
        ),
        ((add(data_change=False),), "WRITE", "SnapshotIsolation", "WriteSerializable"),
        ((), "DELETE", "Serializable", "WriteSerializable"),
        ((), "RESTORE", "Serializable", "WriteSerializable"),
        ((), "VACUUM END", "SnapshotIsolation", "SnapshotIsolation"),
        ((add(data_change=False), SetTransaction("a", 1)), "OPTIMIZE", "Serializable", "WriteSerializable"),
        ((add(data_change=False), METADATA), "OPTIMIZE", "Serializable", "WriteSerializable"),
        ((add(),), "OPTIMIZE", "Serializable", "WriteSerializable"),
    ],
)
def test_only_commits_that_change_no_data_are_downgraded(
    actions: tuple[Action, ...], operation: str, under_serializable: str, under_write_serializable: str
) -> None:
    for isolation, expected in (
        (Isolation.SERIALIZABLE, under_serializable),
        (Isolation.WRITE_SERIALIZABLE, under_write_serializable),
    ):
        proposal = propose(*actions, operation=operation, isolation=isolation)
        assert commit_info_of(proposal)["isolationLevel"] == expected


# --- what is refused --------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("two adds of one path", {"actions": (add("p"), add("p"))}, "add of file p twice"),
    ("even with a deletion vector", {"actions": (add("p"), add("p", deletion_vector=VECTOR))}, "add of file p twice"),
    ("two removes of one path", {"actions": (remove("p"), remove("p"))}, "remove of file p twice"),
    ("add and remove of one file", {"actions": (add("p"), remove("p"))}, "both adds and removes file p"),
    ("two spellings of one file", {"actions": (add("x.parquet"), add("%78.parquet"))}, "add of file x.parquet twice"),
    ("add and remove in two spellings", {"actions": (add("p"), remove("%70"))}, "both adds and removes file"),
    ("mixed dataChange", {"actions": (add("p"), remove("q", data_change=False))}, "mix"),
    ("cdc with dataChange", {"actions": (AddCDCFile("c", {}, 1, True),)}, "cdc file c"),
    ("a remove without its time", {"actions": (RemoveFile("p", True),)}, "deletionTimestamp"),
    ("one app twice", {"actions": (SetTransaction("a", 1), SetTransaction("a", 2))}, "application a twice"),
    (
        "one domain twice",
        {"actions": (DomainMetadata("d", "", False), DomainMetadata("d", "", True))},
        "domain d twice",
    ),
    ("two metadata", {"actions": (METADATA, METADATA)}, "metaData once"),
    ("two protocols", {"actions": (PROTOCOL, PROTOCOL)}, "protocol once"),
    ("creation without protocol", {"actions": (METADATA,), "read_version": -1}, "must set both"),
    ("creation without metadata", {"actions": (PROTOCOL, add()), "read_version": -1}, "must set both"),
    ("a version below none", {"actions": (), "read_version": -2}, "Invalid read_version -2: expected -1"),
    ("a second commitInfo", {"actions": (CommitInfo({}),)}, "commitInfo"),
    ("a sidecar", {"actions": (Sidecar("s", 1, 1),)}, "sidecar"),
    ("missing partition value", {"actions": (AddFile("p", {}, 1, 0, True),)}, "columns none"),
    ("unknown partition value", {"actions": (AddFile("p", {"day": "x", "h": "1"}, 1, 0, True),)}, "columns day, h"),
    ("snapshot isolation with new rows", {"actions": (add(),), "isolation": Isolation.SNAPSHOT}, "SnapshotIsolation"),
    ("a number as metric", {"actions": (), "operation_metrics": {"numFiles": 1}}, "metric numFiles"),
    ("a list as parameter", {"actions": (), "operation_parameters": {"partitionBy": []}}, "parameter partitionBy"),
]


@pytest.mark.parametrize(("fields", "reported"), [pytest.param(*case[1:], id=case[0]) for case in REFUSED])
def test_an_invalid_proposal_is_refused(fields: dict[str, Any], reported: str) -> None:
    fields = dict(fields)
    with pytest.raises(InvalidInputError, match=reported):
        validate_proposal(propose(*fields.pop("actions"), **fields), append_only=False)


@pytest.mark.parametrize(
    ("actions", "fields"),
    [
        ((add("p"), add("q"), SetTransaction("a", 1), SetTransaction("b", 1)), {}),
        ((add("p", deletion_vector=VECTOR), remove("p")), {}),
        ((PROTOCOL, METADATA, add()), {"read_version": -1}),
        ((), {}),
        ((remove("p", data_change=False), add("q", data_change=False)), {"isolation": Isolation.SNAPSHOT}),
        ((AddFile("p", {}, 1, 0, True), Metadata("i", "{}", (), {}, {})), {}),
    ],
)
def test_a_valid_proposal_is_accepted(actions: tuple[Action, ...], fields: dict[str, Any]) -> None:
    validate_proposal(propose(*actions, **fields), append_only=False)


def test_an_append_only_table_refuses_to_lose_rows_but_lets_them_move() -> None:
    with pytest.raises(InvalidInputError, match="append-only"):
        validate_proposal(propose(add(), remove()), append_only=True)
    moved = propose(add(data_change=False), remove(data_change=False), operation="OPTIMIZE")
    validate_proposal(moved, append_only=True)
    validate_proposal(propose(add()), append_only=True)


def test_a_commit_that_removes_a_file_of_unknown_size_has_no_net_size() -> None:
    unsized = RemoveFile("r", True, 1, True, {"day": "mon"}, None)
    assert propose(add(), remove()).net_files == (0, 0)
    assert propose(add(), unsized).net_files is None
    assert "net" not in commit_info_of(propose(add(), unsized))["txlog"]


def test_a_commit_whose_files_may_be_in_the_table_already_has_no_net_size() -> None:
    assert propose(add()).net_files == (1, 1)
    assert propose(add(), adds_are_new=False).net_files is None
    assert propose(remove(), adds_are_new=False).net_files == (-1, -1)
