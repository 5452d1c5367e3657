"""Whole nodes and clients of the product in one process: a simulated event loop, network and disks under the unchanged code.

`loop` runs the callbacks of many processes in virtual time, `net` connects them, `ambient` replaces what processes take from the operating
system, `machine` is one node with its disk and clocks, and `life` is one cluster from its start to its recovery.
"""
