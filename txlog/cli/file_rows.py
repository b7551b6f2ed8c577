"""Files as the rows of a command: the point that asks for what reads them.

In: the paths of local files. Out: `FileRows`. A package reads the files; txlog's own reads Parquet, CSV and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from txlog.core.util.points import Point

__all__ = ["FileRows", "OpensFiles", "opens_files"]


class FileRows(Protocol):
    """Existing files whose columns fit together."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def size_bytes(self) -> int: ...

    def require_types(self) -> None:
        """Check that every column has a type, which a new table needs. Raises ``InvalidInputError``."""

    def reader(self, advance: Callable[[int], None]) -> pa.RecordBatchReader:
        """All rows, once. ``advance`` is called with the number of bytes read since the last call.

        An unreadable file raises ``InvalidInputError`` naming it.
        """


class OpensFiles(Protocol):
    def __call__(
        self,
        paths: Sequence[Path],
        file_format: str | None = None,
        *,
        column_types: Mapping[str, pa.DataType] | None = None,
        null_values: Sequence[str] = ("",),
        delimiter: str | None = None,
        has_header: bool = True,
        optional: Collection[str] = (),
    ) -> FileRows:
        """Inspect the files.

        Args:
            paths: The files.
            file_format: ``parquet``, ``csv`` or ``json``; None: by their suffixes.
            column_types: The types of columns that are known.
            null_values: The strings that mean null in CSV.
            delimiter: What separates values in CSV; None: the usual for the suffix.
            has_header: Whether the first line of CSV names the columns; else they are the known ones, in order.
            optional: The columns that rows may lack, which does not mean null.

        Raises ``InvalidInputError`` for a file that is of another format, contradicts another or can be read only once,
        ``OSError`` for one that cannot be opened.
        """


_READERS: Final[Point[OpensFiles]] = Point("txlog.data_files", "what reads")


def opens_files() -> OpensFiles:
    """What reads files of rows. Raises ``UnsupportedFeatureError`` if no installed package brings it."""
    return _READERS.load("files", "a command that takes rows from files")
