"""Hides Hypothesis from the processes that tests start. kio imports it wherever it is installed, which takes a third of a short process.

An installation without the tests' tools does not have it either. Python finds this module first if the folder is on PYTHONPATH.
"""

raise ModuleNotFoundError(name="hypothesis")
