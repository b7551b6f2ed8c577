"""What a package needs that commits to tables itself: proposals, plans, conflicts, deletion vectors, change files.

In: nothing. Out: names of the core. A `ProposalBuilder` collects what a commit does to one version, and
``OpenTable.commit_change`` commits it; if others commit first, `decide` says whether it is still valid, and a `Plan` is
executed again on their version. Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core import ambient
    from txlog.core.changes.plan import ChangeFiles, RowOptions, change_in_transaction
    from txlog.core.changes.tasks.operations import DeleteSpec
    from txlog.core.definition import Definition, cloned, define
    from txlog.core.maintenance import files_of_named, named_versions
    from txlog.core.parallel import parallel_map
    from txlog.core.predicates import parse_predicate
    from txlog.core.predicates.terms.predicate import Predicate, paths_of, type_of, with_paths
    from txlog.core.reading import DeletionVectorReader, ScanPlan, select
    from txlog.core.store import FileStore, LogStore, ObjectMeta
    from txlog.core.util import cached_property, invalid, logger, whole_number
    from txlog.core.versions import Plan, raise_conflict
    from txlog.core.versions.decisions.conflicts import Conflict, decide
    from txlog.core.versions.decisions.definition_changes import (
        changed_properties,
        is_same_definition,
        keeps_write_rules,
        lacked_columns,
    )
    from txlog.core.versions.decisions.proposal import (
        ROW_TRACKING_DOMAIN,
        BecomeOfRows,
        Isolation,
        OperationInfo,
        Proposal,
        ReadSet,
    )
    from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
    from txlog.core.versions.decisions.row_tracking import (
        ROW_TRACKING_PROPERTIES,
        row_id_domain,
        row_id_mark,
        tracks_rows,
    )
    from txlog.core.versions.decisions.state import PREPARED
    from txlog.core.writing import UnsentFiles, write_vectors
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        core: ambient
        core.changes.plan: ChangeFiles RowOptions change_in_transaction
        core.changes.tasks.operations: DeleteSpec
        core.definition: Definition cloned define
        core.maintenance: files_of_named named_versions
        core.parallel: parallel_map
        core.predicates: parse_predicate
        core.predicates.terms.predicate: Predicate paths_of type_of with_paths
        core.reading: DeletionVectorReader ScanPlan select
        core.store: FileStore LogStore ObjectMeta
        core.util: cached_property invalid logger whole_number
        core.versions: Plan raise_conflict
        core.versions.decisions.conflicts: Conflict decide
        core.versions.decisions.definition_changes:
            changed_properties is_same_definition keeps_write_rules lacked_columns
        core.versions.decisions.proposal: BecomeOfRows Isolation OperationInfo Proposal ROW_TRACKING_DOMAIN ReadSet
        core.versions.decisions.proposal_builder: ProposalBuilder
        core.versions.decisions.row_tracking: ROW_TRACKING_PROPERTIES row_id_domain row_id_mark tracks_rows
        core.versions.decisions.state: PREPARED
        core.writing: UnsentFiles write_vectors
        """,
        of="txlog",
    )

__all__ = [
    "PREPARED",
    "ROW_TRACKING_DOMAIN",
    "ROW_TRACKING_PROPERTIES",
    "BecomeOfRows",
    "ChangeFiles",
    "Conflict",
    "Definition",
    "DeleteSpec",
    "DeletionVectorReader",
    "FileStore",
    "Isolation",
    "LogStore",
    "ObjectMeta",
    "OperationInfo",
    "Plan",
    "Predicate",
    "Proposal",
    "ProposalBuilder",
    "ReadSet",
    "RowOptions",
    "ScanPlan",
    "UnsentFiles",
    "ambient",
    "cached_property",
    "change_in_transaction",
    "changed_properties",
    "cloned",
    "decide",
    "define",
    "files_of_named",
    "invalid",
    "is_same_definition",
    "keeps_write_rules",
    "lacked_columns",
    "logger",
    "named_versions",
    "parallel_map",
    "parse_predicate",
    "paths_of",
    "raise_conflict",
    "row_id_domain",
    "row_id_mark",
    "select",
    "tracks_rows",
    "type_of",
    "whole_number",
    "with_paths",
    "write_vectors",
]
