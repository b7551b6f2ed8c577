"""Protects the history that readers could not read, once a table feature for readers is dropped.

In: a proposal and the table state it would follow. Out: the proposal whose metadata says up to which version the log is
cleaned up at once or not at all. It differs for every attempted version. Pure. PROTOCOL.md, "Checkpoint Protection".
"""

from __future__ import annotations

from msgspec.structs import replace

from txlog.core.format.actions import Metadata
from txlog.core.format.features import CHECKPOINT_PROTECTION, features_of
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState

_KEY = "delta.requireCheckpointProtectionBeforeVersion"


def with_protection(proposal: Proposal, state: TableState | None) -> Proposal:
    """The proposal with this version as the first that needs no protection, if it drops a feature and protects."""
    protocol, metadata = proposal.protocol, proposal.metadata
    if state is None or protocol is None or metadata is None:
        return proposal
    if CHECKPOINT_PROTECTION not in (protocol.writer_features or ()):
        return proposal
    before, after = features_of(state.protocol), features_of(protocol)
    if not {*before[0], *before[1]} - {*after[0], *after[1]}:
        return proposal
    configuration = {**metadata.configuration, _KEY: str(state.version + 1)}
    protected = replace(metadata, configuration=configuration)
    actions = tuple(protected if isinstance(action, Metadata) else action for action in proposal.actions)
    return replace(proposal, actions=actions)
