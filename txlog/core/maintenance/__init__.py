"""Maintenance that keeps a table fast and small (compaction, purge, vacuum), restore, and named versions."""
