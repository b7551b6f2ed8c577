"""Maintenance called from Spark: `optimize`, `purge`, `vacuum`, `verify`, `add_files`, `add_constraint`.

In: a session, a table's location, and the arguments of the method of ``txlog.Table`` with the same name. Out: its
result. Each is that method on the `workers` of the session, so plans, commits and results are the same. The session's
S3 credentials are used. For other storage options, use ``txlog.Table.open(uri, storage_options=...,
workers=txlog.spark.workers(spark))``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from txlog.spark.hadoop import check_session, of_session
from txlog.spark.settings import zone_of_session
from txlog.spark.spark_workers import SparkWorkers
from txlog.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["add_constraint", "add_files", "optimize", "purge", "vacuum", "verify", "workers"]

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
) -> Callable[Concatenate[SparkSession, str | os.PathLike[str], Given], Done]:
    def call(spark: SparkSession, uri: str | os.PathLike[str], /, *given: Given.args, **options: Given.kwargs) -> Done:
        places, path = workers(spark), os.fspath(uri)
        of_store = of_session(spark, path) or None
        table = Table.open(path, storage_options=of_store, workers=places, time_zone=zone_of_session(spark))
        return method(table, *given, **options)

    call.__name__ = call.__qualname__ = method.__name__
    call.__doc__ = (
        f"`Table.{method.__name__}` of the table at ``uri``, on the executors of the session ``spark``: with the same"
        " arguments, result and errors."
    )
    return call


optimize = _on_workers(Table.optimize)
purge = _on_workers(Table.purge)
vacuum = _on_workers(Table.vacuum)
verify = _on_workers(Table.verify)
add_files = _on_workers(Table.add_files)
add_constraint = _on_workers(Table.add_constraint)
