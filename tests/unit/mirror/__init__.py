"""Decisions of the mirror."""
