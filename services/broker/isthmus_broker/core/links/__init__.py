"""Links on their own: their settings, and the states of a mirror topic. Nothing of any cluster's metadata.

No state: functions of their arguments, so the contract of cores does not apply.
"""
