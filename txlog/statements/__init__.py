"""SQL statements: text to values, and values to calls of `Table` and `Catalog`."""
