"""The conflict decision as a function: its reasons, what it looks at, and the tail it is given.

Which operation survives which other is the table of test_conflict_outcomes.py; here is what none declares alone.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog import errors
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
from txlog.core.format.commit_file import Commit
from txlog.core.format.schema import LONG, STRING, Field, Primitive, Struct
from txlog.core.predicates import col
from txlog.core.predicates.terms.predicate import bind
from txlog.core.versions.decisions.conflicts import Committed, Conflict, Rebase, Reexecute, decide
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet

SCHEMA = Struct((Field("day", STRING), Field("id", LONG)))
MONDAY = bind(col("day") == "mon", SCHEMA)
SERIALIZABLE, WRITE_SERIALIZABLE = Isolation.SERIALIZABLE, Isolation.WRITE_SERIALIZABLE

METADATA = Metadata("id", "{}", ("day",), {}, {"provider": "parquet", "options": {}})
PROTOCOL = Protocol(1, 2)


def add(path: str, day: str, *, data_change: bool = True, stats: dict[str, Any] | None = None) -> AddFile:
    text = None if stats is None else json.dumps(stats)
    return AddFile(path, {"day": day}, 1, 0, data_change, stats=text)


def remove(path: str, day: str, *, data_change: bool = True) -> RemoveFile:
    return RemoveFile(path, data_change, 1, True, {"day": day}, 1)


def commit(*actions: Action, version: int = 6, blind: bool | None = False, **fields: Any) -> Commit:
    """A winner; ``blind`` None leaves isBlindAppend undeclared, as old and foreign writers do."""
    info = {"operation": "WRITE", **({} if blind is None else {"isBlindAppend": blind}), **fields}
    return Commit(version, actions, CommitInfo(info), 100)


READ_NOTHING = ReadSet()


def propose(
    *actions: Action, read: ReadSet = READ_NOTHING, isolation: Isolation = SERIALIZABLE, **fields: Any
) -> Proposal:
    defaults: dict[str, Any] = {"txn_id": "ours", "read_version": 5, "operation": "WRITE"}
    return Proposal(
        actions=actions,
        read_set=read,
        isolation=isolation,
        schema=SCHEMA,
        partition_columns=("day",),
        **(defaults | fields),
    )


def reasons_of(proposal: Proposal, winner: Commit) -> list[errors.ConflictReason]:
    """What `decide` has against this one winner, as if it were the only one."""
    decision = decide(replace(proposal, checked_version=winner.version - 1), [winner])
    return list(decision.reasons) if isinstance(decision, Conflict) else []


READ_MONDAY = ReadSet(predicates=(MONDAY,), files=frozenset({"f1"}))
READ_ALL = ReadSet(whole_table=True)
NEW = add("new", "mon")
ORDERS, DOMAIN = SetTransaction("orders", 6, 1), DomainMetadata("d", "{}", False)
RULES = (
    "ConcurrentAppendError",
    "ConcurrentDeleteReadError",
    "ConcurrentDeleteDeleteError",
    "ConcurrentTransactionError",
    "MetadataChangedError",
    "ProtocolChangedError",
)


@pytest.mark.parametrize(
    ("read", "actions", "winner", "rules"),
    [
        # A removal that read nothing is about its files alone, and two removals of one file are one too many.
        (READ_NOTHING, (remove("f1", "mon"),), commit(remove("f1", "mon")), ["ConcurrentDeleteDeleteError"]),
        (READ_NOTHING, (remove("f1", "mon"),), commit(remove("f2", "mon"), add("w", "mon")), []),
        # A file that was pruned was not read, whatever the partition it lies in.
        (READ_MONDAY, (NEW,), commit(remove("f2", "mon")), []),
        (ReadSet(app_ids=frozenset({"orders"})), (NEW,), commit(ORDERS), ["ConcurrentTransactionError"]),
        (ReadSet(app_ids=frozenset({"orders"})), (NEW,), commit(SetTransaction("clicks", 6, 1)), []),
        (ReadSet(domains=frozenset({"d"})), (NEW,), commit(DOMAIN), ["ConcurrentTransactionError"]),
        (ReadSet(domains=frozenset({"e"})), (NEW,), commit(DOMAIN), []),
        (READ_ALL, (NEW,), commit(), []),
    ],
)
@pytest.mark.parametrize("isolation", [SERIALIZABLE, WRITE_SERIALIZABLE])
def test_the_declared_reads_and_actions_decide_which_conflicts_are_found(
    isolation: Isolation, read: ReadSet, actions: tuple[Action, ...], winner: Commit, rules: list[str]
) -> None:
    found = reasons_of(propose(*actions, read=read, isolation=isolation), winner)
    assert [reason.rule for reason in found] == rules


@pytest.mark.parametrize(
    ("read", "rules"),
    [
        (ReadSet(whole_table=True), ["ConcurrentDeleteReadError"]),
        (ReadSet(predicates=(MONDAY,), files=frozenset({"f1"})), ["ConcurrentDeleteReadError"]),
        (ReadSet(predicates=(MONDAY,), files=frozenset({"f9"})), []),
        (ReadSet(partitions=frozenset({("mon",)})), ["ConcurrentDeleteReadError"]),
    ],
)
def test_rows_that_a_compaction_moved_conflict_by_the_files_they_came_from(read: ReadSet, rules: list[str]) -> None:
    """Those of files that were read conflict; files that were not read stay unread, wherever their rows are now."""
    winner = commit(add("w", "mon", data_change=False), remove("f1", "mon", data_change=False), operation="OPTIMIZE")
    assert [reason.rule for reason in reasons_of(propose(NEW, read=read), winner)] == rules


BLIND = commit(add("w", "tue"), blind=True)
UPDATE = commit(remove("f1", "mon"), add("f1", "mon"), operation="UPDATE")
COMPACTION = commit(
    remove("f1", "mon", data_change=False), add("w", "mon", data_change=False), operation="OPTIMIZE", blind=False
)


@pytest.mark.parametrize(
    ("winner", "rules"),
    [
        (commit(add("w", "tue")), ["ConcurrentAppendError"]),
        (commit(remove("f1", "mon"), operation="DELETE"), ["ConcurrentDeleteReadError"]),
        (UPDATE, ["ConcurrentAppendError", "ConcurrentDeleteReadError"]),
        (COMPACTION, []),
        (commit(ORDERS), []),
    ],
)
@pytest.mark.parametrize("level", [SERIALIZABLE, WRITE_SERIALIZABLE])
def test_rows_made_from_the_table_conflict_with_every_change_of_its_rows(
    level: Isolation, winner: Commit, rules: list[str]
) -> None:
    found = reasons_of(propose(NEW, read=ReadSet(source=level), isolation=level), winner)
    assert [reason.rule for reason in found] == rules


@pytest.mark.parametrize(
    ("level", "actions", "rules"),
    [
        (SERIALIZABLE, (NEW,), ["ConcurrentAppendError"]),
        (WRITE_SERIALIZABLE, (NEW,), []),
        (WRITE_SERIALIZABLE, (NEW, METADATA), ["ConcurrentAppendError"]),
    ],
)
@pytest.mark.parametrize("of_the_rest", [SERIALIZABLE, WRITE_SERIALIZABLE])
def test_the_level_of_the_rows_that_ours_were_made_from_decides_whether_a_blind_append_is_later(
    of_the_rest: Isolation, level: Isolation, actions: tuple[Action, ...], rules: list[str]
) -> None:
    found = reasons_of(propose(*actions, read=ReadSet(source=level), isolation=of_the_rest), BLIND)
    assert [reason.rule for reason in found] == rules


def test_an_append_of_rows_made_from_the_table_is_not_blind() -> None:
    proposal = propose(NEW, read=ReadSet(source=WRITE_SERIALIZABLE))
    assert not proposal.is_blind_append
    assert proposal.needs_winning_files


@pytest.mark.parametrize(("base_row_id", "rules"), [(None, []), (7, ["ConcurrentDeleteDeleteError"])])
def test_a_file_that_we_remove_and_that_got_row_ids_meanwhile_is_a_conflict(
    base_row_id: int | None, rules: list[str]
) -> None:
    again = replace(add("f1", "mon", data_change=False), base_row_id=base_row_id)
    found = reasons_of(propose(remove("f1", "mon")), commit(again, operation="ROW TRACKING BACKFILL"))
    assert [reason.rule for reason in found] == rules


@pytest.mark.parametrize(("changes", "rules"), [((), []), ((METADATA,), ["ConcurrentAppendError"])])
def test_a_definition_change_is_not_ordered_before_an_append_that_it_would_have_read(
    changes: tuple[Action, ...], rules: list[str]
) -> None:
    proposal = propose(NEW, *changes, read=READ_MONDAY, isolation=WRITE_SERIALIZABLE)
    found = reasons_of(proposal, commit(add("w", "mon"), blind=True))
    assert [reason.rule for reason in found] == rules


def test_a_winner_without_commit_info_does_not_count_as_blind() -> None:
    """Without ``commitInfo`` its reads are unknown, so it cannot count as later than a commit that it may have read."""
    proposal = propose(NEW, read=READ_MONDAY, isolation=WRITE_SERIALIZABLE)
    silent = replace(commit(add("w", "mon")), commit_info=None)
    assert [reason.rule for reason in reasons_of(proposal, silent)] == ["ConcurrentAppendError"]


def test_an_empty_commit_counts_as_a_rewrite_unless_its_operation_may_change_rows() -> None:
    """A DELETE that found nothing may not be placed before rows that it would have deleted."""
    winner = commit(add("w", "mon"), remove("f1", "mon"))
    for isolation, operation, rules in (
        (SERIALIZABLE, "DELETE", ["ConcurrentAppendError", "ConcurrentDeleteReadError"]),
        (WRITE_SERIALIZABLE, "OPTIMIZE", ["ConcurrentDeleteReadError"]),
        (WRITE_SERIALIZABLE, "DELETE", ["ConcurrentAppendError", "ConcurrentDeleteReadError"]),
    ):
        found = reasons_of(propose(read=READ_MONDAY, isolation=isolation, operation=operation), winner)
        assert [reason.rule for reason in found] == rules


# --- reasons --------------------------------------------------------------------------------------------------


def test_every_reason_of_every_winner_is_reported_with_its_version_and_operation() -> None:
    proposal = propose(remove("f1", "mon"), read=READ_MONDAY, operation="DELETE")
    winners = [
        commit(add("a", "mon"), version=6, operation="MERGE"),
        commit(add("b", "tue"), version=7),
        commit(remove("f1", "mon"), METADATA, version=8, operation="UPDATE"),
    ]
    decision = decide(proposal, winners)
    assert isinstance(decision, Conflict)
    assert [(r.rule, r.winner_version, r.winner_operation) for r in decision.reasons] == [
        ("ConcurrentAppendError", 6, "MERGE"),
        ("MetadataChangedError", 8, "UPDATE"),
        ("ConcurrentDeleteReadError", 8, "UPDATE"),
        ("ConcurrentDeleteDeleteError", 8, "UPDATE"),
    ]


def test_a_reason_names_the_winner_the_file_the_predicate_and_what_we_did() -> None:
    proposal = propose(remove("f1", "mon"), read=READ_MONDAY, operation="DELETE")
    decision = decide(proposal, [commit(add("w", "mon"), remove("f1", "mon"))])
    assert isinstance(decision, Conflict)
    assert [str(reason) for reason in decision.reasons] == [
        "v6 (WRITE) added w that may match day = 'mon', which this DELETE read",
        "v6 (WRITE) removed f1, which this DELETE read",
        "v6 (WRITE) removed f1, which this DELETE removes too",
    ]


def test_creating_the_table_conflicts_with_every_write_to_it() -> None:
    """Also where the commit that created it is not among those that are looked at, or says nothing of the protocol."""
    ours = propose(PROTOCOL, METADATA, read_version=-1)
    assert [reason.rule for reason in reasons_of(ours, commit(NEW, version=1))] == ["ProtocolChangedError"]


def test_every_conflict_rule_is_the_name_of_a_conflict_error() -> None:
    assert all(issubclass(getattr(errors, rule), errors.ConflictError) for rule in RULES)


def test_each_predicate_that_a_winner_touches_is_a_separate_reason() -> None:
    tuesday = bind(col("day") == "tue", SCHEMA)
    proposal = propose(NEW, read=ReadSet(predicates=(MONDAY, tuesday), files=frozenset()))
    found = reasons_of(proposal, commit(add("a", "mon"), add("b", "tue"), add("c", "tue")))
    assert ["day = 'mon'" in r.detail for r in found] == [True, False]
    assert "2 files (b and others)" in found[1].detail


# --- files and predicates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stats", "conflicts"),
    [
        ({"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}, True),
        ({"numRecords": 2, "minValues": {"id": 6}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}, False),
        ({"numRecords": 2, "nullCount": {"id": 2}}, False),
        ({"numRecords": 2}, True),
        (None, True),
    ],
)
def test_statistics_of_added_files_are_held_against_a_predicate_on_data(
    stats: dict[str, Any] | None, conflicts: bool
) -> None:
    read = ReadSet(predicates=(bind(col("id") == 5, SCHEMA),), files=frozenset())
    found = reasons_of(propose(NEW, read=read), commit(add("w", "mon", stats=stats)))
    assert bool(found) is conflicts


def test_files_left_unlisted_make_a_matching_remove_count_as_one_that_was_read() -> None:
    proposal = propose(NEW, read=ReadSet(predicates=(MONDAY,)))
    assert [r.rule for r in reasons_of(proposal, commit(remove("x", "mon")))] == ["ConcurrentDeleteReadError"]
    assert reasons_of(proposal, commit(remove("x", "tue"))) == []
    bare = RemoveFile("x", True, 1)
    assert [r.rule for r in reasons_of(proposal, commit(bare))] == ["ConcurrentDeleteReadError"]


def test_paths_are_compared_decoded_since_writers_escape_differently() -> None:
    read = ReadSet(predicates=(MONDAY,), files=frozenset({"day=a%2Bb/x%20y"}))
    winner = commit(remove("day=a+b/x y", "tue"))
    assert [r.rule for r in reasons_of(propose(NEW, read=read), winner)] == ["ConcurrentDeleteReadError"]


def test_a_file_that_two_remove_is_one_file_however_each_of_them_writes_its_path() -> None:
    proposal = propose(remove("day=a%2Bb/x%20y", "tue"))
    winner = commit(remove("day=a+b/x y", "tue"))
    assert [r.rule for r in reasons_of(proposal, winner)] == ["ConcurrentDeleteDeleteError"]


def test_a_blind_append_is_checked_without_the_winners_files() -> None:
    proposal = propose(NEW, SetTransaction("a", 1))
    assert not proposal.needs_winning_files
    assert decide(proposal, [Commit(6, (), CommitInfo({}), 1, files_skipped=True)]) == Rebase(6)


def test_a_proposal_that_depends_on_files_refuses_winners_parsed_without_them() -> None:
    for proposal in (propose(NEW, read=READ_ALL), propose(remove("f", "mon"))):
        assert proposal.needs_winning_files
        with pytest.raises(AssertionError, match="v6"):
            decide(proposal, [Commit(6, (), CommitInfo({}), 1, files_skipped=True)])


# --- the whole tail -------------------------------------------------------------------------------------------


def test_our_own_txn_id_anywhere_in_the_tail_means_committed_whatever_conflicts() -> None:
    proposal = propose(remove("f1", "mon"), read=READ_ALL)
    tail = [commit(METADATA), commit(remove("f1", "mon"), version=7, txnId="ours"), commit(PROTOCOL, version=8)]
    assert decide(proposal, tail) == Committed(7)


def test_our_own_txn_id_is_looked_for_before_our_own_app_id() -> None:
    proposal = propose(NEW, SetTransaction("orders", 7, 1))
    tail = [commit(SetTransaction("orders", 7, 1), version=6), commit(version=7, txnId="ours")]
    assert decide(proposal, tail) == Committed(7)


def test_the_same_checkpoint_by_a_twin_is_already_committed_even_where_later_winners_conflict() -> None:
    proposal = propose(NEW, SetTransaction("orders", 7, 1))
    tail = [
        commit(METADATA),
        commit(SetTransaction("orders", 7, 2), version=7),
        commit(SetTransaction("orders", 8, 2), version=8),
    ]
    assert decide(proposal, tail) == AlreadyCommitted(7)


@pytest.mark.parametrize("theirs", [6, 8])
def test_another_checkpoint_of_our_app_is_a_conflict(theirs: int) -> None:
    decision = decide(propose(NEW, SetTransaction("orders", 7, 1)), [commit(SetTransaction("orders", theirs, 1))])
    assert isinstance(decision, Conflict)
    assert decision.reasons[0].rule == "ConcurrentTransactionError"
    assert str(theirs) in decision.reasons[0].detail
    assert "'orders'" in decision.reasons[0].detail


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [("o1", "o1", True), ("o1", None, True), (None, "o1", True), (None, None, True), ("o1", "o2", False)],
)
def test_a_twin_with_another_fingerprint_is_a_conflict(ours: str | None, theirs: str | None, same: bool) -> None:
    own = {"actions": 2} if theirs is None else {"actions": 2, "fingerprint": theirs}
    decision = decide(
        propose(NEW, SetTransaction("orders", 7, 1), fingerprint=ours),
        [commit(SetTransaction("orders", 7, 1), txlog=own)],
    )
    if same:
        assert decision == AlreadyCommitted(6)
    else:
        assert isinstance(decision, Conflict)
        assert "o1" in decision.reasons[0].detail
        assert "o2" in decision.reasons[0].detail


def test_a_commit_that_holds_only_one_of_our_two_apps_is_no_replay() -> None:
    proposal = propose(NEW, SetTransaction("a", 1, 1), SetTransaction("b", 2, 1))
    both = commit(SetTransaction("b", 2, 1), SetTransaction("a", 1, 1))
    assert decide(proposal, [both]) == AlreadyCommitted(6)
    assert isinstance(decide(proposal, [commit(SetTransaction("a", 1, 1))]), Conflict)


def test_a_rebased_proposal_is_checked_from_its_new_base() -> None:
    proposal = propose(NEW)
    assert decide(proposal, []) == Rebase(5)
    decision = decide(proposal, [commit(version=6), commit(version=7)])
    assert decision == Rebase(7)
    moved = proposal.rebased(7)
    assert (moved.base_version, moved.read_version) == (7, 5)
    assert decide(moved, [commit(version=8)]) == Rebase(8)


@pytest.mark.parametrize("versions", [[7], [6, 8], [7, 6], [5, 6]])
def test_a_tail_with_gaps_is_refused(versions: list[int]) -> None:
    with pytest.raises(AssertionError, match="gaps"):
        decide(propose(NEW), [commit(version=version) for version in versions])


# --- against a model of what isolation means --------------------------------------------------------------------

ROWS = st.lists(st.integers(0, 9), min_size=1, max_size=3)
DAYS = st.sampled_from(["mon", "tue"])


def file_of(path: str, day: str, rows: list[int]) -> AddFile:
    stats = {"numRecords": len(rows), "minValues": {"id": min(rows)}, "maxValues": {"id": max(rows)}}
    return add(path, day, stats=stats | {"nullCount": {"id": 0}})


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, tuple[str, list[int]]], list[dict[str, Any]]]:
    """A table of files (path -> day, rows), and winners that add files and remove some that are live then."""
    table = {f"f{i}": (draw(DAYS), draw(ROWS)) for i in range(draw(st.integers(0, 4)))}
    live, winners = dict(table), []
    for number in range(draw(st.integers(1, 3))):
        added = {f"w{number}.{i}": (draw(DAYS), draw(ROWS)) for i in range(draw(st.integers(0, 2)))}
        removed = draw(st.lists(st.sampled_from(sorted(live)), unique=True, max_size=2)) if live else []
        winners.append({"adds": added, "removes": {path: live[path][0] for path in removed}})
        live = {path: file for path, file in live.items() if path not in removed} | added
    return table, winners


@given(histories(), DAYS, st.integers(0, 9), st.booleans())
def test_under_serializable_a_rebase_leaves_what_was_read_unchanged(
    history: tuple[dict[str, tuple[str, list[int]]], list[dict[str, Any]]], day: str, id_: int, lists_files: bool
) -> None:
    table, winners = history

    def read(files: dict[str, tuple[str, list[int]]]) -> dict[str, list[int]]:
        found = {path: [row for row in rows if row >= id_] for path, (its_day, rows) in files.items() if its_day == day}
        return {path: rows for path, rows in found.items() if rows}

    predicate = bind((col("day") == day) & (col("id") >= id_), SCHEMA)
    files = frozenset(read(table)) if lists_files else None
    proposal = propose(NEW, read=ReadSet(predicates=(predicate,), files=files))
    state, tail = dict(table), []
    for number, winner in enumerate(winners):
        adds = [file_of(path, its_day, rows) for path, (its_day, rows) in winner["adds"].items()]
        removes = [remove(path, its_day) for path, its_day in winner["removes"].items()]
        tail.append(commit(*adds, *removes, version=6 + number, blind=not removes))
        state = {path: file for path, file in state.items() if path not in winner["removes"]} | winner["adds"]
    decision = decide(proposal, tail)
    if isinstance(decision, Rebase):
        assert read(state) == read(table)
    one_by_one = [reason for winner in tail for reason in reasons_of(proposal, winner)]
    assert (list(decision.reasons) if isinstance(decision, Conflict) else []) == one_by_one


PLAN_OVER = [
    ((add("w", "mon"),), Reexecute(6)),
    ((add("w", "mon", data_change=False), remove("f1", "mon", data_change=False)), Reexecute(6)),
    ((remove("f1", "mon"),), Reexecute(6)),
    ((SetTransaction("clicks", 6, 1),), Rebase(6)),
    ((), Rebase(6)),
    ((DOMAIN,), Rebase(6)),
]


@pytest.mark.parametrize(("actions", "decision"), PLAN_OVER)
@pytest.mark.parametrize("is_blind", [True, False, None])
def test_a_plan_reruns_over_every_commit_that_changes_files(
    actions: tuple[Action, ...], decision: Any, is_blind: bool | None
) -> None:
    proposal = propose(remove("f1", "mon"), NEW, read=READ_ALL, is_reexecutable=True)
    assert decide(proposal, [commit(*actions, blind=is_blind)]) == decision
    both = [commit(*actions, blind=is_blind), commit(version=7)]
    assert decide(proposal, both) == type(decision)(7)


@pytest.mark.parametrize(
    ("actions", "rule"),
    [((METADATA,), "MetadataChangedError"), ((PROTOCOL,), "ProtocolChangedError"), ((ORDERS,), None)],
)
def test_a_plan_still_conflicts_with_a_definition_and_with_its_own_application(
    actions: tuple[Action, ...], rule: str | None
) -> None:
    proposal = propose(remove("f1", "mon"), SetTransaction("orders", 5, 1), read=READ_ALL, is_reexecutable=True)
    decision = decide(proposal, [commit(*actions, add("w", "mon"))])
    assert isinstance(decision, Conflict)
    assert decision.reasons[0].rule == (rule or "ConcurrentTransactionError")


def test_a_plan_continues_over_a_definition_that_writes_rows_as_before() -> None:
    kept = replace(METADATA, configuration={"delta.checkpointInterval": "7"}, description="mine")
    other = replace(METADATA, configuration={"delta.appendOnly": "true"})
    plan = propose(remove("f1", "mon"), NEW, read=READ_ALL, is_reexecutable=True, planned_on=METADATA)
    assert decide(plan, [commit(kept)]) == Reexecute(6)
    assert decide(plan, [commit(kept), commit(METADATA, version=7)]) == Reexecute(7)
    decision = decide(plan, [commit(kept), commit(other, version=7)])
    assert isinstance(decision, Conflict)
    assert [(each.rule, each.winner_version) for each in decision.reasons] == [("MetadataChangedError", 7)]
    by_files = propose(remove("f1", "mon"), NEW, read=READ_ALL, planned_on=METADATA)
    assert isinstance(decide(by_files, [commit(kept)]), Conflict), "it does not rerun"


def test_an_upgrade_of_the_protocol_is_a_conflict_for_what_it_concerns_and_for_another_upgrade() -> None:
    before = {"planned_on": METADATA, "planned_protocol": Protocol(1, 7, None, ("domainMetadata",))}
    harmless = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "domainMetadata"))
    other = Protocol(1, 7, None, ("domainMetadata", "rowTracking"))
    dropped = Protocol(1, 7, None, ())
    files, plan = (propose(remove("f1", "mon"), NEW, is_reexecutable=again, **before) for again in (False, True))
    for proposal in (files, plan, propose(NEW, **before), propose(METADATA, **before)):
        assert decide(proposal, [commit(harmless)]) == Rebase(6)
        for protocol in (other, dropped):
            decision = decide(proposal, [commit(harmless), commit(protocol, version=7)])
            assert isinstance(decision, Conflict)
            assert [(each.rule, each.winner_version) for each in decision.reasons] == [("ProtocolChangedError", 7)]
    assert isinstance(decide(propose(harmless, **before), [commit(harmless)]), Conflict), "an upgrade of its own"
    assert isinstance(decide(propose(**before), [commit(harmless)]), Conflict), "a vacuum looks at each protocol"


def test_of_a_plan_too_the_tail_is_searched_for_its_own_commit_first() -> None:
    proposal = propose(remove("f1", "mon"), read=READ_ALL, is_reexecutable=True)
    tail = [commit(add("w", "mon")), commit(version=7, txnId="ours"), commit(METADATA, version=8)]
    assert decide(proposal, tail) == Committed(7)


@pytest.mark.parametrize(
    ("parameters", "conflicts"),
    [
        ({"specifiedRetentionMillis": "0", "defaultRetentionMillis": "604800000"}, True),  # as Spark writes them
        ({"specifiedRetentionMillis": 1000, "defaultRetentionMillis": 604800000}, True),
        ({"specifiedRetentionMillis": None, "defaultRetentionMillis": "604800000"}, False),
        ({"defaultRetentionMillis": "0"}, True),
        ({}, False),
        (None, False),
    ],
)
def test_a_vacuum_conflicts_with_files_that_are_older_than_its_retention(parameters: Any, conflicts: bool) -> None:
    written_ms = NEW.modification_time
    winner = commit(operation="VACUUM START", timestamp=written_ms + 2000, operationParameters=parameters)
    assert isinstance(decide(propose(NEW), [winner]), Conflict) is conflicts
    earlier = commit(operation="VACUUM START", timestamp=written_ms - 1, operationParameters=parameters)
    assert decide(propose(NEW), [earlier]) == Rebase(6)


# --- partitions that were read whole ---------------------------------------------------------------------------------


MONDAYS = ReadSet(partitions=frozenset({("mon",)}), files=frozenset({"f1"}))
UNTOLD = RemoveFile("f9", True, 1)


@pytest.mark.parametrize(
    ("winner", "isolation", "rules"),
    [
        (commit(add("w", "mon")), SERIALIZABLE, ["ConcurrentAppendError"]),
        (commit(add("w", "mon")), WRITE_SERIALIZABLE, ["ConcurrentAppendError"]),
        (commit(add("w", "mon"), blind=True), SERIALIZABLE, ["ConcurrentAppendError"]),
        (commit(add("w", "mon"), blind=True), WRITE_SERIALIZABLE, []),
        (commit(add("w", "tue")), SERIALIZABLE, []),
        (commit(remove("f2", "mon")), SERIALIZABLE, ["ConcurrentDeleteReadError"]),
        (commit(remove("f2", "tue")), SERIALIZABLE, []),
        (commit(UNTOLD), SERIALIZABLE, ["ConcurrentDeleteReadError"]),
    ],
)
def test_what_happens_in_a_partition_that_was_read_whole_conflicts(
    winner: Commit, isolation: Isolation, rules: list[str]
) -> None:
    found = reasons_of(propose(NEW, read=MONDAYS, isolation=isolation), winner)
    assert [reason.rule for reason in found] == rules


def test_a_partition_is_one_whatever_the_spelling_of_its_values() -> None:
    schema = Struct((Field("day", Primitive("timestamp")),))
    read = ReadSet(partitions=frozenset({("2026-11-20T10:00:00.000000Z",)}))
    proposal = replace(propose(NEW, read=read), schema=schema)
    for spelling, rules in (
        ("2026-11-20 10:00:00", ["ConcurrentAppendError"]),
        ("2026-11-20T12:00:00+02:00", ["ConcurrentAppendError"]),
        ("2026-11-20 10:00:01", []),
        ("not a time", []),
    ):
        assert [reason.rule for reason in reasons_of(proposal, commit(add("w", spelling)))] == rules, spelling
