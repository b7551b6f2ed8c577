"""The benchmarks: txlog beside deltalake, pyarrow and Spark, in turns on one machine. See docs/benchmarks.md."""
