"""Partitions with their logs, the connections of followers, and requests that wait for partitions; `core/replica` decides."""
