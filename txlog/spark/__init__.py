"""txlog in Spark: ``df.write.format("txlog").mode("append").save(path)``.

Spark finds the data source by itself if txlog is installed for its Python workers (``pyspark_txlog``). It does not find
it in a thread that the program started: use ``ThreadPoolExecutor(8, initializer=txlog.spark.register)`` there. `read`
returns a version of a table as a DataFrame. `delete`, `update`, `upsert` and `merge` change rows of tables of any size;
`optimize`, `purge`, `vacuum`, `verify`, `add_files` and `add_constraint` do their work in Spark's tasks, and so does a
handle opened with `workers`.
`sql` runs statements on tables by name, `catalog` finds the session's tables.
`foreach_batch` writes a stream's micro-batches from the user's own function. `storage_options` passes on Hadoop's
credentials. `error_from` rebuilds the typed error from Spark's exception. Importing this module does not import
pyspark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txlog.spark.envelopes import apply_changes
    from txlog.spark.errors import error_from
    from txlog.spark.hadoop import storage_options
    from txlog.spark.maintenance import add_constraint, add_files, optimize, purge, vacuum, verify, workers
    from txlog.spark.micro_batch import MicroBatch, foreach_batch
    from txlog.spark.registration import register
    from txlog.spark.rows.calls import ChangeOptions, delete, merge, update, upsert
    from txlog.spark.scan import read
    from txlog.spark.session_catalog import catalog
    from txlog.spark.statements import sql

__all__ = [
    "ChangeOptions",
    "MicroBatch",
    "add_constraint",
    "add_files",
    "apply_changes",
    "catalog",
    "delete",
    "error_from",
    "foreach_batch",
    "merge",
    "optimize",
    "purge",
    "read",
    "register",
    "sql",
    "storage_options",
    "update",
    "upsert",
    "vacuum",
    "verify",
    "workers",
]

_HOME = {
    "ChangeOptions": "txlog.spark.rows.calls",
    "MicroBatch": "txlog.spark.micro_batch",
    **dict.fromkeys(
        ["add_constraint", "add_files", "optimize", "purge", "vacuum", "verify", "workers"], "txlog.spark.maintenance"
    ),
    "apply_changes": "txlog.spark.envelopes",
    "catalog": "txlog.spark.session_catalog",
    "delete": "txlog.spark.rows.calls",
    "error_from": "txlog.spark.errors",
    "foreach_batch": "txlog.spark.micro_batch",
    "merge": "txlog.spark.rows.calls",
    "read": "txlog.spark.scan",
    "register": "txlog.spark.registration",
    "sql": "txlog.spark.statements",
    "storage_options": "txlog.spark.hadoop",
    "update": "txlog.spark.rows.calls",
    "upsert": "txlog.spark.rows.calls",
}


def __getattr__(name: str) -> Any:
    """Load names on first use. Tasks import this package too and must not load pyspark's session code."""
    if name == "DeltaTable":
        raise AttributeError(
            "module 'txlog.spark' has no DeltaTable: use txlog.spark.delete(spark, uri, where), update, upsert, and"
            " merge(spark, uri, df, on).when_matched_update_all().execute()"
        )
    if name not in _HOME:
        raise AttributeError(f"module 'txlog.spark' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
