"""A table's data files as an Arrow file system, for Arrow's own scans: read-only, paths relative to the root.

In: a ``FileStore``. Out: a ``pyarrow.fs.FileSystem`` that opens files through it, so its credentials, retries and path
checks apply there too.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs as pafs

from txlog.core.store import FileStore


def file_system(files: FileStore) -> pafs.FileSystem:
    """The file system over ``files``."""
    return pafs.PyFileSystem(_Handler(files))


class ReadOnlyHandler(pafs.FileSystemHandler):  # type: ignore[misc]
    """The interface of an Arrow file system. It refuses writing, and listing, which the log makes unnecessary."""

    def get_type_name(self) -> str:
        return "txlog"

    def normalize_path(self, path: str) -> str:
        return path

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def _refuse(self, *_given: Any, **_named: Any) -> NoReturn:
        raise NotImplementedError("the files of a table are read-only here")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


class _Handler(ReadOnlyHandler):
    def __init__(self, files: FileStore) -> None:
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and self._files is other._files

    __hash__ = None  # type: ignore[assignment]

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [pafs.FileInfo(path, pafs.FileType.File, size=self._files.stat(path).size) for path in paths]

    def open_input_file(self, path: str) -> pa.NativeFile:
        opened = self._files.open(path)
        return opened if isinstance(opened, pa.NativeFile) else pa.PythonFile(opened, "r")
