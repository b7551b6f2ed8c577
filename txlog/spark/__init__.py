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
    """Make the format ``"txlog"`` known to a SparkSession (classic or Connect).

    Workers must be able to import txlog too: it is sent by reference. Raises what the import of pyspark or
    txlog raises.
    """
    from txlog.spark.source import TxlogDataSource

    spark.dataSource.register(TxlogDataSource)
