"""Drops a table feature: removes what the table has of it, then takes it out of the protocol.

In: an open table and the name of a feature. Out: the versions that remove its traces, and the one that drops it. Each
feature says what its traces are. The last version is a plan: it drops the feature only if no trace is left, also of
writers in between. Readers that do not know the feature cannot read the versions before, so of a feature for readers
the last version protects them: the log is cleaned up to there at once or not at all, and a checkpoint lets readers
start there. PROTOCOL.md, "Table Features", "Checkpoint Protection".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.definition import (
    Definition,
    DefinitionChange,
    commit_definition_change,
    definition_builder,
    take_row_ids,
    with_properties,
    without_properties,
)
from txlog.core.format.actions import Metadata, operation_parameters
from txlog.core.format.clustering import CLUSTERING_DOMAIN, clustering_columns
from txlog.core.format.column_mapping import mapping_mode, without_metadata
from txlog.core.format.features import (
    CHECKPOINT_PROTECTION,
    features_of,
    known_feature,
    needed_by,
    use_of,
    without_feature,
)
from txlog.core.format.identity import IDENTITY_PREFIX
from txlog.core.format.properties import CONSTRAINT_PREFIX, ICEBERG_COMPAT, PARTITION_COLUMNS_FEATURE
from txlog.core.format.schema import parse_schema, schema_to_json
from txlog.core.format.type_widening import TYPE_CHANGES_KEY
from txlog.core.maintenance._feature_history import cut_off_history
from txlog.core.maintenance._optimize import purge, rewrite_older_types
from txlog.core.maintenance._unmapped_columns import unmap_columns
from txlog.core.util import check_text, logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.in_commit_timestamps import ENABLEMENT_KEYS
from txlog.core.versions.decisions.proposal import ROW_TRACKING_DOMAIN, Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.row_tracking import ROW_TRACKING_PROPERTIES
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import list_log
from txlog.core.wording import call
from txlog.core.workers import GivenWorkers
from txlog.errors import InvalidInputError, TxlogError, UnsupportedFeatureError
from txlog.result import WriteMetrics, WriteResult

_FILES_AT_ONCE = 2
_ROUNDS = 5
"""How often traces are removed again that others have left in between."""

_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_TIMESTAMPS = ("delta.enableInCommitTimestamps", *ENABLEMENT_KEYS)
_KEPT = {
    "catalogManaged": "a catalog decides its versions",
}


class _Traces(msgspec.Struct, frozen=True):
    """How a feature's traces are removed.

    Attributes:
        prepare: Commits what must happen before, and may run again.
        metadata: The metadata without the feature's own keys.
        left: What is left of it in a version's files and log, in words; None if nothing is.
        domain: The metadata domain that goes with it.
    """

    prepare: Callable[[OpenTable, GivenWorkers | None], None] = lambda open_table, workers: None
    metadata: Callable[[Metadata], Metadata] = lambda metadata: metadata
    left: Callable[[OpenTable, TableState], str | None] = lambda open_table, state: None
    domain: str | None = None


def drop_feature(
    open_table: OpenTable,
    name: str,
    user_metadata: str | None = None,
    workers: GivenWorkers | None = None,
    *,
    truncate_history: bool = False,
) -> WriteResult:
    """See `Table.drop_feature`."""
    check_text("name", name)
    state = open_table.writable_state()
    if known_feature(name, state.protocol) is None:
        _complete_earlier_drop(open_table, state)
    with TxlogError.located(open_table.uri, state.version):
        feature = _droppable(state, name)
    traces = _TRACES.get(feature, _Traces())
    for round_number in range(_ROUNDS):
        traces.prepare(open_table, workers)
        if truncate_history:
            cut_off_history(open_table, feature, traces.left)
        state = open_table.writable_state()
        try:
            result = open_table.commit_plan(_Drop(open_table, feature, traces, user_metadata, truncate_history), state)
            break
        except _TracesLeft as error:
            if round_number + 1 == _ROUNDS:
                raise InvalidInputError(
                    f"the feature {feature} cannot be dropped: {error.message}", table=open_table.uri
                ) from None
    newest = open_table.log.newest_state()
    if CHECKPOINT_PROTECTION in features_of(newest.protocol)[1]:
        _write_start(open_table, newest)
    return result


def _write_start(open_table: OpenTable, state: TableState) -> None:
    """Write the checkpoint where readers without the feature start. The drop is committed, so a failure only warns."""
    try:
        open_table.log.write_checkpoint(state)
    except TxlogError as error:
        logger.warning(
            "%s: the feature is dropped and the commit is safe, but readers without the feature cannot read the table"
            " until it has a checkpoint of v%d or later, and that was not written: write it with"
            " table.create_checkpoint() or `txlog checkpoint`. The cause: %s",
            open_table.uri,
            state.version,
            error,
        )


def _complete_earlier_drop(open_table: OpenTable, state: TableState) -> None:
    """Write the checkpoint that a drop left out, because it was killed after its commit or the store failed."""
    protected = state.metadata.configuration.get(_PROTECTED, "")
    if CHECKPOINT_PROTECTION not in features_of(state.protocol)[1] or not protected.isdecimal():
        return
    checkpoint = open_table.log.on_newest_checkpoint(state).segment.checkpoint
    if checkpoint is None or checkpoint.version < int(protected):
        _write_start(open_table, state)


def _droppable(state: TableState, name: str) -> str:
    feature = known_feature(name, state.protocol)
    if feature is None:
        reads, writes = features_of(state.protocol)
        present = ", ".join(sorted({*reads, *writes})) or "none"
        raise InvalidInputError(f"the table does not have the feature {name!r}; it has {present}")
    if feature in _KEPT:
        raise UnsupportedFeatureError(f"the feature {feature} cannot be dropped: {_KEPT[feature]}", features=(feature,))
    others = needed_by(feature, state.protocol)
    if others:
        raise InvalidInputError(f"the feature {feature} is needed by {', '.join(others)}: drop that first")
    return feature


class _TracesLeft(TxlogError):
    """Something of the feature is in the table."""


class _Drop:
    """The `Plan` of the version without the feature."""

    def __init__(
        self,
        open_table: OpenTable,
        feature: str,
        traces: _Traces,
        user_metadata: str | None,
        truncates_history: bool,
    ) -> None:
        self._truncates_history = truncates_history
        self._open_table = open_table
        self._feature = feature
        self._traces = traces
        self._user_metadata = user_metadata
        self._txn_id = ambient.uuid4()
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        """Raises InvalidInputError if the definition uses the feature, `_TracesLeft` if files do."""
        feature = self._feature
        metadata = self._traces.metadata(state.metadata)
        used = use_of(feature, metadata)
        with TxlogError.located(self._open_table.uri, state.version):
            left = self._traces.left(self._open_table, state)
            if used is not None:
                raise InvalidInputError(f"the feature {feature} cannot be dropped while the table uses it: {used}")
            if left is not None:
                raise _TracesLeft(left)
        configuration = {
            key: value for key, value in metadata.configuration.items() if key != f"delta.feature.{feature}"
        }
        metadata = replace(metadata, configuration=configuration)
        protocol = without_feature(state.protocol, feature, protects_history=not self._truncates_history)
        builder = definition_builder(state, Definition(metadata, protocol))
        domain = state.domains.get(self._traces.domain or "")
        if domain is not None:
            builder.set_domain(replace(domain, removed=True))
        builder.read_table()
        return builder.build(
            OperationInfo(
                "DROP FEATURE",
                operation_parameters(featureName=feature, truncateHistory=self._truncates_history),
                user_metadata=self._user_metadata,
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            is_reexecutable=True,
        )

    def remaining_work_s(self, state: TableState) -> float:
        return 0.0


# --- the traces of each feature -----------------------------------------------------------------------------------


def _without(*keys: str) -> Callable[[Metadata], Metadata]:
    """Metadata without these properties."""

    def changed(metadata: Metadata) -> Metadata:
        kept = {key: value for key, value in metadata.configuration.items() if key not in keys}
        return replace(metadata, configuration=kept)

    return changed


def _without_marks(prefix: str) -> Callable[[Metadata], Metadata]:
    """Metadata without these keys of columns, at any depth."""

    def changed(metadata: Metadata) -> Metadata:
        if prefix not in metadata.schema_string:
            return metadata
        schema = without_metadata(parse_schema(metadata.schema_string), prefix)
        return replace(metadata, schema_string=schema_to_json(schema))

    return changed


def _set(open_table: OpenTable, properties: Mapping[str, str]) -> None:
    """Set those of these properties that are set to something else."""

    def change(state: TableState) -> DefinitionChange:
        found = {key: value for key, value in properties.items() if key in state.metadata.configuration}
        parameters = operation_parameters(properties=found)
        return DefinitionChange(with_properties(state, found), "SET TBLPROPERTIES", parameters)

    commit_definition_change(open_table, open_table.writable_state(), change)


def _unset(open_table: OpenTable, key: str) -> None:
    def change(state: TableState) -> DefinitionChange:
        found = [key] if key in state.metadata.configuration else []
        parameters = operation_parameters(properties=found, ifExists=True)
        return DefinitionChange(without_properties(state, found), "UNSET TBLPROPERTIES", parameters)

    commit_definition_change(open_table, open_table.writable_state(), change)


def _remove_vectors(open_table: OpenTable, workers: GivenWorkers | None) -> None:
    _set(open_table, {"delta.enableDeletionVectors": "false"})
    purge(open_table, workers=workers)


def _vectors_left(open_table: OpenTable, state: TableState) -> str | None:
    marked = pc.sum(pc.is_valid(open_table.log.files(state)["deletionVector"])).as_py() or 0
    return f"{marked} files have deletion vectors, which other writers made in between" if marked else None


def _remove_older_types(open_table: OpenTable, workers: GivenWorkers | None) -> None:
    _set(open_table, {"delta.enableTypeWidening": "false"})
    rewrite_older_types(open_table, workers)


def _older_types_left(open_table: OpenTable, state: TableState) -> str | None:
    from txlog.core.maintenance._outdated_files import files_with_older_types

    found = files_with_older_types(open_table, state, open_table.log.files(state))
    return f"{len(found)} files have columns in an earlier type" if found else None


def _remove_row_ids(open_table: OpenTable, workers: GivenWorkers | None) -> None:
    _set(open_table, {"delta.enableRowTracking": "false"})
    take_row_ids(open_table)


def _unmap_columns(open_table: OpenTable, workers: GivenWorkers | None) -> None:
    unmap_columns(open_table, open_table.workers(workers, _FILES_AT_ONCE))


def _mapping_left(open_table: OpenTable, state: TableState) -> str | None:
    is_mapped = mapping_mode(state.metadata.configuration) != "none"
    return "the columns are mapped again, by another writer" if is_mapped else None


def _row_ids_left(open_table: OpenTable, state: TableState) -> str | None:
    files = open_table.log.files(state)
    left = files.filter(pc.is_valid(files["baseRowId"])).num_rows
    return f"{left} files have row ids, which other writers gave them in between" if left else None


def _leave_v2_checkpoints(open_table: OpenTable, workers: GivenWorkers | None) -> None:
    _unset(open_table, "delta.checkpointPolicy")
    newest = open_table.log.newest_state()
    open_table.log.write_checkpoint(newest)


def _constraints_left(open_table: OpenTable, state: TableState) -> str | None:
    keys = [key for key in state.metadata.configuration if key.startswith(CONSTRAINT_PREFIX)]
    names = [key.removeprefix(CONSTRAINT_PREFIX) for key in keys]
    if names:
        raise InvalidInputError(
            f"the feature checkConstraints cannot be dropped while the table has the constraints {', '.join(names)}:"
            f" drop them first, with {call('drop_constraint', names[0])}"
        )
    return None


def _protected_left(open_table: OpenTable, state: TableState) -> str | None:
    text = state.metadata.configuration.get(_PROTECTED, "0")
    first = min(list_log(open_table.store).commits, default=state.version)
    if not text.isdecimal() or first < int(text):
        raise InvalidInputError(
            f"the feature {CHECKPOINT_PROTECTION} cannot be dropped while the log has versions below v{text}, from"
            f" v{first} on: a log cleanup removes them when delta.logRetentionDuration is over"
        )
    return None


def _domains_left(open_table: OpenTable, state: TableState) -> str | None:
    if state.domains:
        raise InvalidInputError(
            f"the feature domainMetadata cannot be dropped while the table has the domains {', '.join(state.domains)}"
        )
    return None


def _clustering_left(open_table: OpenTable, state: TableState) -> str | None:
    if clustering_columns(state.domains, state.schema):  # a domain that names no column stays when clustering ends
        raise InvalidInputError(
            f"the feature clustering cannot be dropped while the table is clustered: {call('cluster_by', None)} first"
        )
    return None


_TRACES: Mapping[str, _Traces] = {
    "deletionVectors": _Traces(_remove_vectors, _without("delta.enableDeletionVectors"), _vectors_left),
    "typeWidening": _Traces(
        _remove_older_types,
        lambda metadata: _without_marks(TYPE_CHANGES_KEY)(_without("delta.enableTypeWidening")(metadata)),
        _older_types_left,
    ),
    "rowTracking": _Traces(_remove_row_ids, _without(*ROW_TRACKING_PROPERTIES), _row_ids_left, ROW_TRACKING_DOMAIN),
    "columnMapping": _Traces(_unmap_columns, left=_mapping_left),
    "inCommitTimestamp": _Traces(metadata=_without(*_TIMESTAMPS)),
    "v2Checkpoint": _Traces(_leave_v2_checkpoints),
    **{f"icebergCompatV{version}": _Traces(metadata=_without(key)) for version, key in ICEBERG_COMPAT.items()},
    "materializePartitionColumns": _Traces(metadata=_without(PARTITION_COLUMNS_FEATURE)),
    "checkConstraints": _Traces(left=_constraints_left),
    "identityColumns": _Traces(metadata=_without_marks(IDENTITY_PREFIX)),
    CHECKPOINT_PROTECTION: _Traces(metadata=_without(_PROTECTED), left=_protected_left),
    "domainMetadata": _Traces(left=_domains_left),
    "clustering": _Traces(left=_clustering_left, domain=CLUSTERING_DOMAIN),
}
"""Every other feature has no traces but those in the metadata, which must be removed before."""
