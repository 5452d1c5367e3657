"""Simulation of whole clusters of replicas under one controller, in virtual time, with failures of brokers, machines and networks.

The product's code runs: the cores of leader, follower and controller, and the synchronous half of the edge (`Partition`, `ReplicaReader`,
the sessions of followers). Its environment is simulated: `sim_log` a log on a disk, `endpoint` processes and their requests, `fetching` the
fetchers, `broker` a broker's life, `quorum` the controllers, `clients` the producers, `operators` the commands of operators. `life` runs
one cluster from its start through faults to recovery; `checkers` has the invariants, `canaries` the planted defects that the sweep must
detect.

The controllers' own consensus is not simulated again (`tests.sim.raft_life` does that): there is one committed metadata log, which
reaches every broker in order and with a delay. When its leadership moves, some uncommitted records survive and others are lost, and the
deposed controller still responds for some time. This exposes brokers to everything that a real quorum can do, with a tenth of the events.
"""
