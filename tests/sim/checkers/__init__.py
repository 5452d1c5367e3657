"""The invariants, one in each file. All are checked after every event, at the node of the event."""
