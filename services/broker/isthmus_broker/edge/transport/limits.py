"""Every bound on what a connection may hold, and what happens there.

- A frame longer than socket.request.max.bytes, or not longer than zero: the connection is closed.
- A connection works on one request at a time. What arrives meanwhile stays in its receive buffer, and when that is full, in the kernel.
  Up to `DEFERRED_MAX` that wait for replicas, and answers in line behind them, do not hold up the next; at that number they do.
- A frame may grow its connection's buffer to `ORDINARY_FRAME`; larger ones share `LARGE_FRAMES_MAX` over all connections and wait for
  room. One whose bytes stop coming for `STALLED_SECONDS` is closed.
- Who connects beyond max.connections or faster than max.connection.creation.rate waits in line; beyond max.connections.per.ip the
  connection is closed (core/connection_quota.py).
- A response goes out in pieces of `PIECE_SIZE`, the next when the kernel took the last: a reader that never drains costs one piece, and is
  closed after connections.max.idle.ms.
"""

from typing import Final

RECEIVE_BUFFER_MIN: Final = 16 * 1024
"""The buffer of a connection that sends little."""
RECEIVE_BUFFER_KEPT: Final = 256 * 1024
"""A larger buffer is given back once the connection has been quiet between two sweeps."""
ORDINARY_FRAME: Final = 2 * 1024 * 1024
"""Every connection may hold a frame of this size; producers send 1 MiB by default."""
LARGE_FRAMES_MAX: Final = 1024 * 1024 * 1024
"""What all connections together may hold beyond that. Pages are touched when their bytes arrive: a lying length costs nothing else."""
BUFFER_STEP: Final = 256 * 1024
"""Buffers grow by multiples of this, so that frames of about one size need one buffer."""
STALLED_SECONDS: Final = 30.0
"""A large frame whose bytes stop coming for so long makes room for others."""
PIECE_SIZE: Final = 256 * 1024
"""Bytes of a log that are read for a response at a time."""
WRITE_HIGH_WATER: Final = 512 * 1024
"""Unsent bytes at which a connection stops working on further requests."""
DEFERRED_MAX: Final = 16
"""Requests of one connection that may wait for others at once; clients have five in flight by default."""
SWEEP_SECONDS: Final = 10.0
"""How often idle connections and large buffers are looked for."""
SWEEP_SECONDS_MIN: Final = 0.1
"""Where connections.max.idle.ms is short, it is more often, but no more than this."""
HANDSHAKE_SECONDS: Final = 30.0
"""A client that has not finished the handshake of its transport after this is disconnected."""
ACCEPT_PAUSE_SECONDS: Final = 0.5
"""A listener that cannot accept, for want of descriptors, tries again after this."""
