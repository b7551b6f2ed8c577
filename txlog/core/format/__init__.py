"""Pure: bytes <-> values, one file per concept of the Delta protocol. No I/O, no clock."""
