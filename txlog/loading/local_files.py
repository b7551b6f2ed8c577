"""Local files as the input of a command, and the same formats in memory, as the body of a request.

In: paths, or bytes. Out: `DataFiles`. ``loading/data_files`` reads them.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from txlog.core.definition import row_changes
from txlog.errors import InvalidInputError
from txlog.loading.data_files import DataFiles, InputFile, TextFormat, inspected


def open_local_files(
    paths: Sequence[Path],
    file_format: str | None = None,
    *,
    column_types: Mapping[str, pa.DataType] | None = None,
    null_values: Sequence[str] = ("",),
    delimiter: str | None = None,
    has_header: bool = True,
    has_decimal_commas: bool = False,
    optional: Collection[str] = (),
    replacing: tuple[str | None, Mapping[Any, str] | None] | None = None,
) -> DataFiles:
    """Inspect the files. `txlog.extend.cli.OpensFiles` has the arguments and what this raises."""
    text_format = TextFormat(
        column_types or {},
        tuple(null_values),
        delimiter,
        has_header,
        frozenset(optional),
        _is_whole(replacing),
        has_decimal_commas,
    )
    return inspected([_input(path) for path in paths], file_format, text_format)


def open_bytes(
    content: bytes,
    file_format: str,
    *,
    name: str = "the rows",
    column_types: Mapping[str, pa.DataType] | None = None,
    delimiter: str | None = None,
    optional: Collection[str] = (),
    replacing: tuple[str | None, Mapping[Any, str] | None] | None = None,
) -> DataFiles:
    """Inspect rows in memory: the bytes of a file with this ``name``, for messages, in this format.

    The other arguments and what this raises are as for `open_local_files`.
    """
    text_format = TextFormat(
        column_types or {}, delimiter=delimiter, optional=frozenset(optional), is_whole=_is_whole(replacing)
    )
    source = InputFile(name, len(content), partial(pa.BufferReader, content))
    return inspected([source], file_format, text_format)


def _is_whole(
    replacing: tuple[str | None, Mapping[Any, str] | None] | None,
) -> Callable[[Mapping[str, Any]], bool] | None:
    if replacing is None:
        return None
    row_kind, row_kinds = replacing
    return _is_any if row_kind is None else row_changes("kinds of rows").replaces(row_kind, row_kinds)


def _is_any(row: Mapping[str, Any]) -> bool:
    return True


def _input(path: Path) -> InputFile:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInputError(
            f"{path} is a pipe or a device, which can be read only once, but txlog reads each file twice: first for its"
            f" columns, then for its rows. Write it to a file first: cat {shlex.quote(str(path))} > copy{path.suffix}",
            path=str(path),
        )
    return InputFile(str(path), status.st_size, partial(pa.OSFile, str(path)))
