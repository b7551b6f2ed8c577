"""Transactions over several tables: what a table's log, and the work that is staged for it, say of one.

In: proposals, one for each table. Out: the versions that prepare a table, end that, or decide; from a commit that was
read, what it says; and the bytes of staged work. Pure: callers pass ids and times.

The protocol is two-phase commit with the *deciding* table's log as the record of the decision. That table is the one
with the greatest id of those that the transaction read or writes. In each of the others, by ascending id, a *prepared*
version says that the transaction may still write here:

    PREPARE TRANSACTION    names the transaction, all its tables, the commit of the deciding table that decides, and the
                           file in ``_txlog/staging`` with what this table gets. It changes no row.
    the decision           the deciding table's own part, an ordinary commit. Until it is there, nothing is visible.
    WRITE, MERGE, ...      what each prepared table gets, or COMMIT PREPARED where the transaction only read
    ROLLBACK PREPARED      instead of it, if the deciding table's log says that the decision never lands (`fences`), or
                           if another engine has given this table a definition that the work does not fit

Whoever is about to put a version above a prepared one ends that first, for this table, from the two logs. While a table
is prepared, no other commit of txlog lands there. So what the transaction read is as it was until it is decided: a
commit that read one table and writes to another cannot pass a second one that does the reverse. All prepare in one
order, so that none waits for another in a circle.

The `PREPARED` application of a table counts these versions. An odd number: the table is prepared. The version that ends
it makes the number even, and the decision adds two. So its number tells whether a transaction began or ended between
two looks. PROTOCOL.md, "Transaction Identifiers", "Commit Provenance Information".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from txlog.core.format import sealed_json
from txlog.core.format.actions import (
    Action,
    AddCDCFile,
    AddFile,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    action_from_json,
    action_to_json,
    operation_parameters,
)
from txlog.core.format.wire import read_plain_map, read_size, read_text
from txlog.core.versions.decisions.fences import is_fence
from txlog.core.versions.decisions.proposal import TABLE_READ, Isolation, Proposal, ReadSet, ReadsTold
from txlog.core.versions.decisions.state import PREPARED

if TYPE_CHECKING:
    from txlog.core.format.commit_file import Commit
    from txlog.core.versions.decisions.state import TableState

_PREPARE, _COMMIT, _ROLLBACK = "PREPARE TRANSACTION", "COMMIT PREPARED", "ROLLBACK PREPARED"
_TAG, _TABLES = "txlog.transaction", "txlog.tables"
_NAME_START = "prepared."
_FILES = (AddFile, RemoveFile, AddCDCFile)


class PreparedTable(msgspec.Struct, frozen=True):
    """A table: its id, and the location or name by which any process opens it. Of the transaction, it has nothing up to
    version ``since``."""

    table_id: str
    uri: str
    since: int


class Preparation(msgspec.Struct, frozen=True):
    """What a prepared version says.

    ``transaction`` is its id, and ``tables`` are all that it read or writes, of which the last one decides: by its
    commit ``decision``. ``part`` is the name of the staged work; None if the transaction only read this table.
    ``number`` is that of `PREPARED` in the prepared ``version``.
    """

    transaction: str
    tables: tuple[PreparedTable, ...]
    decision: str
    part: str | None
    number: int = -1
    version: int = -1

    @property
    def decider(self) -> PreparedTable:
        return self.tables[-1]


# --- what a log says ----------------------------------------------------------------------------------------------


def number_of(state: TableState) -> int:
    """The number of `PREPARED`; 0 before the first one."""
    return state.transaction_version(PREPARED) or 0


def ends(proposal: Proposal, state: TableState) -> bool:
    """Whether a proposal may follow this prepared version: it ends it, or is a fence, which ends another one."""
    ended = number_of(state) + 1
    return is_fence(proposal) or any(
        each.app_id == PREPARED and each.version == ended for each in proposal.set_transactions
    )


def preparation(commit: Commit) -> Preparation | None:
    """What a commit says if it prepares the table; None if it does not, or is malformed."""
    info = commit.commit_info
    given = None if info is None or info.operation != _PREPARE else info.fields.get("operationParameters")
    numbers = [each.version for each in commit.actions if type(each) is SetTransaction and each.app_id == PREPARED]
    transaction, tables = transaction_of(commit), tables_of(commit)
    if type(given) is not dict or not numbers or transaction is None or not tables:
        return None
    decision, part = given.get("decision"), given.get("part")
    if type(decision) is not str or not (part is None or type(part) is str):
        return None
    return Preparation(transaction, tables, decision, part, numbers[-1], commit.version)


def transaction_of(commit: Commit) -> str | None:
    """The transaction over several tables that a commit belongs to: it prepares one, decides it, or ends it."""
    return _tag(commit, _TAG)


def tables_of(commit: Commit) -> tuple[PreparedTable, ...]:
    """All tables of the transaction that a commit belongs to; none if it belongs to none, or is malformed."""
    try:
        return msgspec.json.decode(_tag(commit, _TABLES) or "[]", type=tuple[PreparedTable, ...])
    except msgspec.MsgspecError:
        return ()


def _tag(commit: Commit, name: str) -> str | None:
    tags = None if commit.commit_info is None else commit.commit_info.fields.get("tags")
    found = tags.get(name) if type(tags) is dict else None
    return found if type(found) is str else None


def is_effect(commit: Commit) -> bool:
    """Whether a transaction over several tables takes effect with this commit."""
    return transaction_of(commit) is not None and commit.operation not in (_PREPARE, _ROLLBACK)


# --- the versions of a transaction --------------------------------------------------------------------------------


def preparing(state: TableState, found: Preparation, *, txn_id: str, now_ms: int) -> Proposal:
    """The version after ``state`` that prepares the table."""
    parameters = operation_parameters(transaction=found.transaction, decision=found.decision, part=found.part)
    return _marker(
        state,
        found,
        _PREPARE,
        parameters,
        SetTransaction(PREPARED, number_of(state) + 1, now_ms),
        found.transaction,
        txn_id,
    )


def rolled_back(state: TableState, found: Preparation, reason: str, *, txn_id: str, now_ms: int) -> Proposal:
    """The version that ends a preparation without rows."""
    parameters = operation_parameters(transaction=found.transaction, reason=reason)
    fingerprint = f"{found.transaction} rolled back"
    return _marker(
        state, found, _ROLLBACK, parameters, SetTransaction(PREPARED, found.number + 1, now_ms), fingerprint, txn_id
    )


def _marker(
    state: TableState,
    found: Preparation,
    operation: str,
    parameters: dict[str, str],
    marked: SetTransaction,
    fingerprint: str,
    txn_id: str,
) -> Proposal:
    return Proposal(
        txn_id=txn_id,
        read_version=state.version,
        actions=(marked,),
        read_set=ReadSet(other_tables=True),
        isolation=Isolation.WRITE_SERIALIZABLE,
        operation=operation,
        schema=state.schema,
        partition_columns=state.partition_columns,
        operation_parameters=parameters,
        fingerprint=fingerprint,
        tags=_tags(found),
        planned_on=state.metadata,
        planned_protocol=state.protocol,
    )


def _tags(found: Preparation) -> dict[str, str]:
    return {_TAG: found.transaction, _TABLES: msgspec.json.encode(found.tables).decode()}


def deciding(proposal: Proposal, state: TableState, found: Preparation, *, now_ms: int) -> Proposal:
    """The deciding table's part as the commit that decides; ``proposal`` is valid on ``state``."""
    marked = SetTransaction(PREPARED, number_of(state) + 2, now_ms)
    return replace(_marked(proposal, found, marked, found.decision), checked_version=state.version)


