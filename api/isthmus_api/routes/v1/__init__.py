"""What REST v3 does not know: the inventory, the map, lag, tasks, audit, events, sessions."""
