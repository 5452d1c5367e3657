"""The invariants of replicas, one in each file. The checkers observe every event."""
