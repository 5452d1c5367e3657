"""What the control plane remembers: SQLite in a file, or PostgreSQL. Nothing here is needed to fail over."""
