"""Hosts the coordinators whose state lives in an internal topic."""
