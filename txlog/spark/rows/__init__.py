"""Row changes that Spark tasks execute: delete, update, upsert and merge for tables and sources of any size.

The driver plans and commits, with the same commit loop as every other change. Tasks search files for matching rows,
and write deletion vectors, new versions of rows and copies. Each task does for a part of the table's files what
`RowChange` does for all of them.
"""
