"""txlog in Spark: ``df.write.format("txlog").mode("append").save(path)``.

Spark finds the source by itself where txlog is installed for its Python workers (``pyspark_txlog``);
`register` is for sessions that do not. `foreach_batch` writes a stream's micro-batches from the user's own function.
`error_from` gives the typed error back from what Spark raised. Importing this module does not import pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txlog.spark.errors import error_from

if TYPE_CHECKING:
    from txlog.spark.micro_batch import MicroBatch, foreach_batch

__all__ = ["MicroBatch", "error_from", "foreach_batch", "register"]


def register(spark: Any) -> None:
    """Make the format ``"txlog"`` known to a SparkSession (classic or Connect), and to the thread that calls this.

    Needed where Spark cannot find the source by itself: in a thread that the program started (Spark looks Python
    sources up in the thread's active session, and such a thread has none), or where only txlog's folder is on the
    workers' path. Workers must be able to import txlog: it is sent by reference. May be called again.
    """
    from txlog.spark.source import TxlogDataSource

    spark.dataSource.register(TxlogDataSource)
    # Making a DataFrame of local data is the one public call that makes a session active on its thread.
    spark.createDataFrame([], "nothing int")


def __getattr__(name: str) -> Any:
    """`foreach_batch` is of the driver: tasks, which import this package too, need not load what it needs."""
    if name not in ("MicroBatch", "foreach_batch"):
        raise AttributeError(f"module 'txlog.spark' has no attribute {name!r}")
    from txlog.spark import micro_batch

    return getattr(micro_batch, name)
