"""In Spark's daemons, which fork its Python workers: import what the workers need, once for all of them.

The tests with Spark start hundreds of workers, and each would spend more on imports than on its work. What users have,
Spark has in the examples, in the demo and in the jobs that are killed.
"""

import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    # Spark puts its archives first: each worker would read their tables of contents, and compile what it finds there.
    sys.path[:] = [place for place in sys.path if not place.endswith((".jar", ".zip"))]
    import pandas  # noqa: F401
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401
    import pyspark.sql.worker.commit_data_source_write
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.data_source_pushdown_filters
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.sql.worker.write_into_data_source
    import pyspark.worker  # noqa: F401

    import txlog.core.operations._global_committer
    import txlog.core.versions._commit_loop
    import txlog.spark.planning
    import txlog.spark.reader
    import txlog.spark.source
    import txlog.spark.stream
    import txlog.spark.task
    import txlog.spark.task_reader  # noqa: F401
