"""Who goes first among those that wait, and whose append a commit may carry: the rules, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.offered import FILE, METADATA, append
from txlog.core.format.actions import CommitInfo, Protocol, RemoveFile, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.store import ObjectMeta
from txlog.core.versions.decisions.gathering import DEAD_MS, KnownLog, Standing, joined_with, may_be_taken, standing
from txlog.core.versions.decisions.intents import INTENT_BYTES_MAX, Intent, intent_name
from txlog.core.versions.decisions.joined_appends import BYTES_MAX, MEMBERS_MAX
from txlog.core.versions.decisions.proposal import Proposal

KNOWN = KnownLog(5, 9, {"landed", "withdrawn"})
OWN = intent_name(9, "own")


def at(name: str, modified_ms: int, size: int = 100) -> ObjectMeta:
    return ObjectMeta(name, size, modified_ms)


def of(txn_id: str, base_version: int = 9) -> str:
    return intent_name(base_version, txn_id)


def stands(*listed: ObjectMeta, waited_ms: int = 0) -> Standing | None:
    return standing(listed, OWN, KNOWN, waited_ms=waited_ms)


@pytest.mark.parametrize(
    ("txn_id", "base_version", "expected"),
    [
        ("t", 4, False),  # it may be in version 5, which this handle has not read
        ("t", 5, True),
        ("t", 9, True),
        ("t", 10, False),  # its writer has read a version that this handle has not
        ("landed", 9, False),
        ("withdrawn", 5, False),
    ],
)
def test_a_handle_takes_only_what_it_knows_to_be_in_no_version(txn_id: str, base_version: int, expected: bool) -> None:
    assert may_be_taken(of(txn_id, base_version), KNOWN) is expected


def test_a_mark_is_nothing_to_take() -> None:
    assert not may_be_taken("11111111-1111-4111-8111-111111111111", KNOWN)


def test_those_that_wait_for_longer_go_first_and_all_are_taken() -> None:
    listed = at(of("late"), 30), at(OWN, 20), at(of("early"), 10), at(of("same"), 20)
    assert stands(*listed) == Standing((of("early"),), (of("early"), of("same"), of("late")))
    assert stands(at(OWN, 20)) == Standing()


def test_a_commit_that_cannot_be_joined_keeps_its_place_in_line() -> None:
    assert stands(at("mark", 10), at(OWN, 20), at("another mark", 30)) == Standing(("mark",))


def test_overwrites_keep_their_place_among_appends_which_do_not_carry_them() -> None:
    early, late = (intent_name(9, name, replaces=True) for name in ("early", "late"))
    found = stands(at(early, 10), at(of("append"), 15), at(OWN, 20), at(late, 30), at("1mark", 40))
    assert found == Standing((early, of("append")), (of("append"),), of_other_kind=(late,))


def test_a_writer_that_left_its_intent_again_keeps_its_place_and_only_the_last_one_is_taken() -> None:
    again = at(of("a", 6), 10), at(of("own", 6), 15), at(of("b"), 17), at(OWN, 20), at(of("a", 8), 30)
    assert stands(*again) == Standing((of("a", 8),), (of("a", 8), of("b")))


def test_a_list_without_the_own_intent_says_nothing() -> None:
    assert stands(at(of("other"), 10)) is None
    assert stands() is None


def test_what_may_have_landed_counts_for_nobody() -> None:
    old, landed, fenced, newer = of("t", 4), of("landed"), of("withdrawn"), of("t", 10)
    assert stands(*[at(name, 10) for name in (old, landed, fenced, newer)], at(OWN, 20)) == Standing()


def test_what_writers_left_behind_is_named_for_deletion() -> None:
    found = stands(at(of("landed"), 0), at(of("withdrawn"), 15_000), at(OWN, 20_000))
    assert found == Standing(left_behind=(of("landed"),))


@pytest.mark.parametrize(
    ("age_ms", "waited_ms", "is_taken"),
    [(DEAD_MS, 0, True), (DEAD_MS + 1, 0, False), (DEAD_MS, 1, False), (1, DEAD_MS, False), (0, DEAD_MS, True)],
)
def test_an_intent_older_than_an_hour_by_the_stores_clock_is_dead(age_ms: int, waited_ms: int, is_taken: bool) -> None:
    found = stands(at(of("t"), 50), at(OWN, 50 + age_ms), waited_ms=waited_ms)
    if is_taken:
        assert found == Standing((of("t"),) if age_ms else (), (of("t"),))
    else:
        assert found == Standing(left_behind=(of("t"),))


def test_the_own_intent_may_be_older_than_that() -> None:
    assert stands(at(OWN, 0), at(of("t"), DEAD_MS + 5)) == Standing((), (of("t"),))


def test_a_commit_carries_so_many_and_so_much() -> None:
    many = [at(of(f"t{number:04}"), number) for number in range(MEMBERS_MAX + 5)]
    found = stands(*many, at(OWN, 0))
    assert found is not None
    assert len(found.others) == MEMBERS_MAX - 1
    large = [at(of(f"t{number:04}"), number, INTENT_BYTES_MAX) for number in range(20)]
    found = stands(*large, at(OWN, 0))
    assert found is not None
    assert len(found.others) == BYTES_MAX // INTENT_BYTES_MAX - 1, "with the own one"
    assert stands(at(of("t"), 0, INTENT_BYTES_MAX + 1), at(OWN, 1)) == Standing((of("t"),))


# --- which of them become one version -----------------------------------------------------------------------------


def member(name: str, *extra: Any, base_version: int = 7, **fields: Any) -> Proposal:
    file = replace(FILE, path=f"day=mon/{name}.parquet")
    return append(*extra, file, txn_id=name, base_version=base_version, **fields)


def offered(*members: Proposal, table_id: str = "table", base_version: int = 7) -> Intent:
    return Intent(table_id, base_version, members)


def winner(version: int, *actions: Any, **info: Any) -> Commit:
    return Commit(version, actions, CommitInfo({"operation": "WRITE", "isBlindAppend": True, **info}), 1, True)


def taken(intents: Sequence[Intent], winners: Sequence[Commit] = (), *, append_only: bool = False) -> list[str]:
    own = member("own").rebased(7 + len(winners))
    joining = joined_with(
        own, intents, winners, table_id="table", append_only=append_only, live=lambda partitions: (), now_ms=1
    )
    return [each.txn_id for each in joining.members]


def test_appends_are_carried_in_the_order_of_the_line() -> None:
    assert taken([offered(member("b")), offered(member("a"))]) == ["own", "b", "a"]


def test_what_a_machine_gathered_is_carried_whole_or_not_at_all() -> None:
    pair = offered(member("a"), member("b"))
    assert taken([pair]) == ["own", "a", "b"]
    assert taken([offered(member("b")), pair, offered(member("c"))]) == ["own", "b", "c"]


@pytest.mark.parametrize(
    "landed",
    [
        winner(8, txnId="a"),
        winner(8, txnId="another", txlog={"joined": [{"txnId": "x"}, {"txnId": "a"}]}),
        winner(8, operation="FENCE", operationParameters={"txnId": "a"}),
        winner(8, operation="FENCE", operationParameters={"txnIds": '["x", "a"]'}),
        winner(8, METADATA),
        winner(8, Protocol(1, 2)),
    ],
)
def test_what_its_own_writer_would_not_commit_is_left_out(landed: Commit) -> None:
    assert taken([offered(member("a"))], [landed]) == ["own"]
    assert taken([offered(member("b"), member("a"))], [landed]) == ["own"], "with those that belong to it"
    later = offered(member("a", base_version=8), base_version=8)
    assert taken([later], [landed]) == ["own", "a"], "it was found valid on this version"


def test_only_what_was_read_can_be_decided_on() -> None:
    commits = [winner(8), winner(9)]
    bases = {base: [offered(member("a", base_version=base), base_version=base)] for base in (6, 7, 8, 9, 10)}
    assert {base: len(taken(intents, commits)) for base, intents in bases.items()} == {6: 1, 7: 2, 8: 2, 9: 2, 10: 1}


def test_a_version_has_one_checkpoint_of_an_application() -> None:
    first, second = member("a", SetTransaction("app", 1)), member("b", SetTransaction("app", 2))
    other = member("c", SetTransaction("other", 2))
    assert taken([offered(first), offered(second), offered(other)]) == ["own", "a", "c"]
    moved = winner(8, SetTransaction("app", 1))
    assert taken([offered(first), offered(second), offered(other)], [moved]) == ["own", "c"]


def test_what_belongs_to_another_table_or_breaks_a_rule_is_left_out() -> None:
    elsewhere = offered(member("a"), table_id="the table that was here before")
    no_partition = offered(append(replace(FILE, path="x.parquet", partition_values={}), txn_id="a"))
    same_file = offered(append(replace(FILE, path="day=mon/own.parquet"), txn_id="a"))
    other_kind = offered(member("a", operation="STREAMING UPDATE"))
    removes = offered(append(RemoveFile("f", True, 1), txn_id="a"))
    two_apps = offered(member("a", SetTransaction("x", 1), SetTransaction("y", 1)))
    for intent in (elsewhere, no_partition, same_file, other_kind, removes, two_apps):
        assert taken([intent, offered(member("z"))]) == ["own", "z"]


def test_no_more_members_than_a_commit_may_have() -> None:
    crowd = offered(*(member(f"m{number}") for number in range(MEMBERS_MAX - 1)))
    assert len(taken([crowd])) == MEMBERS_MAX
    assert taken([offered(member("a")), crowd]) == ["own", "a"]
