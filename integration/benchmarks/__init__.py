"""The benchmarks: txlog compared with deltalake, pyarrow and Spark, in turns on one machine. See docs/benchmarks.md."""
