"""`sql`: the door from Python.

In: text, a catalog, parameters. Out: what the last statement returns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from txlog.core.util import UTC, explains_call
from txlog.errors import InvalidInputError
from txlog.statements.engine import LocalEngine
from txlog.statements.script import read_statements
from txlog.statements.session import begun
from txlog.statements.session_names import keeps_names
from txlog.statements.sql_result import SqlResult

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from txlog.catalog import Catalog
    from txlog.core.workers import GivenWorkers
    from txlog.statements.cursor import Dialect
    from txlog.statements.engine import Engine, QueryEngine


@explains_call
def sql(
    text: str,
    catalog: Catalog | str | os.PathLike[str] | None = None,
    parameters: Mapping[str, object] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    workers: GivenWorkers | None = None,
    time_zone: str | ZoneInfo = UTC,
    dialect: Dialect = "spark",
    engine: QueryEngine = "duckdb",
) -> SqlResult:
    """Run SQL: one statement, or several with a semicolon after each. docs/sql.md lists the statements.

        txlog.sql("select day, sum(amount) from sales.orders group by day", "./warehouse").read_all()
        txlog.sql("delete from sales.orders where id = :id", "./warehouse", {"id": 7})

    The words are those of Spark's SQL with Delta. Statements that change tables are calls of `Table`, with its
    guarantees; each is one version. Queries run in duckdb (the extra ``sql``), and each table of a
    query is read at one version. The whole text is read, and its tables are looked up, before the first statement runs.

    Args:
        text: The statements. Strings are in single or double quotes, names with other signs than letters, digits
            and _ in backquotes. A table without a name is ``delta.`location```.
        catalog: Where the names of tables are looked up: a `Catalog`, or its address.
        parameters: Values for ``:name`` in the text, and lists of them for ``IN (:name)``.
        storage_options: The options of the store, as for `Table.open`, for tables that are named by location.
        workers: Where commands work, as for `Table.open`.
        time_zone: As for `Table.open`, for queries too.
        dialect: ``"spark"``, whose values a query has in all of txlog and in Spark; or ``"duckdb"``, for queries in
            duckdb's own SQL, with duckdb's values and types.
        engine: What runs queries: ``"duckdb"``; or ``"sail"``, which takes more of Spark's SQL, without Java too,
            but silently has other values than Spark in some expressions (docs/sql.md).

    Returns:
        The answer to the last statement, which prints as a table: the rows of a query, of DESCRIBE or SHOW; or a row of
        what was done, with the result of the method of `Table`.

    Raises:
        InvalidInputError: The text is not understood; the message has the line and the column. Nothing was run.
        TableNotFoundError: A table is named that does not exist. Nothing was run.
        TxlogError: What the methods of `Table` raise. Statements before the one that failed were run.
    """
    *_, last = results_of(text, LocalEngine(workers, time_zone, engine), catalog, parameters, storage_options, dialect)
    return SqlResult(last)


def results_of(
    text: str,
    engine: Engine,
    catalog: Catalog | str | os.PathLike[str] | None,
    parameters: Mapping[str, object] | None,
    storage_options: Mapping[str, str] | None,
    dialect: Dialect = "spark",
) -> Iterator[Any]:
    """The result of each statement, which runs when it is asked for."""
    statements = read_statements(text, parameters, dialect)
    if keeps_names(statements[-1]):
        raise InvalidInputError(
            "the last statement only affects those that follow it, and none does: write them in the same text, or run"
            " each with txlog.SqlSession(catalog).sql(text); nothing was run"
        )
    return begun(engine, catalog, storage_options).run(statements)
