"""The commands of `txlog` that know tables by name: sql, tables, describe.

In: SQL text from the arguments, a file, a pipe or a prompt. Out: rows as a table for a person or as JSON, and the
results of statements that change tables.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
import typer
from rich.table import Table as Shown
from rich.text import Text

import txlog
from txlog.core.format.arrow.wide_years import python_rows, python_values
from txlog.core.format.properties import column_paths
from txlog.core.format.schema import backquoted
from txlog.core.util import public_fields
from txlog.errors import InvalidInputError, NotFoundError
from txlog.extend.cli import (
    Csv,
    Json,
    Output,
    Storage,
    Workers,
    check_one_form,
    pairs,
    plain,
    print_csv,
    processes,
    rows_table,
    time_zone,
)
from txlog.result import counted

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from txlog.statements.session import SqlSession

CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog", "-c", envvar="TXLOG_CATALOG", metavar="URI", help="where names are looked up: a folder of tables"
    ),
]
CatalogUri = Annotated[str, typer.Argument(metavar="URI", help="a folder of tables", show_default=False)]
_HISTORY_LINES = 1000
_STATEMENT = re.compile(
    r"\s*(?:select|with|insert|update|delete|merge|create|drop|alter|show|describe)\s", re.IGNORECASE
)
"""What begins a statement, and no address of a catalog."""
_SHOWN = re.compile(r"[A-Z]\w+\((.*)\)")
_VERSION = re.compile(r"^version=(\d+), committed, ")


def sql(
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="statements; none: a prompt")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="PATH", help="read the statements here; - is the standard input"),
    ] = None,
    catalog: CatalogOption = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="the text for :NAME; may be repeated")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="show at most this many rows of a query")] = 100,
    dialect: Annotated[
        Literal["spark", "duckdb"], typer.Option(help="duckdb: queries in duckdb's own SQL, with its values")
    ] = "spark",
    engine: Annotated[
        Literal["duckdb", "sail"], typer.Option(help="sail: queries in Sail, some with other values than Spark's")
    ] = "duckdb",
    workers: Workers = None,
    storage_options: Storage = None,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Run SQL on tables by name: queries, and statements that change tables.

    `txlog sql "select * from sales.orders" --catalog ./warehouse`. With --json or --csv, all rows are printed.
    Without a text, statements are read from a pipe or from a prompt.
    """
    options = pairs(storage_options, "--storage-option")
    given = pairs(parameters, "--param")
    if text is not None and file is not None:
        raise typer.BadParameter("give the statements as an argument or by --file, not both")
    check_one_form(as_csv, as_json)
    out = Output(as_json)
    if text is None and catalog is not None and _STATEMENT.match(catalog):
        raise typer.BadParameter(f'-c names the catalog; the statement is an argument: txlog sql "{catalog}"')
    with out.reporting():
        text = _given_text(text, file)
    with processes(workers) as executor:
        if text is None:
            with out.reporting():
                session = _session(catalog, options, executor, engine)
            for entered in _prompted():
                with contextlib.suppress(typer.Exit), out.reporting():
                    _run(out, session._results(entered, given, dialect), limit, as_csv=as_csv)
            return
        with out.reporting():
            results = _session(catalog, options, executor, engine)._results(text, given, dialect)
            _run(out, results, limit, as_csv=as_csv)


def _given_text(text: str | None, file: Path | None) -> str | None:
    """The statements, from a file or a pipe as UTF-8 whatever the locale is; None for a prompt.

    Raises ``InvalidInputError``.
    """
    if file is None and (text is not None or sys.stdin.isatty()):
        return text
    if file == Path("-"):
        file = None
    place = str(file) if file else "the standard input"
    try:
        found = (file.read_bytes() if file else sys.stdin.buffer.read()).decode("utf-8-sig")
    except OSError as error:
        raise InvalidInputError(f"{place} cannot be read: {error.strerror}: check --file") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{place} is not UTF-8 text, at byte {error.start}: convert it to UTF-8") from error
    if not found.strip():
        raise InvalidInputError(
            f'{place} has no statement: pass one as an argument, as in txlog sql "select 1", or in a terminal start'
            " txlog sql alone for a prompt"
        )
    return found


