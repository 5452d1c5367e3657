"""Partitions that this node holds, their logs, and the readers that wait at their ends."""
