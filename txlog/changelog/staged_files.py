"""Reads the files that tasks staged for the commit, a bounded number of rows at a time.

In: a `KeyFile` of a committable, and what it is to hold: keys (``key_files``) or rows (``staged_rows``). Out: as many
rows as its task wrote, or an error that says what to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from txlog.changelog.staged_rows import are_staged_rows
from txlog.core.format.arrow.parquet_rows import counted_batches
from txlog.core.store import FileStore
from txlog.core.writing.committable import KeyFile
from txlog.errors import InvalidInputError, NotFoundError, TxlogError

_BATCH_ROWS = 1 << 17
_AT_ONCE_BYTES = 4 << 20  # a file up to this size is read with one request to the store


@contextlib.contextmanager
def opened(files: FileStore, file: KeyFile, table: str, *, are_rows: bool) -> Iterator[pq.ParquetFile]:
    """A staged file, for reading. ``are_rows``: it is to hold the rows of changes, as tasks stage them for a table with
    a merge engine; otherwise keys.

    Raises ``NotFoundError``, ``StorageError``; ``InvalidInputError`` if it holds something else than its task wrote, or
    if it, or what is made of it here, is damaged.
    """
    try:
        with contextlib.closing(
            pa.BufferReader(files.read_from(file.path, 0)) if _is_small(file) else files.open(file.path)
        ) as source:
            parquet = pq.ParquetFile(source)
            if are_staged_rows(parquet.schema_arrow.names) != are_rows:
                had, has = ("no", "one") if are_rows else ("a", "none")
                again = "Write" if are_rows else "Set its properties again, or write"
                problem = f"was written while the table had {had} merge engine, but it has {has} now"
                raise unusable(file, problem, table, again)
            if parquet.metadata.num_rows != file.num_keys:
                raise unusable(
                    file, f"has {parquet.metadata.num_rows} rows, not the {file.num_keys} of its task", table
                )
            yield parquet
    except TxlogError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError("a staged file is missing", table=table, path=file.path) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise unusable(file, f"cannot be read: {error}", table) from error


def batches_of(parquet: pq.ParquetFile, file: KeyFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns of an `opened` file. Raises what pyarrow raises."""
    return (batch for _, batch in counted_batches(parquet, names, _BATCH_ROWS, use_threads=not _is_small(file)))


def unusable(file: KeyFile, problem: str, table: str, again: str = "Write") -> InvalidInputError:
    """The error for a staged file with a ``problem``."""
    return InvalidInputError(
        f"the staged file {file.path} {problem}: nothing was committed. {again} the checkpoint again",
        table=table,
        path=file.path,
    )


def _is_small(file: KeyFile) -> bool:
    return file.size_bytes <= _AT_ONCE_BYTES
