"""Tiered storage: copies closed segments to an object store, and deletes them there."""
