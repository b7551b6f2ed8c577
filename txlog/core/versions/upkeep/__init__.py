"""Maintenance of the log files: keeps reading cheap without changing the table. It never makes a commit."""
