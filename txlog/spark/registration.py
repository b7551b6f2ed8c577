"""`register`: the data source made known to a session and to a thread in which Spark does not find it by itself.

In: a SparkSession, or none for the program's own. Out: nothing; ``format("txlog")`` works in the thread afterwards.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from txlog.spark.source import TxlogDataSource

__all__ = ["register"]


def register(spark: Any = None) -> None:
    """Make the format ``"txlog"`` known to a SparkSession (classic or Connect), and to the thread that calls this.

    Needed in a thread that the program started (Spark looks Python sources up in the thread's active session, and such
    a thread has none), and where only txlog's folder is on the workers' path:

        with ThreadPoolExecutor(8, initializer=txlog.spark.register) as pool: ...

    Args:
        spark: The session; the program's own one unless given.

    Workers must be able to import txlog: it is sent by reference. May be called again.
    """
    session = SparkSession.builder.getOrCreate() if spark is None else spark
    session.dataSource.register(TxlogDataSource)
    # Making a DataFrame of local data is the one public call that makes a session active on its thread.
    session.createDataFrame([], "nothing int")
