"""Deterministic simulation of cores: one seed determines every event of a run.

`world` has time and events, `net` and `disk` simulate the environment of cores, `faults` has the kinds and rates of faults, `checkers` the
invariants. `raft_node` runs a raft core on a disk and a net, `raft_life` runs one cluster from its start through faults to recovery, and
`sweep` runs many. `cluster` runs whole nodes and clients instead of cores. See `python -m tests.sim --help` for the command.
"""
