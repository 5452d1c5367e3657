"""Work that takes longer than a request. Its state is in the database, so another process can resume it."""
