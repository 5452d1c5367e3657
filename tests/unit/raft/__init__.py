"""The raft core rule by rule, and its driver on real files."""
