"""Small helpers on Arrow memory and Parquet footers."""
