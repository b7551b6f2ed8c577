"""Pure: values to decisions (segment, replay, proposal, conflicts, contents of checkpoints). No I/O, no clock."""
