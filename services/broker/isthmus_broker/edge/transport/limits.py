"""Every bound on the resources of a connection, and what happens when it is reached.

- A frame longer than socket.request.max.bytes, or not longer than zero: the connection is closed.
- A connection serves one request at a time. Data that arrives meanwhile stays in its receive buffer, and when that is full, in the
  kernel. Up to `DEFERRED_MAX` requests that wait for replicas, and responses that wait behind them, do not block the next request.
- A frame may grow its connection's buffer to `ORDINARY_FRAME`; larger ones share `LARGE_FRAMES_MAX` over all connections and wait for
  room. A connection is closed if the bytes of a large frame stop arriving for `STALLED_SECONDS`.
- New connections beyond max.connections or max.connection.creation.rate wait; beyond max.connections.per.ip they are closed
  (core/connection_quota.py).
- A response is sent in pieces of `PIECE_SIZE`, the next when the kernel has taken the last: a client that never reads costs one piece,
  and is disconnected after connections.max.idle.ms.
"""

from typing import Final

RECEIVE_BUFFER_MIN: Final = 16 * 1024
"""The receive buffer of a connection that sends little."""
RECEIVE_BUFFER_KEPT: Final = 256 * 1024
"""A larger buffer is released once the connection has been idle between two sweeps."""
ORDINARY_FRAME: Final = 2 * 1024 * 1024
"""The frame size that every connection may buffer; producers send up to 1 MiB by default."""
LARGE_FRAMES_MAX: Final = 1024 * 1024 * 1024
"""The memory for larger frames of all connections together. Pages are touched when their bytes arrive: a false length costs nothing
else."""
BUFFER_STEP: Final = 256 * 1024
"""Buffers grow by multiples of this, so that frames of similar size need one buffer."""
STALLED_SECONDS: Final = 30.0
"""A connection whose large frame receives no bytes for this long is closed, to make room for others."""
PIECE_SIZE: Final = 256 * 1024
"""Bytes of a log that are read at a time for a response."""
WRITE_HIGH_WATER: Final = 512 * 1024
"""Unsent bytes at which a connection stops serving further requests."""
GATHERED_MAX: Final = 16 * 1024
"""Bytes of responses to small pipelined requests that are passed to the socket at once."""
SMALL_FRAME: Final = 16 * 1024
"""Serving a larger frame takes time, so the responses before it are not gathered with its own."""
DEFERRED_MAX: Final = 16
"""Requests of one connection that may wait for others at once. Clients have five in flight by default."""
SWEEP_SECONDS: Final = 10.0
"""The interval of the sweeps for idle connections and unused buffers."""
SWEEP_SECONDS_MIN: Final = 0.1
"""The minimum of that interval where connections.max.idle.ms is short."""
HANDSHAKE_SECONDS: Final = 30.0
"""A client that has not finished the transport's handshake within this time is disconnected."""
ACCEPT_PAUSE_SECONDS: Final = 0.5
"""The pause before a listener that cannot accept, for want of file descriptors, tries again."""
