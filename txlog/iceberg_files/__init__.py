"""The files of `_iceberg/`, read and written: the export of a table's versions, its races and its clean-up."""
