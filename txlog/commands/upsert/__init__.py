"""Upserts: source rows replace the table rows with the same keys, or are added."""
