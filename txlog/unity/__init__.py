"""Tables whose versions a Unity Catalog server decides: its requests, its commits, its credentials."""
