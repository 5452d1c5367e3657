"""A simulated world for cores: one seed decides everything that happens, and every run of it is the same.

`world` holds time and events, `net` and `disk` what lies between cores and the outside, `faults` what goes wrong and how often,
`checkers` what must never happen; `raft_node` puts a raft core on a disk and a net, `raft_life` is one cluster's life from birth
through faults to recovery, `sweep` runs many. `python -m tests.sim --help` for the command.
"""
