"""Decisions, without I/O."""
