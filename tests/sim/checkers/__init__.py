"""What must never happen, one file each. All of them look after every event, at the node that had it."""
