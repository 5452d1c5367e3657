"""What REST v3 does not have: the inventory, the map, lag, tasks, audit, events, sessions."""
