"""The quorum of the metadata log: the raft driver, its storage and snapshots, and its peers."""
