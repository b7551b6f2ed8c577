"""`SqlSession`: statements that know what the ones before them named.

In: text, statement by statement. Out: the answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from txlog.catalog import Catalog
from txlog.core.util import UTC, explains_calls, explains_names
from txlog.statements.engine import LocalEngine
from txlog.statements.run import Runner
from txlog.statements.script import read_statements
from txlog.statements.sql_result import SqlResult

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from txlog.core.workers import GivenWorkers
    from txlog.statements.cursor import Dialect
    from txlog.statements.engine import Engine, QueryEngine


@explains_calls
@explains_names
class SqlSession:
    """SQL statements one after another, with temporary views, a current schema, and tables that stay open.

        session = txlog.SqlSession("./warehouse")
        session.sql("use sales")
        session.sql("create temporary view big as select * from orders where amount > 100")
        session.sql("select count(*) from big")

    The views and the schema of USE are this object's own: nobody else sees them, and they end with it. A call of
    `txlog.sql` is a session of its own. Not for several threads at once.

    Args:
        catalog: As for `txlog.sql`, like all that follow.
        storage_options: As for `txlog.sql`.
        workers: As for `txlog.sql`.
        time_zone: As for `txlog.sql`.
        engine: As for `txlog.sql`.
    """

    def __init__(
        self,
        catalog: Catalog | str | os.PathLike[str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        workers: GivenWorkers | None = None,
        time_zone: str | ZoneInfo = UTC,
        engine: QueryEngine = "duckdb",
    ) -> None:
        self._runner = begun(LocalEngine(workers, time_zone, engine), catalog, storage_options)

    def sql(
        self, text: str, parameters: Mapping[str, object] | None = None, *, dialect: Dialect = "spark"
    ) -> SqlResult:
        """Run one statement, or several with a semicolon after each.

        Args:
            text: As for `txlog.sql`.
            parameters: As for `txlog.sql`.
            dialect: As for `txlog.sql`.

        Returns:
            The answer to the last statement.

        Raises:
            TxlogError: What `txlog.sql` raises.
        """
        *_, last = self._results(text, parameters, dialect)
        return SqlResult(last)

    def _results(self, text: str, parameters: Mapping[str, object] | None, dialect: Dialect) -> Iterator[Any]:
        """What each statement returns, which runs when it is asked for."""
        return self._runner.run(read_statements(text, parameters, dialect))


def begun(
    engine: Engine, catalog: Catalog | str | os.PathLike[str] | None, storage_options: Mapping[str, str] | None
) -> Runner:
    """What runs the statements of one session."""
    if isinstance(catalog, str | os.PathLike):
        catalog = Catalog(catalog, storage_options=storage_options)
    return Runner(engine, catalog, storage_options)
