"""Joined appends as values: which may be joined, what their commit says, and what a reader finds in it again."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from txlog.core.format.actions import (
    Action,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from txlog.core.format.commit_file import Commit, parse_commit
from txlog.core.format.schema import LONG, STRING, Field, Struct
from txlog.core.versions.decisions.conflicts import Committed, Conflict, Rebase, SplitAppends, decide, decide_unread
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted, FingerprintMismatch, check_replay
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted as Replay
from txlog.core.versions.decisions.joined_appends import (
    MEMBERS_MAX,
    JoinedAppend,
    Joining,
    fingerprint_of,
    fits,
    holds,
    may_join,
    member,
    members,
    txn_ids,
)
from txlog.core.versions.decisions.proposal import (
    Isolation,
    Proposal,
    ReadSet,
    commit_bytes,
    commit_facts,
    validate_proposal,
)
from txlog.core.versions.decisions.row_tracking import with_row_ids
from txlog.core.versions.decisions.state import TableState, advance

SCHEMA = Struct((Field("day", STRING), Field("id", LONG)))
METADATA = Metadata("id", "{}", ("day",), {}, {"provider": "parquet", "options": {}})
PROTOCOL = Protocol(1, 2)


def add(path: str, rows: int = 1) -> AddFile:
    return AddFile(path, {"day": "mon"}, 10 * rows, 0, True, stats=f'{{"numRecords":{rows}}}')


def append(txn_id: str, *actions: Action, rows: int = 1, **fields: Any) -> Proposal:
    defaults: dict[str, Any] = {
        "read_version": 5,
        "read_set": ReadSet(),
        "isolation": Isolation.WRITE_SERIALIZABLE,
        "operation": "WRITE",
        "operation_parameters": {"mode": '"Append"'},
        "operation_metrics": {"numFiles": "1", "numOutputRows": str(rows), "numOutputBytes": str(10 * rows)},
    }
    return Proposal(
        txn_id,
        actions=actions or (add(txn_id, rows),),
        schema=SCHEMA,
        partition_columns=("day",),
        **(defaults | fields),
    )


def checkpoint(app_id: str, version: int, txn_id: str = "checkpoint", **fields: Any) -> Proposal:
    return append(txn_id, SetTransaction(app_id, version, 1), add(f"{txn_id}-{app_id}"), **fields)


def joined(*proposals: Proposal, txn_id: str = "joined", version: int = 5) -> Proposal:
    joining = Joining(proposals[0])
    assert all(joining.take(each) for each in proposals[1:])
    return joining.proposal(txn_id, version)


def read_back(proposal: Proposal, version: int = 6) -> Commit:
    """The commit as every reader of the log parses it."""
    return parse_commit(commit_bytes(proposal, timestamp_ms=1, engine_info="test"), version)


def winner(*actions: Action, version: int = 6, **fields: Any) -> Commit:
    return Commit(version, actions, CommitInfo({"operation": "WRITE", **fields}), 100)


def state(
    version: int = 5, *, metadata: Metadata = METADATA, protocol: Protocol = PROTOCOL, **applications: int
) -> TableState:
    transactions = [SetTransaction(app_id, each) for app_id, each in applications.items()]
    created = advance(None, Commit(0, (protocol, metadata, *transactions), None, 100))
    return replace(created, version=version)


# --- which may be joined ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "proposal",
    [append("plain"), checkpoint("app", 3), append("with a note", user_metadata="note"), append("no rows", add("f"))],
)
def test_blind_appends_of_new_files_may_be_joined(proposal: Proposal) -> None:
    assert may_join(proposal)


@pytest.mark.parametrize(
    "fields",
    [
        {"read_set": ReadSet(whole_table=True)},
        {"read_set": ReadSet(app_ids=frozenset({"app"}))},
        {"read_set": ReadSet(domains=frozenset({"domain"}))},
        {"read_version": -1},
        {"adds_are_new": False},
        {"is_tied_to_version": True},
        {"actions": (add("f"), METADATA)},
        {"actions": (add("f"), DomainMetadata("domain", "{}", False))},
        {"actions": (RemoveFile("f", True, 1, True, {"day": "mon"}, 1),)},
        {"actions": (replace(add("f"), data_change=False),)},
        {"actions": (SetTransaction("a", 1, 1), SetTransaction("b", 1, 1), add("f"))},
    ],
    ids=lambda fields: ",".join(fields),
)
def test_what_depends_on_the_table_or_changes_more_than_rows_is_committed_alone(fields: dict[str, Any]) -> None:
    assert not may_join(replace(append("alone"), **fields))


def test_different_applications_join_and_two_checkpoints_of_one_do_not() -> None:
    joining = Joining(checkpoint("one", 1, "a"))
    assert joining.take(checkpoint("two", 1, "b"))
    assert not joining.take(checkpoint("one", 2, "c"))
    assert joining.take(append("d"))
    assert [each.txn_id for each in joining.members] == ["a", "b", "d"]


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "STREAMING UPDATE"},
        {"operation_parameters": {"mode": '"Append"', "canMergeSchema": "true"}},
        {"isolation": Isolation.SERIALIZABLE},
        {"tags": {"delta.rowTracking.preserved": "true"}},
    ],
    ids=lambda fields: ",".join(fields),
)
def test_appends_for_which_the_commit_would_say_different_things_are_not_joined(fields: dict[str, Any]) -> None:
    assert not Joining(append("a")).take(append("b", **fields))


def test_a_file_is_in_a_joined_commit_once() -> None:
    assert not Joining(append("a", add("day=mon/x%20y"))).take(append("b", add("day=mon/x%20y")))


def test_a_joined_commit_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    joining = Joining(append("0"))
    assert [joining.take(append(str(number))) for number in range(1, MEMBERS_MAX + 1)] == [True] * 999 + [False]
    monkeypatch.setattr("txlog.core.versions.decisions.joined_appends.BYTES_MAX", append("x").size_bytes + 10)
    assert not Joining(append("a")).take(append("b"))


def test_an_append_fits_only_on_the_definition_and_the_checkpoint_that_it_was_planned_on() -> None:
    plain, mine = append("plain"), checkpoint("app", 3)
    assert fits(plain, state(5), state(9, other=1))
    assert not fits(plain, state(5), state(4)), "the version that it was planned on is not there yet"
    assert not fits(plain, state(5), state(9, metadata=replace(METADATA, schema_string="[]")))
    assert fits(mine, state(5, app=2), state(9, app=2, other=1))
    assert not fits(mine, state(5, app=2), state(9, app=3))
    assert not fits(mine, state(5), state(9, app=1))


# --- the joined commit --------------------------------------------------------------------------------------------


def test_a_joined_commit_is_one_blind_append_with_all_actions_in_order() -> None:
    proposal = joined(append("a", rows=2), checkpoint("app", 7, "b"), append("c", rows=5), version=8)
    validate_proposal(proposal, append_only=True)
    commit = read_back(proposal, 9)
    assert commit.commit_info is not None
    info = commit.commit_info.fields
    assert [getattr(each, "path", None) for each in commit.actions] == ["a", None, "b-app", "c"]
    assert info["isBlindAppend"] is True
    assert info["operationMetrics"] == {"numFiles": "3", "numOutputRows": "8", "numOutputBytes": "80"}
    assert (info["txnId"], info["readVersion"], info["operation"]) == ("joined", 8, "WRITE")
    assert info["operationParameters"] == {"mode": '"Append"'}
    assert info["txlog"]["net"] == [3, 20 + 10 + 50]
    assert info["txlog"]["actions"] == 1 + len(commit.actions)


def test_a_joined_commit_lists_what_each_append_said() -> None:
    commit = read_back(
        joined(append("a", rows=2, user_metadata="note"), checkpoint("app", 7, "b", fingerprint="offsets"))
    )
    assert members(commit) == (
        JoinedAppend("a", user_metadata="note", files=1, rows=2, bytes=20),
        JoinedAppend("b", "app", 7, "offsets", files=1, rows=1, bytes=10),
    )
    assert member(commit, "b") == members(commit)[1]
    assert member(commit, "joined") is None
    assert [*txn_ids(commit)] == ["joined", "a", "b"]
    assert [holds(commit, each) for each in ("joined", "a", "b", "c")] == [True, True, True, False]
    assert fingerprint_of(commit, "app", 7) == "offsets"
    assert fingerprint_of(commit, "app", 8) is None


def test_what_all_appends_say_the_joined_commit_says_too() -> None:
    noted = [append(each, user_metadata="nightly") for each in "ab"]
    assert joined(*noted).user_metadata == "nightly"
    assert joined(*noted, append("c")).user_metadata is None


def test_a_sum_leaves_out_what_is_not_a_number_or_not_counted_by_all() -> None:
    a, b = append("a"), append("b", operation_metrics={"numOutputRows": "4", "numFiles": "many"})
    assert joined(a, b).operation_metrics == {"numOutputRows": "5"}


def test_one_append_alone_is_committed_as_ever() -> None:
    alone = Joining(append("a")).proposal("joined", 8)
    assert (alone.txn_id, alone.base_version, alone.read_version) == ("a", 8, 5)
    assert members(read_back(alone)) == ()


def test_a_writer_that_keeps_its_commit_knows_it_as_a_reader_does() -> None:
    proposal = joined(append("a", rows=2), checkpoint("app", 7, "b", fingerprint="offsets"))
    kept, read = Commit(6, proposal.actions, commit_facts(proposal, None), 1), read_back(proposal)
    assert members(kept) == members(read)
    assert (kept.txn_id, fingerprint_of(kept, "app", 7)) == ("joined", "offsets")


def test_every_append_of_a_joined_commit_gets_its_own_row_ids() -> None:
    tracked = state(5, protocol=Protocol(1, 7, (), ("rowTracking", "domainMetadata")))
    numbered = with_row_ids(joined(append("a", rows=3), append("b", rows=4), append("c", rows=1)), tracked)
    assert [(each.path, each.base_row_id) for each in numbered.adds] == [("a", 0), ("b", 3), ("c", 7)]
    assert [each.default_row_commit_version for each in numbered.adds] == [6, 6, 6]
    assert orjson.loads(numbered.domains[0].configuration) == {"rowIdHighWaterMark": 7}
    assert numbered.is_blind_append


@pytest.mark.parametrize(
    "listed",
    [None, "a", {"txnId": "a"}, [], [None, 3, "a", {}, {"txnId": 3}, {"appId": "app", "version": 7}]],
)
def test_what_other_writers_may_have_put_into_the_list_is_ignored(listed: Any) -> None:
    assert members(winner(txnId="joined", txlog={"joined": listed})) == ()


def test_a_malformed_field_of_a_member_counts_as_absent() -> None:
    listed = [{"txnId": "a", "appId": 3, "version": "7", "rows": "2", "files": None, "fingerprint": []}]
    assert members(winner(txlog={"joined": listed})) == (JoinedAppend("a"),)


# --- decisions ----------------------------------------------------------------------------------------------------


def test_an_append_finds_itself_in_a_joined_commit() -> None:
    commit = read_back(joined(append("a"), append("b")))
    assert decide(append("a"), [commit]) == Committed(6)
    assert decide(append("c"), [commit]) == Rebase(6)


def test_a_checkpoint_finds_the_same_checkpoint_in_a_joined_commit() -> None:
    commit = read_back(joined(append("a"), checkpoint("app", 7, "b", fingerprint="offsets")))
    assert decide(checkpoint("app", 7, fingerprint="offsets"), [commit]) == AlreadyCommitted(6)
    assert decide(checkpoint("app", 7), [commit]) == AlreadyCommitted(6)
    other = decide(checkpoint("app", 7, fingerprint="others"), [commit])
    assert isinstance(other, Conflict)
    assert "'offsets' there, 'others' here" in str(other.reasons[0])


def test_a_replay_is_proved_by_a_member_and_refused_if_that_was_made_from_other_input() -> None:
    commit = read_back(joined(checkpoint("app", 7, "b", fingerprint="offsets"), checkpoint("other", 9, "c")))
    last = SetTransaction("app", 7)
    assert check_replay("app", 7, "offsets", last, [commit]) == Replay(6)
    assert check_replay("app", 7, "others", last, [commit]) == FingerprintMismatch("app", 7, 6, "others", "offsets")
    assert check_replay("other", 9, "anything", SetTransaction("other", 9), [commit]) == Replay(6)


def test_joined_appends_stay_together_after_other_appends_land() -> None:
    together = joined(append("a"), checkpoint("app", 7, "b"))
    assert decide(together, [winner(add("x")), winner(SetTransaction("other", 1), add("y"), version=7)]) == Rebase(7)


def test_a_joined_commit_finds_itself() -> None:
    together = joined(append("a"), append("b"))
    assert decide(together, [read_back(together)]) == Committed(6)


@pytest.mark.parametrize(
    ("winning", "apart"),
    [
        (winner(SetTransaction("app", 7, 1)), {"b"}),
        (winner(SetTransaction("app", 9, 1)), {"b"}),
        (winner(txnId="a"), {"a"}),
        (winner(txlog={"joined": [{"txnId": "c"}, {"txnId": "a"}]}), {"a", "c"}),
        (winner(METADATA), {"a", "b", "c"}),
        (winner(PROTOCOL), {"a", "b", "c"}),
    ],
    ids=["same checkpoint", "later checkpoint", "landed", "landed joined", "metadata", "protocol"],
)
def test_those_that_may_end_differently_are_decided_apart(winning: Commit, apart: set[str]) -> None:
    together = joined(append("a"), checkpoint("app", 7, "b"), append("c"))
    assert decide(together, [winning]) == SplitAppends(6, frozenset(apart))


def test_a_replay_of_one_is_never_the_answer_for_all() -> None:
    """The winner holds every checkpoint that the joined commit sets, and not the append without one."""
    together = joined(append("a"), checkpoint("app", 7, "b"))
    assert not isinstance(decide(together, [winner(SetTransaction("app", 7, 1))]), AlreadyCommitted | Committed)
    unread = decide_unread(together, state(5), state(9, app=7))
    assert isinstance(unread, Conflict)
