"""What deletes, updates, upserts and merges do to rows: each a `RowOperation`, bound to a table's definition."""
