"""All I/O on the log and on data files. Nothing here knows what the bytes mean."""
