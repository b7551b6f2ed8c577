"""Changelogs in: rows with what happens to them, made into one change for each key."""
