"""One engine of the benchmark `engines`, in a process of its own, which prints seconds as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import txlog.spark
from benchmarks.reading import ALL


@contextlib.contextmanager
def session(engine: str, folder: Path) -> Iterator[Any]:
    if engine == "spark":
        from benchmarks.measure import Bench
        from benchmarks.spark import session as of_spark

        with of_spark(Bench("engines", folder, False, sys.stderr)) as spark:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
            yield spark
        return
    os.environ |= {"RUST_LOG": "off"}
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    yield spark
    spark.stop()
    server.stop()


def main(engine: str, source: str, target: str, rounds: int) -> None:
    table, parquet = f"{target}/table", f"{target}/parquet"
    began_s = time.perf_counter()
    with session(engine, Path(target)) as spark:
        spark.range(1).count()
        took: dict[str, Any] = {"start": time.perf_counter() - began_s}
        frame = spark.read.parquet(source)

        def median_s(step: Callable[[], Any], *replaces: str) -> float:
            seconds = []
            for _ in range(rounds + 1):
                for path in replaces:
                    shutil.rmtree(path, ignore_errors=True)
                os.sync()
                began_s = time.perf_counter()
                took["answer"] = step() or took.get("answer")
                seconds.append(time.perf_counter() - began_s)
            return statistics.median(seconds[1:])

        def sums(rows: Any) -> list[str]:
            found = rows.selectExpr(*ALL).collect()[0]
            return [f"{each:.9g}" if isinstance(each, float) else str(each) for each in found]

        took["parquet"] = median_s(lambda: frame.write.mode("overwrite").parquet(parquet))
        took["write"] = median_s(lambda: frame.write.format("txlog").mode("append").save(table), table)
        took["native"] = median_s(lambda: sums(txlog.spark.read(spark, table)))
        took["source"] = median_s(lambda: sums(spark.read.format("txlog").load(table)))
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
