"""Whole topologies on one machine: clusters over regions, each node a process, the distance between regions emulated."""
