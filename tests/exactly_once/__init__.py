"""Applications that consume, transform and produce in transactions, and the check that every record took effect exactly once.

`workload` says what they do, `feeder` writes their input, `applications` runs them as processes, `reader` reads what they wrote, and
`check` compares it with the input in the words of tests/histories.py. `load` puts these together, `faults` strikes.
"""
