"""The files of `_delta_log/`, read and written."""
