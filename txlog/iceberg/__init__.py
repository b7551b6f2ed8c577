"""Reads and writes the files of `_iceberg/`: the export of a table's versions, its races and its cleanup."""
