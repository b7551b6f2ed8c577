"""Reads and writes the files of `_delta_log/`."""
