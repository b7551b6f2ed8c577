"""Append and upsert from PySpark: no jar to match, the first write creates the table, a repeated batch adds nothing."""

import os
import sys
import tempfile

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers must find txlog too

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import txlog
import txlog.spark

uri = tempfile.mkdtemp() + "/events"
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

events = spark.range(100_000).select(
    f.col("id"),
    f.concat(f.lit("2026-11-"), f.lpad((f.col("id") % 3 + 1).cast("string"), 2, "0")).alias("day"),
    (f.col("id") / 7).alias("value"),
)

events.write.format("txlog").mode("append").option("partitionBy", "day").save(uri)

# txnAppId and txnVersion (Delta's own options) make a batch idempotent: the second save adds nothing.
for _ in range(2):
    (
        events.limit(10)
        .write.format("txlog")
        .mode("append")
        .option("txnAppId", "daily-load")
        .option("txnVersion", 1)
        .save(uri)
    )

# Spark's tasks update known keys and insert new ones: no row goes to the driver.
changes = events.where("id >= 99990").select((f.col("id") + 5).alias("id"), "day", f.lit(0.0).alias("value"))
print(txlog.spark.upsert(spark, uri, changes, keys=["id"]))

# Failures come back as txlog's own typed errors.
try:
    events.withColumn("value", f.lit("text")).write.format("txlog").mode("append").save(uri)
except Exception as error:
    found = txlog.spark.error_from(error)
    print(f"{type(found).__name__}: {found}")

snapshot = txlog.Table.open(uri).snapshot()
print(f"version {snapshot.version}: {snapshot.to_arrow(columns=['id']).num_rows:,} rows in {snapshot.num_files} files")
spark.stop()
