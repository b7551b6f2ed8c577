"""What a write removed and added, and how history describes it.

In: the files that an overwrite removed, and those that it wrote. Out: metrics for the caller and for ``commitInfo``.
Every write has them; ``_replaced_files`` is only for overwrites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from txlog.core.format.actions import AddFile, FileId, operation_parameters
from txlog.core.writing import WriteJob
from txlog.core.writing.committable import PendingFile
from txlog.core.writing.write_intent import WriteIntent
from txlog.result import WriteMetrics


class OverwriteEffects(msgspec.Struct):
    """What an overwrite removed, and where the other rows of these files are now.

    Attributes:
        removed: The removed live files, including files copied in part.
        copies: New files, with the rows of removed files that are outside the region.
        rows_deleted: The number of removed rows in the region. Files removed as a whole count 0 if the log lacks their
            row counts.
        rows_copied: The number of rows in ``copies``.
        vectors: The number of files that stay, with a new deletion vector.
        dead_fractions: The fraction of dead rows in each of these files.
    """

    removed: list[AddFile] = msgspec.field(default_factory=list)
    copies: Sequence[AddFile] = ()
    rows_deleted: int = 0
    rows_copied: int = 0
    vectors: int = 0
    dead_fractions: Mapping[FileId, float] = msgspec.field(default_factory=dict)

    def remove_whole(self, *files: AddFile) -> None:
        """Remove files whose rows are all replaced."""
        from txlog.core.format.file_columns import live_rows

        self.removed += files
        self.rows_deleted += sum(map(live_rows, files))

    def metrics(self, files: Sequence[PendingFile]) -> WriteMetrics:
        """The metrics of a write that replaces this by new ``files``."""
        return WriteMetrics(
            rows=sum([file.num_rows for file in files]),
            files=len(files) + len(self.copies),
            bytes=sum([file.size_bytes for file in files]) + sum([file.size for file in self.copies]),
            files_removed=len(self.removed),
            rows_deleted=self.rows_deleted,
            rows_copied=self.rows_copied,
            vectors=self.vectors,
            dead_fraction=max(self.dead_fractions.values(), default=0.0),
        )

    def operation_metrics(self, intent: WriteIntent, metrics: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics``, as Spark writes them for this kind of WRITE."""
        found = {"numFiles": metrics.files, "numOutputBytes": metrics.bytes}
        found["numOutputRows"] = metrics.rows + metrics.rows_copied
        if not intent.is_append:
            found["numRemovedFiles"] = metrics.files_removed
            found["numRemovedBytes"] = sum([file.size for file in self.removed])
        if intent.kind == "overwrite_where":
            found["numCopiedRows"] = metrics.rows_copied
            found["numDeletedRows"] = metrics.rows_deleted
            found["numAddedChangeFiles"] = metrics.change_files
        return {name: str(value) for name, value in found.items()}


def write_parameters(job: WriteJob) -> dict[str, str]:
    """commitInfo's ``operationParameters`` as Spark writes them for a WRITE."""
    return operation_parameters(
        mode=job.intent.mode,
        partitionBy=list(job.plan.partition_columns),
        predicate=job.intent.where,
        isDynamicPartitionOverwrite=True if job.intent.kind == "overwrite_partitions" else None,
        canOverwriteSchema=True if job.schema_mode == "overwrite" else None,
        canMergeSchema=True if job.schema_mode == "merge" else None,
    )
