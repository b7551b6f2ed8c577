"""Data files -> record batches."""
