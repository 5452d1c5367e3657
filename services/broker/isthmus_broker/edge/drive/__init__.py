"""Drives the cores: one loop for all of them, and per core what binds it to files and peers."""
