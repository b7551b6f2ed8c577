"""All I/O on the log and on data files. Nothing here knows what the bytes mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.store._base import (
        ICEBERG,
        KEYS,
        QUARANTINE,
        STAGING,
        VERSIONS,
        WAITING,
        FileStore,
        LogCapabilities,
        LogStore,
        ObjectMeta,
        OnLink,
        OutputFile,
        PutOutcome,
        RoundTrip,
        SkipFolder,
        TableFiles,
        folders_above,
        last_answer,
        unanswered,
    )
    from txlog.core.store._commit_queue import Turn
    from txlog.core.store._handover_folder import HandOver, Offer, OfferState
    from txlog.core.store._local_disk import fsync_directory, make_directories
    from txlog.core.store._local_store import LocalLogStore
    from txlog.core.store._open import foreign_scheme, is_of_store, open_store
    from txlog.core.store._options import environment_secrets, redact, sendable
    from txlog.core.store._probe import ProbeReport, probe_newest_commit, probe_store
    from txlog.core.store._retry import Patience, RetryPolicy
    from txlog.core.store._table_store import TableStore
    from txlog.core.store._versions import Attempt, FolderVersions, Fork, RepairedForks, VersionFile, VersionLog
    from txlog.core.store._write_once import write_once
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _base: FileStore ICEBERG KEYS LogCapabilities LogStore ObjectMeta OnLink OutputFile PutOutcome QUARANTINE
            RoundTrip STAGING SkipFolder TableFiles VERSIONS WAITING folders_above last_answer unanswered
        _commit_queue: Turn
        _handover_folder: HandOver Offer OfferState
        _local_disk: fsync_directory make_directories
        _local_store: LocalLogStore
        _open: foreign_scheme is_of_store open_store
        _options: environment_secrets redact sendable
        _probe: ProbeReport probe_newest_commit probe_store
        _retry: Patience RetryPolicy
        _table_store: TableStore
        _versions: Attempt FolderVersions Fork RepairedForks VersionFile VersionLog
        _write_once: write_once
        """,
    )

__all__ = [
    "ICEBERG",
    "KEYS",
    "QUARANTINE",
    "STAGING",
    "VERSIONS",
    "WAITING",
    "Attempt",
    "FileStore",
    "FolderVersions",
    "Fork",
    "HandOver",
    "LocalLogStore",
    "LogCapabilities",
    "LogStore",
    "ObjectMeta",
    "Offer",
    "OfferState",
    "OnLink",
    "OutputFile",
    "Patience",
    "ProbeReport",
    "PutOutcome",
    "RepairedForks",
    "RetryPolicy",
    "RoundTrip",
    "SkipFolder",
    "TableFiles",
    "TableStore",
    "Turn",
    "VersionFile",
    "VersionLog",
    "environment_secrets",
    "folders_above",
    "foreign_scheme",
    "fsync_directory",
    "is_of_store",
    "last_answer",
    "make_directories",
    "open_store",
    "probe_newest_commit",
    "probe_store",
    "redact",
    "sendable",
    "unanswered",
    "write_once",
]
