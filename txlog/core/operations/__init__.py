"""The operations that users call on a table, one file each."""
