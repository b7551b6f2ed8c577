"""Changes of rows whose work Spark does: delete, update, upsert and merge of tables and sources of any size.

The driver plans and commits, by the same commit loop as every other change. Tasks look into files, and write vectors,
new versions of rows and copies; each task does to a part of the table's files what `RowChange` does to all of them.
"""
