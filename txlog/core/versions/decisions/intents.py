"""Intents: what a writer on an object store offers to others, so that one commit carries the changes of many writers.

In: proposals of one writer, or the untrusted bytes of another writer's intent. Out: the bytes, or the proposals again.
A table with the property ``txlog.groupCommit`` has them in `core.store._base.WAITING`;
`core.versions.decisions.gathering` decides who takes which. docs/several-writers.md explains them to users.

The format, which is a number in the first line (``core.format.sealed_json``):

    _txlog/waiting/<base version, 20 digits>.<txnId>.intent

    txlog-intent 1 <sha256 of the next line>
    {"tableId": ..., "baseVersion": ..., "members": [{"txnId": ..., "operation": ..., "operationParameters": {...},
     "operationMetrics": {...}, "isolationLevel": ..., "userMetadata": ..., "fingerprint": ..., "tags": {...},
     "actions": [{"txn": {...}}, {"add": {...}}, ...]}, ...]}

The base version is the newest version on which its writer found it valid; no version up to it holds it. The txnId in
the name belongs to the first member. The members of an intent become versions together or not at all. Each is a blind
append: ``add`` with ``dataChange`` of new files of the table, below its folder, and ``txn``; nothing else. An object is
written once, by put-if-absent, and never changed. Deleting one undoes nothing: a commit that names it may be on its
way.

Format 2 has the same members with ``"replaces": "partitions"``: overwrites of the partitions of their files
(`replaced_partitions`), which name no file that they remove. Their names begin with 1 instead of 0: a release that
does not know the format takes that for a version of the far future, and leaves them to their writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from txlog.core.format import sealed_json
from txlog.core.format.actions import Action, AddFile, RemoveFile, SetTransaction, action_from_json, action_to_json
from txlog.core.format.paths import canonical_path, resolve_data_path
from txlog.core.format.wire import read_long, read_plain_map, read_size, read_text
from txlog.core.util import pattern
from txlog.core.versions.decisions.joined_appends import MEMBERS_MAX, may_join
from txlog.core.versions.decisions.proposal import Isolation, Proposal, ReadSet
from txlog.core.versions.decisions.replaced_partitions import may_be_executed_by_others
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CorruptLogError, InvalidInputError

INTENT_BYTES_MAX = 1 << 20
"""A writer with more to commit commits alone: its data takes much longer than the log."""
_APPENDS, _REPLACES = 1, 2
"""The formats."""
_PARTITIONS = "partitions"
_NAME = pattern(r"([01])([0-9]{19})\.([0-9A-Za-z-]{1,64})\.intent")


class Intent(msgspec.Struct, frozen=True):
    """What one writer offers: proposals that are valid on ``base_version`` of the table ``table_id``."""

    table_id: str
    base_version: int
    members: tuple[Proposal, ...]

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return intent_name(self.base_version, self.members[0].txn_id, replaces=self.format == _REPLACES)

    @property
    def format(self) -> int:
        """The number of the format that it has."""
        return _REPLACES if any(member.replaces_partitions for member in self.members) else _APPENDS

    @property
    def paths(self) -> frozenset[str]:
        """The data files that it names, as the log compares paths."""
        return frozenset(canonical_path(add.path) for member in self.members for add in member.adds)

    def to_bytes(self) -> bytes:
        """Its bytes, with a format and a checksum: see ``sealed_json``."""
        members = [_member_to_json(member) for member in self.members]
        value = {"tableId": self.table_id, "baseVersion": self.base_version, "members": members}
        return sealed_json.to_bytes("intent", value, self.format)

    @classmethod
    def from_bytes(cls, name: str, data: bytes, state: TableState) -> Intent:
        """The intent of this name, for a table with the definition of ``state``.

        Every field is checked: whoever can write an intent can write its checksum. Raises ``InvalidInputError``, and
        ``UnsupportedFeatureError`` if a newer txlog wrote it.
        """
        if len(data) > INTENT_BYTES_MAX:
            raise InvalidInputError(f"{name} has {len(data)} bytes, more than the limit of {INTENT_BYTES_MAX}")
        found = sealed_json.from_bytes("intent", data, lambda value: _intent(value, state), newest=_REPLACES)
        if found.format != sealed_json.format_of(data):
            raise InvalidInputError(f"{name} has another format than what it holds")
        if found.name != name:
            raise InvalidInputError(f"{name} holds the intent {found.name}")
        return found


def members_of(proposal: Proposal) -> tuple[Proposal, ...]:
    """The changes in a proposal: its members if it is joined, otherwise itself."""
    return proposal.members or (proposal,)


def can_be_offered(proposal: Proposal) -> bool:
    """Whether others may commit this proposal: it holds appends that may be joined, or is an overwrite of partitions
    that anybody can execute, of files below the table's folder."""
    return all(
        (may_join(each) or may_be_executed_by_others(each)) and all(map(_is_new_and_below, each.adds))
        for each in members_of(proposal)
    )


