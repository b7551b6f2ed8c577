"""What a checkpoint holds: classic, V2, columns, order, when one is due, the hint."""
