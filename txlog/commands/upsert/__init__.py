"""Upserts: rows of a source take the place of rows of the table with the same key."""
