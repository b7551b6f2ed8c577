"""Writes docs/operations.md, the table of operations and doors, from the declarations: ``python -m
integration.operations_page``. A test compares the page with what this makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from txlog.core.declarations import DECLARED, Argument, Operation

PAGE = Path(__file__).parents[1] / "docs" / "operations.md"

_HEAD = """\
---
hide: [toc]
---

# All operations

Each operation on a table, and where you can ask for it: as a method of `txlog.Table`, inside a `table.transaction()`,
on the [command line](command-line.md), in [SQL](sql.md) (with `txlog.sql` and with `txlog.spark.sql`), as a function of
`txlog.spark`, or by Spark's `df.write` and `df.writeStream`. *Preview* says whether `dry_run=True`, or `--dry-run`,
shows what would be done without doing it.

[Changes of several tables as one](several-tables.md) are `txlog.transaction` in Python, and in SQL and on the command
line `BEGIN TRANSACTION; ...; COMMIT`. Snapshots of several tables as of one moment are in Python only:
`txlog.read_together`.
"""
_ARGUMENTS = """
## Arguments

Each argument, and its name at every place that takes it. A dash means that the place does not take it. The
[reference](reference/table.md) has the types, the defaults and the details.
"""


def page() -> str:
    """The whole page."""
    lines = [_HEAD, *_table(_COLUMNS, map(_row, DECLARED)), _ARGUMENTS, *_arguments()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


_COLUMNS = (
    "Python",
    "transaction",
    "command line",
    "SQL",
    "`txlog.spark`",
    "`df.write`",
    "`df.writeStream`",
    "preview",
)


def _row(operation: Operation) -> tuple[str, ...]:
    return (
        f"[`{operation.name}`](#{operation.name})" if operation.arguments else _code(operation.name),
        "yes" if operation.in_transaction else "-",
        _code(operation.command and f"txlog {operation.command}"),
        _code(operation.sql),
        _code(operation.spark),
        operation.write or "-",
        operation.stream or "-",
        "yes" if operation.has_preview else "-",
    )


def _arguments() -> Iterator[str]:
    for operation in DECLARED:
        if not operation.arguments:
            continue
        yield f"\n### {operation.name}\n\n{operation.about}\n"
        has_sql, has_write = any(each.sql for each in operation.arguments), bool(operation.write)
        columns = ["argument", *(["command line"] if operation.command else []), *(["SQL"] if has_sql else [])]
        columns += ["`df.write`"] if has_write else []
        rows = (_argument_row(operation, each, has_sql=has_sql) for each in operation.arguments)
        yield from _table([*columns, "what it is for"], rows)


def _argument_row(operation: Operation, argument: Argument, *, has_sql: bool) -> tuple[str, ...]:
    cells = [_code(argument.name)]
    cells += [_code(argument.option_name)] if operation.command else []
    cells += [_code(argument.sql)] if has_sql else []
    cells += [_code(argument.write)] if operation.write else []
    return (*cells, argument.about.replace("|", "\\|"))


def _code(text: str | None) -> str:
    return f"`` {text} ``" if text and "`" in text else f"`{text}`".replace("|", "\\|") if text else "-"


def _table(columns: tuple[str, ...] | list[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