def tables(
    uri: CatalogUri,
    schema: Annotated[str | None, typer.Option(metavar="NAME", help="only the tables of this schema")] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """List the tables of a catalog."""
    out = Output(as_json)
    options = pairs(storage_options, "--storage-option")
    with out.reporting():
        found = txlog.Catalog(uri, storage_options=options)
        names = found.tables(schema)
        if not names and "://" not in found.uri and not os.path.isdir(found.uri):
            raise NotFoundError("there is no such folder", table=found.uri)
        out.result({"catalog": uri, "tables": names}, Text("\n".join(names) or _no_table(found.uri)))


def _no_table(uri: str) -> str:
    """What a person reads of a folder without schemas of tables; it may have tables itself."""
    own = (
        []
        if "://" in uri
        else sorted(each.name for each in os.scandir(uri) if os.path.isdir(os.path.join(each.path, "_delta_log")))
    )
    if not own:
        return "there is no table"
    return (
        f"there is no table of a schema, as ./sales/orders is. {own[0]} is a table without one: name it by its"
        f" location, as in txlog head ./{own[0]}, or in SQL delta.`./{own[0]}`"
    )


def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="the table's name in the catalog, or a location, which has a slash", show_default=False
        ),
    ],
    catalog: CatalogOption = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Show the columns of a table by its name, and where it is."""
    out = Output(as_json)
    if "/" in name:
        quoted = f"delta.{backquoted(name)}"
    elif catalog is None:
        raise typer.BadParameter(f"give --catalog to look up a name; a location has a slash, as ./{name}")
    else:
        quoted = _quoted(name)
    with out.reporting():
        options = pairs(storage_options, "--storage-option")
        _run(out, _session(catalog, options, None)._results(f"DESCRIBE EXTENDED {quoted}", {}, "spark"), None)


def _quoted(name: str) -> str:
    """The name with backquotes around each part. What is none stays whole, and the catalog refuses it."""
    try:
        (parts,) = column_paths(name)
    except ValueError:
        parts = (name,)
    return ".".join(map(backquoted, parts))


def _session(
    catalog: str | None,
    storage_options: dict[str, str],
    executor: Executor | None,
    engine: Literal["duckdb", "sail"] = "duckdb",
) -> SqlSession:
    from txlog.statements.session import SqlSession  # with SQL's parser, which most commands start without

    zone = time_zone.get()
    options = storage_options or None
    return SqlSession(catalog, storage_options=options, workers=executor, time_zone=zone, engine=engine)


def _run(out: Output, results: Iterator[Any], limit: int | None, *, as_csv: bool = False) -> None:
    facts = out.results_before
    for result in results:
        if out.as_json:
            facts.append(_facts(result))
        elif as_csv:
            _print_csv(out, result)
        elif isinstance(result, pa.RecordBatchReader | pa.Table):
            out.result(None, *_rows_shown(out, result, limit))
        else:
            out.result(None, Text("done" if result is None else _said(result)))
    if out.as_json:
        out.result(facts[0] if len(facts) == 1 else {"results": facts})


def _print_csv(out: Output, result: Any) -> None:
    """The rows of a query; what another statement did goes to stderr."""
    if not isinstance(result, pa.RecordBatchReader | pa.Table):
        out.stderr.print(Text("done" if result is None else _said(result)))
        return
    batches = result.to_batches() if isinstance(result, pa.Table) else result
    rows = (zip(*map(python_values, batch.columns), strict=True) for batch in batches)
    print_csv(out, result.schema.names, itertools.chain.from_iterable(rows))


def _said(result: Any) -> str:
    """What a statement did, without the class that Python shows: ``version 2: 4 rows deleted, 1 file, ...``."""
    first, *notes = str(result).splitlines()
    shown = _SHOWN.fullmatch(first)
    return "\n".join([_VERSION.sub(r"version \1: ", shown[1] if shown else first), *notes])


def _facts(result: Any) -> Any:
    if isinstance(result, pa.RecordBatchReader):
        result = result.read_all()
    if isinstance(result, pa.Table):
        rows = [[plain(value) for value in row] for row in zip(*map(python_values, result), strict=True)]
        return {"columns": result.column_names, "rows": rows}
    return {"outcome": "done"} if result is None else public_fields(result)


def _rows_shown(out: Output, result: pa.RecordBatchReader | pa.Table, limit: int | None) -> Iterator[Any]:
    if isinstance(result, pa.Table) and (records := _records(out, result)) is not None:
        yield from records
        return
    batches = result.to_batches() if isinstance(result, pa.Table) else result
    values = (
        zip(*(python_values(each, maps_as_pydicts="lossy") for each in batch.columns), strict=True) for batch in batches
    )
    rows = itertools.chain.from_iterable(values)
    first = [*itertools.islice(rows, limit)]
    yield rows_table(result.schema, first)
    more = next(rows, None) is not None
    count = counted(len(first), "row")
    yield Text(f"the first {count}; --limit shows more" if more else count)


def _records(out: Output, result: pa.Table) -> list[Any] | None:
    """Rows about a table, each as lines of names and values without those that are null, if they are too wide for the
    terminal side by side; else None."""
    rows = python_rows(result, maps_as_pydicts="lossy")
    shown = [{name: str(plain(value)) for name, value in row.items() if value is not None} for row in rows]
    widths = [max([len(name), *(len(row.get(name, "null")) for row in shown)]) for name in result.column_names]
    if not rows or sum(widths) + 2 * (len(widths) - 1) <= out.stdout.width:
        return None
    found: list[Any] = []
    for row in shown:
        table = Shown(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in row.items():
            table.add_row(Text(name), Text(value))
        found += [table, Text("")]
    return [*found, Text(counted(len(rows), "row"))]


def _help() -> str:
    from txlog.statements.script import STATEMENTS

    return f"""\
Statements begin with {", ".join(STATEMENTS)},
and a semicolon at the end of a line ends them. A table is schema.name in a catalog, or delta.`./location`.
exit leaves."""


def _prompted() -> Iterator[str]:
    """What a person enters, up to each semicolon at the end of a line. The lines are kept for the next time."""
    import readline

    from txlog.statements.script import ends_statement

    history = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "txlog" / "sql_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    lines: list[str] = []
    try:
        while True:
            try:
                line = input("  ...> " if lines else "txlog> ")
            except KeyboardInterrupt:
                typer.echo()
                lines.clear()
                continue
            command = "" if lines else line.strip().lower().removesuffix(";")
            if command in ("exit", "quit"):
                return
            if command in ("help", "?"):
                typer.echo(_help())
                continue
            lines.append(line)
            entered = "\n".join(lines)
            if not entered.strip():
                lines.clear()
            elif ";" in line and ends_statement(entered):
                lines.clear()
                yield entered
    except EOFError:
        typer.echo()
    finally:
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
