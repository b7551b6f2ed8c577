"""What a command that a package brings needs of the command line: arguments, an open table, output.

In: nothing. Out: names of ``txlog.cli``. A command takes its shared arguments as `Uri`, `Storage` and `Json`, opens the
table with `opened`, and prints by the `Output` that it yields. Names load on first use; importing this needs ``typer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.cli.console import FAILED, Output
    from txlog.cli.declared import CommandCall, of_operation
    from txlog.cli.file_rows import (
        Delimiter,
        Format,
        MergeSchema,
        NoHeader,
        NullValues,
        OpensFiles,
        RowsOfFiles,
        separator_of,
    )
    from txlog.cli.opened import open_table, opened, processes
    from txlog.cli.options import Csv, Json, Storage, Uri, UserMetadata, Workers, names, pairs, size, time_zone
    from txlog.cli.tables import check_one_form, first_rows, grid, print_csv, rows_table, show_rows, table_of
    from txlog.cli.values import plain
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        console: FAILED Output
        declared: CommandCall of_operation
        file_rows: Delimiter RowsOfFiles Format MergeSchema NoHeader NullValues OpensFiles separator_of
        opened: open_table opened processes
        options: Csv Json Storage Uri UserMetadata Workers names pairs size time_zone
        tables: check_one_form first_rows grid print_csv rows_table show_rows table_of
        values: plain
        """,
        of="txlog.cli",
    )

__all__ = [
    "FAILED",
    "CommandCall",
    "Csv",
    "Delimiter",
    "Format",
    "Json",
    "MergeSchema",
    "NoHeader",
    "NullValues",
    "OpensFiles",
    "Output",
    "RowsOfFiles",
    "Storage",
    "Uri",
    "UserMetadata",
    "Workers",
    "check_one_form",
    "first_rows",
    "grid",
    "names",
    "of_operation",
    "open_table",
    "opened",
    "pairs",
    "plain",
    "print_csv",
    "processes",
    "rows_table",
    "separator_of",
    "show_rows",
    "size",
    "table_of",
    "time_zone",
]
