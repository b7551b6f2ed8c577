"""Where a data file is, and its Parquet footer.

In: the path of a data file in the log, and a table's store. Out: the path for the store, or the footer. PROTOCOL.md,
"Add File and Remove File".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.arrow.parquet_footer import check_opened
from txlog.core.format.arrow.parquet_rows import check_chunks
from txlog.core.format.paths import is_location, resolve_data_path, stored_path
from txlog.core.store import TableFiles
from txlog.errors import CorruptLogError, NotFoundError


def path_in_store(uri: str, log_path: str) -> str:
    """The store's path of a data file: relative to the root ``uri``, or the location of another table's file.

    Raises:
        CorruptLogError: The path cannot be parsed.
    """
    return stored_path(uri, resolve_data_path(log_path))


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
        raise NotFoundError(f"the log names a data file that is missing: {why_missing(path)}", **at) from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptLogError(f"a data file's footer cannot be read: {error}", **at) from error


def checked_footer(store: TableFiles, path: str, log_path: str, *, version: int | None = None) -> Any:
    """`read_footer` of a file whose footer does not contradict itself, as far as it shows. Raises what it raises."""
    at: dict[str, Any] = {"table": store.uri, "version": version, "path": log_path}
    metadata = read_footer(store, path, log_path, version=version)
    try:
        check_opened(metadata)
        check_chunks(metadata)
    except pa.ArrowException as error:
        raise CorruptLogError(f"a data file is damaged: {error}", **at) from error
    return metadata


def why_missing(path: str) -> str:
    """What may have become of a file that the log names and the store lacks. ``path`` is the store's."""
    if is_location(path):
        return (
            "it belongs to another table, of which this one is a shallow clone, and a vacuum of that table deleted it,"
            " or someone did by hand"
        )
    return "vacuumed, or deleted by hand"
