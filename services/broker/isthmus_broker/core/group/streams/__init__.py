"""A streams group (KIP-1071) as values: members of Kafka Streams applications, whose tasks the coordinator assigns.

Where to start: `group` is the state; `configured` decides from a topology and the cluster's topics how many tasks there are,
`assign_sticky` who gets which, `reconcile` how a member moves to its target. `records` is the format of the log. The protocol is
beside this package, in `streams_heartbeat`.
"""
