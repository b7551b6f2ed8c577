"""Lets Spark find txlog without a registration call: ``df.write.format("txlog")``.

Spark imports every top-level module whose name begins with ``pyspark_`` and takes its ``DefaultSource``.
An exception here would disable every Python data source of the session, so this module raises none: if
txlog cannot be imported, the name stays unset, and ``txlog.spark.register(spark)`` shows the reason.
"""

try:
    from txlog.spark.source import TxlogDataSource as DefaultSource
except Exception:
    import logging

    logging.getLogger("txlog").warning("the Spark data source 'txlog' cannot be loaded", exc_info=True)  # noqa: TID251

__all__ = ["DefaultSource"]
