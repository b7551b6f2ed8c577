"""Changes a table's clustering columns, as Spark's ALTER TABLE ... CLUSTER BY does.

In: an open table and the columns. Out: a commit of the metadata domain that names them. No file is rewritten: the next
OPTIMIZE, by txlog or Spark, clusters by them.
"""

from __future__ import annotations

from collections.abc import Iterable

from txlog.core.format.actions import operation_parameters
from txlog.core.format.clustering import CLUSTERING_DOMAIN, CLUSTERING_FEATURE, clustering_columns, clustering_domain
from txlog.core.format.features import upgraded_for
from txlog.core.format.partition_values import partitioning_text
from txlog.core.format.properties import path_text
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument
from txlog.errors import CorruptLogError, InvalidInputError, TxlogError
from txlog.result import WriteResult


def cluster_by(
    open_table: OpenTable, columns: str | Iterable[str] | None, user_metadata: str | None = None
) -> WriteResult:
    """See `Table.cluster_by`."""
    state = open_table.log.newest_state()
    open_table.check_maintainable(state)
    builder = ProposalBuilder(state)
    with TxlogError.located(open_table.uri, state.version):
        before = _columns_of(state)
        domain = clustering_domain(columns or (), state.schema, state.properties)
        after = clustering_columns({CLUSTERING_DOMAIN: domain}, state.schema)
        if before == after:
            return WriteResult(state.version, "committed", 0, "")
        if state.partition_columns:
            raise InvalidInputError(
                f"the table is {partitioning_text(state.partition_columns)}, so it cannot be clustered: its rows are"
                f" ordered by partition already; an optimize with {argument('cluster_by')} orders them within each"
            )
        needed = {**state.metadata.configuration, CLUSTERING_FEATURE: "supported"}
        builder.define(None, upgraded_for(state.protocol, state.schema, needed))
        builder.set_domain(domain)
    parameters = operation_parameters(oldClusteringColumns=_text(before or ()), newClusteringColumns=_text(after))
    return open_table.commit_change(builder, OperationInfo("CLUSTER BY", parameters, user_metadata=user_metadata))


def _columns_of(state: TableState) -> tuple[tuple[str, ...], ...] | None:
    """The current columns; None if the domain is damaged, which this corrects."""
    try:
        return clustering_columns(state.domains, state.schema)
    except CorruptLogError:
        return None


def _text(columns: tuple[tuple[str, ...], ...]) -> str:
    return ",".join(path_text(path) for path in columns)
