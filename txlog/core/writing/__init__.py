"""From rows to files to committables: what runs in tasks. It cannot import the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.writing._absent_columns import absent_columns
    from txlog.core.writing._conform import (
        Conformer,
        completed,
        completer_for,
        conformer_for,
        fitting_stream,
        idle_as_null,
        nullable,
    )
    from txlog.core.writing._convert import BadRow, has_required, read_as_required
    from txlog.core.writing._data_file import FileFormat, ParquetSettings, encoded
    from txlog.core.writing._input import DataStream, open_data, require_utf8
    from txlog.core.writing._parquet_settings import check_columns, checked_settings
    from txlog.core.writing._partition_writer import ENCODERS, held_bytes
    from txlog.core.writing._row_changes import Changelog, ChangeWriter, KeepKeys, SinkModeOf, changelog_of
    from txlog.core.writing._row_guard import RowGuard
    from txlog.core.writing._task_committer import TaskCommitter, seal_written, write_task
    from txlog.core.writing._task_writer import DictionaryChoice, TaskWriter, layout_of
    from txlog.core.writing._unavailable_values import refuse_unavailable, without_unavailable
    from txlog.core.writing._unsent_files import UnsentFiles
    from txlog.core.writing._vector_file import write_vectors
    from txlog.core.writing._write_plan import (
        MIB,
        TARGET_FILE_SIZE_BYTES,
        TaskIdentity,
        WriteJob,
        WritePlan,
        has_random_name,
    )
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _absent_columns: absent_columns
        _conform: Conformer completed completer_for conformer_for fitting_stream idle_as_null nullable
        _convert: BadRow has_required read_as_required
        _data_file: FileFormat ParquetSettings encoded
        _input: DataStream open_data require_utf8
        _parquet_settings: check_columns checked_settings
        _partition_writer: ENCODERS held_bytes
        _row_changes: ChangeWriter Changelog KeepKeys SinkModeOf changelog_of
        _row_guard: RowGuard
        _task_committer: TaskCommitter seal_written write_task
        _task_writer: DictionaryChoice TaskWriter layout_of
        _unavailable_values: refuse_unavailable without_unavailable
        _unsent_files: UnsentFiles
        _vector_file: write_vectors
        _write_plan: MIB TARGET_FILE_SIZE_BYTES TaskIdentity WriteJob WritePlan has_random_name
        """,
    )

__all__ = [
    "ENCODERS",
    "MIB",
    "TARGET_FILE_SIZE_BYTES",
    "BadRow",
    "ChangeWriter",
    "Changelog",
    "Conformer",
    "DataStream",
    "DictionaryChoice",
    "FileFormat",
    "KeepKeys",
    "ParquetSettings",
    "RowGuard",
    "SinkModeOf",
    "TaskCommitter",
    "TaskIdentity",
    "TaskWriter",
    "UnsentFiles",
    "WriteJob",
    "WritePlan",
    "absent_columns",
    "changelog_of",
    "check_columns",
    "checked_settings",
    "completed",
    "completer_for",
    "conformer_for",
    "encoded",
    "fitting_stream",
    "has_random_name",
    "has_required",
    "held_bytes",
    "idle_as_null",
    "layout_of",
    "nullable",
    "open_data",
    "read_as_required",
    "refuse_unavailable",
    "require_utf8",
    "seal_written",
    "without_unavailable",
    "write_task",
    "write_vectors",
]
