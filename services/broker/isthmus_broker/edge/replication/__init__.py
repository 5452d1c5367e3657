"""Partitions with their logs, connections of followers, and requests that wait for partitions; `core/replica` has the decisions."""
