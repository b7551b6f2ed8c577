"""Tools that know nothing of tables: time and chance, arguments, parallel maps, hints for other libraries' names."""
