"""Pure values: conditions and expressions as trees, the types and values of their terms, and zones."""
