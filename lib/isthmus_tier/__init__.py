"""Segments of logs in an object store: what describes them, where they lie, and how they get there and back."""
