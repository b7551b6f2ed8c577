"""What a writer hands over to another one on its machine: its appends, and what they were planned on.

In: the joined or single append of a writer, and the state of the table on which it is valid; or the bytes that another
process of this user left. Out: the bytes; or the appends, if they are valid on a newer state. Pure. The bytes live for
seconds, in a folder of this user (`core.store._handover_folder`); a process of another release ignores a format that it
does not know.

They must never have been sent, or have been found in no version up to the one that they were planned on, and nobody may
send them while they are offered. So they are in no version at all, and only the table's definition and the versions of
their applications decide.
"""

from __future__ import annotations

from hashlib import sha256

import orjson

from txlog.core.versions.decisions.intents import Intent, can_be_offered, members_of
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.errors import TxlogError

_FORMAT = 1


def to_bytes(table: str, proposal: Proposal, state: TableState) -> bytes | None:
    """What ``proposal``, valid on ``state``, is handed over as; None if others cannot commit it."""
    if not can_be_offered(proposal):
        return None
    intent = Intent(state.metadata.id, state.version, members_of(proposal))
    seen = {each.app_id: state.transaction_version(each.app_id) for each in proposal.set_transactions}
    head = {"format": _FORMAT, "table": table, "definition": _definition(state), "transactions": seen}
    return orjson.dumps(head) + b"\n" + intent.to_bytes()


def from_bytes(table: str, body: bytes, state: TableState) -> tuple[Proposal, ...] | None:
    """The appends, if they can be committed on top of ``state``; else None."""
    line, _, rest = body.partition(b"\n")
    try:
        head = orjson.loads(line)
        if (head["format"], head["table"], head["definition"]) != (_FORMAT, table, _definition(state)):
            return None
        first, _, _ = rest.partition(b"\n")
        value = orjson.loads(rest[len(first) + 1 :])
        base, name = value["baseVersion"], value["members"][0]["txnId"]
        intent = Intent.from_bytes(f"{base:020d}.{name}.intent", rest, state)
        applications = head["transactions"]
        unmoved = all(applications[app_id] == state.transaction_version(app_id) for app_id in applications)
    except (TxlogError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None  # written by another release, or damaged: its owner commits it
    return intent.members if unmoved and base <= state.version and intent.table_id == state.metadata.id else None


def _definition(state: TableState) -> str:
    def digest() -> str:
        both = [state.protocol.to_json(), state.metadata.to_json()]
        return sha256(orjson.dumps(both, option=orjson.OPT_SORT_KEYS)).hexdigest()

    return state.derived("digest of the definition", digest)
