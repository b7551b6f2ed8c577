"""`register` makes the data source known to a session, and to a thread where Spark does not find it by itself.

In: a SparkSession, or None for the program's own. Out: nothing; ``format("txlog")`` then works in the thread.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from txlog.spark.source import TxlogDataSource


def register(spark: Any = None) -> None:
    """Make the format ``"txlog"`` known to a SparkSession (classic or Connect) and to the calling thread.

    Call it in each thread that the program started: Spark looks up Python data sources in the thread's active session,
    and such a thread has none. Call it too if txlog is not installed but only on the workers' path. Repeated calls do
    no harm:

        with ThreadPoolExecutor(8, initializer=txlog.spark.register) as pool: ...

    Args:
        spark: The session; None means the program's own. Workers must be able to import txlog, since Spark sends the
            data source by reference.
    """
    session = SparkSession.builder.getOrCreate() if spark is None else spark
    try:
        session.dataSource.register(TxlogDataSource)
    except AnalysisException as error:  # Spark 4.0, where it has found the data source by its name
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    # Only one public call makes a session active in its thread: creating a DataFrame from local data.
    session.createDataFrame([], "nothing int")
