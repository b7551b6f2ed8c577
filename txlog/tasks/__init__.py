"""What runs in a task: rows of data files are looked up, changed and written. A task opens data files, and no log."""
