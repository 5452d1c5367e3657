"""Decisions about one copied partition, without I/O."""
