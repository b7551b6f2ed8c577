"""What a table is: its creation, and changes of its definition."""
