"""Rewrites bins of files that keep their rows: a compaction, a purge, a clustering along a curve."""
