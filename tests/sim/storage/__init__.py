"""The storage world: the product's logs, recovery, retention, cleaner, mover and raft storage on a disk that fails and loses power."""
