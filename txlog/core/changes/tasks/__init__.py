"""What runs in a task: it looks up, changes and writes rows of data files. A task opens data files, but no log."""
