"""What runs in a task: it looks up, changes and writes rows of data files. A task opens data files, but no log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.changes.tasks._change_files import ChangeFileWriter, ChangesOfFiles
    from txlog.core.changes.tasks._change_part import (
        ChangePart,
        FileOutcome,
        NewRows,
        PartOutcome,
        PartSource,
        RowJob,
        SourceFile,
        change_part,
        keys_in_files,
        write_new_rows,
    )
    from txlog.core.changes.tasks._check_files import (
        CheckFiles,
        CheckFooters,
        CheckVectors,
        DeleteFiles,
        FileProblem,
        IsGone,
        NamedFile,
    )
    from txlog.core.changes.tasks._check_rows import FindViolation
    from txlog.core.changes.tasks._dropped_columns import HasDroppedColumns
    from txlog.core.changes.tasks._file_rows import FileReader, FileRows
    from txlog.core.changes.tasks._list_files import (
        LISTED,
        Folders,
        ListFiles,
        listed,
        listed_batch,
        ranges_of,
        without_hidden,
        without_markers,
    )
    from txlog.core.changes.tasks._net_changes import plain_times
    from txlog.core.changes.tasks._older_types import HasOlderTypes
    from txlog.core.changes.tasks._operation import Images, MatchedFile, MatchedRows, RowOperation
    from txlog.core.changes.tasks._read_rows import ReadTask
    from txlog.core.changes.tasks._row_work import RowWork
    from txlog.core.changes.tasks._specs import MergeSpec, RowSpec, SourceShape, SourceSpec, UpsertSpec, adapted
    from txlog.core.changes.tasks._task_table import TaskStore, TaskTable
    from txlog.core.changes.tasks._tombstone_files import tombstone_adds
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _change_files: ChangeFileWriter ChangesOfFiles
        _check_files: CheckFiles CheckFooters CheckVectors DeleteFiles FileProblem IsGone NamedFile
        _check_rows: FindViolation
        _dropped_columns: HasDroppedColumns
        _file_rows: FileReader FileRows
        _list_files: Folders LISTED ListFiles listed listed_batch ranges_of without_hidden without_markers
        _net_changes: plain_times
        _older_types: HasOlderTypes
        _operation: Images MatchedFile MatchedRows RowOperation
        _change_part: ChangePart FileOutcome NewRows PartOutcome PartSource RowJob SourceFile change_part keys_in_files
            write_new_rows
        _read_rows: ReadTask
        _row_work: RowWork
        _specs: MergeSpec RowSpec SourceShape SourceSpec UpsertSpec adapted
        _task_table: TaskStore TaskTable
        _tombstone_files: tombstone_adds
        """,
    )

__all__ = [
    "LISTED",
    "ChangeFileWriter",
    "ChangePart",
    "ChangesOfFiles",
    "CheckFiles",
    "CheckFooters",
    "CheckVectors",
    "DeleteFiles",
    "FileOutcome",
    "FileProblem",
    "FileReader",
    "FileRows",
    "FindViolation",
    "Folders",
    "HasDroppedColumns",
    "HasOlderTypes",
    "Images",
    "IsGone",
    "ListFiles",
    "MatchedFile",
    "MatchedRows",
    "MergeSpec",
    "NamedFile",
    "NewRows",
    "PartOutcome",
    "PartSource",
    "ReadTask",
    "RowJob",
    "RowOperation",
    "RowSpec",
    "RowWork",
    "SourceFile",
    "SourceShape",
    "SourceSpec",
    "TaskStore",
    "TaskTable",
    "UpsertSpec",
    "adapted",
    "change_part",
    "keys_in_files",
    "listed",
    "listed_batch",
    "plain_times",
    "ranges_of",
    "tombstone_adds",
    "without_hidden",
    "without_markers",
    "write_new_rows",
]
