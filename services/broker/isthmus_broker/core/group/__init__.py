"""The group coordinator: classic and consumer groups and their committed offsets, as a state machine over __consumer_offsets.

Where to start: `shard` routes each request; `registry` is what its parts share; `classic` and `classic_join` are the classic
protocol, `consumer` is KIP-848, `migration` and `classic_in_consumer` join the two; `offsets` and `expiry` are the committed offsets;
`records` is the format of the log; `fanout` splits what a client asks of several shards at once.
"""
