"""Whole clusters of replicas under one controller, in virtual time: who may lose what, when brokers, machines and networks fail.

What runs is the product: the cores of leader, follower and controller, and above them the synchronous half of the edge (`Partition`,
`ReplicaReader`, the sessions of followers). What is simulated is what lies around them: `sim_log` a log on a disk, `endpoint` processes
and their requests, `fetching` the fetchers, `broker` a broker's life, `quorum` the controllers, `clients` producers, `operators` people
and the damage they do. `life` is one cluster from birth through faults to recovery; `checkers` what must never happen; `canaries` planted
defects which the sweep has to find.

The controllers' own consensus is not simulated again (`tests.sim.raft_life` does that): there is one committed metadata log, which
reaches every broker in order and late. Its leadership moves, takes some of what was not committed along and loses the rest, and the
controller that was deposed goes on answering for a while. That gives brokers everything that a real quorum can do to them, at a tenth of
the events.
"""
