"""Looks a table over: verify, summaries."""
