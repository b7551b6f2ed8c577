"""Row changes that Spark tasks execute: delete, update, upsert and merge for tables and sources of any size.

The driver plans and commits, with the same plan and commit loop as every other change. Tasks search files for matching
rows, and write deletion vectors, new versions of rows and copies: ``core/changes/plan/_distributed_tasks`` says which
tasks, and ``core/changes/tasks/_change_part`` what each does.
"""
