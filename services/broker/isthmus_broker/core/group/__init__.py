"""The group coordinator: classic, consumer and streams groups and their committed offsets, as a state machine over __consumer_offsets.

It owns the groups and offsets of one partition of that topic; `coordinator` drives it, and makes responses wait for its records.

Where to start: `shard` routes each request; `registry` is what its parts share; `classic` and `classic_join` are the classic
protocol, `consumer` is KIP-848, `migration` and `classic_in_consumer` join the two; `streams_heartbeat` is KIP-1071, of the values in
`streams`; `offsets` and `expiry` are the committed offsets; `records` is the format of the log; `request_parts` splits a request about
several groups by shard and merges their responses.
"""
