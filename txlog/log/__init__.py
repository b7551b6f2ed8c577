"""Pure: values -> decisions (segment, replay, transaction, conflicts, checkpoint contents). No I/O, no clock."""
