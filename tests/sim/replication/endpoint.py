"""A simulated process: its timers and requests, its death, pauses and restarts.

Requests and responses use connections: a lost message is a broken connection, which the sender detects at its timeout; a dead process
refuses at once. A paused process (SIGSTOP) handles its events when it resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from isthmus_model.clocks import MonotonicMs, Now, WallMs

from tests.sim.net import Net
from tests.sim.world import World

Reply = Callable[[Any], None]
Serve = Callable[[Reply], None]
PATIENCE_MS: Final = 400


class Endpoint:
    """A process; its scheduled actions are dropped when it dies."""

    def __init__(self, node_id: int, world: World, net: Net) -> None:
        self.id = node_id
        self.world = world
        self.net = net
        self.life = 0
        self.is_alive = False
        self.is_paused = False
        self._backlog: list[Callable[[], None]] = []
        # Each process's clock has a random start and is up to a tenth too fast or too slow.
        self._clock_base = world.random.randrange(1_000_000)
        self._clock_rate = world.random.randrange(900, 1_101)
        self._wall_offset_ms = 0

    def clock(self) -> MonotonicMs:
        return MonotonicMs(self._clock_base + self.world.now * self._clock_rate // 1_000)

    def now(self) -> Now:
        return Now(WallMs(self.clock() + self._wall_offset_ms), self.clock())

    def step_wall_clock(self) -> None:
        """Set the wall clock forward or back by up to an hour."""
        self._wall_offset_ms += self.world.random.randint(-3_600_000, 3_600_000)

    def log(self, what: object) -> None:
        if self.world.trace is not None:
            self.world.log(self.id, what)

    # -- life and death ------------------------------------------------------------------------------------------------------

    def live(self) -> None:
        self.life += 1
        self.is_alive = True

    def die(self) -> None:
        self.life += 1
        self.is_alive = self.is_paused = False
        self._backlog.clear()

    def pause(self) -> None:
        self.is_paused = self.is_alive

    def resume(self) -> None:
        self.is_paused = False
        while self._backlog and not self.is_paused:
            self._backlog.pop(0)()

    # -- actions and requests ------------------------------------------------------------------------------------------------

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Schedule an action for this life; a dead process schedules nothing."""
        if self.is_alive:
            self.world.after(delay, partial(self._run, self.life, action))

    def _run(self, life: int, action: Callable[[], None]) -> None:
        if life != self.life:
            return
        if self.is_paused:
            self._backlog.append(action)
        else:
            action()

    def send_request(self, peer: Endpoint, serve: Serve, handle: Reply, patience: int = PATIENCE_MS) -> None:
        """Send a request to `peer`, which serves it and calls back; None if there is no response."""
        life, is_open = self.life, True

        def settle(value: Any) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                handle(value)

        def reply(value: Any) -> None:
            self.net.send(peer.id, self.id, partial(self._run, life, partial(settle, value)))

        def arrive() -> None:
            if peer.is_alive:
                peer._run(peer.life, partial(serve, reply))
            else:
                reply(None)

        self.net.send(self.id, peer.id, arrive)
        self.later(patience, partial(settle, None))
