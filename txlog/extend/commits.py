"""What a package needs that commits to tables itself: proposals, plans, conflicts, deletion vectors, change files.

In: nothing. Out: names of the core. A `ProposalBuilder` collects what a commit does to one version, and
``OpenTable.commit`` commits it; if others commit first, `decide` says whether it is still valid, and a `Plan` is
executed again on their version. Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.changes.plan import ChangeFiles, RowOptions, change_in_transaction
    from txlog.core.changes.tasks.operations.delete import DeleteSpec
    from txlog.core.definition import Definition, cloned, define
    from txlog.core.predicates.predicate import Predicate
    from txlog.core.predicates.sql import parse_predicate
    from txlog.core.reading import DeletionVectorReader, ScanPlan, select
    from txlog.core.store import FileStore, LogStore, ObjectMeta
    from txlog.core.util import ambient
    from txlog.core.util.arguments import invalid, whole_number
    from txlog.core.util.lazy import cached_property
    from txlog.core.util.logs import logger
    from txlog.core.util.parallel import parallel_map
    from txlog.core.versions import Plan, raise_conflict
    from txlog.core.versions.decisions.conflicts import Conflict, decide
    from txlog.core.versions.decisions.definition_changes import is_same_definition, keeps_write_rules, lacked_columns
    from txlog.core.versions.decisions.proposal import ROW_TRACKING_DOMAIN, Isolation, Proposal, ReadSet
    from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
    from txlog.core.versions.decisions.row_tracking import row_id_domain, row_id_mark, tracks_rows
    from txlog.core.writing.unsent_files import UnsentFiles
    from txlog.core.writing.vector_file import write_vectors
else:
    from txlog.core.util.lazy import face

    __getattr__, __dir__ = face(
        __name__,
        """
        changes.plan: ChangeFiles RowOptions change_in_transaction
        changes.tasks.operations.delete: DeleteSpec
        definition: Definition cloned define
        predicates.predicate: Predicate
        predicates.sql: parse_predicate
        reading: DeletionVectorReader ScanPlan select
        store: FileStore LogStore ObjectMeta
        util: ambient
        util.arguments: invalid whole_number
        util.lazy: cached_property
        util.logs: logger
        util.parallel: parallel_map
        versions: Plan raise_conflict
        versions.decisions.conflicts: Conflict decide
        versions.decisions.definition_changes: is_same_definition keeps_write_rules lacked_columns
        versions.decisions.proposal: Isolation Proposal ROW_TRACKING_DOMAIN ReadSet
        versions.decisions.proposal_builder: ProposalBuilder
        versions.decisions.row_tracking: row_id_domain row_id_mark tracks_rows
        writing.unsent_files: UnsentFiles
        writing.vector_file: write_vectors
        """,
        of="txlog.core",
    )

__all__ = [
    "ROW_TRACKING_DOMAIN",
    "ChangeFiles",
    "Conflict",
    "Definition",
    "DeleteSpec",
    "DeletionVectorReader",
    "FileStore",
    "Isolation",
    "LogStore",
    "ObjectMeta",
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
    "cloned",
    "decide",
    "define",
    "invalid",
    "is_same_definition",
    "keeps_write_rules",
    "lacked_columns",
    "logger",
    "parallel_map",
    "parse_predicate",
    "raise_conflict",
    "row_id_domain",
    "row_id_mark",
    "select",
    "tracks_rows",
    "whole_number",
    "write_vectors",
]
