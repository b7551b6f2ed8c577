"""Inspects a table: verification and file summaries."""
