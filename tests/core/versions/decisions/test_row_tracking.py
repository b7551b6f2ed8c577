"""Row ids of one commit: what has one keeps it, what is new is numbered above the table's mark."""

from __future__ import annotations

import orjson

from txlog.core.format.actions import AddFile, DomainMetadata, Metadata, Protocol
from txlog.core.format.commit_file import Commit
from txlog.core.format.schema import LONG, Field, Struct, schema_to_json
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet
from txlog.core.versions.decisions.row_tracking import with_row_ids
from txlog.core.versions.decisions.state import TableState, advance

SCHEMA = Struct((Field("id", LONG),))


def state_with_mark(mark: int) -> TableState:
    """Version 0 of a table that tracks rows and has given the ids up to ``mark``."""
    actions = (
        Protocol(1, 7, None, ("rowTracking", "domainMetadata")),
        Metadata("t", schema_to_json(SCHEMA), (), {}, {"provider": "parquet", "options": {}}),
        DomainMetadata("delta.rowTracking", orjson.dumps({"rowIdHighWaterMark": mark}).decode(), removed=False),
    )
    return advance(None, Commit(0, actions, None, 1))


def add(path: str, base_row_id: int | None = None, version: int | None = None) -> AddFile:
    stats = '{"numRecords":3}'
    return AddFile(path, {}, 1, 1, True, stats, base_row_id=base_row_id, default_row_commit_version=version)


def numbered(state: TableState, *adds: AddFile) -> Proposal:
    plan = Proposal("x", 0, adds, ReadSet(), Isolation.WRITE_SERIALIZABLE, "WRITE", SCHEMA, ())
    return with_row_ids(plan, state)


def test_a_file_that_was_numbered_before_keeps_its_ids_and_its_version() -> None:
    done = numbered(state_with_mark(41), add("moved", base_row_id=7, version=0), add("new"))
    reported = {each.path: (each.base_row_id, each.default_row_commit_version) for each in done.adds}
    assert reported == {"moved": (7, 0), "new": (42, 1)}
    (domain,) = done.domains
    assert orjson.loads(domain.configuration) == {"rowIdHighWaterMark": 44}


def test_a_file_with_row_ids_and_no_commit_version_is_given_the_version_of_this_commit() -> None:
    done = numbered(state_with_mark(41), add("moved", base_row_id=7))
    assert [(each.base_row_id, each.default_row_commit_version) for each in done.adds] == [(7, 1)]
    assert done.domains == ()
