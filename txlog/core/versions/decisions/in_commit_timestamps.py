"""In-commit timestamps: the time recorded in a commit itself, later than in every earlier commit.

In: a proposal, the table state it would follow, the current time and the time of the previous commit. Out: the
timestamp, and the proposal with the properties that record since when the table has such timestamps. Both differ for
every attempted version. PROTOCOL.md, "In-Commit Timestamps".
"""

from __future__ import annotations

from msgspec.structs import replace

from txlog.core.format.actions import Metadata
from txlog.core.format.properties import TableProperties
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState

_VERSION_KEY = "delta.inCommitTimestampEnablementVersion"
_TIMESTAMP_KEY = "delta.inCommitTimestampEnablementTimestamp"
ENABLEMENT_KEYS = (_VERSION_KEY, _TIMESTAMP_KEY)
"""The properties that say since when a table has such timestamps: commits set them."""


def keeps_timestamps(proposal: Proposal, state: TableState | None) -> bool:
    """Whether the version that ``proposal`` becomes has an in-commit timestamp."""
    if proposal.metadata is not None:
        return TableProperties.of(proposal.metadata.configuration).in_commit_timestamps
    return state is not None and state.properties.in_commit_timestamps


def next_timestamp_ms(*, now_ms: int, previous_ms: int | None) -> int:
    """Now, or 1 ms after ``previous_ms`` if that is not before now.

    ``previous_ms`` is the previous version's in-commit timestamp; for the first commit that has one, the previous
    file's modification time; None for a new table.
    """
    return now_ms if previous_ms is None else max(now_ms, previous_ms + 1)


def with_enablement(proposal: Proposal, state: TableState | None, timestamp_ms: int | None) -> Proposal:
    """The proposal whose metadata records the version and time since which the table has timestamps.

    ``timestamp_ms`` is this commit's, None if it has none. Values that a caller set for these keys are replaced:
    a wrong time there would send time travel to the wrong version.
    """
    metadata = proposal.metadata
    if metadata is None:
        return proposal
    configuration = {k: v for k, v in metadata.configuration.items() if k not in ENABLEMENT_KEYS}
    if timestamp_ms is not None and state is not None:
        if state.properties.in_commit_timestamps:
            known = state.metadata.configuration
            configuration.update({key: known[key] for key in ENABLEMENT_KEYS if key in known})
        else:
            configuration[_VERSION_KEY] = str(state.version + 1)
            configuration[_TIMESTAMP_KEY] = str(timestamp_ms)
    if configuration == metadata.configuration:
        return proposal
    settled = replace(metadata, configuration=configuration)
    actions = tuple(settled if isinstance(action, Metadata) else action for action in proposal.actions)
    return replace(proposal, actions=actions)
