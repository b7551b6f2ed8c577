"""Upserts: rows of a source replace the rows of the table with the same keys, or are added."""
