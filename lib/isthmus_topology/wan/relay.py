"""A connection between regions: both directions are delay lines, and a cut direction keeps the data until it is healed.

A close is delayed like data, so a side that is cut off does not notice that the other side ended. A connection opened during a cut is
accepted, because a loopback handshake cannot be delayed, but reaches the other side only after the cut.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from isthmus_topology.wan.direction import Direction

IN_FLIGHT_MAX: Final = 4 << 20
"""Maximum bytes in flight of one connection in one direction; reading pauses until some have arrived."""
_RESET: Final = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")  # linger on, for no time: closing sends a reset


class Crossing:
    """The two directions between a pair of regions, and the connections to notify when their state changes."""

    def __init__(self, there: Direction, back: Direction) -> None:
        self.there = there
        self.back = back
        self.relayed: set[Relayed] = set()

    @property
    def is_cut(self) -> bool:
        """Whether a handshake cannot pass."""
        return self.there.is_cut or self.back.is_cut


class Half(asyncio.Protocol):
    """One side's socket, and what is on its way to the other side."""

    def __init__(self, direction: Direction, on_made: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self.direction = direction
        self.other: Half | None = None
        self._on_made = on_made
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes | None] = []  # written before the connection reached the other side
        self._under_way: deque[tuple[float, bytes | None]] = deque()  # None is the close
        self._size = 0
        self._last_arrival = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False
        self._is_held = False  # the receiver takes no more

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._on_made()

    def data_received(self, data: bytes) -> None:
        self._send(data)
        if self._size > IN_FLIGHT_MAX:
            self._is_full = True
            self._read_or_wait()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._send(None)
        self._on_lost()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # -- the delay line

    def join(self, other: Half) -> None:
        """The other side is reached: what was written so far begins its way now."""
        self.other = other
        early, self._early = self._early, []
        for data in early:
            self._size -= 0 if data is None else len(data)
            self._send(data)
        self._is_full = self._size > IN_FLIGHT_MAX
        self._read_or_wait()

    def _send(self, data: bytes | None) -> None:
        """None is the close."""
        if self.other is None:
            self._early.append(data)
            self._size += 0 if data is None else len(data)
            return
        now = asyncio.get_running_loop().time()
        size = 0 if data is None else len(data)
        arrival = max(self._last_arrival, self.direction.arrival(now, size))
        self._last_arrival = arrival
        self._under_way.append((arrival, data))
        self._size += size
        self.arm()

    def arm(self) -> None:
        """Deliver what has arrived, and wake when the next does; nothing arrives while the direction is cut."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.direction.is_cut or self.other is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._under_way and self._under_way[0][0] <= now:
            _, data = self._under_way.popleft()
            self._size -= 0 if data is None else len(data)
            self.other.deliver(data)
        if self._is_full and self._size <= IN_FLIGHT_MAX // 2:
            self._is_full = False
            self._read_or_wait()
        if self._under_way:
            self._timer = loop.call_at(self._under_way[0][0], self.arm)

    def deliver(self, data: bytes | None) -> None:
        """What the other side sent is here; None is its close."""
        if self._transport is None:
            return
        if data is None:
            self._transport.close()
        else:
            self._transport.write(data)

    def pause_writing(self) -> None:
        """The receiver is slow: what the other side sends waits there."""
        if self.other is not None:
            self.other.hold(is_held=True)

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.hold(is_held=False)

    def hold(self, *, is_held: bool) -> None:
        """Pause or resume reading, as the receiver of the other side demands."""
        self._is_held = is_held
        self._read_or_wait()

    def _read_or_wait(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        should_read = not self._is_full and not self._is_held
        if should_read != self._transport.is_reading():
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def reset(self) -> None:
        """Reset the connection, like a router that lost its state."""
        self._under_way.clear()
        if self._transport is not None:
            raw = self._transport.get_extra_info("socket")
            if raw is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()


class Relayed:
    """One client's connection through a relay."""

    def __init__(self, crossing: Crossing, host: str, target: int) -> None:
        self._crossing = crossing
        self._address = (host, target)
        self._changed = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self.near = Half(crossing.there, self._accepted, self._lost)
        self._far = Half(crossing.back, lambda: None, self._lost)

    def _accepted(self) -> None:
        self._crossing.relayed.add(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        """Reach the other side, a handshake after the client did; a refusal there is a reset here."""
        while self._crossing.is_cut:
            self._changed.clear()
            await self._changed.wait()
        await asyncio.sleep(self._crossing.there.delay() + self._crossing.back.delay())
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._far, *self._address)
        except OSError:
            self.reset()
            return
        self._far.join(self.near)
        self.near.join(self._far)

    def _lost(self) -> None:
        """Kept until both sides are closed: a close may still be on its way."""
        connecting = self._connecting is not None and not self._connecting.done()
        if not connecting and not self.near.is_open and not self._far.is_open:
            self._crossing.relayed.discard(self)

    def changed(self) -> None:
        """A direction was cut or has healed."""
        self._changed.set()
        self.near.arm()
        self._far.arm()

    def reset(self) -> None:
        """Break both sides at once."""
        self._crossing.relayed.discard(self)
        if self._connecting is not None and self._connecting is not asyncio.current_task():
            self._connecting.cancel()
        self.near.reset()
        self._far.reset()
