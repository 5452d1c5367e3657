"""The runtime under every replicated state machine that lives in the partitions of an internal topic.

It owns one shard's state, timers and pending responses. It has the contract's shape with the partition's log as the disk: responses wait
until the high watermark covers the records behind them.
"""