def committed(proposal: Proposal, prepared: TableState, found: Preparation, *, txn_id: str, now_ms: int) -> Proposal:
    """What a prepared table gets, as the version that ends its preparation. What it read was checked before the
    decision; since then only other engines can have committed here, and it must land."""
    marked = SetTransaction(PREPARED, found.number + 1, now_ms)
    made = _marked(proposal, found, marked, txn_id).rebased(prepared.version, prepared.metadata)
    return replace(made, read_set=ReadSet(other_tables=not proposal.read_set.is_blind))


def _marked(proposal: Proposal, found: Preparation, marked: SetTransaction, txn_id: str) -> Proposal:
    first = next((at for at, each in enumerate(proposal.actions) if type(each) in _FILES), len(proposal.actions))
    return replace(
        proposal,
        txn_id=txn_id,
        actions=(*proposal.actions[:first], marked, *proposal.actions[first:]),
        fingerprint=proposal.fingerprint or found.transaction,
        operation=proposal.operation if proposal.actions else _COMMIT,
        operation_parameters=proposal.operation_parameters if proposal.actions else {},
        operation_metrics=proposal.operation_metrics if proposal.actions else {},
        tags={**proposal.tags, **_tags(found)},
    )


# --- staged work --------------------------------------------------------------------------------------------------


def is_part(name: str) -> bool:
    """Whether an object in a staging folder is the staged work of a transaction over several tables."""
    return name.startswith(_NAME_START)


