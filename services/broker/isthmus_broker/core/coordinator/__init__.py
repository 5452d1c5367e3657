"""The runtime under every replicated state machine that lives in the partitions of an internal topic."""
