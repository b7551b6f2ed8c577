"""Appends as writers offer them to each other, for tests: a table's state and proposals without a store."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from txlog.core.format.actions import Action, AddFile, CommitInfo, Metadata, Protocol
from txlog.core.format.commit_file import Commit
from txlog.core.format.schema import LONG, STRING, Field, Struct
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet
from txlog.core.versions.decisions.state import TableState, advance

__all__ = ["FILE", "METADATA", "STATE", "append"]

SCHEMA = Struct((Field("day", STRING), Field("id", LONG)))
TEXT = (
    '{"type":"struct","fields":[{"name":"day","type":"string","nullable":true,"metadata":{}},'
    '{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
)
METADATA = Metadata("table", TEXT, ("day",), {}, {"provider": "parquet", "options": {}})
STATE: TableState = replace(advance(None, Commit(0, (Protocol(1, 2), METADATA), CommitInfo({}), 1)), version=7)
FILE = AddFile("day=mon/a.parquet", {"day": "mon"}, 10, 1, True, '{"numRecords":1}')


def append(*actions: Action, txn_id: str = "t", base_version: int = 7, **fields: Any) -> Proposal:
    """A blind append of ``FILE``, or of these actions."""
    given: dict[str, Any] = {
        "isolation": Isolation.WRITE_SERIALIZABLE,
        "operation": "WRITE",
        "read_set": ReadSet(),
        "read_version": base_version,
    }
    return Proposal(
        txn_id=txn_id, actions=actions or (FILE,), schema=SCHEMA, partition_columns=("day",), **(given | fields)
    )
