"""Where a data file is below the table's root, and its Parquet footer.

In: the path of a data file in the log, and a table's store. Out: the path for the store, or the footer. PROTOCOL.md,
"Add File and Remove File".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.errors import CorruptLogError, NotFoundError, UnsupportedFeatureError
from txlog.protocol.paths import path_below, resolve_data_path
from txlog.store.base import TableFiles

__all__ = ["path_in_store", "read_footer"]


def path_in_store(uri: str, log_path: str) -> str:
    """The store's path of a data file, relative to the root ``uri``.

    Raises:
        UnsupportedFeatureError: The file is outside the table's directory.
        CorruptLogError: The path cannot be parsed.
    """
    path = path_below(uri, resolve_data_path(log_path))
    if path is None:
        raise UnsupportedFeatureError(
            "a file is outside the table's directory (a shallow clone?), which this release does not support",
            features=("absolute paths",),
            table=uri,
            path=log_path,
        )
    return path


def read_footer(store: TableFiles, path: str, log_path: str, *, version: int | None = None) -> Any:
    """The ``pyarrow.parquet.FileMetaData`` of a data file.

    Args:
        store: The table's store.
        path: The file, as the store names it.
        log_path: The file, as the log names it, for errors.
        version: The version being read, for errors.

    Raises:
        NotFoundError: The file is missing.
        CorruptLogError: The footer cannot be read.
        StorageError: The store failed.
    """
    at: dict[str, Any] = {"table": store.uri, "version": version, "path": log_path}
    try:
        with store.files.open(path) as source:
            return pq.read_metadata(source)
    except (FileNotFoundError, NotFoundError) as error:
        raise NotFoundError("the log names a data file that is missing: vacuumed, or deleted by hand", **at) from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptLogError(f"a data file's footer cannot be read: {error}", **at) from error
