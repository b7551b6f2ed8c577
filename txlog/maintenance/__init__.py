"""What keeps a table fast and small, and takes it back: vacuum, restore, named versions, compaction, purge."""
