"""Local files as the input of a command.

In: paths. Out: `DataFiles`. ``loading/data_files`` reads them.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.loading.data_files import DataFiles, InputFile, TextFormat, inspected

__all__ = ["DataFiles", "TextFormat", "open_data_files"]


def open_data_files(
    paths: Sequence[Path], file_format: str | None = None, text_format: TextFormat | None = None
) -> DataFiles:
    """As `inspected`, which raises. Raises ``InvalidInputError`` for a pipe or a device too."""
    return inspected([_input(path) for path in paths], file_format, text_format)


def _input(path: Path) -> InputFile:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInputError(
            f"{path} is a pipe or a device, which can be read only once, but txlog reads each file twice: first for its"
            f" columns, then for its rows. Write it to a file first: cat {shlex.quote(str(path))} > copy{path.suffix}",
            path=str(path),
        )
    return InputFile(str(path), status.st_size, partial(pa.OSFile, str(path)))
