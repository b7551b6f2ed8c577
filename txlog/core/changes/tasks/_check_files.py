"""What tasks do with whole files: does one exist in full size, can its deletion vector be read? And delete them.

In: what the log says about files. Out: what is wrong with one, if anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from txlog.core.changes.tasks._task_table import TaskStore
from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.arrow.parquet_rows import row_count
from txlog.core.format.paths import is_location
from txlog.core.format.statistics_read import num_records
from txlog.core.reading import DeletionVectorReader, checked_footer, path_in_store, why_missing
from txlog.errors import CorruptLogError, NotFoundError, StorageError, TxlogError, UnsupportedFeatureError


class FileProblem(msgspec.Struct, frozen=True):
    """What is wrong with a file; ``path`` is the file, or the file with its vector. ``version`` added it, if known.

    ``data_file`` is the file that has the vector.
    """

    rule: str
    message: str
    path: str
    is_warning: bool = False
    version: int | None = None
    data_file: str | None = None


class NamedFile(NamedTuple):
    """A data file as the log names it, and the version that added it."""

    path: str
    size: int
    version: int


class IsGone(msgspec.Struct, frozen=True):
    """The work of a task: find out whether the store lacks a path. Raises StorageError."""

    store: TaskStore

    def __call__(self, path: str) -> bool:
        try:
            self.store.files.files.stat(path)
        except NotFoundError:
            return True
        return False


class DeleteFiles(msgspec.Struct, frozen=True):
    """The work of a task: to delete files, of which some may be gone already. Raises StorageError."""

    store: TaskStore

    def __call__(self, paths: Sequence[str]) -> None:
        self.store.files.files.delete_many(paths)


class CheckFiles(msgspec.Struct, frozen=True):
    """The work of a task: check that some data files exist in full size."""

    store: TaskStore

    def __call__(self, files: Sequence[NamedFile]) -> list[FileProblem]:
        return [found for file in files if (found := self._problem(file)) is not None]

    def _problem(self, file: NamedFile) -> FileProblem | None:
        path, version = path_in_store(self.store.uri, file.path), file.version
        try:
            size = self.store.files.files.stat(path).size
        except NotFoundError:
            gone = f"; {why_missing(path)}" if is_location(path) else ""
            message = f"is missing; version {version} added it{gone}"
            return FileProblem("missing-file", message, file.path, version=version)
        except UnsupportedFeatureError as error:
            return FileProblem("file-not-checked", error.message, file.path, is_warning=True, version=version)
        except StorageError as error:
            message = f"cannot be checked: {error.message}"
            return FileProblem("unreachable-file", message, file.path, version=version)
        if size != file.size:
            message = f"has {size} bytes; version {version} added it with {file.size}"
            return FileProblem("wrong-size", message, file.path, version=version)
        return None


class CheckVectors(msgspec.Struct, frozen=True):
    """The work of a task: read the deletion vectors of some live files."""

    store: TaskStore
    version: int

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> list[FileProblem]:
        """Each of ``rows`` has the ``path``, ``stats`` and ``deletionVector`` of a live file."""
        reader = DeletionVectorReader(self.store.files, self.version)
        return [found for row in rows if (found := self._problem(reader, row)) is not None]

    def _problem(self, reader: DeletionVectorReader, row: Mapping[str, Any]) -> FileProblem | None:
        rows = num_records(row["stats"])
        vector = row["deletionVector"]
        found: TxlogError
        at = f"at offset {vector['offset']}" if vector["offset"] is not None else "inline"
        if rows is None:
            message = f"has a deletion vector ({at}), but its statistics lack numRecords, which writers must keep"
            return FileProblem("uncounted-vector", message, row["path"])
        try:
            reader.dead_rows(DeletionVectorDescriptor.from_json(vector), rows)
        except CorruptLogError as error:
            rule, message, found = "bad-vector", f"{error.message}, {at}, for {row['path']}", error
        except UnsupportedFeatureError as error:
            rule, message, found = "vector-not-checked", error.message, error
        except TxlogError as error:
            message = f"the deletion vector of {row['path']}, {at}, cannot be read: {error.message}"
            rule, found = "unreachable-vector", error
        else:
            return None
        is_warning = rule == "vector-not-checked"
        return FileProblem(rule, message, found.path or row["path"], is_warning=is_warning, data_file=row["path"])


class CheckFooters(msgspec.Struct, frozen=True):
    """The work of a task: read the footers of some live files."""

    store: TaskStore
    version: int

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> list[FileProblem]:
        """Each of ``rows`` has the ``path`` and ``stats`` of a live file."""
        return [found for row in rows if (found := self._problem(row["path"], row["stats"])) is not None]

    def _problem(self, path: str, stats: str | None) -> FileProblem | None:
        try:
            place = path_in_store(self.store.uri, path)
            rows = row_count(checked_footer(self.store.files, place, path, version=self.version))
        except NotFoundError:
            return None  # which the check of names and sizes says
        except CorruptLogError as error:
            return FileProblem("bad-footer", error.message, path)
        except TxlogError as error:
            return FileProblem("footer-not-checked", error.message, path, is_warning=True)
        counted = num_records(stats)
        if counted is None or counted == rows:
            return None
        return FileProblem("wrong-count", f"has {rows} rows, and its statistics say {counted}", path)
