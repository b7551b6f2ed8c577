"""Row changes: deletes, updates, upserts and merges as one program, by deletion vectors or copies, run as a plan."""
