"""What looks after a table: checking it."""