def intent_name(base_version: int, txn_id: str, *, replaces: bool = False) -> str:
    """The name of an intent in the folder, of appends or of what ``replaces`` partitions. Names of each kind ascend
    with the base version."""
    return f"{int(replaces)}{base_version:019d}.{txn_id}.intent"


def named_intent(name: str) -> tuple[int, str] | None:
    """The base version and the txnId in the name of an intent; None for any other name, such as that of a mark."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[2]), match[3])


def is_same_kind(name: str, other: str) -> bool:
    """Whether a name stands for what may share a version with the intent ``other``: both are of appends, or both of
    what replaces partitions. A mark is of no kind."""
    return named_intent(name) is not None and name[0] == other[0]


def transaction_named(name: str) -> str:
    """The txnId that a name in the folder stands for: that of an intent, or a mark's, which is its name."""
    intent = named_intent(name)
    return name if intent is None else intent[1]


# --- members ------------------------------------------------------------------------------------------------


def _member_to_json(member: Proposal) -> dict[str, Any]:
    found = {
        "txnId": member.txn_id,
        "operation": member.operation,
        "operationParameters": member.operation_parameters,
        "operationMetrics": member.operation_metrics,
        "isolationLevel": member.isolation.value,
        "userMetadata": member.user_metadata,
        "fingerprint": member.fingerprint,
        "tags": member.tags,
        "actions": [action_to_json(action) for action in member.actions if type(action) is not RemoveFile],
    }
    return found | {"replaces": _PARTITIONS} if member.replaces_partitions else found


def _intent(value: Mapping[str, Any], state: TableState) -> Intent:
    base, members = read_size(value["baseVersion"]), value["members"]
    if type(members) is not list or not 0 < len(members) <= MEMBERS_MAX:
        raise ValueError(f"must have 1 to {MEMBERS_MAX} members")
    return Intent(read_text(value["tableId"]), base, tuple(_member(each, base, state) for each in members))


def _member(value: Mapping[str, Any], base_version: int, state: TableState) -> Proposal:
    actions = tuple(_action(line) for line in value["actions"])
    if not actions:
        raise ValueError("a member has no action")
    replaces = value.get("replaces")
    if replaces not in (None, _PARTITIONS):
        raise ValueError(f"replaces {replaces!r}, which this txlog does not know")
    return Proposal(
        txn_id=read_text(value["txnId"]),
        read_version=base_version,
        actions=actions,
        read_set=ReadSet(whole_table=replaces is not None),
        isolation=Isolation(read_text(value["isolationLevel"])),
        operation=read_text(value["operation"]),
        schema=state.schema,
        partition_columns=state.partition_columns,
        operation_parameters=read_plain_map(value["operationParameters"]),
        operation_metrics=read_plain_map(value["operationMetrics"]),
        user_metadata=_text_or_none(value["userMetadata"]),
        fingerprint=_text_or_none(value["fingerprint"]),
        tags=read_plain_map(value["tags"]),
        is_reexecutable=replaces is not None,
        replaces_partitions=replaces is not None,
    )


def _action(line: Any) -> Action:
    action = action_from_json(line)
    if type(action) is SetTransaction:
        return action
    if type(action) is AddFile and action.data_change and _is_new_and_below(action):
        # The logs of others may have them as text or floats; no txlog writes an intent so.
        read_size(line["add"]["size"])
        read_long(line["add"]["modificationTime"])
        return action
    raise ValueError("an intent may only add new files below the table's folder, and set application versions")


def _is_new_and_below(add: AddFile) -> bool:
    if add.deletion_vector is not None or add.base_row_id is not None or add.default_row_commit_version is not None:
        return False
    try:
        return resolve_data_path(add.path).is_relative
    except CorruptLogError:  # a path that no writer may produce
        return False


def _text_or_none(value: Any) -> str | None:
    return None if value is None else read_text(value)
