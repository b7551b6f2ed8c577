"""Changes of rows: deletes, updates and upserts as one program, by deletion vectors or by copies, run as a plan."""
