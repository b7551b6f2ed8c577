"""`KeyFolder`: sorted keys of data files, kept beside a table for the upserts of later processes.

In: data files of a table and the keys of a source. Out: for files whose keys are in the folder, the rows that have
these keys, without reading the data files.

How it works. A table whose property ``txlog.keyIndex`` names the key columns has a folder ``_txlog/keys``, and in it a
file for each of its larger data files, named by the data file's path, size and time. No commit names these files: any
of them may be absent, stale, damaged or deleted by anybody, and then the data file is read. A key file is trusted only
if it repeats the digest of the data file's Parquet footer, so the keys of a file that another program put in its place
are not. A vacuum deletes the key files of data files that are no longer live.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.format.actions import AddFile, FileId
from txlog.core.format.statistics_read import num_records
from txlog.core.parallel import begin, parallel_map
from txlog.core.reading._footers import path_in_store
from txlog.core.reading._key_file import DamagedKeyFileError, KeyFileHeader, KeyIndexFile, key_file_bytes
from txlog.core.store import KEYS, FileStore, TableFiles
from txlog.core.util import logger
from txlog.errors import NotFoundError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.reading._key_values import FileKeys, KeyValues

KeyColumns = tuple[tuple[tuple[str, ...], str], ...]
"""The physical path and the type of each key column."""

_ROWS_MAX = 1 << 25  # a key file is made in memory
_ROWS_MIN = 1 << 14  # the keys of a smaller data file are read as fast as a key file
_TAIL_BYTES = 64 << 10  # of a data file: mostly its whole footer
_DIGEST_BYTES = 16
_REQUESTS_AT_ONCE = 16
_SUFFIX = ".keys"


class NearbyKeys(msgspec.Struct, frozen=True):
    """Keys of a data file, ascending, among which are all that are wanted, with their positions and the secret of their
    numbers."""

    values: KeyValues
    positions: NDArray[np.uint32]
    wanted: KeyValues
    secret: bytes


class _WantedFile(msgspec.Struct, frozen=True):
    """A data file whose keys are known, and the digest that its footer had before they were read."""

    add: AddFile
    footer: bytes


class KeyFolder:
    """The key files of one table for one set of key columns. Thread-safe: each entry is replaced as a whole.

    Args:
        store: The table's files.
        table_id: The id of the table.
        columns: The key columns.
        secret: What this handle makes fingerprints with; empty if keys are their own numbers.
    """

    def __init__(self, store: TableFiles, table_id: str, columns: KeyColumns, secret: bytes) -> None:
        self._uri, self._files = store.uri, store.files
        self._columns = columns
        self._secret = secret
        self._has_cheap_calls = store.has_cheap_calls
        self._folder = f"{KEYS}/{_digest(msgspec.json.encode((table_id, columns))).hex()}"
        self._has: set[FileId] = set()
        self._wanted: dict[FileId, _WantedFile] = {}

    def near(
        self, adds: Sequence[AddFile], wanted_by: Callable[[bytes], KeyValues | None], *, whole: Collection[FileId] = ()
    ) -> dict[FileId, NearbyKeys]:
        """What the folder has of each of these data files; others are left out.

        ``wanted_by`` returns the wanted keys as numbers made with a secret; None if it cannot. Of ``whole`` files, all
        keys are read.
        """
        large = [add for add in adds if (num_records(add.stats) or 0) >= _ROWS_MIN]
        read = partial(self._near, wanted_by=wanted_by, whole=whole)
        read_all = map(read, large) if self._has_cheap_calls else parallel_map(read, large, threads=_REQUESTS_AT_ONCE)
        found = {add.file_id: near for add, near in zip(large, read_all, strict=True) if near is not None}
        self._has.update(found)
        return found

    def _near(
        self, add: AddFile, *, wanted_by: Callable[[bytes], KeyValues | None], whole: Collection[FileId]
    ) -> NearbyKeys | None:
        look_at_footer: Callable[[], bytes] = partial(self._footer_of, add)
        if not self._has_cheap_calls:
            look_at_footer = begin(look_at_footer)
        try:
            with self._body(self._path(add.file_id)) as body:
                found = KeyIndexFile.opened(body)
                self._check(found.header, add, look_at_footer())
                wanted = wanted_by(found.header.secret)
                if wanted is None:
                    return None
                keys = found.near(None if add.file_id in whole else wanted.numbers)
                return NearbyKeys(*keys, wanted, found.header.secret)
        except NotFoundError:
            return None
        except (DamagedKeyFileError, TxlogError, OSError) as error:
            logger.warning("the kept keys of %s are not used, and are read from the data file: %s", add.path, error)
            return None

    def is_wanted(self, add: AddFile) -> bool:
        """Whether to `keep` the keys of this data file, which is about to be read: it is large enough, and the folder
        lacks it."""
        rows = num_records(add.stats)
        if rows is None or not _ROWS_MIN <= rows <= _ROWS_MAX or add.file_id in self._has:
            return False
        try:
            self._wanted[add.file_id] = _WantedFile(add, self._footer_of(add))
        except (TxlogError, OSError, DamagedKeyFileError):  # whoever reads the file says what is wrong
            return False
        return True

    def lacking(self, adds: Sequence[AddFile]) -> list[AddFile]:
        """The data files whose keys the folder lacks and may keep. Raises StorageError."""
        there = {meta.name.rpartition("/")[2] for page in self._files.list(self._folder) for meta in page}
        return [add for add in adds if self.name_of(add.file_id) not in there and self.is_wanted(add)]

    def keep(self, keys: Iterable[FileKeys]) -> None:
        """Write the key files of the data files that `is_wanted` accepted. If one cannot be written, a warning says so,
        and later upserts read the data file."""
        due = [(found, each) for each in keys if (found := self._wanted.pop(each.file, None)) is not None]
        list(parallel_map(lambda pair: self._keep(*pair), due, threads=_REQUESTS_AT_ONCE))

    def _keep(self, known: _WantedFile, keys: FileKeys) -> None:
        add = known.add
        header = KeyFileHeader(
            columns=self._columns,
            partition_values=dict(add.partition_values),
            num_rows=num_records(add.stats) or 0,
            footer=known.footer,
            secret=self._secret if keys.values.second is not None else b"",
        )
        try:
            self._files.replace(self._path(add.file_id), key_file_bytes(header, keys.values, keys.positions))
        except (TxlogError, OSError) as error:
            logger.warning("the keys of %s were not kept, so the next upsert reads them again: %s", add.path, error)

    @staticmethod
    def name_of(file: FileId) -> str:
        """The name of a data file's key file."""
        path, size_bytes, modified_ms = file
        return _digest(msgspec.json.encode((path, size_bytes, modified_ms))).hex() + _SUFFIX

    @staticmethod
    def delete_others(files: FileStore, live: Callable[[], Iterable[FileId]]) -> None:
        """Delete a table's key files but those of ``live`` data files, asked if there are any. Raises StorageError."""
        names = [meta.name for page in files.list(KEYS) for meta in page]
        found = [name for name in names if name.startswith(f"{KEYS}/") and name.endswith(_SUFFIX)]
        if found:
            kept = {*map(KeyFolder.name_of, live())}
            files.delete_many([name for name in found if name.rpartition("/")[2] not in kept])

    # --- one file ---------------------------------------------------------------------------------------------

    def _path(self, file: FileId) -> str:
        return f"{self._folder}/{self.name_of(file)}"

    def _body(self, path: str) -> Any:
        if self._has_cheap_calls:
            return self._files.open(path)
        return pa.BufferReader(self._files.read_from(path, 0))

    def _check(self, header: KeyFileHeader, add: AddFile, footer: bytes) -> None:
        rows = num_records(add.stats)
        if header.footer != footer:
            raise DamagedKeyFileError("it was made for another file of the same name")
        if header.columns != self._columns or dict(header.partition_values) != dict(add.partition_values):
            raise DamagedKeyFileError("it was made for other key columns or another partition")
        if rows is not None and header.num_rows != rows:
            raise DamagedKeyFileError(f"it was made for {header.num_rows} rows, and the log says {rows}")

    def _footer_of(self, add: AddFile) -> bytes:
        """The digest of a data file's Parquet footer, and of its size."""
        body = self._files.open(path_in_store(self._uri, add.path))
        try:
            size = body.size()
            start = max(0, size - _TAIL_BYTES)
            tail = bytes(body.read_at(size - start, start))
            length = 8 + int.from_bytes(tail[-8:-4], "little")
            if length > size:
                raise DamagedKeyFileError("the data file has no Parquet footer")
            if length > len(tail):
                tail = bytes(body.read_at(length, size - length))
        finally:
            body.close()
        return _digest(tail[-length:] + size.to_bytes(8, "little"))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
