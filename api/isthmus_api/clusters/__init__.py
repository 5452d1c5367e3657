"""Polling the registered clusters: clients, probes, snapshots of their state, and their lag samples."""
