"""Tools that know nothing about tables: time, randomness, arguments, parallel maps, hints for other libraries'
names."""
