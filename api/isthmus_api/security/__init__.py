"""Authentication: the admin key, sessions, limits of attempts."""
