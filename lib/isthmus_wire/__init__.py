"""The Kafka wire protocol without I/O: framing, messages, record batches, compression, error codes.

Reading order: `apis` (which API in which versions), `headers`, `messages` and the `codec` under it, `requests` (messages whose
shape changed between versions), `produce` and `fetch` (the hot path, written by hand), `records` and `compression`.
"""
