"""The history entry of a transaction: ``operationParameters`` and ``operationMetrics`` with Spark's names.

In: what the operations of a transaction did together. Out: the two values for ``commitInfo``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from txlog.core.format.actions import AddFile, RemoveFile, operation_parameters
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from txlog.core.definition import DefinitionChange

_CHANGES = "ALTER TABLE"
"""The operation of several changes of the definition in one version; Spark makes a version of each."""


def history_operation(
    definitions: Sequence[DefinitionChange], adds: Sequence[AddFile], removes: Sequence[RemoveFile]
) -> str:
    """WRITE or DELETE if files changed, else the change of the definition, if it is the only one."""
    if definitions and not adds and not removes:
        return definitions[0].operation if len(definitions) == 1 else _CHANGES
    return "DELETE" if removes and not adds else "WRITE"


def history_parameters(
    operation: str,
    regions: Sequence[str],
    *,
    is_overwrite: bool,
    overwrites_partitions: bool,
    definitions: Sequence[DefinitionChange] = (),
) -> dict[str, str]:
    """For a DELETE, a list of predicates; for a WRITE, its mode, and the predicate of the ``regions`` that it replaced.

    With ``is_overwrite``, files were removed. ``definitions`` are listed as ``changes`` unless one is the operation.
    """
    if len(definitions) == 1 and operation == definitions[0].operation:
        return definitions[0].parameters
    if definitions:
        changes = [{"operation": each.operation, **each.parameters} for each in definitions]
        rest = history_parameters(
            operation, regions, is_overwrite=is_overwrite, overwrites_partitions=overwrites_partitions
        )
        return rest | operation_parameters(changes=changes)
    if operation == "DELETE":
        return operation_parameters(predicate=[*regions] or None)
    if operation != "WRITE":
        return {}
    either = regions if len(regions) < 2 else [f"({each})" for each in regions]
    return operation_parameters(
        mode="Overwrite" if is_overwrite or regions or overwrites_partitions else "Append",
        predicate=" OR ".join(either) or None,
        isDynamicPartitionOverwrite=True if overwrites_partitions else None,
    )


def history_metrics(operation: str, metrics: WriteMetrics, removes: Sequence[RemoveFile]) -> dict[str, str]:
    """The number of removed rows, included only if every removed file counts its rows."""
    removed_bytes = str(sum(remove.size or 0 for remove in removes))
    if operation != "DELETE":
        found = metrics.operation_metrics() | {"numOutputRows": str(metrics.rows + metrics.rows_copied)}
        return found | ({"numRemovedBytes": removed_bytes} if removes else {})
    return {
        "numRemovedFiles": str(metrics.files_removed),
        "numRemovedBytes": removed_bytes,
        "numDeletedRows": str(metrics.rows_deleted),
        "numCopiedRows": str(metrics.rows_copied),
        "numAddedFiles": str(metrics.files),
        "numAddedBytes": str(metrics.bytes),
    }
