"""Who may come in: the admin key, sessions, and what keeps others out."""
