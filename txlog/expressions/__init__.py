"""Pure: SQL text -> bound predicate -> `pyarrow.compute`. Safe in tasks."""
