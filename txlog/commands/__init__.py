"""One file per thing a user asks of a table."""
