"""The cluster's metadata: its records, the image they result in, and the controller's decisions about new ones.

It owns the image, which only committed records change. An operation returns records and a response; the driver appends the records to the
quorum and sends the response when they are committed.
"""
