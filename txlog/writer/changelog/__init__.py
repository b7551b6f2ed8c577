"""Changelogs as input: rows with a kind (insert, update, delete), combined to one change for each key."""
