"""Names of tables: catalogs that say where a table is, and who decides its versions."""
