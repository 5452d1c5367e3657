"""What must never happen to replicas, one file each. They are told of every event as it happens."""
