"""Upkeep of the log: what bounds its cost for readers without changing what the table is. Never a commit."""
