"""Rows -> files -> committables: what runs in tasks. Cannot see the log."""
