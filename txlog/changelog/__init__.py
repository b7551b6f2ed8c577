"""Changelogs as input: rows with a kind (insert, update, delete), combined into one change for each key."""
