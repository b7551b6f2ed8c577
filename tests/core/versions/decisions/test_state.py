from __future__ import annotations

import pytest

from txlog.core.format.actions import Action, CommitInfo, DomainMetadata, Metadata, Protocol, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.segment import LogSegment
from txlog.core.versions.decisions.state import BegunVacuum, StateBuilder, TableState, Totals, advance
from txlog.errors import CorruptLogError

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def commit(version: int, *actions: Action, info: CommitInfo | None = None) -> Commit:
    return Commit(version, actions, info, 100)


def metadata(name: str = "t") -> Metadata:
    return Metadata(name, SCHEMA, (), {}, {"provider": "parquet"})


def domain(name: str, *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(name, "{}", removed)


def created(*actions: Action) -> TableState:
    return advance(None, commit(0, Protocol(1, 2), metadata(), *actions))


def test_the_last_protocol_and_metadata_win() -> None:
    state = advance(created(), commit(1, metadata("renamed")))
    assert (state.version, state.metadata.id, state.protocol) == (1, "renamed", Protocol(1, 2))
    assert advance(state, commit(2, Protocol(1, 3))).protocol.min_writer_version == 3


def test_an_application_version_is_the_last_seen_and_may_go_down() -> None:
    state = advance(created(SetTransaction("x", 9)), commit(1, SetTransaction("x", 4), SetTransaction("y", 1)))
    assert (state.transaction_version("x"), state.transaction_version("y"), state.transaction_version("z")) == (
        4,
        1,
        None,
    )


def test_a_removed_domain_is_absent_until_it_is_set_again() -> None:
    state = created(domain("a"), domain("b"))
    state = advance(state, commit(1, domain("a", removed=True)))
    assert set(state.domains) == {"b"}
    assert set(advance(state, commit(2, domain("a"))).domains) == {"a", "b"}


def test_an_older_state_is_not_changed_by_later_commits() -> None:
    old = created(SetTransaction("x", 1), domain("a"))
    advance(old, commit(1, SetTransaction("x", 2), domain("a", removed=True)))
    assert (old.transaction_version("x"), set(old.domains)) == (1, {"a"})


def test_a_state_is_not_changed_by_what_its_builder_replays_afterwards() -> None:
    base = created(SetTransaction("x", 1), domain("a"))
    builder = StateBuilder(base)
    builder.apply_commit(commit(1, SetTransaction("y", 1), domain("b")))
    first = builder.build(LogSegment(1, None))
    builder.apply_commit(commit(2, SetTransaction("y", 2), domain("a", removed=True)))
    builder.apply_commit(commit(3, SetTransaction("z", 3), domain("c")))
    second = builder.build(LogSegment(3, None))
    builder.apply_commit(commit(4, SetTransaction("z", 4), domain("c", removed=True)))
    found = [
        ({name: each.version for name, each in state.transactions.items()}, set(state.domains))
        for state in (base, first, second)
    ]
    assert found == [({"x": 1}, {"a"}), ({"x": 1, "y": 1}, {"a", "b"}), ({"x": 1, "y": 2, "z": 3}, {"b", "c"})]


def test_schema_is_parsed_once_for_as_long_as_metadata_stays() -> None:
    state = created()
    after = advance(state, commit(1, SetTransaction("x", 1)))
    assert after.schema is state.schema
    assert advance(after, commit(2, metadata())).schema is not state.schema


def test_the_in_commit_timestamp_comes_from_the_last_commit_only() -> None:
    state = advance(created(), commit(1, info=CommitInfo({"inCommitTimestamp": 77})))
    assert state.in_commit_timestamp_ms == 77
    assert advance(state, commit(2)).in_commit_timestamp_ms is None


def test_a_commit_without_a_timestamp_does_not_keep_the_previous_one() -> None:
    builder = StateBuilder(created())
    builder.apply_commit(commit(1, info=CommitInfo({"inCommitTimestamp": 77})))
    builder.apply_commit(commit(2))
    assert builder.build(LogSegment(2, None)).in_commit_timestamp_ms is None


def test_the_version_of_a_checksum_file_counts_as_foreign_since_its_commit_was_not_read() -> None:
    builder = StateBuilder()
    builder.start_from((Protocol(1, 2), metadata()), Totals(0, 0), None)
    builder.apply_commit(commit(6, info=CommitInfo({"txlog": {"actions": 1}})))
    assert builder.build(LogSegment(6, None)).newest_foreign == 5


def test_the_segment_grows_with_each_commit() -> None:
    state = advance(created(), commit(1))
    assert (state.segment.version, state.segment.first_commit, state.segment.tail_bytes) == (1, 0, 200)


@pytest.mark.parametrize("actions", [(), (Protocol(1, 2),), (metadata(),)])
def test_a_table_without_protocol_or_metadata_is_refused(actions: tuple[Action, ...]) -> None:
    with pytest.raises(CorruptLogError, match="has no"):
        advance(None, commit(0, *actions))


def test_metadata_may_come_in_a_later_commit_than_protocol() -> None:
    builder = StateBuilder()
    builder.apply_commit(commit(0, Protocol(1, 2)))
    builder.apply_commit(commit(1, metadata()))
    assert builder.build(LogSegment(1, None)).version == 1


def test_a_commit_that_does_not_follow_is_refused() -> None:
    with pytest.raises(ValueError, match="does not follow"):
        advance(created(), commit(2))
    with pytest.raises(ValueError, match="does not follow"):
        advance(None, commit(1))


def vacuum(version: int, at_ms: int, retention_ms: int) -> Commit:
    parameters = {"specifiedRetentionMillis": str(retention_ms)}
    fields = {"operation": "VACUUM START", "timestamp": at_ms, "operationParameters": parameters}
    return commit(version, info=CommitInfo(fields))


def test_of_several_vacuums_the_one_that_deletes_the_youngest_files_is_known() -> None:
    state = advance(created(), vacuum(1, 5_000, 0))
    assert state.vacuum == BegunVacuum(1, 5_000)
    state = advance(state, vacuum(2, 6_000, 4_000))
    assert state.vacuum == BegunVacuum(1, 5_000), "a later one with a longer retention deletes no file that is younger"
    assert advance(state, vacuum(3, 6_500, 1_500)).vacuum == BegunVacuum(3, 5_000)
