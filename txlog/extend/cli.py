"""What a command that a package brings needs of the command line: arguments, an open table, output.

In: nothing. Out: names of ``txlog.cli``. A command takes its shared arguments as `Uri`, `Storage` and `Json`, opens the
table with `opened`, and prints by the `Output` that it yields. Names load on first use; importing this needs ``typer``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlog.cli.console import FAILED, Output
    from txlog.cli.declared import Call, of_operation
    from txlog.cli.file_rows import (
        Delimiter,
        FileRows,
        Format,
        MergeSchema,
        NoHeader,
        NullValues,
        OpensFiles,
        separator_of,
    )
    from txlog.cli.opened import open_table, opened, processes
    from txlog.cli.options import Json, Storage, Uri, UserMetadata, Workers, names, pairs, size, time_zone
    from txlog.cli.tables import first_rows, grid, rows_table, show_rows, table_of
    from txlog.cli.values import plain

_HOME = {
    **dict.fromkeys(("FAILED", "Output"), "console"),
    **dict.fromkeys(
        ("Delimiter", "FileRows", "Format", "MergeSchema", "NoHeader", "NullValues", "OpensFiles", "separator_of"),
        "file_rows",
    ),
    **dict.fromkeys(("open_table", "opened", "processes"), "opened"),
    **dict.fromkeys(
        ("Json", "Storage", "Uri", "UserMetadata", "Workers", "names", "pairs", "size", "time_zone"), "options"
    ),
    **dict.fromkeys(("first_rows", "grid", "rows_table", "show_rows", "table_of"), "tables"),
    "plain": "values",
    **dict.fromkeys(("Call", "of_operation"), "declared"),
}

__all__ = [
    "FAILED",
    "Call",
    "Delimiter",
    "FileRows",
    "Format",
    "Json",
    "MergeSchema",
    "NoHeader",
    "NullValues",
    "OpensFiles",
    "Output",
    "Storage",
    "Uri",
    "UserMetadata",
    "Workers",
    "first_rows",
    "grid",
    "names",
    "of_operation",
    "open_table",
    "opened",
    "pairs",
    "plain",
    "processes",
    "rows_table",
    "separator_of",
    "show_rows",
    "size",
    "table_of",
    "time_zone",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'txlog.extend.cli' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"txlog.cli.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
