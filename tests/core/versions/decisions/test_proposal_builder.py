"""What the builder makes of several steps: one pair of actions a file, in the order that readers expect."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from txlog.core.format.actions import (
    AddCDCFile,
    AddFile,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from txlog.core.format.schema import LONG, STRING, Field, Struct, schema_to_json
from txlog.core.predicates import col
from txlog.core.predicates.terms.predicate import bind
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal, ReadSet, validate_proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.segment import LogSegment
from txlog.core.versions.decisions.state import StateBuilder, TableState
from txlog.errors import InvalidInputError

SCHEMA = Struct((Field("day", STRING), Field("id", LONG)))
METADATA = Metadata("id", schema_to_json(SCHEMA), ("day",), {}, {"provider": "parquet", "options": {}})
PROTOCOL = Protocol(1, 2)
OLD, NEW = (DeletionVectorDescriptor("u", name, 1, 10, 2) for name in ("old", "new"))
CHANGE = AddCDCFile("_change_data/c", {"day": "mon"}, 1, data_change=False)
DOMAIN = DomainMetadata("d", "{}", removed=False)


def file(path: str = "a", **fields: Any) -> AddFile:
    values: dict[str, Any] = {"data_change": True, "stats": '{"numRecords":3}', "tags": {"t": "1"}, "base_row_id": 7}
    return AddFile(path, {"day": "mon"}, 10, 5, **(values | fields))


def removed(add: AddFile, **fields: Any) -> RemoveFile:
    return replace(add.removed(deletion_timestamp=99, data_change=True), **fields)


@pytest.fixture
def builder() -> ProposalBuilder:
    return ProposalBuilder(_state())


def _state() -> TableState:
    found = StateBuilder()
    found.apply([PROTOCOL, METADATA])
    return found.build(LogSegment(5, None))


def built(builder: ProposalBuilder, operation: str = "MERGE", **info: Any) -> Proposal:
    isolation = Isolation.WRITE_SERIALIZABLE
    proposal = builder.build(OperationInfo(operation, **info), txn_id="txn-1", now_ms=99, isolation=isolation)
    validate_proposal(proposal, append_only=False)
    return proposal


def test_a_row_level_change_becomes_one_proposal(builder: ProposalBuilder) -> None:
    predicate = bind(col("day") == "mon", SCHEMA)
    builder.set_transaction("app", 3)
    builder.read_where(predicate, ["a", "b", "c"])
    builder.add(file("new"))
    builder.replace_vector(file("a", deletion_vector=OLD), NEW, stats='{"numRecords":3,"tightBounds":false}')
    builder.remove(file("b"))
    builder.change_data(CHANGE)
    proposal = built(
        builder,
        parameters={"predicate": "x"},
        metrics={"numTargetRowsUpdated": "2"},
        user_metadata="m",
        fingerprint="f",
    )
    assert proposal.actions == (
        SetTransaction("app", 3, 99),
        removed(file("a", deletion_vector=OLD)),
        removed(file("b")),
        file("new"),
        file("a", deletion_vector=NEW, stats='{"numRecords":3,"tightBounds":false}'),
        CHANGE,
    )
    assert proposal.read_set == ReadSet(predicates=(predicate,), files=frozenset("abc"))
    assert (proposal.read_version, proposal.base_version, proposal.schema) == (5, 5, SCHEMA)
    assert (proposal.operation, proposal.user_metadata, proposal.fingerprint) == ("MERGE", "m", "f")
    assert (proposal.operation_parameters, proposal.operation_metrics) == (
        {"predicate": "x"},
        {"numTargetRowsUpdated": "2"},
    )
    assert not proposal.is_blind_append
    assert proposal.net_files == (0, 0)


def test_several_steps_on_one_file_are_one_pair_of_actions(builder: ProposalBuilder) -> None:
    builder.replace_vector(file(), OLD)
    builder.replace_vector(file(), NEW)
    assert built(builder).actions == (removed(file()), file(deletion_vector=NEW))
    builder.remove(file())
    assert built(builder).actions == (removed(file()),)
    with pytest.raises(InvalidInputError, match="removed by this commit"):
        builder.replace_vector(file(), OLD)


def test_a_vector_that_stays_the_same_is_no_change(builder: ProposalBuilder) -> None:
    builder.replace_vector(file(deletion_vector=OLD), NEW)
    builder.replace_vector(file(deletion_vector=OLD), OLD)
    assert builder.is_empty
    assert built(builder).read_set.files == frozenset("a")


def test_a_new_file_that_is_removed_again_is_left_out_of_the_proposal(builder: ProposalBuilder) -> None:
    builder.add(file("own"), file("other"))
    builder.remove(file("own"))
    builder.replace_vector(file("other"), NEW)
    proposal = built(builder)
    assert proposal.actions == (file("other", deletion_vector=NEW),)
    assert proposal.read_set == ReadSet(files=frozenset())


def test_a_file_is_recognized_whatever_the_spelling_of_its_path(builder: ProposalBuilder) -> None:
    builder.replace_vector(file("a%2Bb"), OLD)
    builder.remove(file("a+b"))
    assert built(builder).actions == (removed(file("a%2Bb")),)


def test_the_same_new_file_twice_is_refused(builder: ProposalBuilder) -> None:
    builder.add(file("x"))
    with pytest.raises(InvalidInputError, match="file x twice"):
        builder.add(file("x"))


def test_files_that_only_move_rows_have_no_data_change() -> None:
    builder = ProposalBuilder(_state(), data_change=False)
    builder.remove(file("a"))
    builder.add(file("b"))
    proposal = built(builder, operation="OPTIMIZE")
    assert proposal.actions == (removed(file("a"), data_change=False), file("b", data_change=False))
    assert proposal.effective_isolation is Isolation.SNAPSHOT


def test_a_definition_comes_before_all_other_actions(builder: ProposalBuilder) -> None:
    builder.add(file())
    builder.set_domain(DOMAIN)
    builder.set_transaction("app", 1)
    builder.define(METADATA)
    builder.define(None, PROTOCOL)
    assert built(builder).actions == (PROTOCOL, METADATA, DOMAIN, SetTransaction("app", 1, 99), file())


def test_the_commit_that_creates_a_table_takes_its_schema_from_the_metadata() -> None:
    builder = ProposalBuilder(None)
    with pytest.raises(InvalidInputError, match="must set both"):
        built(builder)
    builder.define(METADATA, PROTOCOL)
    proposal = built(builder)
    assert (proposal.read_version, proposal.schema, proposal.partition_columns) == (-1, SCHEMA, ("day",))
    assert proposal.creates_table


def test_nothing_read_and_only_new_files_is_a_blind_append(builder: ProposalBuilder) -> None:
    builder.add(file())
    builder.set_transaction("app", 1)
    assert built(builder).is_blind_append
    builder.read_partitions([])
    assert not built(builder).is_blind_append


def test_reads_of_all_steps_are_combined_into_one_read_set(builder: ProposalBuilder) -> None:
    monday, tuesday = (bind(col("day") == day, SCHEMA) for day in ("mon", "tue"))
    builder.read_where(monday, ["a", "b"])
    builder.read_partitions([("mon",)])
    builder.read_partitions([("tue",), (None,)])
    assert built(builder).read_set == ReadSet(
        predicates=(monday,), files=frozenset("ab"), partitions=frozenset([("mon",), ("tue",), (None,)])
    )
    builder.read_where(tuesday, None)
    builder.read_table()
    read = built(builder).read_set
    assert (read.whole_table, read.predicates, read.files) == (True, (monday, tuesday), None)


def test_files_of_other_writers_are_not_counted(builder: ProposalBuilder) -> None:
    builder.add(file(), are_new=False)
    assert built(builder).net_files is None
