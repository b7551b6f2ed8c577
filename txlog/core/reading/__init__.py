"""From data files to record batches."""
