"""Queries of `txlog.sql` in Sail, which needs no Java: ``engine="sail"``.

In: a `Query` with the versions of its tables. Out: rows, by a server that this process starts on its own machine for
the first query, and that ends with the process.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from txlog.core.util import how_to_install
from txlog.errors import InvalidInputError
from txlog.spark.statements import SparkEngine

if TYPE_CHECKING:
    import pyarrow as pa

    from txlog.statements.engine import Source
    from txlog.statements.query import Query

_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""The variable by which PySpark's functions know for which kind of session they are."""


class SailQueries:
    """A session of Sail. Raises InvalidInputError where pysail or PySpark is not installed, and in a process that has a
    session of Spark."""

    def __init__(self, time_zone: str) -> None:
        try:
            from pyspark.sql.connect.session import SparkSession

            from txlog.spark.sail_server import server_url

            url = server_url()
        except ImportError as error:
            raise InvalidInputError(
                f"engine='sail' needs Sail and PySpark's client ({error}): {how_to_install('sail')}. Nothing was run"
            ) from None
        context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)  # which the client lacks
        if getattr(context, "_active_spark_context", None) is not None:
            raise InvalidInputError(
                "engine='sail' cannot be used in a process that has a Spark session: run the query by txlog.spark.sql;"
                " nothing was run"
            )
        session: Any = SparkSession.builder.remote(url).create()
        session.conf.set("spark.sql.session.timeZone", time_zone)
        self._engine = SparkEngine(session)

    def rows(self, query: Query, sources: Sequence[Source | None]) -> pa.RecordBatchReader:
        """The rows of a query. Raises InvalidInputError for one that Sail cannot run."""
        with _connect_mode():
            frame = self._engine.query(query, sources)
            try:
                return frame.toArrow().to_reader()
            except Exception as error:
                raise InvalidInputError(f"Sail cannot run the query at {query.at}: {error}") from None


@contextlib.contextmanager
def _connect_mode() -> Iterator[None]:
    """Have PySpark's functions be those of Spark Connect, and leave the program free to start a Spark later."""
    before = os.environ.get(_CONNECT_MODE)
    os.environ[_CONNECT_MODE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CONNECT_MODE]
