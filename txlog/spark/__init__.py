"""txlog in Spark: ``df.write.format("txlog").mode("append").save(path)``.

Spark finds the source by itself where txlog is installed for its Python workers (``pyspark_txlog``);
`register` is for sessions that do not. `error_from` gives the typed error back from what Spark raised.
Importing this module does not import pyspark.
"""

from __future__ import annotations

from typing import Any

from txlog.spark.errors import error_from

__all__ = ["error_from", "register"]


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
