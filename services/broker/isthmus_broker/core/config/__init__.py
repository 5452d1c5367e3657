"""Kafka's configurations as documented data: definitions, parsing, layering, and the typed settings they resolve to.

No state: functions of their arguments, so the contract of cores does not apply.
"""
