"""What deletes, updates, upserts and merges do to rows, in tasks and as a plan."""
