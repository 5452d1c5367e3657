"""Work that takes longer than a request: its state is in the database, and another process goes on where one has ended."""
