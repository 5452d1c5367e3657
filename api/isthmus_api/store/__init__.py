"""The state of the control plane, in SQLite or PostgreSQL. Failing over needs none of it."""
