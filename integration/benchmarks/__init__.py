"""The benchmarks: txlog beside deltalake, pyarrow and Spark, in turns on one machine. See README.md."""
