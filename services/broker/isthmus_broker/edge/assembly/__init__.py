"""Puts a node together from its parts, starts and stops them in order, and publishes metadata changes to them."""
