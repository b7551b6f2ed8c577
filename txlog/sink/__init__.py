"""Rows -> files -> committables -> one commit."""