def part_name(transaction: str, table_id: str) -> str:
    """The name of a table's staged work in its staging folder."""
    return f"{_NAME_START}{transaction}.{sealed_json.checksum(table_id.encode())[:16]}"


class StagedPart(msgspec.Struct, frozen=True):
    """What one table gets of a transaction over several: its proposal, which was planned on this definition.

    It is written once, before the table is prepared, and never changed.
    """

    table_id: str
    transaction: str
    metadata: Metadata
    protocol: Protocol
    proposal: Mapping[str, Any]

    @classmethod
    def of(cls, proposal: Proposal, table_id: str, transaction: str) -> StagedPart:
        """The work of a proposal for an existing table."""
        assert proposal.planned_on is not None
        assert proposal.planned_protocol is not None
        return cls(table_id, transaction, proposal.planned_on, proposal.planned_protocol, _to_json(proposal))

    def to_bytes(self) -> bytes:
        """Its bytes, with a checksum: see ``sealed_json``."""
        value = {
            "tableId": self.table_id,
            "transaction": self.transaction,
            "definition": [action_to_json(self.protocol), action_to_json(self.metadata)],
            "proposal": self.proposal,
        }
        return sealed_json.to_bytes("part", value)

    @classmethod
    def from_bytes(cls, data: bytes) -> StagedPart:
        """The part. Raises InvalidInputError if a byte was changed or lost, UnsupportedFeatureError if a newer txlog
        wrote it."""
        return sealed_json.from_bytes("part", data, _part)

    def planned(self) -> Proposal:
        """The proposal again. Every field is checked: whoever can write a part can write its checksum."""
        from txlog.core.format.column_mapping import schema_of

        value = self.proposal
        return Proposal(
            txn_id=read_text(value["txnId"]),
            read_version=read_size(value["readVersion"]),
            actions=self.actions,
            read_set=ReadSet(other_tables=value["isBlind"] is not True),
            isolation=Isolation(read_text(value["isolationLevel"])),
            operation=read_text(value["operation"]),
            schema=schema_of(self.metadata),
            partition_columns=self.metadata.partition_columns,
            operation_parameters=read_plain_map(value["operationParameters"]),
            operation_metrics=read_plain_map(value["operationMetrics"]),
            user_metadata=_text_or_none(value["userMetadata"]),
            fingerprint=_text_or_none(value["fingerprint"]),
            adds_are_new=value["addsAreNew"] is True,
            tags=read_plain_map(value["tags"]),
            planned_on=self.metadata,
            planned_protocol=self.protocol,
            reads_told=_reads_or_none(value.get("reads")),
        )

    @property
    def actions(self) -> tuple[Action, ...]:
        """What it does to the table. A vacuum keeps the files that it adds."""
        return _actions(self.proposal["actions"])


def _to_json(proposal: Proposal) -> dict[str, Any]:
    return {
        "txnId": proposal.txn_id,
        "readVersion": proposal.read_version,
        "operation": proposal.operation,
        "operationParameters": proposal.operation_parameters,
        "operationMetrics": proposal.operation_metrics,
        "isolationLevel": proposal.isolation.value,
        "userMetadata": proposal.user_metadata,
        "fingerprint": proposal.fingerprint,
        "addsAreNew": proposal.adds_are_new,
        "isBlind": proposal.read_set.is_blind,
        "tags": proposal.tags,
        "actions": [action_to_json(each) for each in proposal.actions],
        **({} if proposal.reads_told is None else {"reads": proposal.reads_told}),
    }


def _part(value: Mapping[str, Any]) -> StagedPart:
    protocol, metadata = _actions(value["definition"])
    if type(protocol) is not Protocol or type(metadata) is not Metadata:
        raise ValueError("the definition must be a protocol and metaData")
    given = value["proposal"]
    if type(given) is not dict or type(given["actions"]) is not list:
        raise ValueError("it has no actions")
    found = StagedPart(read_text(value["tableId"]), read_text(value["transaction"]), metadata, protocol, given)
    _actions(given["actions"])
    return found


def _actions(lines: Any) -> tuple[Action, ...]:
    found = [action_from_json(line) for line in lines]
    if any(each is None for each in found):
        raise ValueError("it has an action that this txlog does not know")
    return tuple(each for each in found if each is not None)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else read_text(value)


def _reads_or_none(value: Any) -> ReadsTold | None:
    """What a branch's commit will say that it read. Anything else counts as everything."""
    if value is None:
        return None
    is_list = type(value) is list and all(type(each) is dict for each in value)
    return [read_plain_map(each) for each in value] if is_list else TABLE_READ
