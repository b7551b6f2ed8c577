"""Overwrites of partitions that wait with others: what their intents say, and what whoever commits them removes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from tests.offered import FILE, METADATA, STATE, append
from txlog.core.format import sealed_json
from txlog.core.format.actions import AddCDCFile, AddFile, CommitInfo, DomainMetadata, RemoveFile, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.format.properties import BRANCH
from txlog.core.versions.decisions.gathering import joined_with
from txlog.core.versions.decisions.intents import Intent, can_be_offered, intent_name
from txlog.core.versions.decisions.joined_appends import files_of, members
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet, commit_facts
from txlog.core.versions.decisions.replaced_partitions import executed, without_removes
from txlog.errors import InvalidInputError

GONE = RemoveFile("day=mon/old.parquet", True, 1)
TABLE_READ = ReadSet(whole_table=True)


def file(day: str | None, name: str) -> AddFile:
    return AddFile(f"day={day}/{name}.parquet", {"day": day}, 10, 1, True, '{"numRecords":1}')


def overwrite(day: str | None, name: str, *extra: Any, **fields: Any) -> Proposal:
    how: dict[str, Any] = {
        "txn_id": name,
        "read_set": TABLE_READ,
        "isolation": Isolation.SERIALIZABLE,
        "is_reexecutable": True,
        "replaces_partitions": True,
        "operation_parameters": {"mode": "Overwrite", "isDynamicPartitionOverwrite": "true"},
        "operation_metrics": {"numOutputRows": "1", "numRemovedFiles": "7", "numRemovedBytes": "7"},
    }
    return append(*extra, file(day, name), **how | fields)


LIVE = [file("mon", "x"), file("tue", "y"), file("tue", "z"), file(None, "n")]


def live(partitions: Collection[tuple[str | None, ...]]) -> Sequence[AddFile]:
    return [each for each in LIVE if (each.partition_values["day"],) in partitions]


def removed(proposal: Proposal) -> list[str]:
    return [each.path for each in proposal.removes]


def gathered(own: Proposal, *offered: Proposal, winners: Sequence[Commit] = (), append_only: bool = False) -> Proposal:
    intents = [Intent("table", 7, (each,)) for each in offered]
    own = own.rebased(7 + len(winners))
    joining = joined_with(own, intents, winners, table_id="table", append_only=append_only, live=live, now_ms=99)
    return joining.proposal("joined", own.base_version)


# --- intents --------------------------------------------------------------------------------------------------------


def test_an_intent_names_no_file_that_is_removed_and_is_read_as_it_was_offered() -> None:
    mine = overwrite("mon", "a", SetTransaction("app", 3, 5), GONE)
    intent = Intent("table", 7, (mine,))
    body = intent.to_bytes()
    assert body.startswith(b"txlog-intent 2 ")
    assert b"old.parquet" not in body
    assert intent.name == "10000000000000000007.a.intent"
    assert Intent.from_bytes(intent.name, body, STATE) == Intent("table", 7, (without_removes(mine),))


def test_format_and_name_belong_to_what_is_offered() -> None:
    """A release that knows only the first format would take an overwrite for an append."""
    mine, theirs = Intent("table", 7, (overwrite("mon", "a"),)), Intent("table", 7, (append(txn_id="a"),))
    for intent, version in ((mine, 1), (theirs, 2)):
        value = orjson.loads(intent.to_bytes().partition(b"\n")[2])
        with pytest.raises(InvalidInputError, match="another format"):
            Intent.from_bytes(intent.name, sealed_json.to_bytes("intent", value, version), STATE)
    with pytest.raises(InvalidInputError, match="holds the intent"):
        Intent.from_bytes(intent_name(7, "a"), mine.to_bytes(), STATE)


@pytest.mark.parametrize(
    ("name", "value"),
    [("replaces", "table"), ("replaces", True), ("actions", [{"remove": {"path": "a", "deletionTimestamp": 1}}])],
)
def test_what_nobody_may_execute_is_refused(name: str, value: object) -> None:
    intent = Intent("table", 7, (overwrite("mon", "a"),))
    found = orjson.loads(intent.to_bytes().partition(b"\n")[2])
    found["members"][0][name] = value
    with pytest.raises(InvalidInputError):
        Intent.from_bytes(intent.name, sealed_json.to_bytes("intent", found, 2), STATE)


@pytest.mark.parametrize(
    ("proposal", "expected"),
    [
        (overwrite("mon", "a"), True),
        (overwrite("mon", "a", SetTransaction("app", 1), GONE), True),
        (overwrite("mon", "a", replaces_partitions=False), False),
        (overwrite("mon", "a", is_reexecutable=False), False),
        (replace(overwrite("mon", "a"), partition_columns=()), False),
        (overwrite("mon", "a", METADATA), False),
        (overwrite("mon", "a", DomainMetadata("d", "", False)), False),
        (overwrite("mon", "a", AddCDCFile("c", {}, 1, False)), False),
        (overwrite("mon", "a", read_set=replace(TABLE_READ, app_ids=frozenset(["void"]))), False),
        (overwrite("mon", "a", planned_on=replace(METADATA, configuration={BRANCH: "b"})), False),
        (append(GONE, read_set=TABLE_READ, is_reexecutable=True, replaces_partitions=True), False),
        (overwrite("mon", "a", replace(FILE, path="s3://other/a.parquet")), False),
    ],
)
def test_only_what_depends_on_nothing_but_its_partitions_is_offered(proposal: Proposal, expected: bool) -> None:
    assert can_be_offered(proposal) is expected


# --- one version ----------------------------------------------------------------------------------------------------


def test_each_removes_what_its_partitions_hold_in_the_version_that_it_follows() -> None:
    mon, tue = executed([overwrite("mon", "a", GONE), overwrite("tue", "b", SetTransaction("app", 1))], live, 99)
    assert (removed(mon), removed(tue)) == (["day=mon/x.parquet"], ["day=tue/y.parquet", "day=tue/z.parquet"])
    assert {each.deletion_timestamp for each in (*mon.removes, *tue.removes)} == {99}
    assert tue.operation_metrics == {"numOutputRows": "1", "numRemovedFiles": "2", "numRemovedBytes": "20"}
    assert [type(each) for each in tue.actions] == [SetTransaction, RemoveFile, RemoveFile, AddFile]


def test_a_partition_of_nulls_is_one_of_its_own() -> None:
    (found,) = executed([overwrite(None, "a")], live, 1)
    assert removed(found) == ["day=None/n.parquet"]
    (found,) = executed([overwrite("wed", "a")], live, 1)
    assert removed(found) == []


def test_overwrites_of_different_partitions_share_a_version_that_says_what_each_removed() -> None:
    own = executed([overwrite("mon", "own")], live, 99)[0]
    found = gathered(own, overwrite("tue", "b"), overwrite("wed", "c"))
    assert [each.txn_id for each in found.members] == ["own", "b", "c"]
    assert found.operation_metrics == {"numOutputRows": "3", "numRemovedFiles": "3", "numRemovedBytes": "30"}
    commit = Commit(8, found.actions, commit_facts(found, None), 1)
    assert commit.commit_info is not None
    assert not commit.commit_info.is_blind_append
    assert [(each.files, each.removed) for each in members(commit)] == [(1, 1), (1, 2), (1, 0)]
    added, gone = files_of(commit, {"b"})
    assert [each.path for each in added] == ["day=tue/b.parquet"]
    assert [each.path for each in gone] == ["day=tue/y.parquet", "day=tue/z.parquet"]


def test_a_partition_is_replaced_once_in_a_version() -> None:
    own = executed([overwrite("mon", "own")], live, 99)[0]
    found = gathered(own, overwrite("mon", "a"), overwrite("wed", "b"), overwrite("wed", "c"), overwrite("tue", "d"))
    assert [each.txn_id for each in found.members] == ["own", "b", "d"]


def test_appends_and_overwrites_wait_for_versions_of_their_own() -> None:
    own = executed([overwrite("mon", "own")], live, 99)[0]
    assert gathered(own, append(file("tue", "a"), txn_id="a")).txn_id == "own"
    plain = append(file("mon", "own"), txn_id="own", operation_parameters=own.operation_parameters)
    like = replace(overwrite("tue", "a"), isolation=plain.isolation)
    assert gathered(plain, like).txn_id == "own"


MOVED = RemoveFile("day=tue/old.parquet", False, 1, partition_values={"day": "tue"})
UNKNOWN = RemoveFile("day=tue/old.parquet", True, 1)


@pytest.mark.parametrize(
    ("actions", "is_blind", "is_taken"),
    [
        ((file("tue", "new"),), True, True),
        ((file("mon", "new"), MOVED), False, True),
        ((file("tue", "new"),), False, False),
        ((UNKNOWN,), False, False),
        ((), False, False),
    ],
    ids=["appended", "moved", "replaced", "perhaps removed", "not known"],
)
def test_after_a_version_that_replaced_its_partition_an_overwrite_is_its_own_writers(
    actions: tuple[Any, ...], is_blind: bool, is_taken: bool
) -> None:
    own = executed([overwrite("mon", "own")], live, 99)[0]
    landed = Commit(8, actions, CommitInfo({"operation": "WRITE", "isBlindAppend": is_blind}), 1, True)
    assert bool(gathered(own, overwrite("tue", "a"), winners=[landed]).members) is is_taken


@pytest.mark.parametrize(
    "landed",
    [
        CommitInfo({"operation": "WRITE", "isBlindAppend": True, "txnId": "a"}),
        CommitInfo({"operation": "WRITE", "isBlindAppend": True, "txlog": {"joined": [{"txnId": "a"}]}}),
        CommitInfo({"operation": "FENCE", "operationParameters": {"txnId": "a"}}),
    ],
)
def test_an_overwrite_that_landed_or_never_will_is_left_out(landed: CommitInfo) -> None:
    own = executed([overwrite("mon", "own")], live, 99)[0]
    assert gathered(own, overwrite("tue", "a"), winners=[Commit(8, (), landed, 1, True)]).txn_id == "own"


def test_after_a_new_definition_or_checkpoint_it_is_its_own_writers() -> None:
    own = executed([overwrite("mon", "own")], live, 99)[0]
    mine = overwrite("tue", "a", SetTransaction("app", 3))
    for action in (METADATA, SetTransaction("app", 2)):
        landed = Commit(8, (action,), CommitInfo({"operation": "WRITE"}), 1, True)
        assert gathered(own, mine, winners=[landed]).txn_id == "own"


def test_a_file_that_the_table_has_is_not_added_by_an_overwrite_of_it_or_beside_one() -> None:
    """Whoever writes an intent could name any file."""
    own = executed([overwrite("mon", "own")], live, 99)[0]
    itself = replace(overwrite("tue", "a"), actions=(LIVE[1],))
    elsewhere = replace(overwrite("wed", "a"), actions=(replace(LIVE[0], partition_values={"day": "wed"}),))
    for hostile in (itself, elsewhere):
        assert gathered(own, hostile).txn_id == "own"
    assert gathered(own, overwrite("tue", "a"), append_only=True).txn_id == "own"
