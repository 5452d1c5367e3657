"""Tiered storage: which segments a leader copies to the tier, and which it deletes there.

The edge reads the log and the metadata of the tier, and carries the decisions out; both may have changed when it has.
"""
