"""The active controller on this node, the channel to it from any node, and its periodic maintenance."""
