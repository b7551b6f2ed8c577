"""Maintenance called from Spark: `optimize`, `purge`, `vacuum`, `verify`, `add_files`, `add_constraint`.

In: a session, a table's location, and the arguments of the method of ``txlog.Table`` with the same name. Out: its
result. Each is that method on the `workers` of the session, so plans, commits and results are the same. The session
gives what the arguments do not: the S3 credentials, and the settings of Spark's Delta for these commands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from txlog.spark.hadoop import check_session
from txlog.spark.hadoop import of_session as options_of_session
from txlog.spark.settings import SessionSettings, zone_of_session
from txlog.spark.spark_workers import SparkWorkers
from txlog.spark.text_settings import require_own_reading
from txlog.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Given = ParamSpec("Given")
Done = TypeVar("Done")


def workers(spark: SparkSession) -> SparkWorkers:
    """The executors of a session as workers: ``txlog.Table.open(uri, workers=txlog.spark.workers(spark))``.

    Args:
        spark: The session (classic or Connect). Its executors need txlog installed, and reach the table's location.

    Returns:
        What ``workers=`` of `Table.open` and of its methods takes.

    Raises:
        InvalidInputError: ``spark`` is no session.
    """
    check_session(spark)
    return SparkWorkers(spark)


def _on_workers(
    method: Callable[Concatenate[Table, Given], Done],
    of_session: Callable[[SessionSettings], dict[str, Any]] = lambda settings: {},
) -> Callable[..., Done]:
    """``method`` on the workers of a session, which gives the arguments of ``of_session`` if the call does not."""
    name = method.__name__

    def call(
        spark: SparkSession,
        uri: str | os.PathLike[str],
        /,
        *given: Any,
        storage_options: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Done:
        places, path = workers(spark), os.fspath(uri)
        settings = SessionSettings.of(spark)
        settings.require(name)
        found = options_of_session(spark, path) | dict(storage_options or {})
        zone = zone_of_session(spark)
        require_own_reading(spark, *(each for each in (*given, *options.values()) if isinstance(each, str)))
        table = Table.open(path, storage_options=found or None, workers=places, time_zone=zone)
        return method(table, *given, **{**of_session(settings), **options})

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"`Table.{name}` of the table at ``uri``, on the executors of the session ``spark``: with the same arguments,"
        " result and errors. ``storage_options`` work as in `Table.open`, and override the session's."
    )
    return call


def _noting(settings: SessionSettings) -> dict[str, Any]:
    return {"user_metadata": settings.note}


optimize = _on_workers(Table.optimize, lambda settings: {**settings.optimizing(), **_noting(settings)})
purge = _on_workers(Table.purge, _noting)
vacuum = _on_workers(Table.vacuum, SessionSettings.vacuuming)
verify = _on_workers(Table.verify)
add_files = _on_workers(Table.add_files, _noting)
add_constraint = _on_workers(Table.add_constraint, _noting)
