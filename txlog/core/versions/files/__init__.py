"""Reads and writes the files of `_delta_log/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.versions.files._checkpoint_reader import LOG_DIRECTORY, CheckpointReader, sidecar_name
    from txlog.core.versions.files._checkpoint_writer import CheckpointWriter
    from txlog.core.versions.files._commits import CommitReader, unsynced_versions
    from txlog.core.versions.files._delta_log import FRESH_MAX_S, DeltaLog
    from txlog.core.versions.files._file_loader import FileLoader
    from txlog.core.versions.files._listing import drop_hint_below, list_log
    from txlog.core.versions.files._times import CommitSummary, milliseconds
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _checkpoint_reader: CheckpointReader LOG_DIRECTORY sidecar_name
        _checkpoint_writer: CheckpointWriter
        _commits: CommitReader unsynced_versions
        _delta_log: DeltaLog FRESH_MAX_S
        _file_loader: FileLoader
        _listing: drop_hint_below list_log
        _times: CommitSummary milliseconds
        """,
    )

__all__ = [
    "FRESH_MAX_S",
    "LOG_DIRECTORY",
    "CheckpointReader",
    "CheckpointWriter",
    "CommitReader",
    "CommitSummary",
    "DeltaLog",
    "FileLoader",
    "drop_hint_below",
    "list_log",
    "milliseconds",
    "sidecar_name",
    "unsynced_versions",
]
