"""From rows to files to committables: what runs in tasks. It cannot import the log."""
