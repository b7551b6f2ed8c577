"""Tools without knowledge of tables: time, randomness, arguments, parallel maps, hints for names of other libraries."""
