"""``operationMetrics`` of a MERGE with Spark's names. The history shows upserts and merges as the same operation.

In: what the change did. Out: the value for ``commitInfo``.
"""

from __future__ import annotations

from txlog.result import WriteMetrics


def merge_metrics(num_source_rows: int, done: WriteMetrics) -> dict[str, str]:
    """``num_source_rows`` counts all source rows, including dropped duplicates."""
    counts = {
        "numSourceRows": num_source_rows,
        "numTargetRowsInserted": done.rows_inserted,
        "numTargetRowsUpdated": done.rows_updated,
        "numTargetRowsDeleted": done.rows_deleted,
        "numTargetRowsCopied": done.rows_copied,
        "numOutputRows": done.rows + done.rows_copied,
        "numTargetFilesAdded": done.files,
        "numTargetFilesRemoved": done.files_removed,
        "numTargetDeletionVectorsAdded": done.vectors,
        "numTargetChangeFilesAdded": done.change_files,
        "numTargetBytesAdded": done.bytes,
    }
    return {name: str(count) for name, count in counts.items()}
