"""What a catalog that a package brings needs: places of tables, stores, who decides a table's versions, and tools.

In: nothing. Out: names of the core. A `TableCatalog` turns names into places; one that decides commits itself has a
`VersionLog` too. Names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core import ambient
    from txlog.core.catalogs import (
        CatalogScheme,
        TableCatalog,
        TablePlace,
        Token,
        delete_table_files,
        name_parts,
        name_text,
        open_catalog,
        require_no_token,
    )
    from txlog.core.parallel import new_lock
    from txlog.core.store import (
        Attempt,
        FileStore,
        FolderVersions,
        Fork,
        LogCapabilities,
        LogStore,
        ObjectMeta,
        OutputFile,
        PutOutcome,
        RepairedForks,
        RetryPolicy,
        RoundTrip,
        TableStore,
        VersionFile,
        VersionLog,
        environment_secrets,
        last_answer,
        open_store,
        redact,
        sendable,
        unanswered,
    )
    from txlog.core.util import how_to_install, invalid, logger
    from txlog.core.wording import advice, argument, setting
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        core: ambient
        core.catalogs: CatalogScheme TableCatalog TablePlace Token delete_table_files name_parts name_text open_catalog
            require_no_token
        core.parallel: new_lock
        core.store: Attempt FileStore FolderVersions Fork LogCapabilities LogStore ObjectMeta OutputFile PutOutcome
            RepairedForks RetryPolicy RoundTrip TableStore VersionFile VersionLog environment_secrets last_answer
            open_store redact sendable unanswered
        core.util: how_to_install invalid logger
        core.wording: advice argument setting
        """,
        of="txlog",
    )

__all__ = [
    "Attempt",
    "CatalogScheme",
    "FileStore",
    "FolderVersions",
    "Fork",
    "LogCapabilities",
    "LogStore",
    "ObjectMeta",
    "OutputFile",
    "PutOutcome",
    "RepairedForks",
    "RetryPolicy",
    "RoundTrip",
    "TableCatalog",
    "TablePlace",
    "TableStore",
    "Token",
    "VersionFile",
    "VersionLog",
    "advice",
    "ambient",
    "argument",
    "delete_table_files",
    "environment_secrets",
    "how_to_install",
    "invalid",
    "last_answer",
    "logger",
    "name_parts",
    "name_text",
    "new_lock",
    "open_catalog",
    "open_store",
    "redact",
    "require_no_token",
    "sendable",
    "setting",
    "unanswered",
]
